#include "client/accelerator.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/str.h"

namespace weft::client {
namespace {

using runtime::Allocation;
using runtime::CopyKind;
using runtime::MemorySpace;
using runtime::StreamKind;

// Up to here a copy through pinned memory costs less than waiting until the host's own is free.
constexpr int64_t kStaged = int64_t{1} << 20;
// A copy through pinned memory is waited for on the caller's thread for so long, which is less than
// being woken takes; a mebibyte is there after half of it.
constexpr std::chrono::microseconds kShortWait(50);
// A lane's thread looks for more so long before it sleeps: programs come one after the other.
constexpr std::chrono::microseconds kStayAwake(50);

template <class Done>
bool Soon(std::chrono::microseconds limit, const Done& done) {
  auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

void Lane::When(runtime::EventPtr event, std::function<void(Status)> then) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      if (!std::exchange(started_, true)) thread_ = std::thread([this] { Work(); });
      awaited_.push_back({std::move(event), std::move(then)});
      busy_.store(true, std::memory_order_release);
      if (asleep_) wake_.notify_one();
      return;
    }
  }
  then(event->Wait());
}

void Lane::Work() {
  while (true) {
    Soon(kStayAwake, [&] { return busy_.load(std::memory_order_acquire); });
    Awaited next;
    {
      MutexLock lock(mutex_);
      asleep_ = true;
      while (awaited_.empty() && !stopping_) mutex_.Wait(wake_);
      asleep_ = false;
      if (awaited_.empty()) return;
      next = std::move(awaited_.front());
      awaited_.pop_front();
      busy_.store(!awaited_.empty(), std::memory_order_relaxed);
    }
    next.then(next.event->Wait());
  }
}

// What the thread has not begun to wait for.
bool Lane::TellFirst() {
  Awaited first;
  {
    MutexLock lock(mutex_);
    if (awaited_.empty() || !awaited_.front().event->done()) return false;
    first = std::move(awaited_.front());
    awaited_.pop_front();
    busy_.store(!awaited_.empty(), std::memory_order_relaxed);
  }
  first.then(first.event->Wait());
  return true;
}

void Lane::Hurry(const Event& ready) {
  Soon(kShortWait, [&] {
    while (!ready.IsReady() && TellFirst()) {
    }
    return ready.IsReady();
  });
}

void Lane::Finish() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

Result<std::unique_ptr<Accelerator>> Accelerator::Create(std::shared_ptr<runtime::Device> device) {
  std::unique_ptr<Accelerator> made(new Accelerator(std::move(device)));
  runtime::Device& on = *made->device_;
  made->compute_ = std::make_unique<Lane>(TRY(on.NewStream(StreamKind::kCompute)));
  made->to_device_ = std::make_unique<Lane>(TRY(on.NewStream(StreamKind::kToDevice)));
  made->to_host_ = std::make_unique<Lane>(TRY(on.NewStream(StreamKind::kToHost)));
  return made;
}

void Accelerator::Finish() {
  // Downloads follow programs, programs follow uploads.
  to_device_->Finish();
  compute_->Finish();
  to_host_->Finish();
}

Result<std::shared_ptr<Lane>> Accelerator::SpareLane() {
  std::unique_ptr<Lane> lane;
  {
    MutexLock lock(mutex_);
    if (!spare_.empty()) {
      lane = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (lane == nullptr) {
    lane = std::make_unique<Lane>(TRY(device_->NewStream(StreamKind::kCompute)));
  }
  return std::shared_ptr<Lane>(lane.release(), [this](Lane* used) {
    MutexLock lock(mutex_);
    spare_.emplace_back(used);
  });
}

Status WaitUntilWritten(runtime::Stream& stream, const DeviceBytes& bytes, const EventRef& ready) {
  if (ready->IsReady()) return ready->status();
  return bytes.written != nullptr ? stream.WaitFor(bytes.written) : Status();
}

Result<DeviceBytesRef> Accelerator::Upload(const std::byte* from, int64_t bytes,
                                           std::string_view label, std::function<void()> done,
                                           EventRef* ready) {
  runtime::Stream& stream = to_device_->stream();
  auto made = std::make_shared<DeviceBytes>();
  bool staged = bytes <= kStaged;
  {
    MutexLock lock(to_device_->order());
    TRY(stream.ForgetError());
    made->memory = TRY(device_->AllocateOn(stream, bytes, MemorySpace::kDevice, label));
    made->address = made->memory.address();
    if (bytes > 0) {
      Allocation pinned;  // freed behind the copy
      if (staged) {
        pinned = TRY(device_->AllocateOn(stream, bytes, MemorySpace::kPinned, label));
        std::memcpy(pinned.address(), from, static_cast<size_t>(bytes));
        from = pinned.address();
      }
      TRY(stream.Copy(CopyKind::kToDevice, made->address, from, bytes));
    }
    made->written = TRY(stream.Record());
  }
  if (staged && done) std::exchange(done, nullptr)();
  auto event = std::make_shared<Event>();
  *ready = event;
  to_device_->When(made->written, [event, done = std::move(done)](Status status) {
    if (done) done();
    event->Set(std::move(status));
  });
  return made;
}

Result<DeviceBytesRef> Accelerator::Allocate(int64_t bytes, std::string_view label) {
  runtime::Stream& stream = compute_->stream();
  auto made = std::make_shared<DeviceBytes>();
  MutexLock lock(compute_->order());
  TRY(stream.ForgetError());
  made->memory = TRY(device_->AllocateOn(stream, bytes, MemorySpace::kDevice, label));
  made->address = made->memory.address();
  made->freed_by_compute = true;
  made->written = TRY(stream.Record());
  return made;
}

Result<runtime::EventPtr> Accelerator::EnqueueDownload(const DeviceBytes& from,
                                                       const EventRef& ready, int64_t offset,
                                                       int64_t bytes, std::byte* to) {
  runtime::Stream& stream = to_host_->stream();
  MutexLock lock(to_host_->order());
  TRY(stream.ForgetError());
  TRY(WaitUntilWritten(stream, from, ready));
  if (bytes > 0) TRY(stream.Copy(CopyKind::kToHost, to, from.address + offset, bytes));
  return stream.Record();
}

void Accelerator::Download(const DeviceBytesRef& from, const EventRef& ready, int64_t offset,
                           int64_t bytes, std::byte* to, std::shared_ptr<const void> keep,
                           std::function<void(Result<const std::byte*>)> then) {
  std::shared_ptr<std::byte[]> staging;
  std::byte* target = to;
  if (to == nullptr || bytes <= kStaged) {
    auto pinned = PinnedStorage(bytes);
    if (!pinned) return then(std::unexpected(std::move(pinned).error()));
    staging = std::move(*pinned);
    target = staging.get();
  }
  auto event = EnqueueDownload(*from, ready, offset, bytes, target);
  if (!event) return then(std::unexpected(std::move(event).error()));
  auto finish = [to, target, bytes, staging = std::move(staging), keep = std::move(keep),
                 then = std::move(then)](Status status) mutable {
    keep.reset();  // before anybody is told: who waits finds nothing left in use
    if (!status) return then(std::unexpected(std::move(status).error()));
    if (to != nullptr && target != to && bytes > 0) {
      std::memcpy(to, target, static_cast<size_t>(bytes));
    }
    if (to != nullptr) staging.reset();
    then(target);
  };
  if (bytes <= kStaged && Soon(kShortWait, [&] { return (*event)->done(); })) {
    return finish((*event)->Wait());
  }
  to_host_->When(std::move(*event), std::move(finish));
}

Result<DeviceBytesRef> Accelerator::Duplicate(const DeviceBytesRef& from,
                                              const EventRef& from_ready, int64_t bytes,
                                              std::shared_ptr<const void> keep, EventRef* ready) {
  runtime::Stream& stream = to_device_->stream();
  auto made = std::make_shared<DeviceBytes>();
  {
    MutexLock lock(to_device_->order());
    TRY(stream.ForgetError());
    TRY(WaitUntilWritten(stream, *from, from_ready));
    made->memory = TRY(device_->AllocateOn(stream, bytes, MemorySpace::kDevice, "copy"));
    made->address = made->memory.address();
    if (bytes > 0) TRY(stream.Copy(CopyKind::kOnDevice, made->address, from->address, bytes));
    made->written = TRY(stream.Record());
  }
  auto event = std::make_shared<Event>();
  *ready = event;
  to_device_->When(made->written, [event, keep = std::move(keep)](Status status) mutable {
    keep.reset();
    event->Set(std::move(status));
  });
  return made;
}

Result<std::shared_ptr<std::byte[]>> Accelerator::PinnedStorage(int64_t bytes) {
  auto pinned = std::make_shared<Allocation>(
      TRY(device_->AllocateOn(to_host_->stream(), bytes, MemorySpace::kPinned, "host array")));
  std::byte* address = pinned->address();
  return std::shared_ptr<std::byte[]>(address, [pinned](std::byte*) { pinned->Free(); });
}

}  // namespace weft::client
