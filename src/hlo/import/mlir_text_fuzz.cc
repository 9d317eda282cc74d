// libFuzzer: text is read or refused with an error; what was read prints, and its attributes read
// back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "hlo/import/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::hlo::mlir;
  std::string text(reinterpret_cast<const char*>(data), size);
  Tree tree;
  auto attr = ReadAttr(text, tree);
  if (!attr) {
    CHECK(!attr.error().ToString("fuzz").empty());
  }
  auto module = ReadText(std::move(text));
  if (!module) {
    CHECK(!module.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK(!PrintTree(**module).empty());
  return 0;
}
