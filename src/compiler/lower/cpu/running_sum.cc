// cumsum: running sums of f32 along rows, which are added in f64 (sums.h).
#include <algorithm>
#include <utility>

#include "compiler/analysis/scan_body.h"
#include "compiler/lower/sums.h"
#include "compiler/lower/table.h"

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

Decision MatchRunningSum(Subject& subject) {
  const Instruction& scan = subject.instruction;
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  if (!IsRunningSum(attrs)) return Refuse("it is no f32 sum that is carried in f64");
  const Dims& whole = scan.operand(0)->shape().dims();
  if (attrs.dimensions[0] + 1 != static_cast<int64_t>(whole.size())) {
    return Refuse("it does not go along rows");
  }
  if (whole.back() < 2 * VectorOfSums(subject.cx.target)) return Refuse("its rows are short");
  if (!IsOnlyRunning(scan)) return Refuse("the sum of all is wanted, which vectors lose digits of");
  return Take("a running sum along rows: within vectors, then with the sum of those before");
}

// Running sums of f32 along rows: within vectors, then with the f64 sum of those before.
Status LowerRunningSum(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scan = subject.instruction;
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  const auto& results = cx.memory.Leaves(scan);
  const Instruction &input = *scan.operand(0), &init = *scan.operand(1);
  Dims whole = input.shape().dims(), slice = whole;
  slice.pop_back();
  int64_t length = whole.back();
  KernelBody body = BodyOf(cx, scan);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int lanes = VectorOfSums(cx.target);
  LoopShape shape;
  shape.dims = slice;
  shape.serial = cx.serial;
  shape.scalar = true;
  shape.cost = 2 * static_cast<double>(length);
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index outer = Coordinates(e, slice, linear);
    ValueId total = TRY(EmitElement(e, init, init.shape().IsScalar() ? Index() : outer)).re;
    // The next `n` elements in the order of the sum; what they add.
    auto vector = [&](ValueId at, int n, ValueId before) -> Result<ValueId> {
      Coord t{at, n > 1 ? 1 : 0, n, 0, length - 1};
      if (attrs.is_reverse) t = {b.Sub(b.Int(length - n), at), t.step, 1, 0, length - 1};
      Index index = outer;
      index.coords.push_back(t);
      e.lanes = n;
      ValueId x = TRY(EmitElement(e, input, index)).re;
      if (b.type(x).lanes != n) x = b.Splat(x, n);
      ValueId sums = SumsOfLanes(b, x, attrs.is_reverse);
      ValueId first = b.Cast(before, DType::kF32);
      ValueId value = b.Add(n > 1 ? b.Splat(first, n) : first, sums);
      StoreAt(e, draft.MemoryOf(results[0]), DType::kF32, LinearCoord(e, whole, index),
              {value, -1});
      e.lanes = 1;
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
    const Shape& last = cx.memory.shape(results[1]);
    StoreAt(e, draft.MemoryOf(results[1]), last.dtype(), LinearCoord(e, last.dims(), outer),
            {total, -1});
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kRunningSum = {
    "running sum", {hlo::Op::kScan}, MatchRunningSum, LowerRunningSum};

}  // namespace weft::compiler
