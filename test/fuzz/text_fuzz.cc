// libFuzzer target: any bytes as HLO text. What parses is printed and read again; the verifier
// looks at it; printing a module that verifies is a fixed point.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "hlo/text.h"
#include "hlo/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  auto module = hlo::ParseModule({reinterpret_cast<const char*>(data), size});
  if (!module) return 0;
  bool verifies = hlo::Verify(**module).has_value();
  (void)hlo::Fingerprint(**module);
  (void)hlo::PrintModule(**module, hlo::PrintOptions::Short());
  std::string once = hlo::PrintModule(**module);
  auto again = hlo::ParseModule(once);
  if (verifies) CHECK(again.has_value()) << again.error().ToString("printed") << "\n" << once;
  if (!again) return 0;
  std::string twice = hlo::PrintModule(**again);
  if (verifies) CHECK(once == twice) << once << "\n" << twice;
  return 0;
}
