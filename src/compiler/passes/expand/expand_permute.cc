// collective-permute of slices into arrays that are updated in place: plain ones of the slices, and
// updates.
#include <algorithm>
#include <map>

#include "compiler/analysis/collectives.h"
#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The n-th slice of its source goes to the n-th place of its target, for all pairs at once of which
// both numbers are the same: no device sends or gets more than one there.
struct PermuteRound {
  int64_t slice = 0, place = 0;
  hlo::IntPairs pairs;
  std::vector<int64_t> targets;  // devices
};

Result<std::vector<PermuteRound>> RoundsOf(const Instruction& i) {
  const auto& attrs = i.attrs<hlo::CollectivePermuteAttrs>();
  std::map<std::pair<int64_t, int64_t>, PermuteRound> rounds;
  std::map<int64_t, int64_t> sent, received;
  auto devices = TRY(DevicePairs(i));  // for each pair, those of all replicas or partitions
  size_t copies =
      attrs.source_target_pairs.empty() ? 0 : devices.size() / attrs.source_target_pairs.size();
  for (size_t k = 0; k < attrs.source_target_pairs.size(); ++k) {
    auto [source, target] = attrs.source_target_pairs[k];
    int64_t slice = sent[source]++, place = received[target]++;
    PermuteRound& round = rounds[{place, slice}];  // in the order in which a target gets them
    round.slice = slice, round.place = place;
    round.pairs.push_back({source, target});
    for (size_t c = 0; c < copies; ++c) round.targets.push_back(devices[k * copies + c][1]);
  }
  std::vector<PermuteRound> list;
  for (auto& [numbers, round] : rounds) list.push_back(std::move(round));
  return list;
}

// The start indices of slice number `slice`: scalars in a tuple, or such a tuple for each slice.
Result<std::vector<Instruction*>> StartsOf(Builder& b, Instruction* starts, int64_t slice,
                                           int64_t rank) {
  if (starts->shape().IsTuple() && starts->shape().tuple_size() > 0 &&
      starts->shape().tuple_element(0).IsTuple()) {
    if (slice >= starts->shape().tuple_size()) {
      return InvalidArgument("collective-permute: no start indices for slice ", slice);
    }
    starts = TRY(ElementOf(b, starts, slice));
  }
  if (!starts->shape().IsTuple() || starts->shape().tuple_size() != rank) {
    return InvalidArgument("collective-permute: start indices are ",
                           starts->shape().ToStringWithoutLayout(), " for rank ", rank);
  }
  std::vector<Instruction*> list;
  for (int64_t d = 0; d < rank; ++d) {
    Instruction* start = TRY(ElementOf(b, starts, d));
    if (!start->shape().IsScalar() || !IsInteger(start->shape().dtype())) {
      return InvalidArgument("collective-permute: start index ", d, " is ",
                             start->shape().ToStringWithoutLayout());
    }
    list.push_back(TRY(b.Convert(start, DType::kS32)));
  }
  return list;
}

Result<Instruction*> CutAt(Builder& b, Instruction* from, std::span<Instruction* const> starts,
                           const hlo::Ints& sizes) {
  hlo::DynamicSliceAttrs attrs;
  attrs.dynamic_slice_sizes = sizes;
  std::vector<Instruction*> operands = {from};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return b.Add(Op::kDynamicSlice, operands, hlo::Attrs(std::move(attrs)));
}

// What the device gets in a round; where it gets nothing, what it has.
Result<Instruction*> Received(Builder& b, const Instruction& i, const PermuteRound& round,
                              Instruction* cut, Instruction* own) {
  const hlo::Module& module = *i.parent()->module();
  if (DeviceCount(module) == 1) return cut;
  hlo::CollectivePermuteAttrs attrs;
  attrs.channel_id = i.attrs<hlo::CollectivePermuteAttrs>().channel_id;
  attrs.source_target_pairs = round.pairs;
  Instruction* got = TRY(b.Add(Op::kCollectivePermute, {cut}, hlo::Attrs(std::move(attrs))));
  Literal table(Shape(DType::kPred, {DeviceCount(module)}));
  for (int64_t target : round.targets) table.SetInt(target, 1);
  Instruction* gets = TRY(OfThisDevice(b, module, std::move(table)));
  gets = TRY(b.Broadcast(gets, Shape(DType::kPred, cut->shape().dims()), {}));
  return b.Add(Op::kSelect, {gets, got, own});
}

}  // namespace

Result<bool> ExpandPermuteSlices(Instruction* i) {
  if (i->op() != Op::kCollectivePermute || i->operand_count() != 4) return false;
  const std::vector<hlo::Ints> sizes = i->attrs<hlo::CollectivePermuteAttrs>().slice_sizes;
  if (sizes.empty() || !IsStaticallyShaped(*i)) return false;
  Builder b(*i->parent(), i, i);
  bool many = i->shape().IsTuple();
  int64_t buffers = many ? i->shape().tuple_size() : 1;
  if (many &&
      (!i->operand(0)->shape().IsTuple() || i->operand(0)->shape().tuple_size() < buffers)) {
    return InvalidArgument("collective-permute: fewer inputs than outputs");
  }
  int64_t per_buffer = buffers == 0 ? 0 : std::ssize(sizes) / buffers;
  auto rounds = TRY(RoundsOf(*i));
  std::vector<Instruction*> outputs;
  for (int64_t k = 0; k < buffers; ++k) {
    auto part = [&](int64_t operand) -> Result<Instruction*> {
      if (!many) return i->operand(operand);
      return ElementOf(b, i->operand(operand), k);
    };
    Instruction *input = TRY(part(0)), *output = TRY(part(1));
    int64_t rank = input->shape().rank();
    for (const PermuteRound& round : rounds) {
      if (per_buffer == 0) return InvalidArgument("collective-permute: too few slice_sizes");
      const hlo::Ints& size =
          sizes[static_cast<size_t>(k * per_buffer + std::min(round.slice, per_buffer - 1))];
      auto from = TRY(StartsOf(b, TRY(part(2)), round.slice, rank));
      auto to = TRY(StartsOf(b, TRY(part(3)), round.place, rank));
      Instruction* cut = TRY(CutAt(b, input, from, size));
      Instruction* own = TRY(CutAt(b, output, to, size));
      Instruction* got = TRY(Received(b, *i, round, cut, own));
      std::vector<Instruction*> operands = {output, got};
      operands.insert(operands.end(), to.begin(), to.end());
      output = TRY(b.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs{}));
    }
    outputs.push_back(output);
  }
  hlo::ReplaceInstruction(i, many ? TRY(b.Tuple(outputs)) : outputs[0]);
  return true;
}

}  // namespace weft::compiler
