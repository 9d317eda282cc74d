// Building strings without iostreams: StrCat, StrAppend, StrJoin, and exact number parsing.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

void AppendDouble(std::string& out,
                  double value);  // shortest text that reads back to the same double
void AppendFloat(std::string& out, float value);

inline void AppendOne(std::string& out, std::string_view s) {
  out.append(s);
}
inline void AppendOne(std::string& out, char c) {
  out.push_back(c);
}
inline void AppendOne(std::string& out, double d) {
  AppendDouble(out, d);
}
inline void AppendOne(std::string& out, float f) {
  AppendFloat(out, f);
}
// A template, so that nothing converts to bool: "text" would.
template <std::same_as<bool> T>
void AppendOne(std::string& out, T value) {
  out.append(value ? "true" : "false");
}
template <std::integral T>
  requires(!std::same_as<T, bool>)
void AppendOne(std::string& out, T value) {
  char buffer[24];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, end);
}
// Anything with `std::string ToString() const`.
template <class T>
  requires requires(const T& t) {
    { t.ToString() } -> std::convertible_to<std::string>;
  }
void AppendOne(std::string& out, const T& value) {
  out.append(value.ToString());
}

template <class... Args>
void StrAppend(std::string& out, const Args&... args) {
  (AppendOne(out, args), ...);
}
template <class... Args>
std::string StrCat(const Args&... args) {
  std::string out;
  (AppendOne(out, args), ...);
  return out;
}

template <class Range>
void AppendJoined(std::string& out, const Range& range, std::string_view separator) {
  bool first = true;
  for (const auto& item : range) {
    if (!first) out.append(separator);
    first = false;
    AppendOne(out, item);
  }
}
template <class Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  std::string out;
  AppendJoined(out, range, separator);
  return out;
}

// "a\"b\n" with C escapes, in double quotes.
void AppendQuoted(std::string& out, std::string_view text);

std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);

}  // namespace weft
