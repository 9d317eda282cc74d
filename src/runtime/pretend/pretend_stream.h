// Streams of the pretend device, and what they share.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "runtime/pretend/device_memory.h"
#include "runtime/pretend/pretend_device.h"

namespace weft::runtime {

// The device, as long as anything of it is in use.
class PretendCore {
 public:
  PretendCore(PretendOptions options, std::string name, std::unique_ptr<DeviceMemory> memory)
      : options(std::move(options)),
        name(std::move(name)),
        memory(std::move(memory)),
        ledger(this->name, this->options.memory_bytes),
        host_ledger(this->name + " (pinned)", 0) {}

  // Bytes of device memory in use that a copy, fill or program may touch.
  Status CheckAddress(std::string_view what, const std::byte* address, int64_t bytes) const;
  Result<Allocation> Allocate(class PretendStream& stream, int64_t bytes, MemorySpace space,
                              std::string_view label);

  const PretendOptions options;
  const std::string name;
  const std::unique_ptr<DeviceMemory> memory;
  MemoryLedger ledger, host_ledger;
  PretendCounts counts;
  std::atomic<uint64_t> streams = 0;
};

class PretendStream : public Stream {
 public:
  PretendStream(StreamKind kind, std::shared_ptr<PretendCore> core);
  ~PretendStream() override;

  StreamKind kind() const override { return kind_; }
  Status Copy(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) override;
  Status Call(std::string name, std::function<Status()> fn) override;
  Result<EventPtr> Record() override;
  Status WaitFor(EventPtr event) override;
  Status Synchronize() override;
  Status ForgetError() override;

  const std::shared_ptr<PretendCore>& core() const { return core_; }
  // Runs behind what came before; without errors so far, or whatever they are.
  void Enqueue(std::function<Status()> work);
  void EnqueueAlways(std::function<void(Status& status)> work);

 protected:
  void Free(std::byte* address, MemorySpace space) override;

 private:
  // What the thread has, which may outlive the stream.
  struct Queue {
    Mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void(Status&)>> work WEFT_GUARDED_BY(mutex);
    bool stop WEFT_GUARDED_BY(mutex) = false;
  };
  static void RunQueue(std::shared_ptr<Queue> queue, std::shared_ptr<PretendCore> core,
                       uint64_t seed);

  const StreamKind kind_;
  const std::shared_ptr<PretendCore> core_;
  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace weft::runtime
