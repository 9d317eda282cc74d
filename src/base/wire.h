// Protobuf's wire format. Reading goes field by field; nothing is copied or allocated: submessages
// and strings are views.
//
//   WireReader reader(bytes);
//   while (reader.Next()) {
//     switch (reader.field()) {
//       case 1: name = reader.Bytes(); break;
//       case 2: id = reader.Int(); break;
//     }
//   }
//   if (!reader.ok()) ...
//
// A field of another wire type than the one asked for makes the reader not ok.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Goes to the next field; false at the end and when the bytes are malformed.
  bool Next();
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }

  // The value of the current field.
  uint64_t Varint();
  int64_t Int() { return static_cast<int64_t>(Varint()); }
  bool Bool() { return Varint() != 0; }
  float Float();
  double Double();
  std::string_view Bytes();
  // Of a repeated field: one element, or several that are packed. Appends.
  void Ints(std::vector<int64_t>& to);
  void Floats(std::vector<float>& to);
  void Doubles(std::vector<double>& to);

 private:
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  bool ReadVarint(std::string_view& from, uint64_t& value);
  bool Expect(Type type);
  template <class T>
  void Fixed(Type type, std::vector<T>& to);

  std::string_view rest_, bytes_;
  uint64_t value_ = 0;
  uint32_t field_ = 0;
  Type type_ = Type::kVarint;
  bool ok_ = true;
};

// Writes messages. Zeroes and empty strings, which is what an absent field means, are left out.
class WireWriter {
 public:
  void Int(uint32_t field, int64_t value) {
    if (value != 0) IntAlways(field, value);
  }
  void IntAlways(uint32_t field, int64_t value);  // where presence itself says something
  void Float(uint32_t field, float value);
  void Double(uint32_t field, double value) {
    if (value != 0) DoubleAlways(field, value);
  }
  void DoubleAlways(uint32_t field, double value);
  void Bytes(uint32_t field, std::string_view bytes) {
    if (!bytes.empty()) BytesAlways(field, bytes);
  }
  void BytesAlways(uint32_t field, std::string_view bytes);
  void Message(uint32_t field, const WireWriter& message) { BytesAlways(field, message.out_); }
  template <class Range>
  void Ints(uint32_t field, const Range& values) {  // packed
    WireWriter packed;
    for (auto value : values) packed.Varint(static_cast<uint64_t>(value));
    Bytes(field, packed.out_);
  }

  const std::string& str() const { return out_; }
  bool empty() const { return out_.empty(); }
  std::string Take() { return std::move(out_); }

 private:
  void Varint(uint64_t value);
  void Tag(uint32_t field, uint32_t type) { Varint(uint64_t{field} << 3 | type); }

  std::string out_;
};

}  // namespace weft
