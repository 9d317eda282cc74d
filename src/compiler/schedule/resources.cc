#include "compiler/schedule/resources.h"

#include <algorithm>
#include <vector>

#include "compiler/schedule/costs.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr std::string_view kResourceNames[] = {
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute",
    "broadcast",  "send-recv",  "custom",         "copy",       "compute",
    "wire"};
static_assert(std::size(kResourceNames) == kResources);

Resource CollectiveResource(Op op) {
  switch (op) {
    case Op::kAllGather:
    case Op::kAllGatherStart: return Resource::kAllGather;
    case Op::kReduceScatter: return Resource::kReduceScatter;
    case Op::kAllToAll:
    case Op::kRaggedAllToAll: return Resource::kAllToAll;
    case Op::kCollectivePermute:
    case Op::kCollectivePermuteStart: return Resource::kPermute;
    case Op::kCollectiveBroadcast: return Resource::kBroadcast;
    default: return Resource::kAllReduce;
  }
}

// The start that a done ends, behind updates; null: it comes from outside of the computation.
const Instruction* StartOf(const Instruction& done) {
  const Instruction* start = done.operand(0);
  while (start->op() == Op::kAsyncUpdate) start = start->operand(0);
  return HasTrait(start->op(), hlo::kAsyncStart) ? start : nullptr;
}

// A done whose start is not here says by its own op what it ends; a generic one, by what it calls.
std::optional<Resource> ResourceOfDone(const Instruction& done) {
  switch (done.op()) {
    case Op::kAllGatherDone: return Resource::kAllGather;
    case Op::kAllReduceDone: return Resource::kAllReduce;
    case Op::kCollectivePermuteDone: return Resource::kPermute;
    case Op::kSendDone:
    case Op::kRecvDone: return Resource::kSendRecv;
    case Op::kCopyDone: return Resource::kCopy;
    default: break;
  }
  if (!done.attrs().Is<hlo::AsyncAttrs>()) return std::nullopt;
  const Computation* called = done.attrs<hlo::AsyncAttrs>().calls;
  if (called == nullptr) return std::nullopt;
  for (const Instruction* i : *called) {
    if (IsCollective(i->op())) return CollectiveResource(i->op());
    if (IsMarkedCollective(*i)) return Resource::kCustom;
  }
  return Resource::kCompute;
}

void AddTo(ResourceCounts& counts, Resource r, int64_t n) {
  counts[static_cast<size_t>(r)] += n;
  if (r < Resource::kCopy) counts[static_cast<size_t>(Resource::kWire)] += n;
}

// A done of what is in flight when the computation begins: part of its parameters.
bool ComesIn(const Instruction& done) {
  const Instruction* from = done.operand(0);
  while (from->op() == Op::kAsyncUpdate || from->op() == Op::kGetTupleElement) {
    from = from->operand(0);
  }
  return from->IsParameter();
}

}  // namespace

std::string_view ResourceName(Resource resource) {
  return kResourceNames[static_cast<size_t>(resource)];
}

std::optional<Resource> FindResource(std::string_view name) {
  auto it = std::find(std::begin(kResourceNames), std::end(kResourceNames), name);
  if (it == std::end(kResourceNames)) return std::nullopt;
  return static_cast<Resource>(it - std::begin(kResourceNames));
}

bool IsMarkedCollective(const Instruction& i) {
  if (i.op() != Op::kCustomCall) return false;
  const std::string* mark = i.FrontendAttributeValue("is_collective");
  return mark != nullptr && *mark == "true";
}

std::optional<Resource> ResourceOf(const Instruction& i) {
  if (i.op() == Op::kSend || i.op() == Op::kRecv) return Resource::kSendRecv;
  if (IsCollective(i.op())) return CollectiveResource(i.op());
  if (IsMarkedCollective(i)) return Resource::kCustom;
  if (!HasTrait(i.op(), hlo::kAsyncStart)) return std::nullopt;
  const Instruction& inner = Started(i);
  if (IsCollective(inner.op())) return CollectiveResource(inner.op());
  if (IsMarkedCollective(inner)) return Resource::kCustom;
  return i.op() == Op::kCopyStart ? Resource::kCopy : Resource::kCompute;
}

const ResourceCounts& ResourceUse::Peak(const Computation& computation) {
  if (auto it = peaks_.find(&computation); it != peaks_.end()) return it->second;
  std::vector<const Instruction*> order;
  for (const Instruction* i : computation) order.push_back(i);
  ResourceCounts peak{};
  Walk(order, [&](const Instruction&, const ResourceCounts& now) {
    for (size_t k = 0; k < kResources; ++k) peak[k] = std::max(peak[k], now[k]);
  });
  return peaks_.emplace(&computation, peak).first->second;
}

void ResourceUse::Walk(std::span<const Instruction* const> order, const Visit& visit) {
  ResourceCounts now{};
  for (const Instruction* i : order) {
    if (!HasTrait(i->op(), hlo::kAsyncDone) || !ComesIn(*i)) continue;
    if (std::optional<Resource> r = ResourceOfDone(*i)) AddTo(now, *r, 1);
  }
  for (const Instruction* i : order) {
    if (HasTrait(i->op(), hlo::kAsyncStart)) {
      if (std::optional<Resource> r = ResourceOf(*i)) AddTo(now, *r, 1);
    } else if (HasTrait(i->op(), hlo::kAsyncDone)) {
      const Instruction* start = StartOf(*i);
      std::optional<Resource> r = start != nullptr ? ResourceOf(*start) : ResourceOfDone(*i);
      if (r && now[static_cast<size_t>(*r)] > 0) AddTo(now, *r, -1);  // else nobody knows of it
    }
    ResourceCounts inside = Inside(*i), carried = CarriedInto(*i), here = now;
    for (size_t k = 0; k < kResources; ++k) {
      here[k] += std::max<int64_t>(inside[k] - carried[k], 0);
    }
    visit(*i, here);
  }
}

ResourceCounts ResourceUse::Inside(const Instruction& i) {
  ResourceCounts most{};
  if (i.op() != Op::kWhile && i.op() != Op::kConditional && i.op() != Op::kCall) return most;
  for (const Computation* called : i.called_computations()) {
    const ResourceCounts& own = Peak(*called);
    for (size_t k = 0; k < kResources; ++k) most[k] = std::max(most[k], own[k]);
  }
  return most;
}

ResourceCounts ResourceUse::CarriedInto(const Instruction& i) {
  ResourceCounts carried{};
  if (i.op() != Op::kWhile && i.op() != Op::kConditional && i.op() != Op::kCall) return carried;
  auto count = [&](const Instruction* operand) {
    if (!HasTrait(operand->op(), hlo::kAsyncStart)) return;
    if (std::optional<Resource> r = ResourceOf(*operand)) AddTo(carried, *r, 1);
  };
  for (const Instruction* operand : i.operands()) {
    if (operand->op() != Op::kTuple) {
      count(operand);
      continue;
    }
    for (const Instruction* element : operand->operands()) count(element);
  }
  return carried;
}

}  // namespace weft::compiler::schedule
