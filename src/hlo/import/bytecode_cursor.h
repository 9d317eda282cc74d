// Reads primitives of MLIR bytecode from a stretch of bytes. A read past the end gives 0 and makes
// the cursor bad for good: callers look once, after a group of reads. Counts are checked against
// the bytes that remain, so that nothing is allocated that the file could not fill.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace weft::hlo::mlir {

class Cursor {
 public:
  Cursor() = default;
  Cursor(std::string_view file, size_t begin, size_t end)
      : file_(file.data()), at_(file.data() + begin), end_(file.data() + end) {}

  bool bad() const { return bad_; }
  bool AtEnd() const { return at_ == end_; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  size_t offset() const { return static_cast<size_t>(at_ - file_); }  // in the file

  uint8_t Byte() {
    if (at_ == end_) return Bad();
    return static_cast<uint8_t>(*at_++);
  }
  // As many zero bits as bytes follow, a one, and the value above: 1 to 9 bytes.
  uint64_t VarInt() {
    if (at_ == end_) return Bad();
    uint8_t first = static_cast<uint8_t>(*at_);
    if (first & 1) {
      ++at_;
      return first >> 1;
    }
    size_t extra = first == 0 ? 8 : static_cast<size_t>(std::countr_zero(first));
    if (remaining() < extra + 1) return Bad();
    uint64_t value = 0;
    if (first == 0) {
      std::memcpy(&value, at_ + 1, 8);
    } else {
      std::memcpy(&value, at_, extra + 1);
      value >>= extra + 1;
    }
    at_ += extra + 1;
    return value;
  }
  int64_t SignedVarInt() {
    uint64_t v = VarInt();
    return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1));
  }
  uint64_t VarIntWithFlag(bool& flag) {
    uint64_t v = VarInt();
    flag = v & 1;
    return v >> 1;
  }
  // The number of things that follow, each of one byte at least.
  size_t Count() {
    uint64_t n = VarInt();
    if (n > remaining()) return Bad();
    return n;
  }
  std::string_view Bytes(uint64_t n) {
    if (n > remaining()) {
      Bad();
      return {};
    }
    std::string_view bytes(at_, n);
    at_ += n;
    return bytes;
  }
  // A nested section: its id, and a cursor over what it holds.
  Cursor Section(uint8_t& id) {
    uint8_t head = Byte();
    id = head & 0x7f;
    uint64_t size = VarInt();
    if (head & 0x80) {
      uint64_t alignment = VarInt();
      if (alignment == 0 || !std::has_single_bit(alignment)) {
        Bad();
      } else {
        Bytes((alignment - offset() % alignment) % alignment);
      }
    }
    size_t begin = offset();
    Bytes(size);
    return Cursor({file_, bad_ ? begin : offset()}, begin, bad_ ? begin : offset());
  }

 private:
  uint8_t Bad() {
    bad_ = true;
    at_ = end_;
    return 0;
  }

  const char* file_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool bad_ = false;
};

}  // namespace weft::hlo::mlir
