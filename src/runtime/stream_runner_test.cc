#include "runtime/stream_runner.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "program/interpret.h"
#include "runtime/pretend/pretend_device.h"

namespace weft::runtime {
namespace {

Result<program::Program> ReadProgram(const std::string& name) {
  std::string text = TRY(ReadFile("test/program/" + name));
  return program::Parse(text.substr(0, text.find("// -----")));
}

// Numbers that are small in every type.
std::vector<Literal> SmallArguments(const LiteralSignature& signature) {
  std::vector<Literal> arguments;
  for (const LiteralSignature::Parameter& p : signature.parameters) {
    auto argument = Literal::Allocate(p.shape);
    for (int64_t i = 0; i < argument->size(); ++i)
      argument->SetDouble(i, static_cast<double>(i % 5));
    arguments.push_back(*std::move(argument));
  }
  return arguments;
}

void ExpectSame(const std::vector<Literal>& want, const Result<std::vector<Literal>>& got) {
  ASSERT_TRUE(got) << got.error().ToString();
  ASSERT_EQ(want.size(), got->size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].byte_size(), (*got)[i].byte_size());
    EXPECT_EQ(
        std::memcmp(want[i].data(), (*got)[i].data(), static_cast<size_t>(want[i].byte_size())), 0)
        << "result " << i;
  }
}

// The values of donated parameters are there again for each execution.
TEST(StreamRunnerTest, ExecutionsOfOneUploadAgree) {
  for (const char* name : {"while_counter.program", "elementwise.program", "softmax.program"}) {
    SCOPED_TRACE(name);
    auto program = ReadProgram(name);
    ASSERT_TRUE(program) << program.error().ToString();
    auto device = PretendDevice::Create({.most_delay = 100, .seed = 7});
    ASSERT_TRUE(device);
    std::vector<Literal> arguments = SmallArguments(LiteralSignature(*program));
    auto want = program::Interpret(*program, arguments, {});
    ASSERT_TRUE(want) << want.error().ToString();
    auto loaded = (*device)->Load(*std::move(program), {});
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    {
      auto runner = StreamRunner::Create(**device, **loaded);
      ASSERT_TRUE(runner) << runner.error().ToString();
      ExpectSame(*want, runner->Run(arguments, {}));
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(runner->Enqueue({}));
      ExpectSame(*want, runner->Download());
    }
    EXPECT_FALSE(StreamRunner::Create(**device, **loaded)->Upload({}));
  }
}

}  // namespace
}  // namespace weft::runtime
