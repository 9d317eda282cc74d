// Messages of a request and its answer, as bytes: a request in storage that arrays can lie in, an
// answer whose tensors stay where the program wrote them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::serve {

// What programs read in place is aligned so.
inline constexpr size_t kReadInPlace = 16;
// Of an answer, less is copied sooner than described to the system.
inline constexpr size_t kWorthKeeping = 4096;

// Bytes as they arrive. The longest field of a protobuf message that the first of them show begins
// at an aligned address, so that a tensor there is read in place.
class MessageBody {
 public:
  // False: no memory.
  bool Append(std::string_view bytes);
  // Before the first: that many bytes are to come, behind `prefix` that are not of the message.
  void Expect(size_t bytes, size_t prefix) { expected_ = bytes, prefix_ = prefix; }
  std::string_view view() const;
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // What the view lies in.
  const std::shared_ptr<std::byte[]>& storage() const { return storage_; }

 private:
  bool Grow(size_t bytes);

  std::shared_ptr<std::byte[]> storage_;
  size_t shift_ = 0;  // from the storage's begin
  size_t size_ = 0, capacity_ = 0;
  size_t expected_ = 0, prefix_ = 0;
};

// Where the longest field of the message begins that these first bytes of it show; 0: none.
size_t LongestFieldIn(std::string_view begin);

// An answer: text, with tensors between its bytes.
struct Message {
  struct Slice {
    size_t at = 0;                      // in the text
    std::shared_ptr<const void> owner;  // of the bytes
    std::string_view bytes;
  };
  std::string text;
  std::vector<Slice> slices;  // ascending

  Message() = default;
  Message(std::string bytes) : text(std::move(bytes)) {}
  bool empty() const { return text.empty() && slices.empty(); }
  size_t size() const;
  std::string Joined() const;
  // Calls fn(owner, bytes) for its parts in order.
  template <class Fn>
  static void ForParts(const std::shared_ptr<const Message>& message, const Fn& fn) {
    std::string_view rest = message->text;
    size_t at = 0;
    for (const Slice& slice : message->slices) {
      fn(std::shared_ptr<const void>(message), rest.substr(0, slice.at - at));
      rest.remove_prefix(slice.at - at);
      at = slice.at;
      fn(slice.owner, slice.bytes);
    }
    fn(std::shared_ptr<const void>(message), rest);
  }
};

}  // namespace weft::serve
