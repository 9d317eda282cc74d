#include "client/interrupt.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "client/cancel.h"

namespace weft::client {
namespace {

using Clock = std::chrono::steady_clock;

// An interpreter that runs Python code has looked at signals by then.
constexpr std::chrono::milliseconds kPatience(40), kLook(2);
// So often somebody looks whether SIGINT still comes here while the main thread runs programs: the
// thread itself before it runs one, the watcher beside it while one goes on.
constexpr std::chrono::milliseconds kLookAgain(20);
// Code generation ends by then, if not in a process that forked off one that compiled.
constexpr std::chrono::seconds kLastPatience(20);
constexpr size_t kManyWaits = 64;
// From the interpreter's last look at signals to a wait or run that begins behind it. What begins
// later began after the interpreter had raised KeyboardInterrupt: the watcher may have woken late.
constexpr std::chrono::microseconds kWayHere(200);

// Another's handler of a signal.
struct Handler {
  void* address = nullptr;
  intptr_t with_info = 0;
  bool operator==(const Handler&) const = default;
};
constexpr int kMostHandlers = 8;

int64_t Nanoseconds(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

struct Wait {
  EventRef event;
  int64_t began;
};

// Of the process, as signals are.
struct State {
  std::atomic<pid_t> main_thread = 0;
  std::atomic<AskInterrupt> ask = nullptr;
  sem_t wake;                           // posted by the handler, and by who has looked
  std::atomic<bool> signalled = false;  // by the handler
  std::atomic<int64_t> signal_time = 0;
  // Handlers that were there before ours, the oldest first. One that was set over ours may call
  // ours in turn, which then goes on with the one before it.
  std::array<Handler, kMostHandlers> handlers = {};
  std::atomic<int> handler_count = 0;
  std::atomic<pid_t> handling = 0;       // the thread that is in our handler
  std::atomic<int> depth = 0;            // how often: handlers that call ours
  std::atomic<intptr_t> seen = 0;        // the last turn that the main thread has seen
  std::atomic<bool> running = false;     // the main thread runs a program itself ...
  std::atomic<bool> cancel_run = false;  // ... which shall end
  std::atomic<int64_t> run_began = 0;
  Mutex mutex;
  std::vector<Wait> waits WEFT_GUARDED_BY(mutex);          // of the main thread
  std::vector<EventRef> compiling WEFT_GUARDED_BY(mutex);  // for anybody
  std::atomic<int64_t> compilations = 0;                   // that go on, cancelled or not
  std::atomic<int64_t> asked = 0;                          // compilations so far
  pid_t watched WEFT_GUARDED_BY(mutex) = 0;                // the process that has a watcher

  static State& Get() {
    static State& all = *[] {
      auto* made = new State;  // the watcher may look at it until the very end
      sem_init(&made->wake, 0, 0);
      return made;
    }();
    return all;
  }
};

thread_local const pid_t this_thread = gettid();

void OnSignal(int number, siginfo_t* info, void* context) {
  int error = errno;
  State& state = State::Get();  // made before the handler was
  const pid_t here = gettid();
  const bool again = state.handling == here;
  const int depth = again ? ++state.depth : 0;
  if (!again) {
    state.handling = here;
    state.depth = 0;
    state.signal_time = Nanoseconds(Clock::now());
    state.signalled = true;
    sem_post(&state.wake);
  }
  if (int index = state.handler_count - 1 - depth; index >= 0) {
    Handler next = state.handlers[static_cast<size_t>(index)];
    if (next.with_info) {
      reinterpret_cast<void (*)(int, siginfo_t*, void*)>(next.address)(number, info, context);
    } else {
      reinterpret_cast<void (*)(int)>(next.address)(number);
    }
  }
  if (!again) state.handling = 0;
  errno = error;
}

// A handler that was there before is the newest again: who set later ones has taken them back.
void Remember(State& state, const Handler& handler) {
  int count = 0;
  while (count < state.handler_count && state.handlers[static_cast<size_t>(count)] != handler) {
    ++count;
  }
  count = std::min(count, kMostHandlers - 1);
  state.handlers[static_cast<size_t>(count)] = handler;
  state.handler_count = count + 1;
}

int32_t SeenByMain(void* turn) {
  State::Get().seen = reinterpret_cast<intptr_t>(turn);
  return 0;
}

void DropReady(std::vector<EventRef>& events) {
  std::erase_if(events, [](const EventRef& event) { return event->IsReady(); });
}

void DropReady(std::vector<Wait>& waits) {
  std::erase_if(waits, [](const Wait& wait) { return wait.event->IsReady(); });
}

std::vector<EventRef> TakeCompiling(State& state) {
  MutexLock lock(state.mutex);
  return std::exchange(state.compiling, {});
}

// Waits that the signal came to.
std::vector<EventRef> TakeWaits(State& state, int64_t until) {
  MutexLock lock(state.mutex);
  std::vector<EventRef> taken;
  std::erase_if(state.waits, [&](const Wait& wait) {
    if (wait.began <= until) taken.push_back(wait.event);
    return wait.began <= until;
  });
  return taken;
}

bool IsConcerned(State& state) {
  if (state.running) return true;
  MutexLock lock(state.mutex);
  DropReady(state.waits);
  DropReady(state.compiling);
  return !state.waits.empty() || !state.compiling.empty();
}

// SIGINT has come.
void Interrupt(State& state, intptr_t turn) {
  AskInterrupt ask = state.ask;
  const int64_t until = state.signal_time + std::chrono::nanoseconds(kWayHere).count();
  if (ask == nullptr || !IsConcerned(state)) return;
  if (ask(SeenByMain, reinterpret_cast<void*>(turn)) == 0) return;
  // Who waits for the compiler may look at signals meanwhile, as JAX does; it goes on all the same.
  CancelAll(TakeCompiling(state));
  auto stop = Clock::now() + kPatience;
  while (state.seen < turn && Clock::now() < stop) std::this_thread::sleep_for(kLook);
  if (state.seen >= turn) return;
  if (state.running && state.run_began <= until) state.cancel_run = true;
  CancelAll(TakeWaits(state, until));
}

// False: nobody woke it for kLookAgain.
bool WaitToLookAgain(sem_t& wake) {
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += std::chrono::nanoseconds(kLookAgain).count();
  if (until.tv_nsec >= std::nano::den) {
    until.tv_nsec -= std::nano::den;
    ++until.tv_sec;
  }
  while (sem_clockwait(&wake, CLOCK_MONOTONIC, &until) != 0) {
    if (errno == ETIMEDOUT) return false;
  }
  return true;
}

void SeeThatSignalsCome(State& state);

void Watch() {
  State& state = State::Get();
  bool looks = true;  // as long as the main thread runs programs
  for (intptr_t turn = 1;;) {
    if (!looks) {
      while (sem_wait(&state.wake) != 0) {
      }
    } else if (!WaitToLookAgain(state.wake)) {
      looks = state.running;
      if (looks) SeeThatSignalsCome(state);
      continue;
    }
    looks = true;
    if (state.signalled.exchange(false)) Interrupt(state, turn++);
  }
}

// A handler that is set anew is another one than ours, and a process that forked off has no
// watcher.
void SeeThatSignalsCome(State& state) {
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  bool with_info = (now.sa_flags & SA_SIGINFO) != 0;
  if (!with_info && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  MutexLock lock(state.mutex);
  if (state.watched != getpid()) {
    state.watched = getpid();
    std::thread(Watch).detach();
  }
  // Looked at again: another thread may have been here meanwhile.
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  with_info = (now.sa_flags & SA_SIGINFO) != 0;
  if (with_info && now.sa_sigaction == OnSignal) return;
  if (!with_info && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  Remember(state, {with_info ? reinterpret_cast<void*>(now.sa_sigaction)
                             : reinterpret_cast<void*>(now.sa_handler),
                   with_info ? 1 : 0});
  struct sigaction own = now;
  own.sa_sigaction = OnSignal;
  own.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &own, nullptr);
}

}  // namespace

void CancelAll(std::vector<EventRef> events) {
  while (!events.empty()) {
    EventRef event = std::move(events.back());
    events.pop_back();
    if (event->IsReady()) continue;
    if (std::shared_ptr<Cancellable> source = event->source().lock()) source->Cancel(events);
  }
}

void SetInterrupts(int64_t main_thread, AskInterrupt ask) {
  State& state = State::Get();
  state.ask = ask;
  state.main_thread = ask == nullptr ? 0 : static_cast<pid_t>(main_thread);
  if (ask != nullptr) return;
  // The process is about to end. What compiles uses much that goes with it.
  CancelAll(TakeCompiling(state));
  for (auto stop = Clock::now() + kLastPatience; state.compilations != 0 && Clock::now() < stop;) {
    std::this_thread::sleep_for(kLook);
  }
}

bool IsInterruptible() {
  // A thread that forked off has another number; what it was called before is not known here.
  return State::Get().main_thread.load(std::memory_order_relaxed) == this_thread;
}

bool WantsInterrupts() {
  return State::Get().ask.load(std::memory_order_relaxed) != nullptr;
}

void AboutToWait(const EventRef& event) {
  if (event->IsReady() || !IsInterruptible()) return;
  State& state = State::Get();
  {
    MutexLock lock(state.mutex);
    if (state.waits.size() >= kManyWaits) DropReady(state.waits);
    state.waits.push_back({event, Nanoseconds(Clock::now())});
  }
  SeeThatSignalsCome(state);
}

int64_t CompilationsAsked() {
  return State::Get().asked;
}

void NoteCompilation() {
  ++State::Get().asked;
}

InterruptibleCompilation::InterruptibleCompilation(const EventRef& done) {
  State& state = State::Get();
  ++state.compilations;
  {
    MutexLock lock(state.mutex);
    DropReady(state.compiling);
    state.compiling.push_back(done);
  }
  SeeThatSignalsCome(state);
}

InterruptibleCompilation::~InterruptibleCompilation() {
  --State::Get().compilations;
}

InterruptibleRun::InterruptibleRun() {
  if (!IsInterruptible()) return;
  State& state = State::Get();
  static constinit Clock::time_point last{};  // the main thread's
  const Clock::time_point now = Clock::now();
  if (now - last > kLookAgain) {
    last = now;
    SeeThatSignalsCome(state);
    sem_post(&state.wake);
  }
  state.run_began.store(Nanoseconds(now), std::memory_order_relaxed);
  state.cancel_run.store(false, std::memory_order_relaxed);
  state.running.store(true, std::memory_order_relaxed);
  cancel_ = &state.cancel_run;
}

InterruptibleRun::~InterruptibleRun() {
  if (cancel_ != nullptr) State::Get().running.store(false, std::memory_order_relaxed);
}

}  // namespace weft::client
