#include "base/wire.h"

#include <bit>
#include <cstring>

namespace weft {

bool WireReader::ReadVarint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < 10 && i < from.size(); ++i) {
    auto byte = static_cast<uint8_t>(from[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      from.remove_prefix(i + 1);
      return true;
    }
  }
  ok_ = false;
  return false;
}

bool WireReader::Next() {
  if (!ok_ || rest_.empty()) return false;
  uint64_t tag = 0;
  if (!ReadVarint(rest_, tag)) return false;
  field_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<Type>(tag & 7);
  if (tag >> 32 != 0 || field_ == 0) return ok_ = false;
  size_t width = 0;
  switch (type_) {
    case Type::kVarint: return ReadVarint(rest_, value_);
    case Type::kFixed64: width = 8; break;
    case Type::kFixed32: width = 4; break;
    case Type::kBytes: {
      uint64_t size = 0;
      if (!ReadVarint(rest_, size)) return false;
      if (size > rest_.size()) return ok_ = false;
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
    default: return ok_ = false;  // groups and what does not exist
  }
  if (rest_.size() < width) return ok_ = false;
  bytes_ = rest_.substr(0, width);
  rest_.remove_prefix(width);
  return true;
}

bool WireReader::Expect(Type type) {
  if (type_ != type) ok_ = false;
  return ok_;
}

uint64_t WireReader::Varint() {
  return Expect(Type::kVarint) ? value_ : 0;
}

float WireReader::Float() {
  float value = 0;
  if (Expect(Type::kFixed32)) std::memcpy(&value, bytes_.data(), sizeof(value));
  return value;
}

double WireReader::Double() {
  double value = 0;
  if (Expect(Type::kFixed64)) std::memcpy(&value, bytes_.data(), sizeof(value));
  return value;
}

std::string_view WireReader::Bytes() {
  return Expect(Type::kBytes) ? bytes_ : std::string_view();
}

void WireReader::Ints(std::vector<int64_t>& to) {
  if (type_ == Type::kVarint) {
    to.push_back(static_cast<int64_t>(value_));
    return;
  }
  std::string_view packed = Bytes();
  uint64_t value = 0;
  while (!packed.empty() && ReadVarint(packed, value)) to.push_back(static_cast<int64_t>(value));
}

template <class T>
void WireReader::Fixed(Type type, std::vector<T>& to) {
  if (type_ != Type::kBytes && !Expect(type)) return;
  if (bytes_.size() % sizeof(T) != 0) {
    ok_ = false;
    return;
  }
  size_t before = to.size();
  to.resize(before + bytes_.size() / sizeof(T));
  if (!bytes_.empty()) std::memcpy(to.data() + before, bytes_.data(), bytes_.size());
}

void WireReader::Floats(std::vector<float>& to) {
  Fixed(Type::kFixed32, to);
}

void WireReader::Doubles(std::vector<double>& to) {
  Fixed(Type::kFixed64, to);
}

void WireWriter::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
  out_.push_back(static_cast<char>(value));
}

void WireWriter::IntAlways(uint32_t field, int64_t value) {
  Tag(field, 0);
  Varint(static_cast<uint64_t>(value));
}

void WireWriter::Float(uint32_t field, float value) {
  if (value == 0) return;
  Tag(field, 5);
  out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void WireWriter::DoubleAlways(uint32_t field, double value) {
  Tag(field, 1);
  out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void WireWriter::BytesAlways(uint32_t field, std::string_view bytes) {
  Tag(field, 2);
  Varint(bytes.size());
  out_.append(bytes);
}

}  // namespace weft
