// Random collectives between several devices. Only where every device comes by: not in branches and
// loops whose conditions may differ from device to device.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

void ChooseDevices(Maker& maker, uint64_t seed) {
  Dice dice(seed ^ 0x5eed0fdecade);
  if (!dice.Chance(7)) return;
  constexpr int64_t kCounts[][2] = {{2, 1}, {3, 1}, {4, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}};
  const auto& counts = kCounts[dice.Below(std::size(kCounts))];
  maker.module.config().replica_count = counts[0];
  maker.module.config().num_partitions = counts[1];
}

int64_t Devices(const Maker& maker) {
  return maker.module.config().replica_count * maker.module.config().num_partitions;
}

// Numbers 0 to count in any order, in groups of one size.
std::vector<std::vector<int64_t>> AnyGroups(Maker& maker, int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.insert(ids.begin() + maker.dice.Below(i + 1), i);
  }
  int64_t size = count % 2 == 0 && maker.dice.Chance(40) ? count / 2 : count;
  std::vector<std::vector<int64_t>> groups;
  for (int64_t i = 0; i < count; i += size) {
    groups.emplace_back(ids.begin() + i, ids.begin() + i + size);
  }
  return groups;
}

// Groups in any of the ways to write them; how many devices one has.
int64_t ChooseGroups(Maker& maker, CollectiveAttrs& attrs, bool has_global_ids) {
  int64_t replicas = maker.module.config().replica_count,
          partitions = maker.module.config().num_partitions;
  bool by_channel = partitions > 1 && (replicas == 1 || maker.dice.Chance(60));
  if (by_channel) attrs.channel_id = ++maker.channels;
  int64_t ids = !by_channel ? replicas : has_global_ids ? Devices(maker) : partitions;
  attrs.use_global_device_ids = by_channel && has_global_ids;
  if (by_channel && has_global_ids && maker.dice.Chance(20)) {  // of whole replicas
    attrs.use_global_device_ids = false;
    attrs.replica_groups.groups = AnyGroups(maker, replicas);
    return static_cast<int64_t>(attrs.replica_groups.groups[0].size()) * partitions;
  }
  if (!attrs.use_global_device_ids && maker.dice.Chance(30)) return ids;  // all of them
  attrs.replica_groups.groups = AnyGroups(maker, ids);
  return static_cast<int64_t>(attrs.replica_groups.groups[0].size());
}

std::optional<std::pair<Computation*, Known>> AnyReducer(Maker& maker, Scope& scope, const Value& x,
                                                         int64_t count) {
  auto n = static_cast<double>(count);
  if (IsInteger(x.dtype()) && maker.dice.Chance(25)) {
    return std::pair(BinaryComputation(maker, scope, Op::kXor, x.dtype()),
                     maker.Unknown(x.dtype()));
  }
  auto c = AnyCombiner(maker, x, n);
  if (!c) return std::nullopt;
  return std::pair(BinaryComputation(maker, scope, c->op, x.dtype()),
                   Combined(maker, *c, x.known, x.dtype(), n));
}

void ReductionOfDevices(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  if (maker.dice.Chance(60)) {
    AllReduceAttrs attrs;
    auto reducer = AnyReducer(maker, scope, x, ChooseGroups(maker, attrs, true));
    if (!reducer) return;
    attrs.to_apply = reducer->first;
    maker.Push(scope, b.Add(Op::kAllReduce, {x.at}, attrs), reducer->second);
    return;
  }
  int64_t dim = maker.dice.Below(x.shape().rank());
  ReduceScatterAttrs attrs;
  attrs.dimensions = {dim};
  int64_t group = ChooseGroups(maker, attrs, true);
  auto reducer = AnyReducer(maker, scope, x, group);
  if (!reducer || x.shape().dim(dim) % group != 0 || x.shape().dim(dim) == 0) return;
  attrs.to_apply = reducer->first;
  Shape shape = x.shape();
  shape.set_dim(dim, shape.dim(dim) / group);
  maker.Push(scope, b.Add(Op::kReduceScatter, std::span(&x.at, 1), attrs, &shape), reducer->second);
}

void CollectiveReduceAny(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  CollectiveReduceAttrs attrs;
  auto reducer = AnyReducer(maker, scope, x, ChooseGroups(maker, attrs, true));
  if (!reducer) return;
  attrs.to_apply = reducer->first;
  maker.Push(scope, b.Add(Op::kCollectiveReduce, {x.at}, attrs), reducer->second);
}

void AllReduceOfTwo(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  auto other = maker.Find(scope, [&](const Value& v) { return v.dtype() == x.dtype(); });
  Value y = other ? *other : x;
  AllReduceAttrs attrs;
  int64_t group = ChooseGroups(maker, attrs, true);
  Value both{x.at, maker.Union(x.known, y.known)};
  auto reducer = AnyReducer(maker, scope, both, group);
  if (!reducer) return;
  attrs.to_apply = reducer->first;
  auto made = b.Add(Op::kAllReduce, {x.at, y.at}, attrs);
  if (!made) return;
  maker.Push(scope, b.GetTupleElement(*made, 0), reducer->second);
  maker.Push(scope, b.GetTupleElement(*made, 1), reducer->second);
}

void AllReduceHalves(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  AllReduceAttrs attrs;
  auto reducer = AnyReducer(maker, scope, x, ChooseGroups(maker, attrs, true));
  if (!reducer) return;
  attrs.to_apply = reducer->first;
  auto start = b.Add(Op::kAllReduceStart, {x.at}, attrs);
  if (start) maker.Push(scope, b.Add(Op::kAllReduceDone, {*start}), reducer->second);
}

void AllGatherHalves(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  AllGatherAttrs attrs;
  int64_t dim = maker.dice.Below(x.shape().rank());
  attrs.dimensions = {dim};
  Shape shape = x.shape();
  shape.set_dim(dim, shape.dim(dim) * ChooseGroups(maker, attrs, true));
  Shape pair = Shape::Tuple({x.shape(), shape});
  auto start = b.Add(Op::kAllGatherStart, std::span(&x.at, 1), attrs, &pair);
  if (start) maker.Push(scope, b.Add(Op::kAllGatherDone, {*start}), x.known);
}

// Some of a ring's pairs.
CollectivePermuteAttrs PartOfRing(Maker& maker, int percent) {
  CollectivePermuteAttrs attrs;
  CollectiveAttrs ids;
  int64_t count = ChooseGroups(maker, ids, false);
  attrs.channel_id = ids.channel_id;
  for (int64_t i = 0; i < count; ++i) {
    if (maker.dice.Chance(percent)) attrs.source_target_pairs.push_back({i, (i + 1) % count});
  }
  return attrs;
}

void PermuteHalves(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  CollectivePermuteAttrs attrs = PartOfRing(maker, 70);
  auto start = b.Add(Op::kCollectivePermuteStart, {x.at}, attrs);
  if (start) maker.Push(scope, b.Add(Op::kCollectivePermuteDone, {*start}), x.known);
}

void AllToAllOfMany(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  AllToAllAttrs attrs;
  int64_t group = ChooseGroups(maker, attrs, false);
  std::vector<Instruction*> parts = {x.at};
  Known known = x.known;
  while (static_cast<int64_t>(parts.size()) < group) {
    Value y = maker.Like(scope, x.dtype(), x.shape().dims(), false);
    known = maker.Union(known, y.known);
    parts.push_back(y.at);
  }
  auto made = b.Add(Op::kAllToAll, parts, attrs);
  if (!made || !(*made)->shape().IsTuple()) return;
  for (int64_t k = 0; k < group; ++k) maker.Push(scope, b.GetTupleElement(*made, k), known);
}

// Several arrays at once, the halves of asynchronous ones, one to each, and rows by run-time sizes.
void CollectiveForms(Maker& maker, Scope& scope, const Value& x) {
  switch (maker.dice.Below(7)) {
    case 0: return AllReduceOfTwo(maker, scope, x);
    case 1: return AllReduceHalves(maker, scope, x);
    case 2: return AllGatherHalves(maker, scope, x);
    case 3: return PermuteHalves(maker, scope, x);
    case 4: return AllToAllOfMany(maker, scope, x);
    case 5: return CollectiveReduceAny(maker, scope, x);
    default: return PermuteSlices(maker, scope, x);
  }
}

// A part of one array into a part of another, in place.
void PermuteSlices(Maker& maker, Scope& scope, const Value& x) {
  Builder b = scope.builder();
  CollectivePermuteAttrs attrs = PartOfRing(maker, 80);
  Value output = maker.Like(scope, x.dtype(), x.shape().dims(), false);
  std::vector<Instruction*> from, to;
  Ints sizes;
  for (int64_t n : x.shape().dims()) {
    sizes.push_back(maker.dice.Between(0, n));
    // Slices that leave the arrays are errors.
    for (auto* starts : {&from, &to}) {
      Instruction* zero = b.ScalarConstant(DType::kS32, 0);
      Instruction* last = b.ScalarConstant(DType::kS32, static_cast<double>(n - sizes.back()));
      Instruction* any = maker.Like(scope, DType::kS32, Dims(), true).at;
      starts->push_back(*b.Add(Op::kClamp, {zero, any, last}));
    }
  }
  attrs.slice_sizes = {sizes};
  auto reads = b.Tuple(from), writes = b.Tuple(to);
  if (!reads || !writes) return;
  maker.Push(scope, b.Add(Op::kCollectivePermute, {x.at, output.at, *reads, *writes}, attrs),
             maker.Union(x.known, output.known));
}

void DeviceCollectiveAny(Maker& maker, Scope& scope) {
  if (!scope.uniform) return;
  Value x = maker.AnyOf(scope, 1, 1000, false);
  Builder b = scope.builder();
  int64_t dim = maker.dice.Below(x.shape().rank());
  if (maker.dice.Chance(35)) return CollectiveForms(maker, scope, x);
  switch (maker.dice.Below(7)) {
    case 0:
    case 1: return ReductionOfDevices(maker, scope, x);
    case 2: {
      AllGatherAttrs attrs;
      attrs.dimensions = {dim};
      Shape shape = x.shape();
      shape.set_dim(dim, shape.dim(dim) * ChooseGroups(maker, attrs, true));
      maker.Push(scope, b.Add(Op::kAllGather, std::span(&x.at, 1), attrs, &shape), x.known);
      return;
    }
    case 3: {
      AllToAllAttrs attrs;
      attrs.dimensions = {dim};
      int64_t group = ChooseGroups(maker, attrs, false);
      if (x.shape().dim(dim) % group != 0 || x.shape().is_dynamic(dim)) return;
      maker.Push(scope, b.Add(Op::kAllToAll, {x.at}, attrs), x.known);
      return;
    }
    case 4: {
      CollectivePermuteAttrs attrs;
      CollectiveAttrs ids;
      int64_t count = ChooseGroups(maker, ids, false);
      attrs.channel_id = ids.channel_id;
      std::vector<int64_t> targets = AnyGroups(maker, count)[0];
      for (size_t i = 0; i < targets.size(); ++i) {
        if (maker.dice.Chance(70)) {
          attrs.source_target_pairs.push_back({static_cast<int64_t>(i), targets[i]});
        }
      }
      maker.Push(scope, b.Add(Op::kCollectivePermute, {x.at}, attrs), x.known);
      return;
    }
    case 5: {
      CollectiveBroadcastAttrs attrs;
      ChooseGroups(maker, attrs, false);
      maker.Push(scope, b.Add(Op::kCollectiveBroadcast, {x.at}, attrs), x.known);
      return;
    }
    default: {
      // What differs between devices stays out of the shapes and conditions of others.
      Op id = maker.dice.Chance(50) ? Op::kPartitionId : Op::kReplicaId;
      maker.Push(scope, b.Add(id, {}), maker.Unknown(DType::kU32));
    }
  }
}

}  // namespace weft::hlo::random
