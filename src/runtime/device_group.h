// The devices of one run of a Program for several, meeting at collectives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/device_threads.h"
#include "base/error.h"
#include "program/collective.h"
#include "program/program.h"

namespace weft::runtime {

// Whether the program has collectives that go on beside the steps behind them.
bool HasAsyncCollectives(const program::Program& program);

class DeviceGroup : private DeviceThreads {
 public:
  using Memory = std::span<const std::span<std::byte>>;  // one span for each use of a step

  explicit DeviceGroup(int64_t devices);
  ~DeviceGroup();

  // Runs fn(device) on all devices at once; the first error. To be called once. `kept`: whose
  // threads do it; null: new ones. `threads`: so many (what never blocks but here may share
  // them); 0: one each. `transfers`: one more runs asynchronous collectives; without it, and
  // without a simulated link, who waits for one runs it.
  Status RunAll(const std::function<Status(int64_t)>& fn, KeptThreads* kept = nullptr,
                int64_t threads = 0, bool transfers = false);
  // Collectives take the time that a link of so many bytes a second and direction would, one for
  // each device: nothing is computed, nobody's thread sleeps. 0: none. Before RunAll, which then
  // needs `transfers`.
  void SimulateLink(double bytes_per_second) { link_ = bytes_per_second; }

  // A CollectiveStep on one of the devices: waits for the others of its group, then writes what
  // this device gets. The inputs of all stay as they are until every one has read them.
  Status Collective(const program::Program& program, const program::Step& step, int64_t device,
                    Memory memory);
  // An asynchronous one: the device goes on at once, and `memory` is the collective's until the
  // wait for the step's event.
  Status Start(const program::Program& program, const program::Step& step, int64_t device,
               Memory memory);
  Status Wait(const std::string& event, int64_t device);
  // A run that ends without its waits: what is under way no longer touches the device's memory.
  void Abandon(int64_t device);
  // The routines device_send and device_recv (program/library.h).
  Status Send(const program::Step& step, int64_t device, std::span<const std::byte> data);
  Status Receive(const program::Step& step, int64_t device, std::span<std::byte> data);

 private:
  // What a device brings: its own memory, or copies of inputs that are small, so that nobody need
  // wait until others have read them.
  struct Brought {
    Memory memory;
    std::vector<std::span<std::byte>> spans;  // of `memory` where inputs are copies
    std::vector<std::byte> copies;
  };
  // The last to come has a look at what all bring: little is done by it alone while the others
  // wait, of much each does a share.
  struct Meeting {
    std::vector<program::CollectivePart> parts;  // by place in the group
    size_t arrived = 0, done = 0, left = 0;
    bool is_open = false;    // the last one has come, and done what little there is
    bool is_shared = false;  // each has a share to do
    Status status;
  };
  // Where devices meet again and again: by channel (or, without one, step) and by who takes part.
  struct Place {
    std::vector<int64_t> group;
    std::vector<int64_t> visits;   // how often each has been here, by place in the group
    std::deque<Meeting> meetings;  // those that are not over, from visit `first` on
    int64_t first = 0;
  };
  // What a device has for those that a permute's pairs send it to.
  struct Offer {
    Brought brought;
    size_t readers = 0;   // who have not read it
    size_t reading = 0;   // who do so now
    bool there = false;   // and not withdrawn
    bool copied = false;  // nobody reads the device's own memory
  };
  using Key = std::vector<int64_t>;
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Transfer;  // device_group_async.cc
  struct Pending;

  static Where WhereOf(const program::Step& step) { return {&step.name, &step.source}; }
  static bool IsSmall(Memory memory);
  static void Bring(Memory memory, bool copy, Brought& brought);
  Status Permute(const program::Program& program, const program::Step& step, int64_t device,
                 Memory memory);
  // Of a permute: what the device has is there for its targets ...
  void MakeOffer(const Key& key, Memory memory, const std::vector<int64_t>& targets)
      WEFT_REQUIRES(mutex_);
  // ... a target has read it ...
  void HasRead(const Key& key, Offer& offer, int64_t source) WEFT_REQUIRES(mutex_);
  // ... and all have, or no more of them will: the device may let go of its memory.
  Status EndOffer(const Key& key, int64_t device, const program::Step& step, bool withdraw)
      WEFT_REQUIRES(mutex_);
  Status Meet(const program::Program& program, const program::Step& step, int64_t device,
              Memory memory);
  // ... its parts: the place; what the last one does; how one leaves.
  Place& PlaceFor(const program::Step& step, int64_t device) WEFT_REQUIRES(mutex_);
  void Open(Meeting& meeting, std::span<const int64_t> group, int64_t last) WEFT_REQUIRES(mutex_);
  void DoShare(Meeting& meeting, std::span<const int64_t> group, size_t at) WEFT_REQUIRES(mutex_);
  static void Leave(Place& place, Meeting& meeting);

  static Key PlaceOf(const program::CollectiveStep& op, const program::Step& step);
  void Arrive(const Key& key, size_t size, size_t place, int64_t device, Pending& pending)
      WEFT_REQUIRES(mutex_);
  TimePoint Occupy(const Transfer& transfer) WEFT_REQUIRES(mutex_);
  void Ripen(Transfer& transfer) WEFT_REQUIRES(mutex_);
  // Of a simulated link: what has arrived; when the next one of the rest will have.
  TimePoint RipenDue() WEFT_REQUIRES(mutex_);
  void RunPart(Transfer& transfer) WEFT_REQUIRES(mutex_);
  void Retire(const Transfer& transfer) WEFT_REQUIRES(mutex_);
  void RunTransfers() WEFT_EXCLUDES(mutex_);

  std::map<Key, Place> places_ WEFT_GUARDED_BY(mutex_);
  // The same by device and step, once it has been there.
  std::vector<std::unordered_map<const program::Step*, Place*>> known_ WEFT_GUARDED_BY(mutex_);
  // By channel or step, sender and how often it has been here.
  std::map<std::vector<int64_t>, Offer> offers_ WEFT_GUARDED_BY(mutex_);
  // By channel, sender and receiver, -1 where anybody may be.
  std::map<std::vector<int64_t>, std::deque<std::vector<std::byte>>> mail_ WEFT_GUARDED_BY(mutex_);

  // Asynchronous collectives: those for which not all have come, by place and visit; those that are
  // under way, in the order in which they began; by device, those it has not waited for, by event.
  std::map<Key, std::shared_ptr<Transfer>> gathering_ WEFT_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Transfer>> queue_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::map<std::string, std::unique_ptr<Pending>>> pending_ WEFT_GUARDED_BY(mutex_);
  std::condition_variable queue_changed_;
  int64_t finished_ WEFT_GUARDED_BY(mutex_) = 0;  // devices
  double link_ = 0;                               // bytes a second
  // When the link of each device is free again, by direction.
  std::vector<TimePoint> sends_until_ WEFT_GUARDED_BY(mutex_);
  std::vector<TimePoint> receives_until_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::runtime
