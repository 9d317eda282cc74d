#include "runtime/pretend/pretend_stream.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/metrics.h"
#include "base/str.h"
#include "base/trace.h"
#include "runtime/buffers.h"

namespace weft::runtime {
namespace {

constexpr std::byte kFreshByte{0xa5}, kFreedByte{0xdb};

class PretendEvent : public Event {
 public:
  bool done() const override {
    MutexLock lock(mutex_);
    return status_.has_value();
  }
  Status Wait() const override {
    MutexLock lock(mutex_);
    while (!status_) mutex_.Wait(changed_);
    return *status_;
  }
  void Set(Status status) {
    MutexLock lock(mutex_);
    status_ = std::move(status);
    changed_.notify_all();
  }

 private:
  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Status> status_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace

Status PretendCore::CheckAddress(std::string_view what, const std::byte* address,
                                 int64_t bytes) const {
  if (bytes == 0) return {};
  if (!memory->Contains(address)) {
    return InvalidArgument(what, ": not memory of ", name, ": ", StrCat(bytes), " bytes");
  }
  int64_t there = ledger.BytesAt(address);
  if (there < bytes) {
    return InvalidArgument(what, ": ", bytes, " bytes, the allocation has ",
                           std::max<int64_t>(there, 0), " from there on");
  }
  return {};
}

Result<Allocation> PretendCore::Allocate(PretendStream& stream, int64_t bytes, MemorySpace space,
                                         std::string_view label) {
  if (bytes < 0) return InvalidArgument("allocate: ", bytes, " bytes");
  ++counts.allocations;
  if (space != MemorySpace::kDevice) {
    int64_t size = (bytes + kDeviceAlignment) / kDeviceAlignment * kDeviceAlignment;
    auto* address = static_cast<std::byte*>(
        std::aligned_alloc(static_cast<size_t>(kDeviceAlignment), static_cast<size_t>(size)));
    if (address == nullptr) return std::unexpected(host_ledger.Exhausted(bytes));
    TRY(host_ledger.Take(bytes));
    host_ledger.Add(address, bytes, label);
    return Allocation(address, bytes, space, stream.shared_from_this());
  }
  TRY(ledger.Take(bytes));
  std::byte* address = memory->Take(bytes, &stream);
  if (address == nullptr) {
    // What other streams have freed is on its way.
    metrics::Add(metrics::kDeviceSyncs);
    memory->WaitSettled();
    address = memory->Take(bytes, &stream);
  }
  if (address == nullptr) {
    ledger.Untake(bytes);
    DeviceMemory::Holes holes = memory->holes();
    return std::unexpected(ledger.Exhausted(
        bytes, StrCat("no block is as large: ", HumanBytes(holes.bytes), " are free in ",
                      holes.count, " holes, the largest has ", HumanBytes(holes.largest))));
  }
  ledger.Add(address, bytes, label);
  if (options.runs) {
    std::byte* own = memory->OnDevice(address);
    stream.Enqueue([own, bytes]() -> Status {
      std::memset(own, static_cast<int>(kFreshByte), static_cast<size_t>(bytes));
      return {};
    });
  }
  return Allocation(address, bytes, space, stream.shared_from_this());
}

PretendStream::PretendStream(StreamKind kind, std::shared_ptr<PretendCore> core)
    : kind_(kind), core_(std::move(core)), queue_(std::make_shared<Queue>()) {
  uint64_t seed = core_->options.seed * 0x9e3779b97f4a7c15ull + ++core_->streams;
  thread_ = std::thread([queue = queue_, core = core_, seed, kind] {
    trace::NameThread(StrCat(core->name, " ", NameOf(kind)));
    RunQueue(queue, core, seed);
  });
}

// What was enqueued still runs.
PretendStream::~PretendStream() {
  {
    MutexLock lock(queue_->mutex);
    queue_->stop = true;
    queue_->changed.notify_all();
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void PretendStream::RunQueue(std::shared_ptr<Queue> queue, std::shared_ptr<PretendCore> core,
                             uint64_t seed) {
  Status status;
  while (true) {
    std::function<void(Status&)> work;
    {
      MutexLock lock(queue->mutex);
      while (queue->work.empty() && !queue->stop) queue->mutex.Wait(queue->changed);
      if (queue->work.empty()) return;
      work = std::move(queue->work.front());
      queue->work.pop_front();
    }
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    // Most of the work starts at once.
    if (core->options.most_delay > 0 && (seed >> 61) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(
          (seed >> 32) % static_cast<uint64_t>(core->options.most_delay)));
    }
    work(status);
  }
}

void PretendStream::EnqueueAlways(std::function<void(Status&)> work) {
  MutexLock lock(queue_->mutex);
  queue_->work.push_back(std::move(work));
  queue_->changed.notify_all();
}

void PretendStream::Enqueue(std::function<Status()> work) {
  EnqueueAlways([work = std::move(work)](Status& status) {
    if (status) status = work();
  });
}

Status PretendStream::Copy(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) {
  TRY(CheckCopy(to, from, bytes));
  const DeviceMemory& memory = *core_->memory;
  auto own = [&](const std::byte* address, bool device) -> Result<std::byte*> {
    if (device) {
      TRY(core_->CheckAddress("copy", address, bytes));
      return memory.OnDevice(address);
    }
    if (memory.Contains(address)) {
      return InvalidArgument("copy: memory of ", core_->name, " where the host's is due");
    }
    return const_cast<std::byte*>(address);
  };
  std::byte* target = TRY(own(to, kind != CopyKind::kToHost));
  const std::byte* source = TRY(own(from, kind != CopyKind::kToDevice));
  ++core_->counts.copies;
  core_->counts.copied_bytes += bytes;
  if (!core_->options.runs || bytes == 0) return {};
  Enqueue([target, source, bytes, kind]() -> Status {
    trace::Span span(trace::IsOn() ? TracedCopy(kind) : nullptr);
    span.Bytes(bytes);
    std::memmove(target, source, static_cast<size_t>(bytes));
    return {};
  });
  return {};
}

Status PretendStream::Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) {
  TRY(CheckFill(to, bytes, pattern.size()));
  TRY(core_->CheckAddress("fill", to, bytes));
  ++core_->counts.fills;
  if (!core_->options.runs) return {};
  std::span<std::byte> own(core_->memory->OnDevice(to), static_cast<size_t>(bytes));
  Enqueue([own, p = std::vector(pattern.begin(), pattern.end())]() -> Status {
    FillBytes(own, p);
    return {};
  });
  return {};
}

Status PretendStream::Call(std::string name, std::function<Status()> fn) {
  ++core_->counts.calls;
  Enqueue([name = std::move(name), fn = std::move(fn)]() -> Status {
    Status status = fn();
    if (!status && !name.empty()) status.error().Prefix(StrCat(name, ": "));
    return status;
  });
  return {};
}

Result<EventPtr> PretendStream::Record() {
  auto event = std::make_shared<PretendEvent>();
  EnqueueAlways([event](Status& status) { event->Set(status); });
  return event;
}

Status PretendStream::WaitFor(EventPtr event) {
  if (event == nullptr) return InvalidArgument("wait: no event");
  EnqueueAlways([event = std::move(event)](Status& status) {
    Status other = event->Wait();
    if (status) status = std::move(other);
  });
  return {};
}

Status PretendStream::Synchronize() {
  metrics::Add(metrics::kDeviceSyncs);
  return TRY(Record())->Wait();
}

Status PretendStream::ForgetError() {
  EnqueueAlways([](Status& status) { status = {}; });
  return {};
}

void PretendStream::Free(std::byte* address, MemorySpace space) {
  PretendCore& core = *core_;
  if (space != MemorySpace::kDevice) {
    core.host_ledger.Remove(address);
    EnqueueAlways([address](Status&) { std::free(address); });
    return;
  }
  core.ledger.Remove(address);
  // One place in the order: who takes the block again enqueues behind this.
  MutexLock lock(queue_->mutex);
  DeviceMemory::Freed freed = core.memory->Release(address, this);
  // The core, not the stream: the stream may be gone by then.
  queue_->work.push_back([core = core_, freed](Status&) {
    if (core->options.runs) {
      std::memset(core->memory->OnDevice(freed.address), static_cast<int>(kFreedByte),
                  static_cast<size_t>(freed.bytes));
    }
    core->memory->Settle(freed);
  });
  queue_->changed.notify_all();
}

}  // namespace weft::runtime
