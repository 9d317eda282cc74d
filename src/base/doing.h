// What a thread is doing, for whoever has to say so when it stops there: a list of scopes, the
// innermost first. Entering and leaving one costs a few stores. Plain data that a signal handler of
// the same thread may read at any moment.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace weft {

// An instruction or a step, and where it comes from ("model.py:5 (loss)").
struct DoingItem {
  std::string_view name, source;
};

class Doing {
 public:
  // What is named here must outlive the scope.
  struct About {
    const char* phase;            // "compile", "pass", "lowering", "LLVM", "run", "command"
    std::string_view what;        // the program, the pass, ...
    std::string_view input = {};  // the program as it came
    std::string_view file = {};   // where that lies already
  };
  explicit Doing(const About& about) : about_(about), outer_(top_) { SetTop(this); }
  ~Doing() { SetTop(outer_); }
  Doing(const Doing&) = delete;

  // What it is at now; null: not known.
  void At(const DoingItem* item) { item_.store(item, std::memory_order_relaxed); }
  // The same where generated code says it, as a number into `items` (-1: none of them).
  void AtOneOf(const DoingItem* items, const int32_t* number) {
    number_ = number;
    std::atomic_signal_fence(std::memory_order_release);
    items_.store(items, std::memory_order_relaxed);
  }

  const About& about() const { return about_; }
  const Doing* outer() const { return outer_; }
  const DoingItem* item() const;
  static const Doing* Top() { return top_; }

  // While one lives, the thread does what another one is doing, which waits for it.
  class Helping {
   public:
    explicit Helping(const Doing* other) : own_(top_) { SetTop(other); }
    ~Helping() { SetTop(own_); }
    Helping(const Helping&) = delete;

   private:
    const Doing* own_;
  };

 private:
  static void SetTop(const Doing* doing) {
    std::atomic_signal_fence(std::memory_order_release);
    top_ = doing;
    std::atomic_signal_fence(std::memory_order_release);
  }

  const About about_;
  const Doing* const outer_;
  std::atomic<const DoingItem*> item_ = nullptr, items_ = nullptr;
  const int32_t* number_ = nullptr;
  // Lies at a fixed distance from the thread's pointer, also in a library that is loaded late: no
  // call, and nothing that a signal handler must not do.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local const Doing* top_;
};

// Memory on which a thread of ours runs signal handlers, so that it can say that its stack is used
// up. For the life of the thread.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;  // null: the thread had one
};

}  // namespace weft
