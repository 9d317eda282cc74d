// Protobuf's wire format: reading field by field, writing field by field.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::pjrt {

struct WireField {
  int64_t number = 0;
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  Type type = Type::kVarint;
  uint64_t value = 0;      // kVarint, kFixed64, kFixed32
  std::string_view bytes;  // kBytes

  int64_t integer() const { return static_cast<int64_t>(value); }
  bool boolean() const { return value != 0; }
  double number64() const { return std::bit_cast<double>(value); }
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  bool AtEnd() const { return bytes_.empty(); }

  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return InvalidArgument("wire format: it ends within a number");
      auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return InvalidArgument("wire format: a number of more than ten bytes");
  }

  Result<WireField> Next() {
    uint64_t key = TRY(Varint());
    WireField field;
    field.number = static_cast<int64_t>(key >> 3);
    field.type = static_cast<WireField::Type>(key & 7);
    size_t size = 0;
    switch (field.type) {
      case WireField::Type::kVarint: field.value = TRY(Varint()); return field;
      case WireField::Type::kFixed64: size = 8; break;
      case WireField::Type::kFixed32: size = 4; break;
      case WireField::Type::kBytes: {
        uint64_t length = TRY(Varint());
        if (length > bytes_.size())
          return InvalidArgument("wire format: field ", field.number,
                                 " is longer than what is left");
        size = static_cast<size_t>(length);
        break;
      }
      default:
        return InvalidArgument("wire format: field ", field.number, " has unknown type ", key & 7);
    }
    if (size > bytes_.size())
      return InvalidArgument("wire format: it ends within field ", field.number);
    if (field.type == WireField::Type::kBytes) {
      field.bytes = bytes_.substr(0, size);
    } else {
      std::memcpy(&field.value, bytes_.data(), size);  // little endian
    }
    bytes_.remove_prefix(size);
    return field;
  }

 private:
  std::string_view bytes_;
};

// A repeated number: packed, or one field for each.
template <class Fn>
Status ForEachNumber(const WireField& field, Fn&& fn) {
  if (field.type != WireField::Type::kBytes) {
    fn(field.value);
    return {};
  }
  WireReader packed(field.bytes);
  while (!packed.AtEnd()) fn(TRY(packed.Varint()));
  return {};
}

inline void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}
// Zero is what an absent field means: it is not written.
inline void AppendNumber(std::string& out, int number, int64_t value) {
  if (value == 0) return;
  AppendVarint(out, static_cast<uint64_t>(number) << 3);
  AppendVarint(out, static_cast<uint64_t>(value));
}
inline void AppendBytes(std::string& out, int number, std::string_view bytes) {
  AppendVarint(out, static_cast<uint64_t>(number) << 3 | 2);
  AppendVarint(out, bytes.size());
  out.append(bytes);
}
template <class Range>
void AppendPacked(std::string& out, int number, const Range& values) {
  std::string packed;
  for (auto value : values) AppendVarint(packed, static_cast<uint64_t>(value));
  if (!packed.empty()) AppendBytes(out, number, packed);
}

}  // namespace weft::pjrt
