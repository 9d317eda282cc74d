// Asynchronous collectives: a transfer begins when all that take part have come, on a thread of its
// own, while the devices compute. Who waits for one helps with it.
#include <algorithm>
#include <optional>
#include <utility>

#include "program/collective.h"
#include "runtime/device_group.h"

namespace weft::runtime {

using program::CollectiveKind;
using program::CollectiveStep;
using program::Step;
using SteadyClock = std::chrono::steady_clock;

// What a device has begun and not waited for.
struct DeviceGroup::Pending {
  const Step* step = nullptr;
  std::vector<int64_t> group;  // at which `work` looks
  std::vector<std::span<std::byte>> memory;
  std::optional<program::CollectiveWork> work;
  std::vector<std::shared_ptr<Transfer>> transfers;
  bool is_sent_nothing = false;  // gets zeroes
};

// What moves between those who meet. A group's has a part for each of its devices, that of a
// permute's pair (source, target) has one.
struct DeviceGroup::Transfer {
  std::vector<Pending*> members;
  std::vector<int64_t> devices;  // theirs
  bool is_pair = false;
  size_t arrived = 0;
  size_t parts = 0, claimed = 0, ended = 0;
  TimePoint due;         // of a simulated link
  bool is_ripe = false;  // due
  bool is_done = false;
  bool is_withdrawn = false;  // a device is gone
  Status status;

  bool HasPart() const { return is_ripe && !is_withdrawn && claimed < parts; }
};

bool HasAsyncCollectives(const program::Program& program) {
  bool has = false;
  program::ForEachStep(program.steps, [&](const Step& step) {
    has |= !step.event.empty() && std::holds_alternative<CollectiveStep>(step.op);
  });
  return has && program.devices > 1;
}

DeviceGroup::DeviceGroup(int64_t devices)
    : DeviceThreads(devices),
      known_(static_cast<size_t>(devices)),
      pending_(static_cast<size_t>(devices)),
      sends_until_(static_cast<size_t>(devices)),
      receives_until_(static_cast<size_t>(devices)) {}

DeviceGroup::~DeviceGroup() = default;

Status DeviceGroup::RunAll(const std::function<Status(int64_t)>& fn, KeptThreads* kept,
                           int64_t threads, bool transfers) {
  if (!transfers && link_ == 0) return RunThreads(fn, kept, threads);
  const std::function<void()> beside = [this] { RunTransfers(); };
  return RunThreads(
      [&](int64_t device) {
        Status status = fn(device);
        Abandon(device);
        MutexLock lock(mutex_);
        ++finished_;
        queue_changed_.notify_all();
        return status;
      },
      kept, threads, &beside);
}

Status DeviceGroup::Start(const program::Program& program, const Step& step, int64_t device,
                          Memory memory) {
  const auto& op = std::get<CollectiveStep>(step.op);
  auto own = std::make_unique<Pending>();
  own->step = &step;
  own->memory.assign(memory.begin(), memory.end());
  std::vector<int64_t> targets;
  const bool is_permute = op.kind == CollectiveKind::kPermute;
  if (is_permute) {
    own->group = {device, device};
    own->is_sent_nothing = true;
    for (const std::vector<int64_t>& pair : op.groups) {
      if (pair[0] == device) targets.push_back(pair[1]);
      if (pair[1] != device) continue;
      own->group[0] = pair[0];
      own->is_sent_nothing = false;
    }
  } else {
    own->group = program::GroupOf(op, device, devices());
  }
  own->work.emplace(program, step, own->group, device);
  {
    MutexLock lock(mutex_);
    if (error()) return std::unexpected(*error());
    Key key = PlaceOf(op, step);
    if (!is_permute) key.insert(key.end(), own->group.begin(), own->group.end());
    key.push_back(CountVisit(device, key));
    if (is_permute) {
      auto between = [&](int64_t target) {
        Key pair = key;
        pair.push_back(target);
        return pair;
      };
      for (int64_t target : targets) Arrive(between(target), 2, 0, device, *own);
      if (!own->is_sent_nothing) Arrive(between(device), 2, 1, device, *own);
    } else {
      auto place = std::ranges::find(own->group, device) - own->group.begin();
      Arrive(key, own->group.size(), static_cast<size_t>(place), device, *own);
    }
    pending_[static_cast<size_t>(device)][step.event] = std::move(own);
  }
  // Those that share the thread come here before this one goes on: their transfers begin no later
  // than those of devices that compute side by side.
  Yield(device);
  return {};
}

void DeviceGroup::Arrive(const Key& key, size_t size, size_t place, int64_t device,
                         Pending& pending) {
  std::shared_ptr<Transfer>& at = gathering_[key];
  if (!at) {
    at = std::make_shared<Transfer>();
    at->members.resize(size);
    at->devices.resize(size);
    at->is_pair = std::get<CollectiveStep>(pending.step->op).kind == CollectiveKind::kPermute;
    at->parts = at->is_pair ? 1 : size;
  }
  at->members[place] = &pending;
  at->devices[place] = device;
  pending.transfers.push_back(at);
  if (++at->arrived < size) return;
  const std::shared_ptr<Transfer> transfer = std::move(at);
  gathering_.erase(key);
  if (transfer->is_withdrawn) return;
  BeginBeside();
  queue_.push_back(transfer);
  if (link_ > 0) {
    transfer->due = Occupy(*transfer);
  } else {
    Ripen(*transfer);
  }
  queue_changed_.notify_one();
}

// Of a ring: what a device sends, and receives, in all. The links of those who take part are
// occupied by one transfer after the other.
DeviceGroup::TimePoint DeviceGroup::Occupy(const Transfer& transfer) {
  const Pending& first = *transfer.members[0];
  double bytes = 0;
  for (size_t k = 0; k < first.memory.size() / 2; ++k) {
    const size_t given = first.memory[k].size(),
                 got = first.memory[first.memory.size() / 2 + k].size();
    bytes += static_cast<double>(std::max(given, got));
  }
  const auto n = static_cast<double>(transfer.members.size());
  const auto kind = std::get<CollectiveStep>(first.step->op).kind;
  if (!transfer.is_pair) bytes *= (kind == CollectiveKind::kAllReduce ? 2 : 1) * (n - 1) / n;
  TimePoint begin = SteadyClock::now();
  auto sends = [&](size_t place) { return !transfer.is_pair || place == 0; };
  auto receives = [&](size_t place) { return !transfer.is_pair || place == 1; };
  for (size_t k = 0; k < transfer.devices.size(); ++k) {
    const auto d = static_cast<size_t>(transfer.devices[k]);
    if (sends(k)) begin = std::max(begin, sends_until_[d]);
    if (receives(k)) begin = std::max(begin, receives_until_[d]);
  }
  const auto end = begin + std::chrono::duration_cast<SteadyClock::duration>(
                               std::chrono::duration<double>(bytes / link_));
  for (size_t k = 0; k < transfer.devices.size(); ++k) {
    const auto d = static_cast<size_t>(transfer.devices[k]);
    if (sends(k)) sends_until_[d] = end;
    if (receives(k)) receives_until_[d] = end;
  }
  return end;
}

void DeviceGroup::Ripen(Transfer& transfer) {
  transfer.is_ripe = true;
  for (int64_t device : transfer.devices) Wake(device);
}

// Whoever comes by looks at the clock: where all cores compute, the thread of the transfers gets
// one milliseconds after it should.
DeviceGroup::TimePoint DeviceGroup::RipenDue() {
  if (link_ == 0) return TimePoint::max();
  const TimePoint now = SteadyClock::now();
  TimePoint next = TimePoint::max();
  for (const std::shared_ptr<Transfer>& t : queue_) {
    if (!t->is_ripe && t->due <= now) Ripen(*t);
    if (!t->is_ripe) next = std::min(next, t->due);
  }
  return next;
}

void DeviceGroup::RunPart(Transfer& transfer) {
  const size_t part = transfer.claimed++;
  mutex_.Unlock();
  std::vector<Memory> all;
  for (const Pending* member : transfer.members) all.emplace_back(member->memory);
  Pending& mine = *transfer.members[transfer.is_pair ? 1 : part];
  const Status status = mine.work->CheckSameSizes(all);
  if (status && transfer.is_pair) {
    mine.work->Receive(all[0], all[1]);
  } else if (status) {
    mine.work->Run(all);
  }
  mutex_.Lock();
  if (!status) transfer.status = status;
  ++transfer.ended;
  transfer.is_done = transfer.ended == transfer.parts;
  if (transfer.is_done) Retire(transfer);
  if (!transfer.is_done && !transfer.is_withdrawn) return;
  for (int64_t device : transfer.devices) {
    Wake(device);
    Nudge(device);  // where it waits regardless
  }
}

void DeviceGroup::Retire(const Transfer& transfer) {
  auto found = std::ranges::find_if(queue_, [&](const auto& t) { return t.get() == &transfer; });
  if (found == queue_.end()) return;
  // Those who wait run again before anybody can take this for a deadlock.
  for (int64_t device : transfer.devices) Wake(device);
  queue_.erase(found);
  EndBeside();
}

Status DeviceGroup::Wait(const std::string& event, int64_t device) {
  std::unique_ptr<Pending> own;
  Status status;
  {
    MutexLock lock(mutex_);
    auto& mine = pending_[static_cast<size_t>(device)];
    auto found = mine.find(event);
    if (found == mine.end()) return {};  // its step ran in place
    for (const std::shared_ptr<Transfer>& t : found->second->transfers) {
      while (!t->is_done) {
        RipenDue();
        TRY(WaitUntil(device, WhereOf(*found->second->step),
                      [&] { return t->is_done || t->HasPart(); }));
        if (!t->is_done) RunPart(*t);
      }
      if (status) status = t->status;
    }
    own = std::move(found->second);
    mine.erase(found);
  }
  TRY(status);
  if (own->is_sent_nothing) own->work->FillZeroes(own->memory);
  own->work->Finish(own->memory);
  return {};
}

void DeviceGroup::Abandon(int64_t device) {
  MutexLock lock(mutex_);
  auto& mine = pending_[static_cast<size_t>(device)];
  for (const auto& [event, own] : mine) {
    for (const std::shared_ptr<Transfer>& t : own->transfers) {
      if (t->is_done) continue;
      t->is_withdrawn = true;
      WaitRegardless(device, [&] { return t->ended == t->claimed; });
      Retire(*t);
    }
  }
  mine.clear();
}

void DeviceGroup::RunTransfers() {
  MutexLock lock(mutex_);
  while (finished_ < devices()) {
    const TimePoint until = RipenDue();
    auto next = std::ranges::find_if(queue_, [](const auto& t) { return t->HasPart(); });
    if (next != queue_.end()) {
      const std::shared_ptr<Transfer> mine = *next;
      RunPart(*mine);
    } else if (until == TimePoint::max()) {
      mutex_.Wait(queue_changed_);
    } else {
      mutex_.WaitUntil(queue_changed_, until);
    }
  }
}

}  // namespace weft::runtime
