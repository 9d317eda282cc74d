// Reads protobuf's wire format, field by field. Nothing is copied or allocated: submessages and
// strings are views.
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

}  // namespace weft
