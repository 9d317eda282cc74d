// libFuzzer: any bytes are answered, and what is read can be printed.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "hlo/import/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::hlo::mlir;
  auto tree = ReadBytecode(std::string(reinterpret_cast<const char*>(data), size));
  if (!tree) {
    CHECK(!tree.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK((*tree)->module != nullptr);
  CHECK(!PrintTree(**tree).empty());
  return 0;
}
