// The simulated devices of one evaluation: one thread each, meeting at collectives.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/device_threads.h"
#include "base/error.h"
#include "base/literal.h"
#include "hlo/instruction.h"

namespace weft::hlo {

class DeviceGroup : private DeviceThreads {
 public:
  explicit DeviceGroup(int64_t devices);

  using DeviceThreads::devices;

  // Runs fn(device) on all devices at once; their results, or the first error. `threads`: so many
  // of them, on which devices take turns; 0: one each, for what blocks in other ways than here too.
  Result<std::vector<Literal>> RunAll(const std::function<Result<Literal>(int64_t)>& fn,
                                      int64_t threads = 0);

  // Gives `value` and waits until all participants have given theirs; all of them, in the order of
  // `participants`. Devices meet by channel (or, without one, instruction) and by how often they
  // have come here before.
  using Values = std::shared_ptr<const std::vector<Literal>>;
  Result<Values> Exchange(const Instruction& instruction, std::optional<int64_t> channel,
                          std::span<const int64_t> participants, int64_t device, Literal value);

  // The mailbox of a send or recv (collectives.h).
  int64_t MailboxOf(const Instruction& end);
  // Messages between two devices (or to whoever receives, with `to` -1) arrive in order.
  void Send(int64_t mailbox, int64_t from, int64_t to, Literal value);
  Result<Literal> Receive(const Instruction& instruction, int64_t mailbox, int64_t from,
                          int64_t to);

  // A pending receive of a device, by a number that fits the u32 of recv's result.
  struct Pending {
    int64_t mailbox = 0, from = -1, to = -1;
  };
  uint32_t AddPending(int64_t device, Pending pending);
  std::optional<Pending> TakePending(int64_t device, uint32_t number);

 private:
  struct Receives {
    std::map<uint32_t, Pending> pending;
    uint32_t next = 1;
  };
  struct Meeting {
    std::shared_ptr<std::vector<Literal>> values;
    int64_t arrived = 0;
    bool complete = false;
    int64_t left = 0;  // participants that have taken the values
  };

  std::vector<Receives> receives_ WEFT_GUARDED_BY(mutex_);  // by device
  std::map<std::vector<int64_t>, Meeting> meetings_ WEFT_GUARDED_BY(mutex_);
  std::optional<std::set<int64_t>> message_channels_ WEFT_GUARDED_BY(mutex_);
  std::map<std::vector<int64_t>, std::deque<Literal>> mail_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::hlo
