// libFuzzer: any bytes are answered, and what is read can be printed. What becomes a module does so
// verified, and prints as HLO.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "hlo/import/import.h"
#include "hlo/import/readers.h"
#include "hlo/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::hlo;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  auto tree = mlir::ReadBytecode(bytes);
  if (!tree) {
    CHECK(!tree.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK((*tree)->module != nullptr);
  CHECK(!mlir::PrintTree(**tree).empty());
  auto module = ImportStableHlo(std::move(bytes));
  if (!module) {
    CHECK(!module.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK(!PrintModule(**module).empty());
  return 0;
}
