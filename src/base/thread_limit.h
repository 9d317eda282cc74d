// How many threads the loops of one thread may use: whoever runs several programs at once gives
// each its share of the cores, so that their loops do not wait for each other.
#pragma once

#include <atomic>

namespace weft {

// While one lives, loops that this thread begins on any pool use at most so many threads, itself
// counted; scopes nest, and the smallest holds. Results do not depend on it.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : ThreadLimit(threads, nullptr) {}
  // `busy` counts those, this one among them, that work beside each other on `threads` cores: each
  // uses an even part.
  ThreadLimit(int threads, const std::atomic<int>* busy);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

  static int current();  // without a scope: any number

 private:
  const int outer_;
  const std::atomic<int>* const outer_busy_;
};

}  // namespace weft
