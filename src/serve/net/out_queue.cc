#include "serve/net/out_queue.h"

#include <algorithm>

#include "serve/message.h"

namespace weft::serve {
namespace {

constexpr size_t kMostJoined = 64 << 10;  // of small ones in one piece

}  // namespace

void OutQueue::Append(std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  const bool joined = !pieces_.empty() && pieces_.back().owner == nullptr &&
                      pieces_.back().copied.size() + bytes.size() <= kMostJoined;
  if (!joined) pieces_.emplace_back();
  pieces_.back().copied += bytes;
}

void OutQueue::Append(const std::shared_ptr<const void>& owner, std::string_view part) {
  if (part.size() < kWorthKeeping) return Append(part);
  size_ += part.size();
  pieces_.push_back({{}, owner, part});
}

std::string_view OutQueue::front() const {
  return pieces_.front().bytes().substr(at_);
}

size_t OutQueue::Pieces(std::span<iovec> to) const {
  const size_t count = std::min(to.size(), pieces_.size());
  for (size_t i = 0; i < count; ++i) {
    std::string_view bytes = pieces_[i].bytes().substr(i == 0 ? at_ : 0);
    to[i] = {const_cast<char*>(bytes.data()), bytes.size()};
  }
  return count;
}

void OutQueue::Drop(size_t count) {
  size_ -= count;
  for (at_ += count; !pieces_.empty() && at_ >= pieces_.front().bytes().size();) {
    at_ -= pieces_.front().bytes().size();
    pieces_.pop_front();
  }
}

}  // namespace weft::serve
