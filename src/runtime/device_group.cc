#include "runtime/device_group.h"

#include <algorithm>
#include <optional>

#include "base/str.h"
#include "program/collective.h"
#include "program/library.h"

namespace weft::runtime {

using program::CollectiveKind;
using program::CollectiveStep;
using program::Step;

Status DeviceGroup::Collective(const program::Program& program, const Step& step, int64_t device,
                               Memory memory) {
  const auto& op = std::get<CollectiveStep>(step.op);
  std::vector<int64_t> group = program::GroupOf(op, device, devices());
  auto place = std::find(group.begin(), group.end(), device);
  program::CollectiveWork work(program, step, group, device);
  if (place == group.end()) {  // no pair of a permute names it
    work.FillZeroes(memory);
    return {};
  }
  std::vector<int64_t> key = {op.channel, op.channel != 0 ? 0 : reinterpret_cast<intptr_t>(&step)};
  key.insert(key.end(), group.begin(), group.end());
  Meeting* meeting = nullptr;
  {
    MutexLock lock(mutex_);
    if (error()) return std::unexpected(*error());  // those who came before may be gone
    key.push_back(CountVisit(device, key));
    meeting = &meetings_[key];
    meeting->memory.resize(group.size());
    Memory& mine = meeting->memory[static_cast<size_t>(place - group.begin())];
    mine = memory;
    if (++meeting->arrived == group.size()) {
      for (int64_t other : group) Wake(other);
    }
    TRY(WaitUntil(device, step.name, [&] { return meeting->arrived == group.size(); }));
  }
  TRY(work.CheckSameSizes(meeting->memory));
  work.Run(meeting->memory);
  {
    // Whatever happens elsewhere: the others read this device's memory until they are done.
    MutexLock lock(mutex_);
    if (++meeting->done == group.size()) changed_.notify_all();
    while (meeting->done < group.size()) mutex_.Wait(changed_);
    if (++meeting->left == group.size()) meetings_.erase(key);
  }
  work.Finish(memory);
  return {};
}

namespace {

// The other end of a message: -1 without pairs, nullopt when no pair names the device.
std::optional<int64_t> Partner(const program::LibraryStep& call, int64_t device, bool sends) {
  const std::vector<int64_t>* pairs = program::IntsAttr(call, "pairs");
  if (pairs == nullptr) return -1;
  for (size_t i = 0; i + 1 < pairs->size(); i += 2) {
    if ((*pairs)[i + (sends ? 0 : 1)] == device) return (*pairs)[i + (sends ? 1 : 0)];
  }
  return std::nullopt;
}

}  // namespace

Status DeviceGroup::Send(const Step& step, int64_t device, std::span<const std::byte> data) {
  const auto& call = std::get<program::LibraryStep>(step.op);
  std::optional<int64_t> to = Partner(call, device, true);
  if (!to) return {};
  MutexLock lock(mutex_);
  std::vector<int64_t> box = {program::IntAttr(call, "channel", 0), *to < 0 ? -1 : device, *to};
  mail_[box].emplace_back(data.begin(), data.end());
  for (int64_t d = 0; d < devices(); ++d) {
    if (*to < 0 || *to == d) Wake(d);  // those that wait for something else wait again
  }
  return {};
}

Status DeviceGroup::Receive(const Step& step, int64_t device, std::span<std::byte> data) {
  const auto& call = std::get<program::LibraryStep>(step.op);
  std::optional<int64_t> from = Partner(call, device, false);
  if (!from) {
    std::fill(data.begin(), data.end(), std::byte{0});
    return {};
  }
  MutexLock lock(mutex_);
  auto& box = mail_[{program::IntAttr(call, "channel", 0), *from, *from < 0 ? -1 : device}];
  TRY(WaitUntil(device, step.name, [&] { return !box.empty(); }));
  std::vector<std::byte> message = std::move(box.front());
  box.pop_front();
  if (message.size() != data.size()) {
    return InvalidArgument("receives ", message.size(), " bytes, expected ", data.size());
  }
  std::copy(message.begin(), message.end(), data.begin());
  return {};
}

}  // namespace weft::runtime
