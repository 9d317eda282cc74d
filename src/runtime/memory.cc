#include "runtime/memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/str.h"
#include "runtime/buffers.h"
#include "runtime/stream.h"

namespace weft::runtime {

Allocation::Allocation(std::byte* address, int64_t bytes, MemorySpace space,
                       std::shared_ptr<Stream> stream)
    : address_(address), bytes_(bytes), space_(space), stream_(std::move(stream)) {}

Allocation::Allocation(Allocation&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      space_(other.space_),
      stream_(std::move(other.stream_)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  Free();
  address_ = std::exchange(other.address_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  space_ = other.space_;
  stream_ = std::move(other.stream_);
  return *this;
}

void Allocation::Free() {
  if (address_ == nullptr) return;
  stream_->Free(std::exchange(address_, nullptr), space_);
  bytes_ = 0;
  stream_.reset();
}

Status MemoryLedger::Take(int64_t bytes) {
  MutexLock lock(mutex_);
  if (limit_ > 0 && bytes > limit_ - in_use_) {
    return std::unexpected(ExhaustedLocked(bytes, {}));
  }
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  return {};
}

void MemoryLedger::Untake(int64_t bytes) {
  MutexLock lock(mutex_);
  in_use_ -= bytes;
}

void MemoryLedger::Add(std::byte* address, int64_t bytes, std::string_view label) {
  MutexLock lock(mutex_);
  bool added = entries_.emplace(address, Entry{bytes, std::string(label)}).second;
  CHECK(added) << "two allocations at one address";
}

int64_t MemoryLedger::Remove(std::byte* address) {
  MutexLock lock(mutex_);
  auto found = entries_.find(address);
  CHECK(found != entries_.end()) << "freed what was not allocated";
  int64_t bytes = found->second.bytes;
  in_use_ -= bytes;
  entries_.erase(found);
  return bytes;
}

Error MemoryLedger::Exhausted(int64_t asked, std::string_view why) const {
  MutexLock lock(mutex_);
  return ExhaustedLocked(asked, why);
}

Error MemoryLedger::ExhaustedLocked(int64_t asked, std::string_view why) const {
  std::vector<const Entry*> largest;
  for (const auto& [address, entry] : entries_) largest.push_back(&entry);
  std::ranges::sort(largest, [](const Entry* a, const Entry* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->label < b->label;
  });
  std::string text = StrCat(device_, ": out of memory: asked for ", HumanBytes(asked), ", ",
                            HumanBytes(in_use_), " in use");
  if (limit_ > 0) StrAppend(text, " of ", HumanBytes(limit_));
  if (!why.empty()) StrAppend(text, ": ", why);
  Error error(Code::kResourceExhausted, std::move(text));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, largest.size()); ++i) {
    const std::string& label = largest[i]->label;
    error.Note(StrCat(HumanBytes(largest[i]->bytes), label.empty() ? "" : " ", label));
  }
  return error;
}

int64_t MemoryLedger::BytesAt(const std::byte* address) const {
  MutexLock lock(mutex_);
  auto next = entries_.upper_bound(address);
  if (next == entries_.begin()) return -1;
  const auto& [start, entry] = *std::prev(next);
  int64_t bytes = entry.bytes - (address - start);
  return bytes < 0 ? -1 : bytes;
}

MemoryStats MemoryLedger::stats() const {
  MutexLock lock(mutex_);
  return {.in_use = in_use_,
          .peak = peak_,
          .limit = limit_,
          .reserved = in_use_,
          .count = std::ssize(entries_)};
}

void MemoryLedger::set_limit(int64_t limit) {
  MutexLock lock(mutex_);
  limit_ = limit;
}

}  // namespace weft::runtime
