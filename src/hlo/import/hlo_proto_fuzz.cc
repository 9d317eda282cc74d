// libFuzzer: bytes are read or refused with an error; what was read prints.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "hlo/import/import.h"
#include "hlo/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::hlo;
  auto module = ImportHloProto({reinterpret_cast<const char*>(data), size});
  if (!module) {
    CHECK(!module.error().ToString("fuzz").empty());
    return 0;
  }
  CHECK(!PrintModule(**module).empty());
  return 0;
}
