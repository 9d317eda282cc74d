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
  if (!IsInlineDot(subject.cx, dot, s) && !IsInRegisterBlocks(subject.cx, dot, s)) {
    return Refuse("there are enough products for the library");
  }
  if (!IsComputedInOneFloat(dot)) return Refuse("it is not computed in f32 or f64 throughout");
  if (s.trans_b) return Refuse("rows of the right side do not lie along the result's");
  if (s.n < program::TargetFacts::kUsualLanes || s.m * s.n * s.k < kStraightProducts)
    return Refuse("it is too small");
  return Take("rows of the right side lie along the result's");
}

// Blocks of the result whose sums are in registers: `rows` by `columns`.
class RegisterBlock {
 public:
  RegisterBlock(const LowerContext& cx, KernelDraft& draft, const Instruction& dot,
                const DotSizes& s)
      : b_(draft.builder()),
        s_(s),
        left_(draft.MemoryOf(cx.memory.Leaf(*dot.operand(0)))),
        right_(draft.MemoryOf(cx.memory.Leaf(*dot.operand(1)))),
        out_(draft.MemoryOf(cx.memory.Leaf(dot))),
        stored_(dot.shape().dtype()),
        lanes_(draft.LanesFor(ByteWidth(type_), s.n)) {
    // Half of the registers are sums.
    int64_t registers = std::max<int64_t>(1, lanes_ * ByteWidth(type_) * 8 / cx.target.vector_bits);
    int64_t sums =
        std::clamp<int64_t>(cx.target.Accumulators() / registers, 1, cx.target.VectorsAtOnce());
    rows_ = std::min(sums, s.m);
    stretches_ = std::clamp<int64_t>(sums / rows_, 1, s.n / lanes_);
  }

  // All blocks of one matrix of the batch.
  void EmitAll(ValueId batch) {
    Each(s_.n, stretches_ * lanes_, [&](ValueId column) {
      Each(s_.m, rows_, [&](ValueId row) { Emit(batch, row, column); });
    });
  }

 private:
  ValueId Scaled(ValueId x, int64_t factor) { return b_.Mul(x, b_.Int(factor)); }

  // Blocks from 0 on, the last one moved back.
  void Each(int64_t size, int64_t step, const std::function<void(ValueId)>& inside) {
    if (size == step) return inside(b_.Int(0));
    b_.For(
        program::LoopKind::kSerial, 0, size,
        [&](ValueId at) { inside(size % step == 0 ? at : b_.Min(at, b_.Int(size - step))); }, step);
  }

  KernelBuilder::Carry Sums(ValueId at_left, ValueId at_right) {
    KernelBuilder::Carry zero(static_cast<size_t>(rows_ * stretches_),
                              b_.Number(0, {type_, lanes_}));
    return EmitSums(b_, {b_.Int(0), b_.Int(s_.k), 1, s_.k}, zero,
                    [&](ValueId k, const KernelBuilder::Carry& carried) {
                      std::vector<ValueId> y;
                      for (int64_t c = 0; c < stretches_; ++c) {
                        ValueId at = b_.Add(b_.Add(at_right, Scaled(k, s_.n)), b_.Int(c * lanes_));
                        y.push_back(b_.Load(right_, at, lanes_));
                      }
                      return NextSums(at_left, k, y, carried);
                    });
  }

  KernelBuilder::Carry NextSums(ValueId at_left, ValueId k, const std::vector<ValueId>& y,
                                const KernelBuilder::Carry& carried) {
    KernelBuilder::Carry next;
    for (int64_t r = 0; r < rows_; ++r) {
      ValueId at = s_.trans_a ? b_.Add(b_.Add(at_left, Scaled(k, s_.m)), b_.Int(r))
                              : b_.Add(b_.Add(at_left, k), b_.Int(r * s_.k));
      ValueId x = b_.Splat(b_.Load(left_, at), lanes_);
      for (ValueId v : y) next.push_back(b_.Fma(x, v, carried[next.size()]));
    }
    return next;
  }

  void Emit(ValueId batch, ValueId row, ValueId column) {
    ValueId at_left = s_.trans_a ? b_.Add(Scaled(batch, s_.k * s_.m), row)
                                 : Scaled(b_.Add(Scaled(batch, s_.m), row), s_.k);
    ValueId at_right = b_.Add(Scaled(batch, s_.k * s_.n), column);
    KernelBuilder::Carry all = Sums(at_left, at_right);
    ValueId at_out = b_.Add(Scaled(b_.Add(Scaled(batch, s_.m), row), s_.n), column);
    for (size_t i = 0; i < all.size(); ++i) {
      int64_t n = static_cast<int64_t>(i);
      ValueId at = b_.Add(at_out, b_.Int(n / stretches_ * s_.n + n % stretches_ * lanes_));
      bool whole = stored_ == DType::kF32 || stored_ == DType::kF64;
      b_.Store(out_, at, whole ? all[i] : b_.Narrow(all[i], stored_));
    }
  }

  KernelBuilder& b_;
  const DotSizes& s_;
  KernelBuilder::MemoryId left_, right_, out_;
  DType stored_, type_ = program::ComputeType(stored_);
  int lanes_;
  int64_t rows_, stretches_;
};

Status LowerDotAlongColumns(Subject& subject) {
  LowerContext& cx = subject.cx;
  const DotSizes& s = *subject.dot();
  KernelBody body = BodyOf(cx, subject.instruction);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  RegisterBlock block(cx, draft, subject.instruction, s);
  double cost = static_cast<double>(s.m * s.n * s.k);
  TRY(draft.ForEachRow(Dims{s.batch}, cost, cx.serial, [&](const Index& at) -> Status {
    block.EmitAll(at.coords[0].base);
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kDotAlongColumns = {
    "dot along the columns", {hlo::Op::kDot}, MatchDotAlongColumns, LowerDotAlongColumns};

}  // namespace weft::compiler
