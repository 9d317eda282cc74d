// libFuzzer: whatever parses prints as text that parses to the same print.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "hlo/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::hlo;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto module = ParseModule(text);
  if (!module) {
    CHECK(!module.error().ToString("fuzz").empty());
    return 0;
  }
  std::string printed = PrintModule(**module);
  auto again = ParseModule(printed);
  CHECK(again.has_value()) << again.error().ToString("printed") << "\n" << printed;
  std::string twice = PrintModule(**again);
  CHECK(printed == twice) << printed << "\n---\n" << twice;
  CHECK(Fingerprint(**module) == Fingerprint(**again)) << printed;
  PrintModule(**module, PrintOptions::Short());
  PrintOptions plain;
  plain.async_sugar = false;
  std::string desugared = PrintModule(**module, plain);
  auto third = ParseModule(desugared);
  CHECK(third.has_value()) << third.error().ToString("desugared") << "\n" << desugared;
  return 0;
}
