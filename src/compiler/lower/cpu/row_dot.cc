// Small products whose result lies along the rows of the right side: lanes run along them, and some
// rows, or stretches of one row, are summed at once, so that no addition waits for the one before.
// The last block is one of the others moved back: what it writes twice is the same.
#include <algorithm>

#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

Decision MatchDotAlongColumns(Subject& subject) {
  const Instruction& dot = subject.instruction;
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  const DotSizes& s = *subject.dot();
  if (!IsInlineDot(subject.cx, dot, s)) return Refuse("there are enough products for the library");
  if (!IsComputedInOneFloat(dot)) return Refuse("it is not computed in f32 or f64 throughout");
  if (s.trans_b) return Refuse("rows of the right side do not lie along the result's");
  if (s.n < program::TargetFacts::kUsualLanes || s.m * s.n * s.k < kStraightProducts)
    return Refuse("it is too small");
  return Take("rows of the right side lie along the result's");
}

Status LowerDotAlongColumns(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  const DotSizes& s = *subject.dot();
  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  auto memory_of = [&](const Instruction* i) { return draft.MemoryOf(cx.memory.Leaf(*i)); };
  KernelBuilder::MemoryId left = memory_of(dot.operand(0)), right = memory_of(dot.operand(1)),
                          out = memory_of(&dot);
  DType type = program::ComputeType(dot.shape().dtype()), stored = dot.shape().dtype();
  int lanes = draft.LanesFor(ByteWidth(type), s.n);
  // Half of the registers are sums.
  int64_t registers = std::max<int64_t>(1, lanes * ByteWidth(type) * 8 / cx.target.vector_bits);
  int64_t sums =
      std::clamp<int64_t>(cx.target.Accumulators() / registers, 1, cx.target.VectorsAtOnce());
  int64_t rows = std::min(sums, s.m), stretches = std::clamp<int64_t>(sums / rows, 1, s.n / lanes);
  int64_t columns = stretches * lanes;
  auto scaled = [&](ValueId x, int64_t factor) { return b.Mul(x, b.Int(factor)); };

  auto block = [&](ValueId batch, ValueId row, ValueId column) {
    ValueId at_left = s.trans_a ? b.Add(scaled(batch, s.k * s.m), row)
                                : scaled(b.Add(scaled(batch, s.m), row), s.k);
    ValueId at_right = b.Add(scaled(batch, s.k * s.n), column);
    KernelBuilder::Carry zero(static_cast<size_t>(rows * stretches), b.Number(0, {type, lanes}));
    KernelBuilder::Carry all =
        EmitSums(b, {b.Int(0), b.Int(s.k), 1, s.k}, zero, [&](ValueId k, const auto& carried) {
          std::vector<ValueId> y;
          for (int64_t c = 0; c < stretches; ++c) {
            ValueId at = b.Add(b.Add(at_right, scaled(k, s.n)), b.Int(c * lanes));
            y.push_back(b.Load(right, at, lanes));
          }
          KernelBuilder::Carry next;
          for (int64_t r = 0; r < rows; ++r) {
            ValueId at = s.trans_a ? b.Add(b.Add(at_left, scaled(k, s.m)), b.Int(r))
                                   : b.Add(b.Add(at_left, k), b.Int(r * s.k));
            ValueId x = b.Splat(b.Load(left, at), lanes);
            for (ValueId v : y) next.push_back(b.Fma(x, v, carried[next.size()]));
          }
          return next;
        });
    ValueId at_out = b.Add(scaled(b.Add(scaled(batch, s.m), row), s.n), column);
    for (size_t i = 0; i < all.size(); ++i) {
      int64_t n = static_cast<int64_t>(i);
      ValueId at = b.Add(at_out, b.Int(n / stretches * s.n + n % stretches * lanes));
      bool whole = stored == DType::kF32 || stored == DType::kF64;
      b.Store(out, at, whole ? all[i] : b.Narrow(all[i], stored));
    }
  };
  // Blocks from 0 on, the last one moved back.
  auto each = [&](int64_t size, int64_t step, const std::function<void(ValueId)>& inside) {
    if (size == step) return inside(b.Int(0));
    b.For(
        program::LoopKind::kSerial, 0, size,
        [&](ValueId at) { inside(size % step == 0 ? at : b.Min(at, b.Int(size - step))); }, step);
  };
  double cost = static_cast<double>(s.m * s.n * s.k);
  TRY(draft.ForEachRow(Dims{s.batch}, cost, cx.serial, [&](const Index& at) -> Status {
    ValueId batch = at.coords[0].base;
    each(s.n, columns,
         [&](ValueId column) { each(s.m, rows, [&](ValueId row) { block(batch, row, column); }); });
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kDotAlongColumns = {
    "dot along the columns", {hlo::Op::kDot}, MatchDotAlongColumns, LowerDotAlongColumns};

}  // namespace weft::compiler
