// Loops over arrays whose minor dimension has two to four elements (pairs, colours, points): lanes
// go along the dimension outside of it, the elements of the minor dimension are computed side by
// side and stored interleaved.
#include <algorithm>

#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Part `number` of the `parts` interleaved, with as many lanes as each of them has.
ValueId InterleavedPart(KernelBuilder& b, std::span<const ValueId> parts, int lanes,
                        int64_t number) {
  int64_t count = static_cast<int64_t>(parts.size());
  // One operand after the other into the lanes that are its own.
  ValueId result = parts[0];
  for (int64_t k = 1; k < count; ++k) {
    std::vector<int32_t> from;
    for (int64_t l = 0; l < lanes; ++l) {
      int64_t place = number * lanes + l, part = place % count;
      int32_t element = static_cast<int32_t>(place / count);
      bool first = part == 0 && k == 1;
      from.push_back(part == k  ? lanes + element
                     : first    ? element
                     : part < k ? static_cast<int32_t>(l)
                                : 0);
    }
    result = b.Shuffle(result, parts[static_cast<size_t>(k)], from);
  }
  return result;
}

}  // namespace

bool Lowering::CanInterleave(const KernelBody& body, const Dims& dims) const {
  if (target_.kind == program::TargetKind::kGpu || serial_ || dims.size() < 2) return false;
  // Four elements that lie together are a vector of their own.
  int64_t most = body.outputs[0].inside->op() == HloOp::kConcatenate ? 4 : 3;
  if (dims.back() < 2 || dims.back() > most || dims[dims.size() - 2] < 8) return false;
  for (const KernelOutput& output : body.outputs) {
    const Shape& shape = output.inside->shape();
    if (!shape.IsArray() || shape.dims() != dims || IsComplex(shape.dtype())) return false;
  }
  return true;
}

Status Lowering::LowerInterleaved(const KernelBody& body, const LoopShape& whole, Steps& steps) {
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int64_t count = whole.dims.back();
  LoopShape shape = whole;
  shape.dims = Dims(std::span(whole.dims.data(), whole.dims.size() - 1));
  shape.cost *= static_cast<double>(count);
  shape.flat = false;
  TRY(draft.ForEach(shape, [&](const Index& outer) -> Status {
    Index index = e.Coordinates(shape.dims, outer);
    index.coords.push_back({});
    std::vector<std::vector<ValueId>> values(body.outputs.size());
    for (int64_t k = 0; k < count; ++k) {
      index.coords.back() = e.Constant(k);
      for (size_t o = 0; o < body.outputs.size(); ++o) {
        ValueId value = TRY(e.Emit(*body.outputs[o].inside, index)).re;
        int lanes = e.lanes();
        values[o].push_back(b.type(value).lanes == lanes ? value : b.Splat(value, lanes));
      }
    }
    index.coords.back() = e.Constant(0);
    Coord first = e.Linear(whole.dims, index);
    for (size_t o = 0; o < body.outputs.size(); ++o) {
      DType type = body.outputs[o].inside->shape().dtype();
      KernelBuilder::MemoryId memory = draft.MemoryOf(body.outputs[o].value);
      for (int64_t k = 0; k < count; ++k) {
        ValueId part = e.lanes() == 1 ? values[o][static_cast<size_t>(k)]
                                      : InterleavedPart(b, values[o], e.lanes(), k);
        Coord at{b.Add(first.base, b.Int(k * e.lanes())), e.lanes() > 1 ? 1 : 0};
        e.StoreAt(memory, type, at, {part, -1});
      }
    }
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
