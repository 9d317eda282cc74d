// Fibers, cooperative multitasking: work that is under way all at once on one thread. Each piece
// has a stack of its own, and one that waits hands the thread to the next that need not. Changing
// over costs a fraction of a microsecond; waking a thread costs ten times as much and more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace weft {

class Fibers {
 public:
  // `busy`: how many threads like this one have something to do; this one is counted already, and
  // is not while all of its pieces wait.
  explicit Fibers(std::span<const int64_t> pieces, std::atomic<int>* busy = nullptr);
  ~Fibers();
  Fibers(const Fibers&) = delete;

  // Calls fn(piece) for all pieces on this thread; returns when all have. To be called once. A
  // piece stays on the thread; what it keeps per thread (Doing, FloatMode) is its own.
  void Run(const std::function<void(int64_t)>& fn);
  // Within a piece: returns when `news` is no longer `seen`.
  void Wait(const std::atomic<uint32_t>& news, uint32_t seen);
  // Within a piece: lets the others run until each of them waits or yields.
  void Yield();
  // From any thread: changes the news of one of the pieces.
  void Tell(std::atomic<uint32_t>& news);

 private:
  struct Fiber;
  static void Enter();
  void Start(Fiber& fiber);
  void RunOne(Fiber& fiber);
  Fiber* NextReady(size_t after);
  void SwitchTo(Fiber& from, Fiber& to);
  void Sleep(const std::atomic<uint32_t>& news, uint32_t seen);

  std::atomic<int>* const busy_;
  std::atomic<uint32_t> bell_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unique_ptr<Fiber> caller_;  // the thread's own stack
  Fiber* current_ = nullptr;
  const std::function<void(int64_t)>* fn_ = nullptr;
  size_t left_ = 0;
};

}  // namespace weft
