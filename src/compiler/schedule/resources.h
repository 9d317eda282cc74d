// What transfers occupy between their start and their done, by kind, through loops and branches.
// Verification counts with it; the scheduler does not.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "hlo/module.h"

namespace weft::compiler::schedule {

enum class Resource : uint8_t {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kBroadcast,
  kSendRecv,
  kCustom,  // custom calls that are marked as collectives
  kCopy,
  kCompute,  // other async computations
  kWire,     // all that goes between devices, together
};
inline constexpr size_t kResources = static_cast<size_t>(Resource::kWire) + 1;
std::string_view ResourceName(Resource resource);
std::optional<Resource> FindResource(std::string_view name);

// A custom call that its frontend attributes mark as a transfer: `is_collective="true"`.
bool IsMarkedCollective(const hlo::Instruction& i);
// What an op uses: of a start, what it wraps; of several collectives in one wrapper, which are one
// launch, the first. None: it is neither a collective nor the start of something.
std::optional<Resource> ResourceOf(const hlo::Instruction& i);

using ResourceCounts = std::array<int64_t, kResources>;
// The most that may be between start and done at once; -1: any number. None at all is a limit too.
struct ResourceLimits {
  ResourceCounts most = [] {
    ResourceCounts any;
    any.fill(-1);
    return any;
  }();
};

// Counts of scheduled computations, kept for each until it is scheduled again.
class ResourceUse {
 public:
  // The most in flight at any place of the list, what it runs included. What comes in as state and
  // is ended here is in flight from the beginning.
  const ResourceCounts& Peak(const hlo::Computation& computation);
  // What is in flight at each instruction of an order, what it runs included.
  using Visit = std::function<void(const hlo::Instruction&, const ResourceCounts&)>;
  void Walk(std::span<const hlo::Instruction* const> order, const Visit& visit);
  // Inside of control flow: branches exclude each other and calls follow each other, so that it is
  // the most of any of them.
  ResourceCounts Inside(const hlo::Instruction& i);
  // Of what is in flight where `i` stands, what `i` takes along as its operands: its own
  // computations count that.
  static ResourceCounts CarriedInto(const hlo::Instruction& i);
  void Forget(const hlo::Computation& computation) { peaks_.erase(&computation); }

 private:
  std::unordered_map<const hlo::Computation*, ResourceCounts> peaks_;  // lookups only
};

}  // namespace weft::compiler::schedule
