#include "serve/trace_context.h"

#include <charconv>
#include <random>

namespace weft::serve {
namespace {

constexpr size_t kTraceparentSize = 55;  // of version 00; later ones may go on

// Lower case, as the standard wants it.
std::optional<uint64_t> HexField(std::string_view text) {
  for (char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
  }
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

void AppendHexField(std::string& out, uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[(value >> shift) & 15];
  }
}

}  // namespace

std::string TraceContext::TraceId() const {
  std::string out;
  AppendHexField(out, trace_high, 16);
  AppendHexField(out, trace_low, 16);
  return out;
}

std::string TraceContext::ToString() const {
  std::string out = "00-" + TraceId() + "-";
  AppendHexField(out, span, 16);
  out += '-';
  AppendHexField(out, flags, 2);
  return out;
}

TraceContext TraceContext::Child() const {
  thread_local std::mt19937_64 random{std::random_device{}()};
  TraceContext child = *this;
  do {
    child.span = random();
  } while (child.span == 0);
  return child;
}

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kTraceparentSize || text[2] != '-' || text[35] != '-' || text[52] != '-')
    return std::nullopt;
  auto version = HexField(text.substr(0, 2));
  auto high = HexField(text.substr(3, 16)), low = HexField(text.substr(19, 16));
  auto span = HexField(text.substr(36, 16)), flags = HexField(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags) return std::nullopt;
  if (*version == 0xff || (*high == 0 && *low == 0) || *span == 0) return std::nullopt;
  bool longer = text.size() > kTraceparentSize;
  if (longer && (*version == 0 || text[kTraceparentSize] != '-')) return std::nullopt;
  return TraceContext{*high, *low, *span, static_cast<uint8_t>(*flags)};
}

}  // namespace weft::serve
