// Building strings without iostreams: StrCat, StrAppend, StrJoin, and exact number parsing.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
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

// One argument of StrCat and StrAppend: a text, or a value and how to append it. All calls share
// one function, since a function for every list of types (each length of a literal is one) is what
// takes long to compile.
struct Piece {
  template <class T>
  Piece(const T& value) {  // NOLINT: implicit, as the arguments are
    if constexpr (std::convertible_to<const T&, std::string_view>) {
      const std::string_view text = value;
      data = text.data();
      size = text.size();
    } else {
      data = &value;
      append = [](std::string& out, const void* p) { AppendOne(out, *static_cast<const T*>(p)); };
    }
  }
  const void* data;
  size_t size = 0;
  void (*append)(std::string& out, const void* data) = nullptr;
};
void AppendPieces(std::string& out, const Piece* pieces, size_t count);
std::string CatPieces(const Piece* pieces, size_t count);

template <class... Args>
[[gnu::always_inline]] inline void StrAppend(std::string& out, const Args&... args) {
  const Piece pieces[] = {args...};
  AppendPieces(out, pieces, sizeof...(args));
}
template <class... Args>
[[gnu::always_inline]] inline std::string StrCat(const Args&... args) {
  const Piece pieces[] = {args...};
  return CatPieces(pieces, sizeof...(args));
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
