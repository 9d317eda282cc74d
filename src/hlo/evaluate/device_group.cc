#include "hlo/evaluate/device_group.h"

#include <algorithm>

#include "hlo/evaluate/collectives.h"

namespace weft::hlo {

DeviceGroup::DeviceGroup(int64_t devices)
    : DeviceThreads(devices), receives_(static_cast<size_t>(devices)) {}

Result<std::vector<Literal>> DeviceGroup::RunAll(const std::function<Result<Literal>(int64_t)>& fn,
                                                 int64_t threads) {
  std::vector<Literal> results(static_cast<size_t>(devices()));
  auto run = [&](int64_t device) -> Status {
    results[static_cast<size_t>(device)] = TRY(fn(device));
    return {};
  };
  TRY(RunThreads(run, nullptr, threads));
  return results;
}

Result<DeviceGroup::Values> DeviceGroup::Exchange(const Instruction& instruction,
                                                  std::optional<int64_t> channel,
                                                  std::span<const int64_t> participants,
                                                  int64_t device, Literal value) {
  auto me = std::find(participants.begin(), participants.end(), device);
  CHECK(me != participants.end()) << instruction.name();
  MutexLock lock(mutex_);
  std::vector<int64_t> key = {channel ? 0 : 1, channel ? *channel : instruction.id()};
  key.insert(key.end(), participants.begin(), participants.end());
  key.push_back(CountVisit(device, key));
  Meeting& meeting = meetings_[key];
  if (meeting.values == nullptr) {
    meeting.values = std::make_shared<std::vector<Literal>>(participants.size());
  }
  (*meeting.values)[me - participants.begin()] = std::move(value);
  if (++meeting.arrived == static_cast<int64_t>(participants.size())) {
    meeting.complete = true;
    for (int64_t other : participants) Wake(other);
  }
  TRY(WaitUntil(device, {&instruction.name()}, [&] { return meeting.complete; }));
  Values values = meeting.values;
  if (++meeting.left == meeting.arrived) meetings_.erase(key);
  return values;
}

int64_t DeviceGroup::MailboxOf(const Instruction& end) {
  MutexLock lock(mutex_);
  if (!message_channels_) message_channels_ = MessageChannels(*end.parent()->module());
  return hlo::MailboxOf(end, *message_channels_);
}

void DeviceGroup::Send(int64_t mailbox, int64_t from, int64_t to, Literal value) {
  MutexLock lock(mutex_);
  mail_[{mailbox, from, to}].push_back(std::move(value));
  for (int64_t d = 0; d < devices(); ++d) {
    if (to == -1 || to == d) Wake(d);  // those that wait for something else wait again
  }
}

Result<Literal> DeviceGroup::Receive(const Instruction& instruction, int64_t mailbox, int64_t from,
                                     int64_t to) {
  MutexLock lock(mutex_);
  int64_t device = to;
  std::deque<Literal>& box = from < 0 ? mail_[{mailbox, -1, -1}] : mail_[{mailbox, from, to}];
  TRY(WaitUntil(device, {&instruction.name()}, [&] { return !box.empty(); }));
  Literal value = std::move(box.front());
  box.pop_front();
  return value;
}

uint32_t DeviceGroup::AddPending(int64_t device, Pending pending) {
  MutexLock lock(mutex_);
  Receives& receives = receives_[device];
  uint32_t number = receives.next++;
  receives.pending[number] = pending;
  return number;
}

std::optional<DeviceGroup::Pending> DeviceGroup::TakePending(int64_t device, uint32_t number) {
  MutexLock lock(mutex_);
  auto node = receives_[device].pending.extract(number);
  if (node.empty()) return std::nullopt;
  return node.mapped();
}

}  // namespace weft::hlo
