// libFuzzer: CompileOptionsProto is read or refused; what was read is written and reads back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "client/compile_options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::client;
  auto request = ParseCompileOptions({reinterpret_cast<const char*>(data), size});
  if (!request) {
    CHECK(!request.error().ToString("fuzz").empty());
    return 0;
  }
  std::string written = SerializeCompileOptions(*request);
  auto again = ParseCompileOptions(written);
  CHECK(again.has_value()) << again.error().ToString();
  CHECK(SerializeCompileOptions(*again) == written);
  (void)SerializeDeviceAssignment(*request);
  return 0;
}
