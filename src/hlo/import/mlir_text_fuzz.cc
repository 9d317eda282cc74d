// libFuzzer: text is read or refused with an error; what was read prints, and becomes a
// module or is refused.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "hlo/import/import.h"
#include "hlo/import/readers.h"
#include "hlo/text.h"

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
  auto imported = weft::hlo::TreeToHlo(**module);
  if (!imported) {
    CHECK(!imported.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK(!weft::hlo::PrintModule(**imported).empty());
  return 0;
}
