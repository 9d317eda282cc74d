#include "base/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <unordered_set>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/trace_track.h"

namespace weft::trace {
namespace {

constexpr int64_t kFirstChunk = 64, kChunk = 1024;  // slots
constexpr size_t kMostWhats = 1 << 17;

// An event as it is kept: one slot, and a second one where it has flows or bytes. Memory that is
// written for the first time is what recording costs most, and steps have neither.
struct Slot {
  int64_t begin, end;
  const What* what;
  int32_t device;
  bool has_more;
};
struct MoreSlot {
  uint64_t from, to, caller;
  int64_t bytes;
};
union AnySlot {
  Slot event;
  MoreSlot more;
};
static_assert(sizeof(AnySlot) == 32);

struct Chunk {
  explicit Chunk(int64_t n)
      : slots(static_cast<AnySlot*>(std::malloc(static_cast<size_t>(n) * sizeof(AnySlot)))),
        size(slots != nullptr ? n : 0) {}
  ~Chunk() { std::free(slots); }
  Chunk(const Chunk&) = delete;
  AnySlot* const slots;
  const int64_t size;
  std::atomic<int64_t> count = 0;      // slots that readers may look at
  std::atomic<Chunk*> next = nullptr;  // owned
};

// The events of one thread. Only the thread itself writes. What was recorded before `generation`
// is stale: the thread throws it away when it comes back, and nobody else looks at it.
struct Log {
  ~Log() { Clear(); }
  void Clear() {
    Chunk* chunk = first.exchange(nullptr);
    while (chunk != nullptr) delete std::exchange(chunk, chunk->next.load());
    last = nullptr;
  }

  int64_t id = 0, hash = 0;
  std::string name;  // under the recorder's mutex
  std::atomic<uint64_t> generation = 0;
  std::atomic<Chunk*> first = nullptr;
  Chunk* last = nullptr;              // the thread's own
  std::atomic<bool> retired = false;  // its thread has ended
};

struct WhatHash {
  size_t operator()(const What& w) const {
    uint64_t hash = static_cast<uint64_t>(w.kind);
    for (const std::string* text :
         {&w.name, &w.program, &w.op, &w.op_name, &w.source, &w.shapes, &w.parts}) {
      hash = MixHash(hash, std::hash<std::string>()(*text));
    }
    return MixHash(MixHash(hash, std::hash<double>()(w.flops)), std::hash<double>()(w.bytes));
  }
};

// Everything there is to recording, never destroyed: threads may record until the very end.
struct Recorder {
  static Recorder& Get() {
    static Recorder& recorder = *new Recorder;
    return recorder;
  }
  std::shared_ptr<Log> AddLog();
  // Room for so many more events of the current generation.
  bool Reserve(int64_t events) {
    if (reserved.fetch_add(events, std::memory_order_relaxed) + events <= limit) return true;
    reserved.fetch_sub(events, std::memory_order_relaxed);
    return false;
  }

  std::atomic<uint64_t> generation = 0, flows = 0;
  std::atomic<int64_t> reserved = 0, dropped = 0;
  std::atomic<int64_t> limit = kMostEvents;
  Mutex mutex;
  int sessions WEFT_GUARDED_BY(mutex) = 0;
  int64_t next_limit WEFT_GUARDED_BY(mutex) = kMostEvents;
  std::vector<std::shared_ptr<Log>> logs WEFT_GUARDED_BY(mutex);
  Mutex late_mutex;  // taken before the other
  std::vector<LateSource*> late WEFT_GUARDED_BY(late_mutex);
  int64_t tracks WEFT_GUARDED_BY(mutex) = 0;
  Mutex whats_mutex;
  std::unordered_set<What, WhatHash> whats WEFT_GUARDED_BY(whats_mutex);  // never iterated
};

// The log of this thread, to be had quickly, and whether the thread is at its very end.
thread_local constinit Log* this_log __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local constinit bool has_ended __attribute__((tls_model("initial-exec"))) = false;

// Owns the log, and knows what the thread is called.
struct ThisThread {
  ~ThisThread() {
    has_ended = true;
    this_log = nullptr;
    if (log != nullptr) log->retired.store(true, std::memory_order_release);
  }
  std::shared_ptr<Log> log;
  std::string name;
};
thread_local ThisThread this_thread;

std::string SystemName() {
  char name[32] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

std::shared_ptr<Log> Recorder::AddLog() {
  auto log = std::make_shared<Log>();
  log->id = static_cast<int64_t>(syscall(SYS_gettid));
  log->hash = static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
  log->name = this_thread.name.empty() ? SystemName() : this_thread.name;
  MutexLock lock(mutex);
  logs.push_back(log);
  return log;
}

// The chunk to write so many slots to, null where there is no room.
Chunk* RoomIn(Log& log, Recorder& recorder, int64_t slots) {
  uint64_t generation = recorder.generation.load(std::memory_order_acquire);
  if (log.generation.load(std::memory_order_relaxed) != generation) {
    log.Clear();
    log.generation.store(generation, std::memory_order_release);
  }
  Chunk* last = log.last;
  if (last != nullptr && last->count.load(std::memory_order_relaxed) + slots <= last->size) {
    return last;
  }
  int64_t size = last == nullptr ? kFirstChunk : kChunk;
  if (!recorder.Reserve(size)) return nullptr;
  auto* chunk = new Chunk(size);
  if (chunk->size == 0) {
    delete chunk;
    return nullptr;
  }
  log.last = chunk;
  (last == nullptr ? log.first : last->next).store(chunk, std::memory_order_release);
  return chunk;
}

void Append(Log& log, Recorder& recorder, const Event& event) {
  const bool has_more = (event.from | event.to | event.caller) != 0 || event.bytes != 0;
  Chunk* chunk = RoomIn(log, recorder, has_more ? 2 : 1);
  if (chunk == nullptr) {
    recorder.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  int64_t at = chunk->count.load(std::memory_order_relaxed);
  chunk->slots[at++].event = {event.begin, event.end, event.what, event.device, has_more};
  if (has_more) chunk->slots[at++].more = {event.from, event.to, event.caller, event.bytes};
  chunk->count.store(at, std::memory_order_release);
}

// What a reader finds at `slot`, which is moved to the next event.
Event EventAt(const Chunk& chunk, int64_t& slot) {
  const Slot& s = chunk.slots[slot++].event;
  Event event{.begin = s.begin, .end = s.end, .what = s.what, .device = s.device};
  if (!s.has_more) return event;
  const MoreSlot& more = chunk.slots[slot++].more;
  event.from = more.from;
  event.to = more.to;
  event.caller = more.caller;
  event.bytes = more.bytes;
  return event;
}

int64_t ClockNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if defined(__x86_64__)
// Whether the time-stamp counter runs at one rate, whatever the cores do.
bool CountsSteadily() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}
#endif

int64_t UnixNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string_view NameOf(Kind kind) {
  static constexpr std::string_view kNames[kKinds] = {"compile",  "phase",    "pass", "codegen",
                                                      "enqueue",  "execute",  "step", "copy",
                                                      "transfer", "callback", "wait"};
  return kNames[static_cast<size_t>(kind)];
}

const What* Intern(What what) {
  Recorder& recorder = Recorder::Get();
  MutexLock lock(recorder.whats_mutex);
  if (recorder.whats.size() >= kMostWhats) {
    if (auto found = recorder.whats.find(what); found != recorder.whats.end()) return &*found;
    what = What{.kind = what.kind, .name = std::string(NameOf(what.kind))};
  }
  return &*recorder.whats.insert(std::move(what)).first;  // stays where it is
}

int64_t Now() {
#if defined(__x86_64__)
  static const bool counts = CountsSteadily();
  if (counts) return static_cast<int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  int64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
  return ClockNow();
}

void Record(const Event& event) {
  if (!IsOn()) return;
  Recorder& recorder = Recorder::Get();
  if (this_log == nullptr) {
    if (has_ended) return;
    if (this_thread.log == nullptr) this_thread.log = recorder.AddLog();
    this_log = this_thread.log.get();
  }
  Append(*this_log, recorder, event);
}

uint64_t NewFlow() {
  return IsOn() ? Recorder::Get().flows.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
}

void NameThread(std::string_view name) {
  this_thread.name = name;
  constexpr size_t kSystemName = 15;  // bytes that the system keeps: for top and perf
  pthread_setname_np(pthread_self(), std::string(name.substr(0, kSystemName)).c_str());
  if (this_thread.log == nullptr) return;
  MutexLock lock(Recorder::Get().mutex);
  this_thread.log->name = name;
}

void Span::End() {
  event_.end = Now();
  Record(event_);
}

// The first session begins anew: what older ones left is stale from here on.
Session::Session() {
  Recorder& recorder = Recorder::Get();
  MutexLock lock(recorder.mutex);
  if (recorder.sessions++ == 0) {
    std::erase_if(recorder.logs, [](const std::shared_ptr<Log>& log) {
      return log->retired.load(std::memory_order_acquire);
    });
    recorder.reserved = 0;
    recorder.dropped = 0;
    recorder.limit = recorder.next_limit;
    recorder.generation.fetch_add(1, std::memory_order_acq_rel);
  }
  begin_ = This();
  unix_offset_ = UnixNow() - ClockNow();
  detail::is_on.store(true, std::memory_order_release);
}

// Of some tries the one between whose two looks at the clock least time passed.
Session::Moment Session::This() {
  Moment best{};
  int64_t least = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    int64_t before = ClockNow(), count = Now(), after = ClockNow();
    if (after - before >= least) continue;
    least = after - before;
    best = {count, before + least / 2};
  }
  return best;
}

Session::~Session() {
  Recorder& recorder = Recorder::Get();
  MutexLock lock(recorder.mutex);
  if (--recorder.sessions == 0) detail::is_on.store(false, std::memory_order_release);
}

Capture Session::Take() const {
  Recorder& recorder = Recorder::Get();
  {
    MutexLock lock(recorder.late_mutex);
    for (LateSource* source : recorder.late) source->flush_();
  }
  MutexLock lock(recorder.mutex);  // no new generation meanwhile
  const Moment now = This();
  const double rate = static_cast<double>(now.nanoseconds - begin_.nanoseconds) /
                      static_cast<double>(std::max<int64_t>(now.count - begin_.count, 1));
  auto nanoseconds = [&](int64_t count) {
    return begin_.nanoseconds +
           static_cast<int64_t>(rate * static_cast<double>(count - begin_.count));
  };
  Capture capture{.begin = begin_.nanoseconds, .end = now.nanoseconds, .unix_offset = unix_offset_};
  capture.dropped = recorder.dropped.load(std::memory_order_relaxed);
  uint64_t generation = recorder.generation.load(std::memory_order_acquire);
  for (const std::shared_ptr<Log>& log : recorder.logs) {
    if (log->generation.load(std::memory_order_acquire) != generation) continue;
    ThreadEvents thread{.id = log->id, .hash = log->hash, .name = log->name};
    for (const Chunk* chunk = log->first.load(std::memory_order_acquire); chunk != nullptr;
         chunk = chunk->next.load(std::memory_order_acquire)) {
      int64_t count = chunk->count.load(std::memory_order_acquire);
      for (int64_t slot = 0; slot < count;) {
        Event event = EventAt(*chunk, slot);
        if (event.begin < begin_.count) continue;
        event.begin = nanoseconds(event.begin);
        event.end = nanoseconds(event.end);
        thread.events.push_back(event);
      }
    }
    if (!thread.events.empty()) capture.threads.push_back(std::move(thread));
  }
  std::sort(capture.threads.begin(), capture.threads.end(),
            [](const ThreadEvents& a, const ThreadEvents& b) { return a.id < b.id; });
  return capture;
}

struct Track::Line {
  std::shared_ptr<Log> log = std::make_shared<Log>();
  Mutex mutex;  // one at a time writes to the log
};

Track::Track(std::string name) : line_(std::make_unique<Line>()) {
  constexpr int64_t kFirstNumber = 1'000'000'000;  // beyond all threads
  Recorder& recorder = Recorder::Get();
  MutexLock lock(recorder.mutex);
  Log& log = *line_->log;
  log.id = log.hash = kFirstNumber + recorder.tracks++;
  log.name = std::move(name);
  recorder.logs.push_back(line_->log);
}

Track::~Track() {
  line_->log->retired.store(true, std::memory_order_release);
}

void Track::Record(const Event& event) {
  if (!IsOn()) return;
  MutexLock lock(line_->mutex);
  Append(*line_->log, Recorder::Get(), event);
}

LateSource::LateSource(std::function<void()> flush) : flush_(std::move(flush)) {
  MutexLock lock(Recorder::Get().late_mutex);
  Recorder::Get().late.push_back(this);
}

LateSource::~LateSource() {
  MutexLock lock(Recorder::Get().late_mutex);
  std::erase(Recorder::Get().late, this);
}

void SetMostEvents(int64_t events) {
  Recorder& recorder = Recorder::Get();
  MutexLock lock(recorder.mutex);
  recorder.next_limit = events;
}

}  // namespace weft::trace
