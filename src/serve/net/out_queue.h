// Bytes on their way to a socket, in order: small ones joined, tensors where they lie, so that only
// the system copies them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft::serve {

class OutQueue {
 public:
  void Append(std::string_view bytes);  // copied
  // A part of a message, whose owner is kept until it is sent; copied where that is less work.
  void Append(const std::shared_ptr<const void>& owner, std::string_view part);
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The first pieces, as many as fit; how many those are.
  size_t Pieces(std::span<iovec> to) const;
  std::string_view front() const;  // not where it is empty
  void Drop(size_t count);         // sent

 private:
  struct Piece {
    std::string copied;
    std::shared_ptr<const void> owner;  // of the part; null: copied
    std::string_view part;
    std::string_view bytes() const { return owner != nullptr ? part : copied; }
  };
  std::deque<Piece> pieces_;
  size_t at_ = 0;  // in the first
  size_t size_ = 0;
};

}  // namespace weft::serve
