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

namespace {

// Copying so much costs less than another meeting, to say that inputs have been read.
constexpr size_t kSmall = 4096;  // bytes a device

}  // namespace

DeviceGroup::Key DeviceGroup::PlaceOf(const CollectiveStep& op, const Step& step) {
  return {op.channel, op.channel != 0 ? 0 : reinterpret_cast<intptr_t>(&step)};
}

bool DeviceGroup::IsSmall(Memory memory) {
  size_t bytes = 0;
  for (std::span<std::byte> use : memory.first(memory.size() / 2)) bytes += use.size();
  return bytes <= kSmall;
}

void DeviceGroup::Bring(Memory memory, bool copy, Brought& brought) {
  brought.memory = memory;
  if (!copy) return;
  const size_t operands = memory.size() / 2;
  size_t bytes = 0, at = 0;
  for (std::span<std::byte> use : memory.first(operands)) bytes += use.size();
  brought.copies.resize(bytes);
  brought.spans.assign(memory.begin(), memory.end());
  for (std::span<std::byte>& use : std::span(brought.spans).first(operands)) {
    std::span<std::byte> to = std::span(brought.copies).subspan(at, use.size());
    std::copy(use.begin(), use.end(), to.begin());
    use = to;
    at += to.size();
  }
  brought.memory = brought.spans;
}

Status DeviceGroup::Collective(const program::Program& program, const Step& step, int64_t device,
                               Memory memory) {
  const auto& op = std::get<CollectiveStep>(step.op);
  if (link_ > 0) {
    TRY(Start(program, step, device, memory));
    return Wait(step.event, device);
  }
  if (op.kind == CollectiveKind::kPermute) return Permute(program, step, device, memory);
  return Meet(program, step, device, memory);
}

DeviceGroup::Place& DeviceGroup::PlaceFor(const Step& step, int64_t device) {
  Place*& known = known_[static_cast<size_t>(device)][&step];
  if (known != nullptr) return *known;
  const auto& op = std::get<CollectiveStep>(step.op);
  std::vector<int64_t> group = program::GroupOf(op, device, devices());
  Key key = PlaceOf(op, step);
  key.insert(key.end(), group.begin(), group.end());
  auto [found, is_new] = places_.try_emplace(std::move(key));
  known = &found->second;
  if (is_new) {
    known->visits.resize(group.size());
    known->group = std::move(group);
  }
  return *known;
}

void DeviceGroup::Open(Meeting& meeting, std::span<const int64_t> group, int64_t last) {
  mutex_.Unlock();  // the others wait
  std::vector<Memory> all;
  for (const program::CollectivePart& part : meeting.parts) all.push_back(part.memory);
  const program::CollectivePart& first = meeting.parts[0];
  const program::CollectiveWork work(*first.program, *first.step, group, group[0]);
  Status sizes = work.CheckSameSizes(all);
  const bool is_small = IsSmall(first.memory);
  if (sizes && is_small) program::CollectiveWork::RunForAll(meeting.parts, group);
  mutex_.Lock();
  meeting.is_shared = sizes && !is_small;
  meeting.status = std::move(sizes);
  meeting.is_open = true;
  for (int64_t other : group) {
    if (other == last) continue;
    Wake(other);
    if (error()) Nudge(other);  // where it waits regardless
  }
}

// Others read this device's memory until all are done, whatever happens elsewhere.
void DeviceGroup::DoShare(Meeting& meeting, std::span<const int64_t> group, size_t at) {
  mutex_.Unlock();
  std::vector<Memory> all;
  for (const program::CollectivePart& part : meeting.parts) all.push_back(part.memory);
  const program::CollectivePart& mine = meeting.parts[at];
  program::CollectiveWork work(*mine.program, *mine.step, group, group[at]);
  work.Run(all);
  mutex_.Lock();
  if (++meeting.done == group.size()) {
    for (int64_t other : group) Nudge(other);
  }
  WaitRegardless(group[at], [&] { return meeting.done == group.size(); });
  mutex_.Unlock();
  work.Finish(mine.memory);
  mutex_.Lock();
}

void DeviceGroup::Leave(Place& place, Meeting& meeting) {
  ++meeting.left;
  while (!place.meetings.empty() && place.meetings.front().left == place.group.size()) {
    place.meetings.pop_front();
    ++place.first;
  }
}

Status DeviceGroup::Meet(const program::Program& program, const Step& step, int64_t device,
                         Memory memory) {
  MutexLock lock(mutex_);
  if (error()) return std::unexpected(*error());  // those who came before may be gone
  Place& place = PlaceFor(step, device);
  const std::vector<int64_t>& group = place.group;
  const auto at = static_cast<size_t>(std::ranges::find(group, device) - group.begin());
  if (at == group.size()) {  // no group has it
    program::CollectiveWork(program, step, group, device).FillZeroes(memory);
    return {};
  }
  const auto visit = static_cast<size_t>(place.visits[at]++ - place.first);
  if (visit == place.meetings.size()) place.meetings.emplace_back().parts.resize(group.size());
  Meeting& meeting = place.meetings[visit];
  meeting.parts[at] = {&program, &step, memory};
  if (++meeting.arrived == group.size()) {
    Open(meeting, group, device);
  } else {
    Status came = WaitUntil(device, WhereOf(step), [&] { return meeting.is_open; });
    if (!came && meeting.arrived < group.size()) return came;
    WaitRegardless(device, [&] { return meeting.is_open; });
  }
  if (meeting.is_shared) DoShare(meeting, group, at);
  Status status = meeting.status;
  Leave(place, meeting);
  return status;
}

void DeviceGroup::MakeOffer(const Key& key, Memory memory, const std::vector<int64_t>& targets) {
  Offer& offer = offers_[key];
  offer.copied = IsSmall(memory);
  Bring(memory, offer.copied, offer.brought);
  offer.readers = targets.size();
  offer.there = true;
  for (int64_t target : targets) Wake(target);
}

void DeviceGroup::HasRead(const Key& key, Offer& offer, int64_t source) {
  --offer.reading;
  --offer.readers;
  if (!offer.copied) {
    Wake(source);
    Nudge(source);  // where it waits regardless
  } else if (offer.readers == 0) {
    offers_.erase(key);
  }
}

// A target that fails never comes: the offer is withdrawn then, and only who reads it already is
// waited for.
Status DeviceGroup::EndOffer(const Key& key, int64_t device, const Step& step, bool withdraw) {
  auto found = offers_.find(key);
  if (found == offers_.end() || found->second.copied) return {};
  Offer& offer = found->second;
  Status read;
  if (!withdraw) read = WaitUntil(device, WhereOf(step), [&] { return offer.readers == 0; });
  offer.there = false;
  WaitRegardless(device, [&] { return offer.reading == 0; });
  if (offer.readers == 0) offers_.erase(found);  // else some hold on to it, to see it is withdrawn
  return read;
}

// Each meets those it sends to and the one that sends to it, and nobody else.
Status DeviceGroup::Permute(const program::Program& program, const Step& step, int64_t device,
                            Memory memory) {
  const auto& op = std::get<CollectiveStep>(step.op);
  std::optional<int64_t> source;
  std::vector<int64_t> targets;
  for (const std::vector<int64_t>& pair : op.groups) {
    if (pair[0] == device) targets.push_back(pair[1]);
    if (pair[1] == device) source = pair[0];
  }
  const int64_t ends[] = {source.value_or(device), device};
  program::CollectiveWork work(program, step, ends, device);
  auto key_of = [&](int64_t sender, int64_t visit) {
    Key key = PlaceOf(op, step);
    key.insert(key.end(), {sender, visit});
    return key;
  };
  Offer* from = nullptr;
  Key mine, theirs;
  {
    MutexLock lock(mutex_);
    if (error()) return std::unexpected(*error());
    // Those without a part count it too: other permutes of the channel may have other pairs.
    const int64_t visit = CountVisit(device, key_of(-1, 0));
    mine = key_of(device, visit);
    if (!targets.empty()) MakeOffer(mine, memory, targets);
    if (source) {
      theirs = key_of(*source, visit);
      from = &offers_[theirs];
      Status came = WaitUntil(device, WhereOf(step), [&] { return from->there; });
      if (!came) {
        TRY(EndOffer(mine, device, step, true));
        return came;
      }
      ++from->reading;
    }
  }
  if (!source && targets.empty()) {
    work.FillZeroes(memory);
    return {};
  }
  Status done;
  if (source) {
    const Memory both[] = {from->brought.memory, memory};
    done = work.CheckSameSizes(both);
    if (done) work.Receive(from->brought.memory, memory);
  }
  {
    MutexLock lock(mutex_);
    if (source) HasRead(theirs, *from, *source);
    Status read = EndOffer(mine, device, step, false);
    if (done) done = read;
  }
  TRY(done);
  if (!source) work.FillZeroes(memory);  // what was sent may have lain there
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
  TRY(WaitUntil(device, WhereOf(step), [&] { return !box.empty(); }));
  std::vector<std::byte> message = std::move(box.front());
  box.pop_front();
  if (message.size() != data.size()) {
    return InvalidArgument("receives ", message.size(), " bytes, expected ", data.size());
  }
  std::copy(message.begin(), message.end(), data.begin());
  return {};
}

}  // namespace weft::runtime
