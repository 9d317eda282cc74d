#include "client/accelerator.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/str.h"
#include "client/host_copy.h"

namespace weft::client {
namespace {

using runtime::Allocation;
using runtime::CopyKind;
using runtime::MemorySpace;
using runtime::StreamKind;

// Copies go through pinned memory, in pieces of which a few are under way: the device copies while
// the host's threads do. The driver's own way for other memory takes several times as long.
constexpr int64_t kPiece = int64_t{4} << 20;
// Arrays of up to a piece are copied in smaller ones, for the same reason. Half of that is slower:
// a link takes 27 us for a mebibyte, and waking the threads that copy it on the host about as long.
constexpr int64_t kSmallPiece = int64_t{1} << 20;
constexpr int64_t kPiecesUnderWay = 4;
int64_t PieceOf(int64_t bytes) {
  return bytes > kPiece ? kPiece : kSmallPiece;
}
// Up to here whoever asks for a copy waits for it in place.
constexpr int64_t kInPlace = int64_t{1} << 20;
// A copy through pinned memory is waited for on the caller's thread for so long, which is less than
// being woken takes, and as long again as it takes a slow link (PCIe of a virtual machine) where
// the bytes are there to be copied.
constexpr std::chrono::microseconds kShortWait(50);
constexpr int64_t kSlowLink = 6'000;  // bytes a microsecond
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

// How long the caller looks for the end of a copy to the host that it has just enqueued. An array
// that is on its way from the host is as good as there, once it has come.
std::chrono::microseconds WorthWaiting(const DeviceBytes& from, const EventRef& ready,
                                       int64_t bytes) {
  const bool there = ready->IsReady() || (from.written != nullptr && from.written->done());
  int64_t link = there ? bytes : from.soon_written ? 2 * kInPlace : 0;
  return kShortWait + std::chrono::microseconds(link / kSlowLink);
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

EventRef Lane::Ready(runtime::EventPtr event) {
  auto ready = std::make_shared<Event>();
  When(std::move(event), [ready](Status status) { ready->Set(std::move(status)); });
  return ready;
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

void Accelerator::Hurry(const Event& ready) const {
  Soon(kShortWait, [&] {
    while (!ready.IsReady() && (compute_->TellFirst() || to_device_->TellFirst())) {
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

// In the order of the stream; `from` is read by the time it returns.
Status Accelerator::EnqueueUpload(std::byte* to, const std::byte* from, int64_t bytes,
                                  std::string_view label) {
  runtime::Stream& stream = to_device_->stream();
  std::deque<runtime::EventPtr> under_way;
  const int64_t piece = PieceOf(bytes);
  for (int64_t at = 0; at < bytes; at += piece) {
    const int64_t size = std::min(piece, bytes - at);
    if (piece == kPiece && std::ssize(under_way) == kPiecesUnderWay) {
      metrics::Add(metrics::kDeviceSyncs);
      TRY(under_way.front()->Wait());
      under_way.pop_front();
    }
    // Freed behind the copy.
    Allocation pinned = TRY(device_->AllocateOn(stream, size, MemorySpace::kPinned, label));
    CopyOnHost(pinned.address(), from + at, size);
    TRY(stream.Copy(CopyKind::kToDevice, to + at, pinned.address(), size));
    if (piece == kPiece && at + size < bytes) under_way.push_back(TRY(stream.Record()));
  }
  return {};
}

Result<DeviceBytesRef> Accelerator::Upload(const std::byte* from, int64_t bytes,
                                           std::string_view label, std::function<void()> done,
                                           EventRef* ready) {
  runtime::Stream& stream = to_device_->stream();
  auto made = std::make_shared<DeviceBytes>();
  const bool pinned = bytes > 0 && device_->IsPinned(from);
  {
    MutexLock lock(to_device_->order());
    TRY(stream.ForgetError());
    made->memory = TRY(device_->AllocateOn(stream, bytes, MemorySpace::kDevice, label));
    made->address = made->memory.address();
    TRY(pinned ? stream.Copy(CopyKind::kToDevice, made->address, from, bytes)
               : EnqueueUpload(made->address, from, bytes, label));
    made->written = TRY(stream.Record());
    made->soon_written = bytes <= kInPlace;
  }
  if (!pinned && done) std::exchange(done, nullptr)();
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

// A download in pieces: as one is copied out of pinned memory, another one is asked for there. Its
// functions are called one after the other, by the lane's thread once pieces are under way.
class Accelerator::PieceByPiece : public std::enable_shared_from_this<PieceByPiece> {
 public:
  PieceByPiece(Accelerator& on, Request request)
      : on_(on), request_(std::move(request)), piece_(PieceOf(request_.bytes)) {}

  void Begin() {
    std::vector<runtime::EventPtr> events;
    std::vector<std::shared_ptr<std::byte[]>> memory;
    while (std::ssize(events) < kPiecesUnderWay && next_ < request_.bytes && status_) {
      auto pinned = on_.PinnedStorage(piece_);
      if (!pinned) {
        status_ = std::unexpected(std::move(pinned).error());
      } else if (runtime::EventPtr event = Enqueue(pinned->get())) {
        events.push_back(std::move(event));
        memory.push_back(std::move(*pinned));
      }
    }
    pending_ = std::ssize(events);
    if (pending_ == 0) return Finish();
    ExpectWrites(request_.to, request_.bytes);  // while the first pieces are on their way
    for (size_t i = 0; i < events.size(); ++i) {
      Await(std::move(events[i]), static_cast<int64_t>(i) * piece_, std::move(memory[i]));
    }
  }

 private:
  // The next piece; null: it cannot be had, and why is the status.
  runtime::EventPtr Enqueue(std::byte* to) {
    const int64_t size = std::min(piece_, request_.bytes - next_);
    auto event =
        on_.EnqueueDownload(*request_.from, request_.ready, request_.offset + next_, size, to);
    next_ += size;
    if (event) return std::move(*event);
    status_ = std::unexpected(std::move(event).error());
    return nullptr;
  }
  void Await(runtime::EventPtr event, int64_t at, std::shared_ptr<std::byte[]> memory) {
    on_.to_host_->When(std::move(event),
                       [self = shared_from_this(), at, memory = std::move(memory)](Status status) {
                         self->Arrived(std::move(status), at, memory);
                       });
  }
  void Arrived(Status status, int64_t at, const std::shared_ptr<std::byte[]>& memory) {
    --pending_;
    if (status_) status_ = std::move(status);
    if (status_) {
      CopyOnHost(request_.to + at, memory.get(), std::min(piece_, request_.bytes - at));
      const int64_t place = next_;
      if (place < request_.bytes) {
        if (runtime::EventPtr event = Enqueue(memory.get())) {
          ++pending_;
          Await(std::move(event), place, memory);
        }
      }
    }
    if (pending_ == 0) Finish();
  }
  void Finish() {
    request_.keep.reset();
    if (!status_) return request_.then(std::unexpected(status_.error()));
    request_.then(request_.to);
  }

  Accelerator& on_;
  Request request_;
  const int64_t piece_;
  int64_t next_ = 0, pending_ = 0;  // the next piece's place; pieces under way
  Status status_;
};

void Accelerator::Download(Request request) {
  const bool direct = request.to != nullptr && device_->IsPinned(request.to);
  if (request.to != nullptr && !direct && request.bytes > kSmallPiece) {
    return std::make_shared<PieceByPiece>(*this, std::move(request))->Begin();
  }
  std::shared_ptr<std::byte[]> staging;
  if (!direct) {
    auto pinned = PinnedStorage(request.bytes);
    if (!pinned) return request.then(std::unexpected(std::move(pinned).error()));
    staging = std::move(*pinned);
  }
  const int64_t bytes = request.bytes;
  const auto limit = WorthWaiting(*request.from, request.ready, bytes);
  auto event = EnqueueDownload(*request.from, request.ready, request.offset, bytes,
                               direct ? request.to : staging.get());
  if (!event) return request.then(std::unexpected(std::move(event).error()));
  if (request.to != nullptr && !direct) ExpectWrites(request.to, bytes);  // while it is on its way
  auto finish = [staging = std::move(staging),
                 request = std::move(request)](Status status) mutable {
    request.keep.reset();  // before anybody is told: who waits finds nothing left in use
    if (!status) return request.then(std::unexpected(std::move(status).error()));
    const std::byte* there = request.to != nullptr ? request.to : staging.get();
    if (request.to != nullptr && staging != nullptr) {
      CopyOnHost(request.to, staging.get(), request.bytes);
      staging.reset();
    }
    request.then(there);
  };
  if (bytes <= kInPlace && Soon(limit, [&] { return (*event)->done(); })) {
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
