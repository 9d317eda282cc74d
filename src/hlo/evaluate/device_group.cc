#include "hlo/evaluate/device_group.h"

#include <algorithm>
#include <thread>

namespace weft::hlo {

DeviceGroup::DeviceGroup(int64_t devices)
    : devices_(devices), state_(static_cast<size_t>(devices)), running_(devices) {}

Result<std::vector<Literal>> DeviceGroup::RunAll(
    const std::function<Result<Literal>(int64_t)>& fn) {
  std::vector<Literal> results(static_cast<size_t>(devices_));
  std::vector<std::thread> threads;
  for (int64_t d = 0; d < devices_; ++d) {
    threads.emplace_back([&, d] {
      Result<Literal> result = fn(d);
      if (result) results[static_cast<size_t>(d)] = std::move(*result);
      Finish(d, result ? nullptr : &result.error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mutex_);
  if (error_) return std::unexpected(*error_);
  return results;
}

void DeviceGroup::Fail(Error error) {
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

void DeviceGroup::Finish(int64_t device, const Error* error) {
  MutexLock lock(mutex_);
  state_[device].finished = true;
  --running_;
  if (error != nullptr) {
    Error named = *error;
    if (devices_ > 1 && !error_) named.Note(StrCat("on device ", device));
    Fail(std::move(named));
  }
  CheckDeadlock();
}

void DeviceGroup::CheckDeadlock() {
  if (running_ > 0 || error_) return;
  std::string message = "deadlock:";
  bool any = false;
  for (int64_t d = 0; d < devices_; ++d) {
    const Device& device = state_[d];
    if (device.waits_at == nullptr) continue;
    StrAppend(message, any ? ", " : " ", "device ", d, " waits at ", device.waits_at->name());
    any = true;
  }
  if (!any) return;
  int64_t finished =
      std::count_if(state_.begin(), state_.end(), [](const Device& d) { return d.finished; });
  if (finished > 0) StrAppend(message, ", ", finished, " finished");
  Fail(Error(Code::kFailedPrecondition, std::move(message)));
}

void DeviceGroup::Wake(int64_t device) {
  if (state_[device].waits_at == nullptr) return;
  state_[device].waits_at = nullptr;
  ++running_;
  changed_.notify_all();
}

Status DeviceGroup::WaitUntil(int64_t device, const Instruction& instruction,
                              const std::function<bool()>& ready) {
  while (!ready() && !error_) {
    if (state_[device].waits_at == nullptr) {
      state_[device].waits_at = &instruction;
      --running_;
      CheckDeadlock();
      continue;
    }
    mutex_.Wait(changed_);
  }
  Wake(device);
  if (error_) return std::unexpected(*error_);
  return {};
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
  key.push_back(state_[device].visits[key]++);
  Meeting& meeting = meetings_[key];
  if (meeting.values == nullptr) {
    meeting.values = std::make_shared<std::vector<Literal>>(participants.size());
  }
  (*meeting.values)[me - participants.begin()] = std::move(value);
  if (++meeting.arrived == static_cast<int64_t>(participants.size())) {
    meeting.complete = true;
    for (int64_t other : participants) Wake(other);
  }
  TRY(WaitUntil(device, instruction, [&] { return meeting.complete; }));
  Values values = meeting.values;
  if (++meeting.left == meeting.arrived) meetings_.erase(key);
  return values;
}

void DeviceGroup::Send(int64_t channel, int64_t from, int64_t to, Literal value) {
  MutexLock lock(mutex_);
  mail_[{channel, from, to}].push_back(std::move(value));
  for (int64_t d = 0; d < devices_; ++d) {
    if (to == -1 || to == d) Wake(d);  // those that wait for something else wait again
  }
}

Result<Literal> DeviceGroup::Receive(const Instruction& instruction, int64_t channel, int64_t from,
                                     int64_t to) {
  MutexLock lock(mutex_);
  int64_t device = to;
  std::deque<Literal>& box = from < 0 ? mail_[{channel, -1, -1}] : mail_[{channel, from, to}];
  TRY(WaitUntil(device, instruction, [&] { return !box.empty(); }));
  Literal value = std::move(box.front());
  box.pop_front();
  return value;
}

uint32_t DeviceGroup::AddPending(int64_t device, Pending pending) {
  MutexLock lock(mutex_);
  Device& state = state_[device];
  uint32_t number = state.next_pending++;
  state.pending[number] = pending;
  return number;
}

std::optional<DeviceGroup::Pending> DeviceGroup::TakePending(int64_t device, uint32_t number) {
  MutexLock lock(mutex_);
  auto node = state_[device].pending.extract(number);
  if (node.empty()) return std::nullopt;
  return node.mapped();
}

}  // namespace weft::hlo
