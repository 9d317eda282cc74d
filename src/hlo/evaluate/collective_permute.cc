// collective-permute: whole values, or slices into a buffer that is updated in place.
#include <algorithm>
#include <cstring>
#include <map>

#include "hlo/evaluate/collectives.h"
#include "hlo/evaluate/device_group.h"

namespace weft::hlo {
namespace {

struct Permute {
  IntPairs pairs;                     // devices
  std::vector<int64_t> participants;  // all that occur in pairs, ascending
};

Result<Permute> PairsOfDevices(const EvalContext& context, const Instruction& instruction) {
  const auto& attrs = instruction.attrs<CollectivePermuteAttrs>();
  bool by_partition = attrs.channel_id.has_value();
  int64_t count = by_partition ? context.num_partitions() : context.num_replicas();
  Permute permute;
  auto device = [&](int64_t id) {
    return by_partition ? context.replica() * count + id
                        : id * context.num_partitions() + context.partition();
  };
  for (auto [source, target] : attrs.source_target_pairs) {
    if (source < 0 || target < 0 || source >= count || target >= count) {
      auto error = InvalidArgument("collective-permute: pair {", source, ",", target,
                                   "} names a device that is not there: there are ", count);
      error.error().Hint(kMoreDevicesHint);
      return error;
    }
    permute.pairs.emplace_back(device(source), device(target));
    permute.participants.push_back(device(source));
    permute.participants.push_back(device(target));
  }
  std::vector<int64_t>& p = permute.participants;
  std::sort(p.begin(), p.end());
  p.erase(std::unique(p.begin(), p.end()), p.end());
  return permute;
}

Result<DeviceGroup::Values> ExchangePermuted(EvalContext& context, const Instruction& instruction,
                                             const Permute& permute, std::span<Literal> operands) {
  std::vector<Literal> mine(operands.begin(), operands.end());
  Literal given = Literal::Tuple(std::move(mine));
  if (context.group() == nullptr) {
    return DeviceGroup::Values(std::make_shared<std::vector<Literal>>(1, std::move(given)));
  }
  DeviceGroup::Values values = TRY(
      context.group()->Exchange(instruction, instruction.attrs<CollectivePermuteAttrs>().channel_id,
                                permute.participants, context.device(), std::move(given)));
  TRY(CheckSameShapes(instruction, *values));
  return values;
}

int64_t PositionOf(const Permute& permute, int64_t device) {
  auto it = std::lower_bound(permute.participants.begin(), permute.participants.end(), device);
  return it - permute.participants.begin();
}

Result<Literal> PermuteWhole(EvalContext& context, const Instruction& instruction,
                             const Permute& permute, std::span<Literal> operands) {
  std::vector<Literal> results;
  for (const Literal& operand : operands) {
    Shape shape = operand.shape();
    shape.ClearLayout();
    results.push_back(TRY(Literal::Allocate(shape)));
    for (int64_t d = 0; d < shape.rank() && operand.HasDynamicSizes(); ++d) {
      results.back().set_dynamic_size(d, operand.dynamic_size(d));
    }
  }
  if (std::binary_search(permute.participants.begin(), permute.participants.end(),
                         context.device())) {
    DeviceGroup::Values values = TRY(ExchangePermuted(context, instruction, permute, operands));
    for (auto [source, target] : permute.pairs) {
      if (target != context.device()) continue;
      const Literal& from = (*values)[static_cast<size_t>(PositionOf(permute, source))];
      for (size_t k = 0; k < results.size(); ++k) {
        results[k] = from.tuple()[k];
        if (results[k].size() > 0) results[k].mutable_data();  // devices share no bytes
      }
    }
  }
  if (results.size() == 1) return std::move(results[0]);
  return Literal::Tuple(std::move(results));
}

// Start indices of slice `slice` of a buffer of rank `rank`: ({i, j}) or (({i, j}), ({k, l})).
Result<std::vector<int64_t>> StartsOf(const Literal& offsets, int64_t slice, int64_t rank) {
  const std::vector<Literal>* scalars = &offsets.tuple();
  if (!scalars->empty() && (*scalars)[0].shape().IsTuple()) {
    if (slice >= static_cast<int64_t>(scalars->size())) {
      return InvalidArgument("collective-permute: no start indices for slice ", slice);
    }
    scalars = &(*scalars)[static_cast<size_t>(slice)].tuple();
  }
  std::vector<int64_t> starts;
  for (const Literal& s : *scalars) {
    if (!s.shape().IsArray() || s.size() < 1) break;
    starts.push_back(s.GetInt(0));
  }
  if (static_cast<int64_t>(starts.size()) != rank) {
    return InvalidArgument("collective-permute: ", starts.size(), " start indices for rank ", rank);
  }
  return starts;
}

Status CopySlice(const Literal& from, const std::vector<int64_t>& from_start, Literal& to,
                 const std::vector<int64_t>& to_start, const Ints& sizes) {
  int64_t rank = from.shape().rank();
  if (to.shape().rank() != rank || from.dtype() != to.dtype() ||
      static_cast<int64_t>(sizes.size()) != rank) {
    return InvalidArgument("collective-permute: slice_sizes of rank ", sizes.size(), " for ",
                           from.shape().ToStringWithoutLayout());
  }
  int64_t total = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (sizes[d] < 0 || from_start[d] < 0 || to_start[d] < 0 ||
        sizes[d] > from.shape().dim(d) - from_start[d] ||
        sizes[d] > to.shape().dim(d) - to_start[d]) {
      return InvalidArgument("collective-permute: a slice of size ", sizes[d], " of dimension ", d,
                             " from ", from_start[d], " to ", to_start[d], " leaves the buffers");
    }
    total *= sizes[d];
  }
  int64_t width = ByteWidth(from.dtype());
  std::byte* out = to.mutable_data();
  std::vector<int64_t> index(static_cast<size_t>(rank), 0);
  for (int64_t i = 0; i < total; ++i) {
    int64_t source = 0, target = 0;
    for (int64_t d = 0; d < rank; ++d) {
      source = source * from.shape().dim(d) + from_start[d] + index[d];
      target = target * to.shape().dim(d) + to_start[d] + index[d];
    }
    std::memcpy(out + target * width, from.data() + source * width, static_cast<size_t>(width));
    for (int64_t d = rank - 1; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
  return {};
}

// Operands: input buffers, output buffers, start indices in both. The m-th pair of a source sends
// its m-th slice, the m-th pair of a target receives into its m-th place.
Result<Literal> PermuteSlices(EvalContext& context, const Instruction& instruction,
                              const Permute& permute, std::span<Literal> operands) {
  const std::vector<Ints>& sizes = instruction.attrs<CollectivePermuteAttrs>().slice_sizes;
  bool many = operands[1].shape().IsTuple();
  std::vector<Literal> outputs;
  if (many) {
    outputs = operands[1].tuple();
  } else {
    outputs.push_back(operands[1]);
  }
  Literal target_starts = operands[3];
  if (std::binary_search(permute.participants.begin(), permute.participants.end(),
                         context.device())) {
    DeviceGroup::Values values = TRY(ExchangePermuted(context, instruction, permute, operands));
    std::map<int64_t, int64_t> sent;
    int64_t received = 0;
    for (auto [source, target] : permute.pairs) {
      int64_t slice = sent[source]++;
      if (target != context.device()) continue;
      int64_t place = received++;
      const std::vector<Literal>& from =
          (*values)[static_cast<size_t>(PositionOf(permute, source))].tuple();
      for (size_t b = 0; b < outputs.size(); ++b) {
        const Literal& input = many ? from[0].tuple()[b] : from[0];
        const Literal& in_starts = many ? from[2].tuple()[b] : from[2];
        const Literal& out_starts = many ? target_starts.tuple()[b] : target_starts;
        size_t per_buffer = sizes.size() / outputs.size();
        size_t s = b * per_buffer + std::min<size_t>(static_cast<size_t>(slice),
                                                     per_buffer > 0 ? per_buffer - 1 : 0);
        if (s >= sizes.size()) return InvalidArgument("collective-permute: too few slice_sizes");
        TRY(CopySlice(input, TRY(StartsOf(in_starts, slice, input.shape().rank())), outputs[b],
                      TRY(StartsOf(out_starts, place, outputs[b].shape().rank())), sizes[s]));
      }
    }
  }
  if (!many) return std::move(outputs[0]);
  return Literal::Tuple(std::move(outputs));
}

}  // namespace

Result<Literal> RunCollectivePermute(EvalContext& context, const Instruction& instruction,
                                     std::span<Literal> operands) {
  Permute permute = TRY(PairsOfDevices(context, instruction));
  bool in_place = !instruction.attrs<CollectivePermuteAttrs>().slice_sizes.empty();
  if (in_place && operands.size() == 4) {
    return PermuteSlices(context, instruction, permute, operands);
  }
  return PermuteWhole(context, instruction, permute, operands);
}

}  // namespace weft::hlo
