#include "serve/message.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/storage.h"

namespace weft::serve {
namespace {

// At most that much at once for what is only announced.
constexpr size_t kReserve = 16 << 20;
constexpr size_t kLeast = 256;

// A number of protobuf's wire format; false: it ends behind the bytes, or never.
bool TakeVarint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

size_t LongestFieldIn(std::string_view begin) {
  enum : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  size_t found = 0;
  uint64_t longest = 0, tag = 0, value = 0;
  for (std::string_view rest = begin; TakeVarint(rest, tag);) {
    uint64_t skip = 0;
    if ((tag & 7) == kBytes) {
      if (!TakeVarint(rest, skip)) break;
      if (skip > longest) longest = skip, found = begin.size() - rest.size();
    } else if ((tag & 7) == kVarint) {
      if (!TakeVarint(rest, value)) break;
    } else if ((tag & 7) == kFixed64 || (tag & 7) == kFixed32) {
      skip = (tag & 7) == kFixed64 ? 8 : 4;
    } else {
      break;
    }
    if (skip > rest.size()) break;
    rest.remove_prefix(skip);
  }
  return found;
}

std::string_view MessageBody::view() const {
  if (storage_ == nullptr) return {};
  return {reinterpret_cast<const char*>(storage_.get()) + shift_, size_};
}

bool MessageBody::Grow(size_t bytes) {
  std::shared_ptr<std::byte[]> larger = AllocateStorage(bytes + shift_, false);
  if (larger == nullptr) return false;
  if (size_ > 0) std::memcpy(larger.get() + shift_, storage_.get() + shift_, size_);
  storage_ = std::move(larger);
  capacity_ = bytes;
  return true;
}

bool MessageBody::Append(std::string_view bytes) {
  if (bytes.empty()) return true;
  const size_t needed = size_ + bytes.size();
  if (size_ == 0 && bytes.size() > prefix_) {
    const size_t field = prefix_ + LongestFieldIn(bytes.substr(prefix_));
    shift_ = (kStorageAlignment - field % kStorageAlignment) % kStorageAlignment;
  }
  if (needed > capacity_) {
    const size_t wanted = size_ == 0 ? std::min(expected_, kReserve) : 2 * capacity_;
    if (!Grow(std::max({needed, wanted, kLeast}))) return false;
  }
  std::memcpy(storage_.get() + shift_ + size_, bytes.data(), bytes.size());
  size_ = needed;
  return true;
}

size_t Message::size() const {
  size_t size = text.size();
  for (const Slice& slice : slices) size += slice.bytes.size();
  return size;
}

std::string Message::Joined() const {
  std::string out;
  out.reserve(size());
  size_t at = 0;
  for (const Slice& slice : slices) {
    out.append(text, at, slice.at - at);
    out += slice.bytes;
    at = slice.at;
  }
  return out.append(text, at);
}

}  // namespace weft::serve
