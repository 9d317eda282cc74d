// Shardings and layouts of an instruction.
#include <algorithm>

#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

int64_t LeafCount(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t n = 0;
  for (const Shape& element : shape.elements_of_tuple()) n += LeafCount(element);
  return n;
}

void AppendLeaves(const Shape& shape, std::vector<const Shape*>& leaves) {
  if (!shape.IsTuple()) leaves.push_back(&shape);
  for (const Shape& element : shape.elements_of_tuple()) {
    if (shape.IsTuple()) AppendLeaves(element, leaves);
  }
}

Status CheckTiled(const Sharding& sharding, const Shape& shape) {
  int64_t data_rank = static_cast<int64_t>(sharding.tile_dims.size());
  if (sharding.last_tile_dim_replicate) --data_rank;
  data_rank -= static_cast<int64_t>(sharding.last_tile_dims.size());
  if (shape.IsArray() && data_rank != shape.rank()) {
    return InvalidArgument("sharding ", sharding, " tiles ", data_rank, " dimensions, the shape ",
                           shape.ToStringWithoutLayout(), " has ", shape.rank());
  }
  int64_t tiles = 1;
  for (int64_t d : sharding.tile_dims) {
    if (d < 1 || __builtin_mul_overflow(tiles, d, &tiles)) {
      return InvalidArgument("sharding ", sharding, " has a tile dimension of size ", d);
    }
  }
  if (sharding.devices.iota) return {};
  std::vector<int64_t> ids = sharding.devices.ids;
  if (static_cast<int64_t>(ids.size()) != tiles) {
    return InvalidArgument("sharding ", sharding, " has ", ids.size(), " devices for ", tiles,
                           " tiles");
  }
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
    return InvalidArgument("sharding ", sharding, " names a device twice");
  }
  return {};
}

Status CheckLeafSharding(const Sharding& sharding, const Shape& shape) {
  if (sharding.kind == Sharding::Kind::kTuple) {
    return InvalidArgument("sharding ", sharding, " is nested in a tuple sharding");
  }
  if (sharding.kind == Sharding::Kind::kTiled) return CheckTiled(sharding, shape);
  if (sharding.kind == Sharding::Kind::kNamed && sharding.named &&
      sharding.named->form == NamedSharding::Form::kDims && shape.IsArray() &&
      static_cast<int64_t>(sharding.named->dims.size()) > shape.rank()) {
    return InvalidArgument("sharding ", sharding, " has ", sharding.named->dims.size(),
                           " dimensions, the shape ", shape.ToStringWithoutLayout(), " has ",
                           shape.rank());
  }
  return {};
}

bool SameOrder(const Shape& a, const Shape& b) {
  return a.LayoutOrDefault().minor_to_major == b.LayoutOrDefault().minor_to_major;
}

// Ops that compute element by element in place: operands and result lie the same way.
bool KeepsLayout(Op op) {
  return IsElementwise(op) || op == Op::kSlice || op == Op::kDynamicSlice ||
         op == Op::kDynamicUpdateSlice || op == Op::kConcatenate || op == Op::kPad ||
         op == Op::kReverse;
}

}  // namespace

Status VerifySharding(const Instruction& instruction) {
  const Sharding* sharding = instruction.sharding();
  // The sharding of an outfeed is that of what is fed.
  if (sharding == nullptr || instruction.op() == Op::kOutfeed) return {};
  const Shape& shape = instruction.shape();
  if (sharding->kind != Sharding::Kind::kTuple) {
    return shape.IsTuple() ? Status() : CheckLeafSharding(*sharding, shape);
  }
  int64_t leaves = std::max<int64_t>(LeafCount(shape), 1);
  if (static_cast<int64_t>(sharding->elements.size()) != leaves) {
    return InvalidArgument("sharding ", *sharding, " has ", sharding->elements.size(),
                           " elements, the shape ", shape.ToStringWithoutLayout(), " has ", leaves);
  }
  std::vector<const Shape*> leaf_shapes;
  AppendLeaves(shape, leaf_shapes);
  for (size_t i = 0; i < leaf_shapes.size(); ++i) {
    TRY(CheckLeafSharding(sharding->elements[i], *leaf_shapes[i]));
  }
  return {};
}

Status VerifyLayouts(const Instruction& instruction) {
  if (!KeepsLayout(instruction.op()) || !instruction.shape().IsArray() ||
      instruction.shape().layout() == nullptr) {
    return {};
  }
  for (const Instruction* operand : instruction.operands()) {
    const Shape& shape = operand->shape();
    if (!shape.IsArray() || shape.layout() == nullptr ||
        shape.rank() != instruction.shape().rank()) {
      continue;
    }
    if (!SameOrder(shape, instruction.shape())) {
      return InvalidArgument("changes the layout of ", operand->name(), " from ", shape, " to ",
                             instruction.shape());
    }
  }
  return {};
}

}  // namespace weft::hlo
