// scan: a walk along one dimension with carried values, for bodies that work element by element.
#include <algorithm>
#include <utility>

#include "compiler/analysis/scan_body.h"
#include "compiler/lower/lowering.h"
#include "compiler/lower/sums.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

// One array, and the f64 sum of its f32 elements so far: (x, sum) -> (f32 of the next sum, that).
bool IsRunningSum(const hlo::ScanAttrs& attrs) {
  const hlo::Computation& body = *attrs.to_apply;
  const Instruction* root = body.root();
  if (!attrs.is_associative || attrs.num_carries != 1 || body.parameters().size() != 2 ||
      root->op() != hlo::Op::kTuple || root->operand_count() != 2) {
    return false;
  }
  const Instruction *out = root->operand(0), *sum = root->operand(1);
  if (out->op() != hlo::Op::kConvert || out->operand(0) != sum || sum->op() != hlo::Op::kAdd ||
      out->shape().dtype() != DType::kF32 || sum->shape().dtype() != DType::kF64) {
    return false;
  }
  const Instruction *x = sum->operand(0), *carry = sum->operand(1);
  if (x == body.parameter(1)) std::swap(x, carry);
  return carry == body.parameter(1) && x->op() == hlo::Op::kConvert &&
         x->operand(0) == body.parameter(0) && body.parameter(0)->shape().dtype() == DType::kF32;
}

// Of a running sum along rows; 1: none.
int VectorOfSums(const program::TargetInfo& target) {
  return static_cast<int>(std::max<int64_t>(target.vector_bits / 32, 1));
}

// Nobody asks for the sum of all, which vectors of f32 make less exact than the scan has it.
bool IsOnlyRunning(const Instruction& scan) {
  auto is_running = [](const Instruction* user) {
    return user->op() == hlo::Op::kGetTupleElement &&
           user->attrs<hlo::GetTupleElementAttrs>().index == 0;
  };
  return scan.parent()->root() != &scan && std::ranges::all_of(scan.users(), is_running);
}

// Sums within the lanes of a vector: of each lane with all before it, or all behind it.
ValueId SumsOfLanes(KernelBuilder& b, ValueId v, bool reverse) {
  int lanes = b.type(v).lanes;
  ValueId nothing = b.Number(-0.0, b.type(v));
  for (int distance = 1; distance < lanes; distance *= 2) {
    std::vector<int32_t> from;
    for (int i = 0; i < lanes; ++i) {
      int lane = reverse ? i + distance : i - distance;
      from.push_back(lane >= 0 && lane < lanes ? lane : lanes + i);
    }
    v = b.Add(v, b.Shuffle(v, nothing, from));
  }
  return v;
}

// Enough elements follow each other in a row for blocks of them (column_scan.cc).
bool HasLongRows(const Instruction& scan) {
  constexpr int64_t kLongRow = 256, kFewRows = 4;
  const Shape& shape = scan.operand(0)->shape();
  int64_t dim = scan.attrs<hlo::ScanAttrs>().dimensions[0], row = 1;
  for (int64_t d = dim + 1; d < shape.rank(); ++d) row *= shape.dim(d);
  return row >= kLongRow && shape.dim(dim) >= kFewRows;
}

}  // namespace

// Running sums of f32 along rows: within vectors, then with the f64 sum of those before.
Status Lowering::LowerRunningSum(const Instruction& scan, Steps& steps) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  const auto& results = memory_.Leaves(scan);
  const Instruction &input = *scan.operand(0), &init = *scan.operand(1);
  Dims whole = input.shape().dims(), slice = whole;
  slice.pop_back();
  int64_t length = whole.back();
  KernelBody body = BodyOf(scan);
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int lanes = VectorOfSums(target_);
  LoopShape shape;
  shape.dims = slice;
  shape.serial = serial_;
  shape.scalar = true;
  shape.cost = 2 * static_cast<double>(length);
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index outer = e.Coordinates(slice, linear);
    ValueId total = TRY(e.Emit(init, init.shape().IsScalar() ? Index() : outer)).re;
    // The next `n` elements in the order of the sum; what they add.
    auto vector = [&](ValueId at, int n, ValueId before) -> Result<ValueId> {
      Coord t{at, n > 1 ? 1 : 0, n, 0, length - 1};
      if (attrs.is_reverse) t = {b.Sub(b.Int(length - n), at), t.step, 1, 0, length - 1};
      Index index = outer;
      index.coords.push_back(t);
      e.set_lanes(n);
      ValueId x = TRY(e.Emit(input, index)).re;
      if (b.type(x).lanes != n) x = b.Splat(x, n);
      ValueId sums = SumsOfLanes(b, x, attrs.is_reverse);
      ValueId first = b.Cast(before, DType::kF32);
      ValueId value = b.Add(n > 1 ? b.Splat(first, n) : first, sums);
      e.StoreAt(draft.MemoryOf(results[0]), DType::kF32, e.Linear(whole, index), {value, -1});
      e.set_lanes(1);
      if (n > 1) sums = b.Extract(sums, attrs.is_reverse ? 0 : n - 1);
      return b.Add(before, b.Cast(sums, DType::kF64));
    };
    int64_t at = 0;
    for (int n : {lanes, 1}) {
      int64_t end = length - length % n;
      if (at == end) continue;
      auto inside = b.BeginLoop(LoopKind::kSerial, b.Int(at), b.Int(end), b.Int(n),
                                std::vector<ValueId>{total});
      ValueId next = TRY(vector(inside[0], n, inside[1]));
      total = b.End(std::vector<ValueId>{next})[0];
      at = end;
    }
    const Shape& last = memory_.shape(results[1]);
    e.StoreAt(draft.MemoryOf(results[1]), last.dtype(), e.Linear(last.dims(), outer), {total, -1});
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

Status Lowering::LowerScan(const Instruction& scan, Steps& steps) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  int64_t dim = attrs.dimensions[0];
  size_t carries = static_cast<size_t>(attrs.num_carries);
  size_t inputs = static_cast<size_t>(scan.operand_count()) - carries;
  const auto& results = memory_.Leaves(scan);
  size_t outputs = results.size() - carries;
  if (inputs == 0) return Unimplemented("scan: no native lowering without inputs");
  Dims whole = scan.operand(0)->shape().dims(), slice = whole;
  slice.erase_at(static_cast<size_t>(dim));
  int64_t length = whole[static_cast<size_t>(dim)];
  if (!IsElementwiseScanBody(*attrs.to_apply, slice)) {
    return Unimplemented("scan: no native lowering of a body that is not elementwise");
  }
  if (target_.kind == program::TargetKind::kCpu) {
    bool along_rows = dim + 1 == static_cast<int64_t>(whole.size());
    if (along_rows && length >= 2 * VectorOfSums(target_) && IsRunningSum(attrs) &&
        IsOnlyRunning(scan)) {
      return LowerRunningSum(scan, steps);
    }
    if (!serial_ && HasLongRows(scan)) return LowerColumnScan(scan, steps);
  }
  KernelBody body = BodyOf(scan);
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  LoopShape shape;
  shape.dims = slice;
  shape.serial = serial_;
  shape.cost = static_cast<double>(length) * static_cast<double>(attrs.to_apply->size());
  shape.scalar = dim == static_cast<int64_t>(whole.size()) - 1;  // lanes would be far apart
  for (const KernelInput& in : body.inputs) {
    shape.width = std::max(shape.width, ByteWidth(in.inside->shape().dtype()));
  }
  std::vector<bool> complex;
  for (size_t c = 0; c < carries; ++c) {
    complex.push_back(IsComplex(scan.operand(static_cast<int64_t>(inputs + c))->shape().dtype()));
  }
  auto store = [&](size_t k, const Index& index, Element value) {
    const Shape& to = memory_.shape(results[k]);
    e.StoreAt(draft.MemoryOf(results[k]), to.dtype(), e.Linear(to.dims(), index), value);
  };
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index at = e.Coordinates(slice, linear);
    int lanes = e.lanes();
    auto wide = [&](ValueId v) { return b.type(v).lanes == lanes ? v : b.Splat(v, lanes); };
    KernelBuilder::Carry start;
    for (size_t c = 0; c < carries; ++c) {
      const Instruction& operand = *scan.operand(static_cast<int64_t>(inputs + c));
      Element x = TRY(e.Emit(operand, operand.shape().IsScalar() ? Index() : at));
      start.push_back(wide(x.re));
      if (complex[c]) start.push_back(wide(x.im));
    }
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(length), b.Int(1), start);
    Coord t{inside[0], 0, 1};
    if (attrs.is_reverse) t = e.AddConstant(e.Scale(t, -1), length - 1);
    Index full = at;
    full.coords.insert_at(static_cast<size_t>(dim), t);
    std::vector<Element> args;
    for (size_t i = 0; i < inputs; ++i) {
      args.push_back(TRY(e.Emit(*scan.operand(static_cast<int64_t>(i)), full)));
    }
    size_t next = 1;
    for (size_t c = 0; c < carries; ++c) {
      Element& x = args.emplace_back();
      x.re = inside[next++];
      if (complex[c]) x.im = inside[next++];
    }
    std::vector<Element> made = TRY(e.Call(*attrs.to_apply, args));
    for (size_t k = 0; k < outputs; ++k) store(k, full, made[k]);
    KernelBuilder::Carry yield;
    for (size_t c = 0; c < carries; ++c) {
      yield.push_back(wide(made[outputs + c].re));
      if (complex[c]) yield.push_back(wide(made[outputs + c].im));
    }
    std::vector<ValueId> after = b.End(yield);
    next = 0;
    for (size_t c = 0; c < carries; ++c) {
      Element last{after[next++], -1};
      if (complex[c]) last.im = after[next++];
      store(outputs + c, at, last);
    }
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
