// libFuzzer: any text is an error or a program; programs print to a fixed point; what verifies runs
// to the end or into a limit. Start it on a copy of test/program.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "program/interpret.h"
#include "program/program.h"

using namespace weft;
using namespace weft::program;

namespace {

void RunWithin(const Program& program, int64_t limit) {
  std::vector<Literal> arguments;
  for (const Buffer& buffer : program.buffers) {
    if (*ByteSize(buffer) > limit) return;
    if (buffer.kind != BufferKind::kParameter) continue;
    size_t index = static_cast<size_t>(buffer.index);
    arguments.resize(std::max(arguments.size(), index + 1));
    Literal& argument = arguments[index] = Literal(buffer.shape);
    for (int64_t i = 0; i < argument.size(); ++i) argument.SetInt(i, i * 7 % 5);
  }
  InterpretOptions options;
  options.max_instructions = 20000;
  options.max_bytes = 1 << 20;
  options.check_races = true;
  (void)Interpret(program, arguments, options).has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto program = Parse(text);
  if (!program) {
    (void)program.error().ToString("input");
    return 0;
  }
  Status verified = Verify(*program, text);
  std::string printed = Print(*program);
  auto again = Parse(printed);
  CHECK(again) << again.error().ToString("printed");
  CHECK(Print(*again) == printed) << printed;
  CHECK(verified.has_value() == Verify(*again).has_value()) << printed;
  if (verified) RunWithin(*program, 1 << 16);
  return 0;
}
