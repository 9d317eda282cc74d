// Threads that wait at one epoll for connections, each for one event: whichever is free takes what
// comes, and may run what is short. Events are edges: nothing is to be said when a connection was
// read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/scheduler.h"

struct epoll_event;

namespace weft::serve {

class EventLoop;

class Connection {
 public:
  virtual ~Connection() = default;
  // There is something to read, or place to write; `ending`: and the client has said all. False: it
  // is over.
  virtual bool Serve(bool ending) = 0;
  // Ends it where its client does not go on. Whether it is idle: no request, nothing to write.
  virtual bool Check(Time now) = 0;
  // Says that no more requests are taken, where the protocol has a word for that.
  virtual void RefuseCalls() {}
  virtual void Shutdown() = 0;
  virtual int descriptor() const = 0;

 protected:
  // Serve is called soon, whether or not anything comes.
  void Wake() const;
  // Whether all other threads have something to do: whoever keeps this one stops all that arrives,
  // and who would be turned away is not told.
  bool IsLastReceiver() const;

 private:
  friend class EventLoop;
  const EventLoop* loop_ = nullptr;
  uint64_t key_ = 0;
};

class EventLoop {
 public:
  using Open = std::function<std::shared_ptr<Connection>(int descriptor)>;

  static Result<std::unique_ptr<EventLoop>> Make(int max_connections);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  // Connections at the descriptor, which it takes, are opened so.
  void Listen(int descriptor, Open open);
  // `tick`: called ten times a second; may be null. `may_poll`: whether a core is idle, on which
  // one thread looks for events without sleeping while they come close together; null: never, the
  // cores are not the server's own. To wake a thread of a core that idles takes tens of
  // microseconds.
  void Start(int threads, std::function<void()> tick, std::function<bool()> may_poll = nullptr);
  void StopAccepting() WEFT_EXCLUDES(mutex_);
  // Takes no more, waits until all connections are idle or for so long, ends them. Once.
  void Stop(Time grace) WEFT_EXCLUDES(mutex_);

 private:
  explicit EventLoop(int max_connections) : max_connections_(max_connections) {}
  void Work();
  bool Next(epoll_event& event);
  void Tick(const std::function<void()>& tick);
  void Accept(int listener) WEFT_EXCLUDES(mutex_);
  void Serve(uint64_t key, bool ending) WEFT_EXCLUDES(mutex_);
  bool Check() WEFT_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Connection>> All() WEFT_EXCLUDES(mutex_);

  const int max_connections_;
  int poll_ = -1, wake_ = -1;
  std::map<int, Open> listeners_;  // settled before the start
  friend class Connection;
  int receivers_ = 0;
  std::atomic<int> busy_ = 0;  // of them
  std::function<bool()> may_poll_;
  std::atomic<bool> polling_ = false;  // one of them does
  std::atomic<Time> last_event_ = 0;
  std::atomic<bool> close_together_ = false;  // the last two
  std::atomic<bool> accepting_ = true, stopping_ = false;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  uint64_t next_key_ WEFT_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Connection>> connections_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::serve
