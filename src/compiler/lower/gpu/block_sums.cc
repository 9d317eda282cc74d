// The places of a row or column reduced by the threads of a block.
#include <bit>

#include "base/str.h"
#include "compiler/lower/gpu/block_reduce.h"
#include "program/target_facts.h"

namespace weft::compiler {

using program::LoopKind;
using program::Op;

namespace {

// Values of the threads of a column, in arrays that the block shares: one for each real part.
class SharedValues {
 public:
  SharedValues(KernelDraft& draft, const RowReducer& reducer, int64_t count) : b_(draft.builder()) {
    for (size_t i = 0; i < reducer.operand_count(); ++i) {
      DType type = program::ComputeType(RealType(reducer.type(i)));
      re_.push_back(b_.Array(StrCat("part", i), type, count));
      im_.push_back(IsComplex(reducer.type(i)) ? b_.Array(StrCat("part", i, ".im"), type, count)
                                               : -1);
    }
  }
  void Store(ValueId at, std::span<const Element> values) {
    for (size_t i = 0; i < re_.size(); ++i) {
      b_.Store(re_[i], at, values[i].re);
      if (im_[i] >= 0) b_.Store(im_[i], at, values[i].im);
    }
  }
  std::vector<Element> Load(ValueId at) {
    std::vector<Element> values;
    for (size_t i = 0; i < re_.size(); ++i) {
      values.push_back({b_.Load(re_[i], at), im_[i] >= 0 ? b_.Load(im_[i], at) : -1});
    }
    return values;
  }

 private:
  KernelBuilder& b_;
  std::vector<KernelBuilder::MemoryId> re_, im_;
};

}  // namespace

Result<std::vector<Element>> AccumulateStrided(KernelDraft& draft, RowReducer& reducer,
                                               const Places& places, const Accumulate& accumulate) {
  KernelBuilder& b = draft.builder();
  const int lanes = places.lanes;
  SumRange range{places.first, places.end, places.step, places.trips};
  if (places.even) range = {b.Int(0), b.Int(places.trips), 1, places.trips};
  KernelBuilder::Carry start = reducer.Pack(TRY(reducer.Starts()), lanes);
  draft.elements().lanes = lanes;
  std::vector<Element> all = reducer.Unpack(TRY(EmitSumLoop(
      b, range, start, reducer.sums(),
      [&](ValueId at, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
        if (places.even) at = b.Add(places.first, b.Mul(at, b.Int(places.step)));
        Coord j{at, 0, 1};
        if (lanes > 1) j = {b.Mul(at, b.Int(lanes)), 1, lanes, 0, places.row - 1};
        return reducer.Pack(TRY(accumulate(j, reducer.Unpack(so_far))), lanes);
      })));
  draft.elements().lanes = 1;
  return lanes == 1 ? all : reducer.CombineLanes(std::move(all), lanes);
}

Result<std::vector<Element>> CombineThreads(KernelDraft& draft, RowReducer& reducer,
                                            const std::vector<Element>& mine) {
  KernelBuilder& b = draft.builder();
  std::vector<ValueId> both = b.BeginCombine(reducer.Pack(mine, 1));
  auto left = std::span(both).first(both.size() / 2), right = std::span(both).subspan(left.size());
  std::vector<Element> two = TRY(reducer.Combine(reducer.Unpack(left), reducer.Unpack(right)));
  return reducer.Unpack(b.End(reducer.Pack(two, 1)));
}

Result<std::vector<Element>> ReduceByBlock(KernelDraft& draft, RowReducer& reducer, Places places,
                                           const Accumulate& accumulate) {
  KernelBuilder& b = draft.builder();
  ValueId t = b.BeginLoop(LoopKind::kThread, b.Int(0), b.Int(places.step), b.Int(1))[0];
  places.first = b.Add(places.first, t);
  return CombineThreads(draft, reducer, TRY(AccumulateStrided(draft, reducer, places, accumulate)));
}

Status ReduceColumns(KernelDraft& draft, RowReducer& reducer, int64_t columns, ValueId block,
                     const Places& places,
                     const std::function<Accumulate(ValueId column)>& accumulate,
                     const std::function<Status(ValueId column, std::vector<Element>)>& store) {
  KernelBuilder& b = draft.builder();
  const int64_t warp = draft.target().warp;  // columns of a block
  SharedValues part(draft, reducer, kColumnSlices * warp);
  bool whole = columns % warp == 0;
  // For each of the first `slices` threads of each column: body(slice, place in part, column).
  auto each = [&](int64_t slices,
                  const std::function<Status(ValueId, ValueId, ValueId)>& body) -> Status {
    ValueId s = b.Int(0);
    if (slices > 1) {
      s = b.BeginLoop(LoopKind::kThread, b.Int(0), b.Int(slices), b.Int(1))[0];
    }
    ValueId c = b.BeginLoop(LoopKind::kThread, b.Int(0), b.Int(warp), b.Int(1))[0];
    ValueId column = b.Add(b.Mul(block, b.Int(warp)), c);
    if (!whole) b.BeginIf(b.Emit(Op::kLt, {column, b.Int(columns)}));
    TRY(body(s, b.Add(b.Mul(s, b.Int(warp)), c), column));
    if (!whole) b.End();
    b.End();
    if (slices > 1) b.End();
    return {};
  };
  TRY(each(kColumnSlices, [&](ValueId s, ValueId place, ValueId column) -> Status {
    Places own = places;
    own.first = b.Add(places.first, s);
    part.Store(place, TRY(AccumulateStrided(draft, reducer, own, accumulate(column))));
    return {};
  }));
  for (int64_t half = kColumnSlices / 2; half >= 1; half /= 2) {
    TRY(each(half, [&](ValueId, ValueId place, ValueId) -> Status {
      ValueId other = b.Add(place, b.Int(half * warp));
      part.Store(place, TRY(reducer.Combine(part.Load(place), part.Load(other))));
      return {};
    }));
  }
  return each(
      1, [&](ValueId, ValueId place, ValueId column) { return store(column, part.Load(place)); });
}

}  // namespace weft::compiler
