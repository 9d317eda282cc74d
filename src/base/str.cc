#include "base/str.h"

#include <cmath>

namespace weft {
namespace {

template <class T>
void AppendReal(std::string& out, T value) {
  if (std::isnan(value)) {
    out.append(std::signbit(value) ? "-nan" : "nan");
    return;
  }
  if (std::isinf(value)) {
    out.append(value < 0 ? "-inf" : "inf");
    return;
  }
  char buffer[40];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, end);
}

}  // namespace

void AppendDouble(std::string& out, double value) {
  AppendReal(out, value);
}
void AppendFloat(std::string& out, float value) {
  AppendReal(out, value);
}

void AppendPieces(std::string& out, const Piece* pieces, size_t count) {
  for (const Piece* piece = pieces; piece != pieces + count; ++piece) {
    if (piece->append != nullptr) {
      piece->append(out, piece->data);
    } else {
      out.append(static_cast<const char*>(piece->data), piece->size);
    }
  }
}

std::string CatPieces(const Piece* pieces, size_t count) {
  std::string out;
  AppendPieces(out, pieces, count);
  return out;
}

void AppendQuoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (char c : text) {
    switch (c) {
      case '"': out.append("\\\""); break;
      case '\\': out.append("\\\\"); break;
      case '\n': out.append("\\n"); break;
      case '\r': out.append("\\r"); break;
      case '\t': out.append("\\t"); break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out.append("\\x");
          out.push_back(kHex[(c >> 4) & 15]);
          out.push_back(kHex[c & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  double value = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace weft
