#include "runtime/host_device.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/binding.h"

namespace weft::runtime {
namespace {

class HostEvent : public Event {
 public:
  explicit HostEvent(Status status) : status_(std::move(status)) {}
  bool done() const override { return true; }
  Status Wait() const override { return status_; }

 private:
  const Status status_;
};

// Everything has happened when the call returns.
class HostStream : public Stream {
 public:
  HostStream(StreamKind kind, std::shared_ptr<MemoryLedger> ledger)
      : kind_(kind), ledger_(std::move(ledger)) {}

  StreamKind kind() const override { return kind_; }
  Status Copy(CopyKind, std::byte* to, const std::byte* from, int64_t bytes) override {
    TRY(CheckCopy(to, from, bytes));
    MutexLock lock(mutex_);
    if (status_ && bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
    return {};
  }
  Status Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) override {
    TRY(CheckFill(to, bytes, pattern.size()));
    MutexLock lock(mutex_);
    if (status_) FillBytes({to, static_cast<size_t>(bytes)}, pattern);
    return {};
  }
  Status Call(std::string name, std::function<Status()> fn) override {
    MutexLock lock(mutex_);
    if (!status_) return {};
    status_ = fn();
    if (!status_ && !name.empty()) status_.error().Prefix(StrCat(name, ": "));
    return {};
  }
  Result<EventPtr> Record() override {
    MutexLock lock(mutex_);
    return std::make_shared<HostEvent>(status_);
  }
  Status WaitFor(EventPtr event) override {
    Status status = event->Wait();
    MutexLock lock(mutex_);
    if (status_) status_ = std::move(status);
    return {};
  }
  Status Synchronize() override {
    MutexLock lock(mutex_);
    return status_;
  }
  Status ForgetError() override {
    MutexLock lock(mutex_);
    status_ = {};
    return {};
  }

 protected:
  void Free(std::byte* address, MemorySpace) override {
    MutexLock lock(mutex_);
    ledger_->Remove(address);
    std::free(address);
  }

 private:
  const StreamKind kind_;
  const std::shared_ptr<MemoryLedger> ledger_;
  Mutex mutex_;  // held while work runs: callers from several threads take turns
  Status status_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace

// What follows here is for host memory, where a stream's functions may run the program at once.
Result<EventPtr> Device::RecordOn(void*) {
  return Unimplemented(target().name, ": streams of other libraries");
}

Status LoadedProgram::Enqueue(const Call& call, Stream& stream) const {
  TRY(CheckCall(program(), call));
  std::vector<std::byte*> parameters(call.parameters.begin(), call.parameters.end());
  std::vector<std::byte*> results(call.results.begin(), call.results.end());
  return stream.Call({}, [this, own = call, parameters = std::move(parameters),
                          results = std::move(results)]() mutable {
    own.parameters = parameters;
    own.results = results;
    return Run(own);
  });
}

HostDevice::HostDevice(std::string name, int64_t limit)
    : ledger_(std::make_shared<MemoryLedger>(std::move(name), limit)) {}

Result<Allocation> HostDevice::AllocateOn(Stream& stream, int64_t bytes, MemorySpace space,
                                          std::string_view label) {
  if (bytes < 0) return InvalidArgument("allocate: ", bytes, " bytes");
  TRY(ledger_->Take(bytes));
  constexpr int64_t kMost = INT64_MAX - kDeviceAlignment;
  int64_t size = bytes > kMost ? kMost : bytes + (bytes == 0);
  size = (size + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  auto* address = static_cast<std::byte*>(
      std::aligned_alloc(static_cast<size_t>(kDeviceAlignment), static_cast<size_t>(size)));
  if (address == nullptr) {
    ledger_->Untake(bytes);
    return std::unexpected(ledger_->Exhausted(bytes, "the machine has no more"));
  }
  ledger_->Add(address, bytes, label);
  return Allocation(address, bytes, space, stream.shared_from_this());
}

Result<StreamPtr> HostDevice::NewStream(StreamKind kind) {
  return std::make_shared<HostStream>(kind, ledger_);
}

}  // namespace weft::runtime
