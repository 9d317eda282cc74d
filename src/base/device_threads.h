// What stands for devices that wait for each other, on a thread each or on few. Any state in which
// every one that still runs waits is a deadlock and becomes an error that names what they wait at;
// one that fails releases all others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fibers.h"
#include "base/kept_threads.h"
#include "base/mutex.h"

namespace weft {

class DeviceThreads {
 public:
  explicit DeviceThreads(int64_t devices);
  int64_t devices() const { return devices_; }

 protected:
  // Runs fn(device) on all devices at once; the first error. To be called once. `kept`: whose
  // threads do it; null: new ones. `threads`: so many of them, on which devices take turns where
  // they wait for each other; 0: one each, for what blocks in other ways too. `beside`: runs on a
  // thread of its own meanwhile; it has to end when all devices have.
  Status RunThreads(const std::function<Status(int64_t)>& fn, KeptThreads* kept = nullptr,
                    int64_t threads = 0, const std::function<void()>* beside = nullptr)
      WEFT_EXCLUDES(mutex_);

  // The name of a step, and the line of the user's program that it comes from, where known.
  struct Where {
    const std::string* name = nullptr;
    const std::string* source = nullptr;
  };
  // Waits until `ready`, which whoever makes it so announces with Wake. Ready counts for more than
  // an error: those who met go on together.
  Status WaitUntil(int64_t device, Where where, const std::function<bool()>& ready)
      WEFT_REQUIRES(mutex_);
  void Wake(int64_t device) WEFT_REQUIRES(mutex_);
  // Waits until `done`, whatever goes wrong elsewhere; whoever makes it so calls Nudge.
  void WaitRegardless(int64_t device, const std::function<bool()>& done) WEFT_REQUIRES(mutex_);
  void Nudge(int64_t device) WEFT_REQUIRES(mutex_);

  // What goes on beside the devices for those that wait: no deadlock until it has ended.
  void BeginBeside() WEFT_REQUIRES(mutex_) { ++running_; }
  void EndBeside() WEFT_REQUIRES(mutex_) {
    --running_;
    CheckDeadlock();
  }
  // Lets the devices that share its thread run until they wait or yield.
  void Yield(int64_t device) WEFT_EXCLUDES(mutex_);

  // How often the device has come to this meeting place before.
  int64_t CountVisit(int64_t device, const std::vector<int64_t>& place) WEFT_REQUIRES(mutex_);

  const std::optional<Error>& error() const WEFT_REQUIRES(mutex_) { return error_; }

  Mutex mutex_;

 private:
  struct Device {
    // Counts up when there is something new for the device. Each sleeps on its own, so that nobody
    // is woken for what others wait for.
    std::atomic<uint32_t> news = 0;
    Where waits_at;  // no name: it runs
    bool finished = false;
    Fibers* crew = nullptr;                          // those with whom it shares a thread
    std::map<std::vector<int64_t>, int64_t> visits;  // by meeting place
  };
  void Finish(int64_t device, const Error* error) WEFT_EXCLUDES(mutex_);
  void Fail(Error error) WEFT_REQUIRES(mutex_);
  void CheckDeadlock() WEFT_REQUIRES(mutex_);
  void Sleep(int64_t device) WEFT_REQUIRES(mutex_);
  void MakeCrews(int64_t threads) WEFT_EXCLUDES(mutex_);

  const int64_t devices_;
  std::vector<std::unique_ptr<Fibers>> crews_;  // by thread
  std::atomic<int> busy_ = 0;                   // those of them with something to do
  std::vector<Device> state_ WEFT_GUARDED_BY(mutex_);
  // Neither finished nor waiting for others to come; and what goes on beside them.
  int64_t running_ WEFT_GUARDED_BY(mutex_);
  std::optional<Error> error_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
