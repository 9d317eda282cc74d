// Escapes of quoted strings.
#include <optional>
#include <string>
#include <string_view>

#include "hlo/text/lexer.h"

namespace weft::hlo::text {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendUtf8(std::string& out, uint32_t rune) {
  auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (rune < 0x80) return put(rune);
  if (rune < 0x800) {
    put(0xc0 | rune >> 6);
  } else {
    if (rune < 0x10000) {
      put(0xe0 | rune >> 12);
    } else {
      put(0xf0 | rune >> 18);
      put(0x80 | (rune >> 12 & 0x3f));
    }
    put(0x80 | (rune >> 6 & 0x3f));
  }
  put(0x80 | (rune & 0x3f));
}

// Up to `most` digits of the base at raw[i]; at least `least`. False when there are fewer.
bool ReadDigits(std::string_view raw, size_t& i, int base, size_t least, size_t most,
                uint32_t& value) {
  size_t start = i;
  value = 0;
  while (i < raw.size() && i - start < most) {
    int digit = HexValue(raw[i]);
    if (digit < 0 || digit >= base) break;
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
    ++i;
  }
  return i - start >= least;
}

}  // namespace

std::optional<std::string> Unescape(std::string_view raw) {
  static constexpr std::string_view kFrom = "nrtabfv\\\"'?", kTo = "\n\r\t\a\b\f\v\\\"'?";
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size();) {
    char c = raw[i++];
    if (c != '\\') {
      out.push_back(c);
      continue;
    }
    if (i == raw.size()) return std::nullopt;
    c = raw[i++];
    uint32_t value = 0;
    if (size_t at = kFrom.find(c); at != std::string_view::npos) {
      out.push_back(kTo[at]);
    } else if (c >= '0' && c <= '7') {
      --i;
      if (!ReadDigits(raw, i, 8, 1, 3, value) || value > 255) return std::nullopt;
      out.push_back(static_cast<char>(value));
    } else if (c == 'x' || c == 'X') {
      if (!ReadDigits(raw, i, 16, 1, 2, value)) return std::nullopt;
      out.push_back(static_cast<char>(value));
    } else if (c == 'u' || c == 'U') {
      size_t n = c == 'u' ? 4 : 8;
      if (!ReadDigits(raw, i, 16, n, n, value) || value > 0x10ffff) return std::nullopt;
      AppendUtf8(out, value);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace weft::hlo::text
