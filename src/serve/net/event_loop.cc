#include "serve/net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/trace.h"
#include "serve/run_handler.h"
#include "serve/thread_class.h"

namespace weft::serve {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr Time kPollFor = 200 * kMicrosecond;             // behind an event, for the next
constexpr int kTicksOfCheck = 10;                         // of connections that stall
constexpr uint64_t kFirstConnection = uint64_t{1} << 32;  // behind all descriptors
constexpr uint32_t kEdges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

void Watch(int poll, int operation, int descriptor, uint32_t events, uint64_t key) {
  epoll_event event = {.events = events, .data = {.u64 = key}};
  epoll_ctl(poll, operation, descriptor, &event);
}

}  // namespace

void Connection::Wake() const {
  Watch(loop_->poll_, EPOLL_CTL_MOD, descriptor(), kEdges, key_);
}

bool Connection::IsLastReceiver() const {
  return loop_ != nullptr && loop_->busy_.load(std::memory_order_relaxed) >= loop_->receivers_;
}

Result<std::unique_ptr<EventLoop>> EventLoop::Make(int max_connections) {
  std::unique_ptr<EventLoop> loop(new EventLoop(max_connections));
  loop->poll_ = epoll_create1(EPOLL_CLOEXEC);
  loop->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop->poll_ < 0 || loop->wake_ < 0)
    return MakeError(Code::kResourceExhausted, "no descriptors for connections");
  Watch(loop->poll_, EPOLL_CTL_ADD, loop->wake_, EPOLLIN, static_cast<uint64_t>(loop->wake_));
  MutexLock lock(loop->mutex_);
  loop->next_key_ = kFirstConnection;
  return loop;
}

EventLoop::~EventLoop() {
  Stop(0);
  for (const auto& [listener, open] : listeners_) close(listener);
  for (int descriptor : {poll_, wake_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void EventLoop::Listen(int descriptor, Open open) {
  listeners_.emplace(descriptor, std::move(open));
  Watch(poll_, EPOLL_CTL_ADD, descriptor, EPOLLIN, static_cast<uint64_t>(descriptor));
}

void EventLoop::Start(int threads, std::function<void()> tick, std::function<bool()> may_poll) {
  receivers_ = threads;
  may_poll_ = std::move(may_poll);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, i] {
      trace::NameThread(StrCat("receive ", i));
      Work();
    });
  }
  threads_.emplace_back([this, tick = std::move(tick)] { Tick(tick); });
}

// One event; whether there is one. Looked for without sleeping by one thread at a time, where the
// last ones came as close together as that is worth it.
bool EventLoop::Next(epoll_event& event) {
  int got = 0;
  if (may_poll_ != nullptr) {
    const Time now = Now(), until = last_event_.load(std::memory_order_relaxed) + kPollFor;
    if (close_together_.load(std::memory_order_relaxed) && now < until &&
        !polling_.exchange(true, std::memory_order_acquire)) {
      while ((got = epoll_wait(poll_, &event, 1, 0)) == 0 && may_poll_() && Now() < until) {
        GiveWay();  // a run that came to this core would wait for long
      }
      polling_.store(false, std::memory_order_release);
    }
  }
  if (got == 0) got = epoll_wait(poll_, &event, 1, -1);
  if (got < 1) return false;
  if (may_poll_ == nullptr) return true;
  const Time now = Now(), last = last_event_.exchange(now, std::memory_order_relaxed);
  close_together_.store(now - last < kPollFor, std::memory_order_relaxed);
  return true;
}

void EventLoop::Work() {
  BecomeReceiver(may_poll_ != nullptr);
  for (;;) {
    epoll_event event = {};
    if (!Next(event)) continue;
    const uint64_t key = event.data.u64;
    if (key >= kFirstConnection) {
      busy_.fetch_add(1, std::memory_order_relaxed);
      Serve(key, (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      busy_.fetch_sub(1, std::memory_order_relaxed);
      LeaveReceiverCores();
    } else if (key == static_cast<uint64_t>(wake_)) {
      return;
    } else {
      Accept(static_cast<int>(key));
    }
  }
}

void EventLoop::Accept(int listener) {
  int descriptor = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    // Out of descriptors, a moment is waited.
    if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kTick / 10);
    return;
  }
  std::shared_ptr<Connection> connection = listeners_.at(listener)(descriptor);
  uint64_t key = 0;
  {
    MutexLock lock(mutex_);
    // Beyond the limit connections are closed at once.
    if (!accepting_ || static_cast<int>(connections_.size()) >= max_connections_) return;
    key = next_key_++;
    connection->loop_ = this;
    connection->key_ = key;
    connections_.emplace(key, std::move(connection));
  }
  Watch(poll_, EPOLL_CTL_ADD, descriptor, kEdges, key);
}

void EventLoop::Serve(uint64_t key, bool ending) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mutex_);
    auto found = connections_.find(key);
    if (found == connections_.end()) return;
    connection = found->second;
  }
  if (connection->Serve(ending)) return;
  MutexLock lock(mutex_);
  connections_.erase(key);
}

std::vector<std::shared_ptr<Connection>> EventLoop::All() {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [key, connection] : connections_) all.push_back(connection);
  return all;
}

// Whether all connections are idle.
bool EventLoop::Check() {
  bool idle = true;
  for (const auto& connection : All()) idle = connection->Check(Now()) && idle;
  return idle;
}

void EventLoop::Tick(const std::function<void()>& tick) {
  for (int count = 0; !stopping_; ++count) {
    if (tick) tick();
    if (count % kTicksOfCheck == 0) Check();
    std::this_thread::sleep_for(kTick);
  }
}

void EventLoop::StopAccepting() {
  if (!accepting_.exchange(false)) return;
  // No connection waits for a server that does not take it.
  for (const auto& [listener, open] : listeners_) {
    epoll_ctl(poll_, EPOLL_CTL_DEL, listener, nullptr);
    shutdown(listener, SHUT_RDWR);
  }
}

void EventLoop::Stop(Time grace) {
  StopAccepting();
  if (stopping_.exchange(true)) return;
  for (const auto& connection : All()) connection->RefuseCalls();
  for (Time deadline = Now() + grace; !Check() && Now() < deadline;) {
    std::this_thread::sleep_for(kTick / 100);
  }
  uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
  for (std::thread& thread : threads_) thread.join();
  // What is left has no thread any more: its calls are told that their clients are gone.
  for (const auto& connection : All()) {
    connection->Shutdown();
    connection->Serve(true);
  }
  MutexLock lock(mutex_);
  connections_.clear();
}

}  // namespace weft::serve
