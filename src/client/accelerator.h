// A device with memory of its own, as one logical device of a client uses it: its streams, threads
// that wait for them, memory of arrays there and copies between it and the host.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "client/event.h"
#include "runtime/device.h"

namespace weft::client {

// The bytes of an array in device memory. They are freed in the order of one stream, `to device` at
// first and `compute` from its first use there on; whoever uses them on another stream holds them
// until that is done.
struct DeviceBytes {
  ~DeviceBytes() {
    if (on_delete) on_delete();
  }
  runtime::Allocation memory;  // empty: somebody else's
  std::byte* address = nullptr;
  runtime::EventPtr written;        // behind the work that writes them; null: they are there
  bool freed_by_compute = false;    // guarded by the order of the compute lane
  bool soon_written = false;        // by nothing but a short copy from the host
  std::function<void()> on_delete;  // of memory that is somebody else's
  bool lent() const { return !memory; }
};
using DeviceBytesRef = std::shared_ptr<DeviceBytes>;

// A stream, and a thread that waits for it.
class Lane {
 public:
  explicit Lane(runtime::StreamPtr stream) : stream_(std::move(stream)) {}
  ~Lane() { Finish(); }
  Lane(const Lane&) = delete;

  runtime::Stream& stream() const { return *stream_; }
  const runtime::StreamPtr& shared_stream() const { return stream_; }
  // Held from ForgetError to Record, so that an event has the errors of one piece of work alone.
  Mutex& order() { return order_; }
  // `then` is called on the lane's thread once the device has come to the event, one after the
  // other; it must not wait for the device.
  void When(runtime::EventPtr event, std::function<void(Status)> then) WEFT_EXCLUDES(mutex_);
  // An event of the host's that is set then.
  EventRef Ready(runtime::EventPtr event) WEFT_EXCLUDES(mutex_);
  // Tells the first of what is asked for, if it is done and the thread has not begun with it.
  bool TellFirst() WEFT_EXCLUDES(mutex_);
  // All that was asked for has been told; later on callers wait themselves.
  void Finish() WEFT_EXCLUDES(mutex_);

 private:
  struct Awaited {
    runtime::EventPtr event;
    std::function<void(Status)> then;
  };
  void Work() WEFT_EXCLUDES(mutex_);

  const runtime::StreamPtr stream_;
  Mutex order_, mutex_;
  std::condition_variable wake_;
  std::atomic<bool> busy_ = false;  // something is in `awaited_`, or may be
  bool asleep_ WEFT_GUARDED_BY(mutex_) = false;
  std::deque<Awaited> awaited_ WEFT_GUARDED_BY(mutex_);
  bool started_ WEFT_GUARDED_BY(mutex_) = false, stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_ WEFT_GUARDED_BY(mutex_);
};

class Accelerator {
 public:
  static Result<std::unique_ptr<Accelerator>> Create(std::shared_ptr<runtime::Device> device);

  runtime::Device& device() const { return *device_; }
  const std::shared_ptr<runtime::Device>& shared_device() const { return device_; }
  Lane& compute() const { return *compute_; }
  Lane& to_device() const { return *to_device_; }
  Lane& to_host() const { return *to_host_; }
  void Finish();  // what is under way is done, and has been told
  // For a caller who is about to wait for `ready`, of an array: looks for a short time whether the
  // device comes by, and tells what is done, which is sooner than being woken by a lane's thread.
  void Hurry(const Event& ready) const;

  // A stream for a program that the host takes part in for longer; given back by its deleter.
  Result<std::shared_ptr<Lane>> SpareLane() WEFT_EXCLUDES(mutex_);

  // Bytes of the host in device memory. `from` has been read when `done` is called, before this
  // returns or, of pinned memory, later; an error here: it is not called. `ready` becomes the event
  // of the copy.
  Result<DeviceBytesRef> Upload(const std::byte* from, int64_t bytes, std::string_view label,
                                std::function<void()> done, EventRef* ready);
  // Memory that nobody writes yet.
  Result<DeviceBytesRef> Allocate(int64_t bytes, std::string_view label);
  // `then` gets the bytes on the host, or what went wrong, on any thread or on this one; `keep`
  // holds the array. Without `to` the bytes are there for the time of the call only.
  struct Request {
    DeviceBytesRef from;
    EventRef ready;  // of the array
    int64_t offset = 0, bytes = 0;
    std::byte* to = nullptr;
    std::shared_ptr<const void> keep;
    std::function<void(Result<const std::byte*>)> then;
  };
  void Download(Request request);
  // A copy in memory of this device, of bytes that are in memory of the same runtime device.
  Result<DeviceBytesRef> Duplicate(const DeviceBytesRef& from, const EventRef& from_ready,
                                   int64_t bytes, std::shared_ptr<const void> keep,
                                   EventRef* ready);
  // Host memory that copies without the host's help.
  Result<std::shared_ptr<std::byte[]>> PinnedStorage(int64_t bytes);

 private:
  class PieceByPiece;
  explicit Accelerator(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}
  Status EnqueueUpload(std::byte* to, const std::byte* from, int64_t bytes, std::string_view label);
  Result<runtime::EventPtr> EnqueueDownload(const DeviceBytes& from, const EventRef& ready,
                                            int64_t offset, int64_t bytes, std::byte* to);

  const std::shared_ptr<runtime::Device> device_;
  std::unique_ptr<Lane> compute_, to_device_, to_host_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> spare_ WEFT_GUARDED_BY(mutex_);
};

// The stream comes behind what writes the bytes, and has its errors; nothing is to be done where
// `ready` says that they are there.
Status WaitUntilWritten(runtime::Stream& stream, const DeviceBytes& bytes, const EventRef& ready);

}  // namespace weft::client
