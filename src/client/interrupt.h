// Ctrl-C while Python's main thread waits for Weft. Python's own handler of SIGINT only makes a
// note, which the interpreter looks at when it runs again; while the main thread waits in C++ it
// does not. So SIGINT also wakes a thread of ours here. It asks Python whether the signal raises
// KeyboardInterrupt (a handler of the user's own is not interfered with) and whether the main
// thread runs Python code, which then sees to the signal itself. If it does not, what the main
// thread waits for is cancelled: the program that runs on it, the arrays that it asked for and what
// computes them, and what is being compiled (JAX compiles on threads of its own, so nobody knows
// for whom). What other threads wait for goes on.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/event.h"

namespace weft::client {

// Called by a thread of ours, takes the GIL: 1 where SIGINT raises KeyboardInterrupt, and has then
// made the interpreter's main thread call `seen(turn)` as soon as it runs Python code
// (Py_AddPendingCall); else 0.
using AskInterrupt = int32_t (*)(int32_t (*seen)(void* turn), void* turn);
// `main_thread`: as the system numbers threads. Null: nobody asks any more, and what is being
// compiled is cancelled and waited for.
void SetInterrupts(int64_t main_thread, AskInterrupt ask);

// Whether somebody asks.
bool WantsInterrupts();
// Whether this is the main thread then.
bool IsInterruptible();
// This thread is about to wait for an event that is pending; of interest on the main thread.
void AboutToWait(const EventRef& event);

// How often NoteCompilation was called. JAX sends programs from threads of its own, and an
// interrupt does not end those: who is about to leave the process waits until all that it asked for
// have come.
int64_t CompilationsAsked();
void NoteCompilation();

// While one lives a program is compiled: on a thread of ours, since whoever waits for it may leave.
class InterruptibleCompilation {
 public:
  explicit InterruptibleCompilation(const EventRef& done);
  ~InterruptibleCompilation();
  InterruptibleCompilation(const InterruptibleCompilation&) = delete;
};

// While one lives on the main thread it runs a program.
class InterruptibleRun {
 public:
  InterruptibleRun();
  ~InterruptibleRun();
  InterruptibleRun(const InterruptibleRun&) = delete;
  // Set: end. Null: on other threads.
  const std::atomic<bool>* cancel() const { return cancel_; }

 private:
  const std::atomic<bool>* cancel_ = nullptr;
};

}  // namespace weft::client
