// Multi-pass row fusion (softmax, normalisation) by blocks: the threads of a block share a row, the
// reductions of a stage are combined over the block, and what later stages read is kept in
// registers.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "compiler/lower/gpu/block_reduce.h"
#include "compiler/lower/row_plan.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/target_gpu.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;
using program::Op;

namespace {

constexpr int64_t kRowPerThread = program::CodeBounds::kWrittenOut;  // elements of a row
// Shorter ones are a thread's.
constexpr int64_t kShortestRow = program::TargetFacts::kWarpThreads / 4;
// Bytes in registers.
constexpr int64_t kKeptOfThread = program::TargetFacts::kThreadRegisterBytes / 4;

int64_t ThreadsOfRow(int64_t length, const program::TargetInfo& target) {
  uint64_t wanted = static_cast<uint64_t>((length + kRowPerThread - 1) / kRowPerThread);
  return std::clamp(static_cast<int64_t>(std::bit_ceil(wanted)), target.warp, target.max_threads);
}

// Elements of one access, where rows consist of whole ones and all threads get some.
int LanesOfRow(Subject& subject, int64_t threads) {
  const RowSpace& space = *subject.row_space();
  int64_t minor = space.wide[space.wide.size() - 1];
  if (minor != space.length) return 1;
  for (const Instruction* m : subject.body().members) {
    if (m->shape().IsArray() && IsComplex(m->shape().dtype())) return 1;
  }
  // The narrowest array that is read whole: wider ones take several accesses.
  int64_t width = subject.cx.target.AccessBytes();
  for (const KernelInput& input : subject.body().inputs) {
    const Shape& shape = subject.cx.memory.shape(input.value);
    if (shape.elements() == space.rows * minor) {
      width = std::min<int64_t>(width, ByteWidth(shape.dtype()));
    }
  }
  int64_t lanes = std::min<int64_t>(subject.cx.target.AccessBytes() / width, 8);
  while (lanes > 1 && (minor % lanes != 0 || minor / lanes < threads)) lanes /= 2;
  return static_cast<int>(std::max<int64_t>(lanes, 1));
}

// The stages of a row by the threads of a block.
class BlockRow {
 public:
  BlockRow(Subject& subject, KernelDraft& draft, const RowPlan& plan, const LoopShape& shape)
      : cx_(subject.cx),
        body_(subject.body()),
        space_(*subject.row_space()),
        draft_(draft),
        e_(draft.elements()),
        b_(draft.builder()),
        plan_(plan),
        shape_(shape),
        columns_(std::span(space_.wide.data() + space_.kept, space_.wide.size() - space_.kept)),
        threads_(ThreadsOfRow(space_.length, cx_.target)),
        lanes_(LanesOfRow(subject, threads_)) {}

  Status Emit(const Index& row) {
    for (const Instruction* m : body_.members) {
      bool scalar = m->shape().IsScalar() && !m->IsConstant() && !space_.IsNarrow(m->shape());
      if (scalar) TRY(EmitElement(e_, *m, Index()));
    }
    for (int stage = 0; stage <= plan_.last(); ++stage) {
      for (const Instruction* m : plan_.Narrow(stage)) {
        e_.SetValue(*m, TRY(EmitElement(e_, *m, NarrowIndex(e_, space_, m->shape(), row))));
      }
      TRY(Stage(stage, row));
    }
    for (const KernelOutput& output : body_.outputs) {
      const Instruction& root = *output.inside;
      if (space_.IsWide(root.shape())) continue;
      Index index = NarrowIndex(e_, space_, root.shape(), row);
      Element value = TRY(EmitElement(e_, root, index));
      StoreAt(e_, draft_.MemoryOf(output.value), root.shape().dtype(),
              LinearCoord(e_, root.shape().dims(), index), value);
    }
    return {};
  }

 private:
  using Carry = KernelBuilder::Carry;

  Status Stage(int stage, const Index& row) {
    auto reduces = plan_.Reduces(stage);
    if (reduces.empty() && plan_.Outputs(stage).empty()) return {};
    std::vector<KernelBuilder::MemoryId> kept = DeclareKept(stage);
    ValueId t = b_.BeginLoop(LoopKind::kThread, b_.Int(0), b_.Int(threads_), b_.Int(1))[0];
    if (reduces.empty()) {
      TRY(OverColumns(row, t, {}, [&](const Index& index, Carry) -> Result<Carry> {
        TRY(Store(stage, kept, index));
        return Carry();
      }));
      b_.End();
    } else {
      RowReducer reducer(draft_, reduces, shape_.width);
      Carry mine = TRY(OverColumns(
          row, t, reducer.Pack(TRY(reducer.Starts()), lanes_),
          [&](const Index& index, Carry so_far) -> Result<Carry> {
            TRY(Store(stage, kept, index));
            std::vector<Element> terms;
            for (const Instruction* reduce : reduces) {
              for (int64_t i = 0; i < reduce->operand_count() / 2; ++i) {
                terms.push_back(TRY(EmitElement(e_, *reduce->operand(i), index)));
              }
            }
            return reducer.Pack(TRY(reducer.Combine(reducer.Unpack(so_far), terms)), lanes_);
          }));
      std::vector<Element> own = reducer.Unpack(mine);
      if (lanes_ > 1) own = TRY(reducer.CombineLanes(std::move(own), lanes_));
      std::vector<Element> all = TRY(CombineThreads(draft_, reducer, own));
      all = TRY(reducer.Combine(TRY(reducer.Inits()), all));
      for (size_t k = 0; k < reduces.size(); ++k) e_.SetValue(*reduces[k], all[k]);
    }
    for (size_t k = 0; k < kept.size(); ++k) {
      e_.BindAt(*plan_.Kept(stage)[k], kept[k], [this](const Index&) { return round_; });
    }
    return {};
  }

  std::vector<KernelBuilder::MemoryId> DeclareKept(int stage) {
    std::vector<KernelBuilder::MemoryId> arrays;
    int64_t rounds = (space_.length / lanes_ + threads_ - 1) / threads_ * lanes_;
    for (const Instruction* m : plan_.Kept(stage)) {
      DType type = m->shape().dtype();
      std::string name = StrCat("row", stage, "_", arrays.size());
      bool complex = IsComplex(type);
      arrays.push_back(b_.Array(name, complex ? RealType(type) : program::ComputeType(type),
                                complex ? 2 * rounds : rounds, true));
    }
    return arrays;
  }

  // What this stage computes of an element for later ones, and the outputs that are ready.
  Status Store(int stage, std::span<const KernelBuilder::MemoryId> kept, const Index& index) {
    for (size_t k = 0; k < kept.size(); ++k) {
      const Instruction& m = *plan_.Kept(stage)[k];
      StoreAt(e_, kept[k], m.shape().dtype(), round_, TRY(EmitElement(e_, m, index)));
    }
    return StoreOutputs(cx_, draft_, body_, plan_.Outputs(stage), space_, index);
  }

  Result<Carry> OverColumns(const Index& row, ValueId t, Carry carry,
                            const std::function<Result<Carry>(const Index&, Carry)>& body) {
    e_.lanes = lanes_;
    Result<Carry> after = OverPlaces(row, t, std::move(carry), body);
    e_.lanes = 1;
    return after;
  }
  // Places t, t + threads, ..., each of as many columns as there are lanes: whole rounds, then one
  // of the first threads.
  Result<Carry> OverPlaces(const Index& row, ValueId t, Carry carry,
                           const std::function<Result<Carry>(const Index&, Carry)>& body) {
    int64_t places = space_.length / lanes_, whole = places / threads_, rest = places % threads_;
    auto at = [&](Coord round) {
      round_ = round;
      ValueId first = b_.Mul(round.base, b_.Int(threads_));
      Index linear, index = row;
      linear.is_linear = true;
      linear.linear = {b_.Add(first, t), 0, 1, 0, space_.length - 1};
      if (lanes_ > 1) {
        auto scaled = [&](ValueId v) { return b_.Mul(v, b_.Int(lanes_)); };
        linear.linear = {scaled(linear.linear.base), 1, lanes_, 0, space_.length - 1};
        round_ = {scaled(round.base), 1, lanes_, 0, (whole + 1) * lanes_ - 1};
      }
      for (const Coord& c : Coordinates(e_, columns_, linear).coords) index.coords.push_back(c);
      return index;
    };
    if (whole == 1) {
      carry = TRY(body(at(ConstantCoord(e_, 0)), carry));
    } else if (whole > 1) {
      std::vector<ValueId> inside =
          b_.BeginLoop(LoopKind::kUnroll, b_.Int(0), b_.Int(whole), b_.Int(1), carry);
      Carry next =
          TRY(body(at({inside[0], 0, 1, 0, whole - 1}), Carry(inside.begin() + 1, inside.end())));
      carry = b_.End(next);
    }
    if (rest == 0) return carry;
    b_.BeginIf(b_.Emit(Op::kLt, {t, b_.Int(rest)}));
    Carry last = TRY(body(at(ConstantCoord(e_, whole)), carry));
    if (carry.empty()) {
      b_.End();
      return carry;
    }
    b_.BeginElse(last);
    return b_.End(carry);
  }

  LowerContext& cx_;
  const KernelBody& body_;
  const RowSpace& space_;
  KernelDraft& draft_;
  ElementContext& e_;
  KernelBuilder& b_;
  const RowPlan& plan_;
  const LoopShape& shape_;
  Dims columns_;
  int64_t threads_;
  int lanes_;
  Coord round_;  // of the columns that are being computed, in what is kept of them
};

Decision MatchBlockRows(Subject& subject) {
  if (!subject.row_space()) return Refuse("no reduction's rows are used again");
  const RowSpace& space = *subject.row_space();
  if (space.length < kShortestRow) return Refuse("the rows are short");
  // A loop that is one kernel has one block, which takes the rows in turn: a barrier each, against
  // the elements of a thread that has a row of its own.
  if (subject.cx.serial && space.rows * program::GpuFigures::kBarrierElements > space.length) {
    return Refuse("part of a loop, of whose one block each thread takes a row");
  }
  if (space.length > kRowPerThread * 2 * subject.cx.target.max_threads) {
    return Refuse("the rows do not fit the registers of a block");
  }
  KernelDraft draft = NewDraft(subject.cx, subject.body());
  for (const Instruction* m : subject.body().members) {
    if (!IsRowReduce(*m, space)) continue;
    if (!RowReducer(draft, std::span(&m, 1), 4).CanUseLanes()) {
      return Refuse("parts of a reduction cannot be put together without its initial value");
    }
  }
  return Take("the threads of a block share a row and what is kept of it");
}

Status LowerBlockRows(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const RowSpace& space = *subject.row_space();
  LoopShape shape = ShapeOf(cx, body, space.wide);
  // Registers cost nothing: whatever is used again is kept.
  int64_t most = kKeptOfThread * ThreadsOfRow(space.length, cx.target);
  RowPlan plan(body, space, shape.in_place, 0, most, true);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  Dims rows(std::span(space.wide.data(), space.kept));
  BlockRow block(subject, draft, plan, shape);
  TRY(draft.ForEachOnGrid(rows, false, [&](const Index& row) { return block.Emit(row); }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kBlockRows = {
    "rows by blocks", {}, MatchBlockRows, LowerBlockRows};

}  // namespace weft::compiler
