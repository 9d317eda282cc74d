// Devices whose memory is the host's and whose streams run in place: the CPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace weft::runtime {

class HostDevice : public Device {
 public:
  // `limit`: bytes that AllocateOn gives at most; 0: as many as there are.
  explicit HostDevice(std::string name = "cpu", int64_t limit = 0);

  Result<Allocation> AllocateOn(Stream& stream, int64_t bytes, MemorySpace space,
                                std::string_view label = {}) override;
  MemoryStats memory() const override { return ledger_->stats(); }
  Result<StreamPtr> NewStream(StreamKind kind) override;
  bool host_visible() const override { return true; }

 private:
  std::shared_ptr<MemoryLedger> ledger_;
};

}  // namespace weft::runtime
