// Memory for the time of a call: parts of the room that a run has for it, or more of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/storage.h"
#include "base/thread_pool.h"

namespace weft::cpu {

// Hands out parts of a room, from several threads.
class ScratchRoom {
 public:
  ScratchRoom() = default;
  // Aligned to kStorageAlignment.
  explicit ScratchRoom(std::span<std::byte> room);

  // Null: there is no part of that size. What is taken is a multiple of kStorageAlignment.
  std::byte* Take(int64_t bytes) WEFT_EXCLUDES(mutex_);
  void Give(std::byte* part, int64_t bytes) WEFT_EXCLUDES(mutex_);

 private:
  struct Part {
    std::byte *begin, *end;
  };
  Mutex mutex_;
  std::vector<Part> free_ WEFT_GUARDED_BY(mutex_);  // in order, none next to another
};

struct ProductTrial;  // blocking.h

// What a routine works with.
struct Means {
  ThreadPool* pool = nullptr;     // null: this thread alone
  ScratchRoom* room = nullptr;    // null: none
  ProductTrial* trial = nullptr;  // of a benchmark

  Means Alone() const { return {nullptr, room, trial}; }
};

template <class T>
class Scratch {
 public:
  static Result<Scratch> New(const Means& means, int64_t n) {
    Scratch scratch;
    if (n <= 0) return scratch;
    int64_t bytes;
    if (!__builtin_mul_overflow(n, int64_t{sizeof(T)}, &bytes)) {
      scratch.Take(means.room, bytes);
    }
    if (scratch.data_ == nullptr) {
      return ResourceExhausted("no memory for ", n, " temporary elements");
    }
    return scratch;
  }
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(room_, other.room_);
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~Scratch() {
    if (room_ != nullptr) room_->Give(data_, bytes_);
  }
  T* data() const { return reinterpret_cast<T*>(data_); }
  // All of it.
  std::span<T> span() const { return {data(), static_cast<size_t>(bytes_) / sizeof(T)}; }

 private:
  Scratch() = default;
  void Take(ScratchRoom* room, int64_t bytes) {
    bytes_ = bytes;
    if (room != nullptr) data_ = room->Take(bytes);
    if (data_ != nullptr) {
      room_ = room;
    } else {
      storage_ = AllocateStorage(static_cast<size_t>(bytes), /*zero=*/false);
      data_ = storage_.get();
    }
  }

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  ScratchRoom* room_ = nullptr;  // where it is from
  std::shared_ptr<std::byte[]> storage_;
};

}  // namespace weft::cpu
