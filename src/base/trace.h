// Events with a begin and an end, for timelines: what compiles, runs, copies and waits, on which
// thread and for how long. Nothing is recorded until a Session lives; until then a span costs one
// relaxed load.
//
//   trace::Span span(trace::Kind::kPass, [&] { return trace::What{.name = "fuse"}; });
//
// A thread writes events to a log of its own, without locks; those who read see what was published.
// All logs together hold a limited number of events: what comes later is counted and dropped.
//
// What an event is (name, source line, ...) is interned: recorded as a pointer, kept for ever.
// Flows tie an event to one that it caused on another thread: the number is captured by value.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::trace {

enum class Kind : uint8_t {
  kCompile,   // a program, whole
  kPhase,     // of a compilation: import, lowering, code generation, linking
  kPass,      // over HLO
  kCodegen,   // one module of native code
  kEnqueue,   // an execution is asked for
  kExecute,   // a program runs on a device
  kStep,      // one step of it: kernel, routine, region
  kCopy,      // a step that moves or fills memory
  kTransfer,  // between host and device, and the request for it
  kCallback,  // into Python or foreign code
  kWait,      // for an event, for other devices
};
inline constexpr int kKinds = 11;
std::string_view NameOf(Kind kind);  // "compile"

struct What {
  Kind kind = Kind::kPhase;
  std::string name = {};        // "fusion.3"
  std::string program = {};     // the module that it belongs to
  std::string op = {};          // of a step: "launch", "gemm"
  std::string op_name = {};     // "jit(step)/mlp/dot_general": scopes of the framework
  std::string source = {};      // "model.py:12"
  std::string shapes = {};      // "f32[8,64], f32[64] -> f32[8,64]"
  std::string parts = {};       // of a loop that is one native function: its steps
  double flops = 0, bytes = 0;  // at least; 0: not known
  bool operator==(const What&) const = default;
};
// The same pointer for the same contents, for ever. From some number on, one for each kind.
const What* Intern(What what);

struct Event {
  int64_t begin = 0, end = 0;  // of Now(); nanoseconds in a Capture
  const What* what = nullptr;
  uint64_t from = 0, to = 0;  // flows that end and begin here; 0: none
  uint64_t caller = 0;        // the framework's own number of the call that this is; 0: none
  int64_t bytes = 0;          // moved by this one; 0: none
  int32_t device = 0;
};

namespace detail {
inline constinit std::atomic<bool> is_on{false};
}  // namespace detail
inline bool IsOn() {
  return detail::is_on.load(std::memory_order_relaxed);
}
// A steady counter, of the processor where it has one: reading it costs a third of a clock's time.
// A Capture turns its numbers into nanoseconds.
int64_t Now();
// Only while IsOn().
void Record(const Event& event);
uint64_t NewFlow();  // 0 when nothing is recorded
// How the current thread is called in timelines; by default as the system calls it.
void NameThread(std::string_view name);

// Records itself from here to its end of life.
class Span {
 public:
  explicit Span(const What* what) {  // null: nothing is recorded
    if (what != nullptr && IsOn()) Begin(what);
  }
  template <class Make>
  Span(Kind kind, const Make& make) {
    if (!IsOn()) return;
    What what = make();
    what.kind = kind;
    Begin(Intern(std::move(what)));
  }
  ~Span() {
    if (event_.what != nullptr) End();
  }
  Span(const Span&) = delete;

  // What it is after all, where that was not known at first.
  template <class Make>
  void Rename(const Make& make) {
    if (event_.what == nullptr) return;
    What what = make();
    what.kind = event_.what->kind;
    event_.what = Intern(std::move(what));
  }
  Span& From(uint64_t flow) {
    event_.from = flow;
    return *this;
  }
  Span& To(uint64_t flow) {
    event_.to = flow;
    return *this;
  }
  Span& Bytes(int64_t bytes) {
    event_.bytes = bytes;
    return *this;
  }
  Span& Caller(uint64_t id) {
    event_.caller = id;
    return *this;
  }
  Span& Device(int64_t device) {
    event_.device = static_cast<int32_t>(device);
    return *this;
  }

 private:
  void Begin(const What* what) {
    event_.what = what;
    event_.begin = Now();
  }
  void End();
  Event event_;
};

// A What that is made once, for events that come often.
class CachedWhat {
 public:
  // Null when nothing is recorded.
  template <class Make>
  const What* Get(Kind kind, const Make& make) const {
    if (!IsOn()) return nullptr;
    const What* what = what_.load(std::memory_order_acquire);
    if (what == nullptr) {
      What made = make();
      made.kind = kind;
      what = Intern(std::move(made));
      what_.store(what, std::memory_order_release);
    }
    return what;
  }

 private:
  mutable std::atomic<const What*> what_ = nullptr;
};

// Steps one after the other: where one ends the next begins, so that the clock is read once a step.
class Steps {
 public:
  // `on`: whether this run is recorded.
  Steps(bool on, int64_t device) : device_(static_cast<int32_t>(device)) {
    if (on) begin_ = Now();
  }
  bool on() const { return begin_ != 0; }
  void End(const What* what) {
    int64_t now = Now();
    Record({.begin = begin_, .end = now, .what = what, .device = device_});
    begin_ = now;
  }

 private:
  int64_t begin_ = 0;
  int32_t device_ = 0;
};

struct ThreadEvents {
  int64_t id = 0;    // as the system numbers threads
  int64_t hash = 0;  // as the standard library does, and with it JAX's own tracers
  std::string name = {};
  std::vector<Event> events = {};  // in the order in which they ended
};
struct Capture {
  int64_t begin = 0, end = 0;              // of the session, nanoseconds of a steady clock
  int64_t unix_offset = 0;                 // what to add for nanoseconds since 1970
  int64_t dropped = 0;                     // events for which there was no room
  std::vector<ThreadEvents> threads = {};  // by id
};

// While one lives, events are recorded. Several may live at once.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  // What began and ended since the session began.
  Capture Take() const;

 private:
  struct Moment {
    int64_t count, nanoseconds;  // by Now() and by the clock
  };
  static Moment This();
  Moment begin_;
  int64_t unix_offset_;
};

inline constexpr int64_t kMostEvents = 1 << 20;
// For tests: another limit, from the next time that recording begins.
void SetMostEvents(int64_t events);

}  // namespace weft::trace
