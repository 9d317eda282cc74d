#include <algorithm>
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

bool HaveSameLayouts(const Shape& a, const Shape& b) {
  if (a.IsTuple() || a.IsBuffer()) {
    for (int64_t k = 0; k < a.tuple_size(); ++k) {
      if (!HaveSameLayouts(a.tuple_element(k), b.tuple_element(k))) return false;
    }
    return true;
  }
  return !a.IsArray() || a.LayoutOrDefault() == b.LayoutOrDefault();
}

bool HasAnyLayout(const Shape& shape) {
  bool has = false;
  shape.ForEachSubShape([&](const Shape& s, const ShapeIndex&) { has |= s.layout() != nullptr; });
  return has;
}

// What the outside sees stays written in the header when it stood on the entry's instructions
// alone.
void KeepEntryLayout(hlo::Module& module) {
  if (module.config().entry_layout) return;
  hlo::EntryLayout layout;
  bool given = HasAnyLayout(module.entry()->root()->shape());
  for (const Instruction* p : module.entry()->parameters()) {
    given |= HasAnyLayout(p->shape());
    layout.parameters.push_back(p->shape());
  }
  if (!given) return;
  layout.result = module.entry()->root()->shape();
  module.config().entry_layout = std::move(layout);
}

// The dimensions from major to minor.
Ints PhysicalOrder(const Shape& shape) {
  Layout layout = shape.LayoutOrDefault();
  Ints order(layout.minor_to_major.begin(), layout.minor_to_major.end());
  std::reverse(order.begin(), order.end());
  return order;
}

int64_t StoredBitsOf(DType dtype) {
  return dtype == DType::kPred ? 8 : BitWidth(dtype);
}

Ints SizesInOrder(const Shape& shape, const Ints& order) {
  Ints sizes;
  for (int64_t d : order) sizes.push_back(shape.dim(d));
  return sizes;
}

// A bitcast as it stood before anything changed; layouts say what it means.
struct LayoutBitcast {
  Instruction* bitcast;
  Shape from;
};

// The elements of a row-major array in another type, in memory order; any dimensions.
Result<Instruction*> RetypeInOrder(Builder& b, Instruction* value, DType to) {
  DType from = value->shape().dtype();
  int64_t from_bits = StoredBitsOf(from), to_bits = StoredBitsOf(to);
  if (from == to) return value;
  Shape shape(to, value->shape().dims());
  if (from_bits > to_bits) {
    shape.AppendDim(from_bits / to_bits);
  } else if (from_bits < to_bits) {
    int64_t ratio = to_bits / from_bits, n = value->shape().elements() / ratio;
    value = TRY(b.Reshape(value, Ints{n, ratio}));
    shape = Shape(to, {n});
  }
  return b.Add(Op::kBitcastConvert, std::span(&value, 1), hlo::NoAttrs{}, &shape);
}

// Whether the bitcast is a matter of transposes, a reshape and a bitcast-convert.
bool IsExpressible(const LayoutBitcast& job) {
  const Shape &from = job.from, &to = job.bitcast->shape();
  if (!from.IsArray() || !to.IsArray() || !from.IsStatic() || !to.IsStatic()) return false;
  if (from.dtype() == to.dtype()) return from.elements() == to.elements();
  int64_t from_bits = StoredBitsOf(from.dtype()), to_bits = StoredBitsOf(to.dtype());
  int64_t wide = std::max(from_bits, to_bits), narrow = std::min(from_bits, to_bits);
  return IsComplex(from.dtype()) == IsComplex(to.dtype()) && wide % narrow == 0 &&
         from.elements() * from_bits == to.elements() * to_bits;
}

// bitcast = the operand's elements in memory order, read in the memory order of the result.
Status RewriteBitcast(const LayoutBitcast& job) {
  Instruction* bitcast = job.bitcast;
  const Shape& to = bitcast->shape();
  if (Shape::Compatible(job.from, to) && PhysicalOrder(job.from) == PhysicalOrder(to)) {
    ReplaceWithValue(bitcast, bitcast->operand(0));
    return {};
  }
  Builder b(*bitcast->parent(), bitcast, bitcast);
  Instruction* value = TRY(TransposeTo(b, bitcast->operand(0), PhysicalOrder(job.from)));
  value = TRY(RetypeInOrder(b, value, to.dtype()));
  Ints order = PhysicalOrder(to), back(order.size());
  value = TRY(ReshapeTo(b, value, SizesInOrder(to, order)));
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  value = TRY(TransposeTo(b, value, back));
  if (value == bitcast->operand(0)) {
    ReplaceWithValue(bitcast, value);
  } else {
    value->mutable_shape() = to;  // a bitcast that reads it looks at the layout
    hlo::ReplaceInstruction(bitcast, value);
  }
  return {};
}

bool IsLayoutCopy(const Instruction& i) {
  if (i.op() != Op::kCopy || HasControlDependencies(i)) return false;
  const Shape& from = i.operand(0)->shape();
  return Shape::Compatible(from, i.shape()) && !HaveSameLayouts(from, i.shape());
}

// The layouts of a custom call with constraints are the callee's interface.
bool KeepsLayouts(const Instruction& i) {
  return i.op() == Op::kCustomCall &&
         !i.attrs<hlo::CustomCallAttrs>().operand_layout_constraints.empty();
}

bool ClearLayouts(Instruction* i) {
  bool changed = false;
  if (HasAnyLayout(i->shape())) {
    i->mutable_shape().ClearLayout();
    changed = true;
  }
  if (i->op() == Op::kOutfeed && HasAnyLayout(i->attrs<hlo::OutfeedAttrs>().outfeed_shape)) {
    i->mutable_attrs<hlo::OutfeedAttrs>().outfeed_shape.ClearLayout();
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> NormalizeLayouts(hlo::Module& module, const PassContext&) {
  KeepEntryLayout(module);
  std::vector<LayoutBitcast> bitcasts;
  std::vector<Instruction*> copies;
  std::unordered_set<const Instruction*> kept;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      if (i->op() == Op::kBitcast) bitcasts.push_back({i, i->operand(0)->shape()});
      if (IsLayoutCopy(*i)) copies.push_back(i);
    }
  }
  bool changed = false;
  for (const LayoutBitcast& job : bitcasts) {
    if (IsExpressible(job)) {
      TRY(RewriteBitcast(job));
      changed = true;
    } else {
      kept.insert(job.bitcast);
      kept.insert(job.bitcast->operand(0));
    }
  }
  for (Instruction* copy : copies) {
    if (kept.contains(copy) || kept.contains(copy->operand(0))) continue;
    ReplaceWithValue(copy, copy->operand(0));
    changed = true;
  }
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      if (!kept.contains(i) && !KeepsLayouts(*i)) changed |= ClearLayouts(i);
    }
  }
  return changed;
}

}  // namespace weft::compiler
