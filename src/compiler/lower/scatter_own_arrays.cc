// Privatised scatter: threads update arrays of their own, which are joined in the end, where the
// result is small; and sums of f32 that are kept in an array of f64.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/scatter_share.h"
#include "compiler/lower/sums.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

// Sums of f32 are kept in f64 until all updates are added (sums.h), where that costs little: arrays
// that stay in a cache, or far more updates than places for them.
constexpr int64_t kSmallArray = program::TargetFacts::kSecondLevelBytes / 2 / sizeof(double),
                  kUpdatesPerPlace = 16,
                  kMostPlaces = program::TargetFacts::kThirdLevelBytes / 4 / sizeof(double);
constexpr int64_t kFewUpdates = 2 * kSumRun;  // terms that f32 adds exactly enough (sums.h)
constexpr double kWideCost = 4;  // of an element of f64 that is filled or joined: mostly memory

// How many arrays of their own the threads get; 0: none.
int64_t OwnArrays(const LowerContext& cx, const Instruction& scatter, const ScatterDims& dims,
                  double work) {
  const Shape& shape = scatter.operand(0)->shape();
  if (scatter.operand_count() != 3 || work < 2 * cx.target.WorkOfPiece()) return 0;
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  if (!AsPlainReducer(*attrs.to_apply, shape.dtype(), 0)) return 0;
  // Filling and joining them is a small part of the work.
  double room = work / (16 * static_cast<double>(shape.elements()));
  int64_t arrays = std::min(static_cast<int64_t>(room), program::TargetFacts::kJoinedArrays);
  return arrays >= 2 && dims.updates >= 64 * arrays ? arrays : 0;
}

bool SumsInF64(const Instruction& scatter, const ScatterDims& dims, bool in_loop) {
  const Shape& shape = scatter.operand(0)->shape();
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  if (scatter.operand_count() != 3 || attrs.unique_indices || shape.dtype() != DType::kF32 ||
      !SumsF32(*attrs.to_apply, shape.dtype()) || dims.updates <= kFewUpdates) {
    return false;
  }
  int64_t places = shape.elements() / dims.window_elements;
  if (in_loop) return dims.updates >= kUpdatesPerPlace * places;
  return shape.elements() <= kSmallArray ||
         (dims.updates >= kUpdatesPerPlace * places && shape.elements() <= kMostPlaces);
}

// Arrays of one thread, updated round robin, where filling and joining one more costs little.
int64_t ChainsOf(const Instruction& scatter, const ScatterDims& dims, int64_t threads) {
  int64_t each = dims.updates / (threads * std::max<int64_t>(1, scatter.shape().elements()));
  if (each >= kUpdatesPerPlace * program::CodeBounds::kCopies) return program::CodeBounds::kCopies;
  return each >= kUpdatesPerPlace ? program::CodeBounds::kCopies / 2 : 1;
}

// How many arrays of their own threads scatter into; 0: none. `wide`: of f64 for sums of f32.
// `chains`: arrays of one thread, which takes one update for each in turn: updates of one place
// that follow each other, as those of sorted indices do, wait for the store before them otherwise.
struct OwnArrayPlan {
  int64_t arrays;
  bool wide;
  int64_t chains = 1;
};

// Parts of the updates, one for each array, `plan.chains` of them in one loop.
Status UpdateOwnArrays(KernelBuilder& b, ScatterLoops& loops, const ScatterDims& dims,
                       const OwnArrayPlan& plan, int64_t size) {
  int64_t arrays = plan.arrays, chains = plan.chains, part = (dims.updates + arrays - 1) / arrays;
  bool shared = arrays > chains;
  ValueId c = b.Int(0);
  if (shared) c = b.BeginLoop(LoopKind::kParallel, c, b.Int(arrays / chains), b.Int(1))[0];
  ValueId first = b.Mul(c, b.Int(chains * part)), base = b.Mul(c, b.Int(chains * size));
  auto set_base = [&](int64_t q) {
    loops.set_base({b.Add(base, b.Int(q * size)), 0, size, 0, (arrays - 1) * size});
  };
  if (chains == 1) {
    set_base(0);
    TRY(loops.Range(first, b.Min(b.Add(first, b.Int(part)), b.Int(dims.updates))));
  } else {
    ValueId i = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(part), b.Int(1))[0];
    for (int64_t q = 0; q < chains; ++q) {
      set_base(q);
      ValueId number = b.Add(b.Add(first, b.Int(q * part)), i);
      bool ends = (arrays - chains + q + 1) * part > dims.updates;  // before the part does
      if (ends) b.BeginIf(b.Emit(Op::kLt, {number, b.Int(dims.updates)}), program::Branch::kLikely);
      TRY(loops.Update(number));
      if (ends) b.End();
    }
    b.End();
  }
  if (shared) b.End();
  return {};
}

// The arrays in which threads scatter, and the kernels that fill and join them.
struct OwnArraysOf {
  OwnArraysOf(LowerContext& cx, const Instruction& scatter, const OwnArrayPlan& plan)
      : to_apply(*scatter.attrs<hlo::ScatterAttrs>().to_apply),
        type(scatter.shape().dtype()),
        own_type(plan.wide ? DType::kF64 : type),
        size(scatter.shape().elements()),
        arrays(plan.arrays),
        buffer(cx.Scratch(Shape(own_type, {arrays, size}), "own")) {
    loop.flat = true;
    loop.serial = cx.serial;
    loop.width = std::max<int64_t>(ByteWidth(own_type), IsFloat(type) ? 4 : 1);
  }
  bool wide() const { return own_type != type; }

  const hlo::Computation& to_apply;
  DType type, own_type;
  int64_t size, arrays;
  program::BufferId buffer;
  LoopShape loop;  // over all elements
};

// Arrays begin with the reduction's identity.
Status FillOwnArrays(LowerContext& cx, const KernelBody& body, OwnArraysOf own, Steps& steps) {
  PlainReducer reducer = *AsPlainReducer(own.to_apply, own.type, 0);
  KernelDraft fill(StrCat(body.instruction->name(), ".own"), cx.program, cx.memory, cx.target);
  KernelBuilder::MemoryId to = fill.DeclareBuffer(own.buffer, Access::kWrite);
  own.loop.dims = {own.arrays * own.size};
  own.loop.cost = own.wide() ? kWideCost : 1;
  ElementContext& e = fill.elements();
  TRY(fill.ForEach(own.loop, [&](const Index& index) -> Status {
    program::Type computed{program::ComputeType(own.own_type), 1};
    ValueId identity = fill.builder().Number(reducer.identity, computed);
    StoreAt(e, to, own.own_type, LinearCoord(e, own.loop.dims, index), {identity, -1});
    return {};
  }));
  Finish(cx, fill, body, steps);
  return {};
}

// All of them, in order, are joined with the operand.
Status JoinOwnArrays(LowerContext& cx, const KernelBody& body, OwnArraysOf own, Steps& steps) {
  KernelDraft join(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  KernelBuilder::MemoryId from = join.DeclareBuffer(own.buffer, Access::kRead);
  KernelBuilder::MemoryId to =
      join.DeclareBuffer(cx.Buffer(body.outputs[0].value), Access::kReadWrite);
  own.loop.dims = {own.size};
  own.loop.in_place = true;
  own.loop.cost = static_cast<double>(own.arrays) * (own.wide() ? 2 * kWideCost : 2);
  ElementContext& e = join.elements();
  TRY(join.ForEach(own.loop, [&](const Index& index) -> Status {
    Coord at = LinearCoord(e, own.loop.dims, index);
    Element sum = LoadAt(e, to, own.type, at);
    KernelBuilder& b = join.builder();
    if (own.wide()) sum.re = b.Cast(sum.re, own.own_type);
    for (int64_t k = 0; k < own.arrays; ++k) {
      Element part = LoadAt(e, from, own.own_type, AddConstant(e, at, k * own.size));
      if (own.wide()) {
        sum.re = b.Add(sum.re, part.re);
      } else {
        sum = TRY(CallComputation(e, own.to_apply, std::vector<Element>{sum, part}))[0];
      }
    }
    if (own.wide()) sum.re = b.Cast(sum.re, own.type);
    StoreAt(e, to, own.type, at, sum);
    return {};
  }));
  Finish(cx, join, body, steps);
  return {};
}

// Each array is updated by one part of the updates; of one array threads take their share.
Status ScatterToOwnArrays(LowerContext& cx, const KernelBody& body, const Instruction& scatter,
                          const OwnArrayPlan& plan, const ScatterShare& share, Steps& steps) {
  OwnArraysOf own(cx, scatter, plan);
  TRY(FillOwnArrays(cx, body, own, steps));
  ScatterDims dims(scatter);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  ScatterLoops loops(draft, scatter, dims, {draft.DeclareBuffer(own.buffer, Access::kReadWrite)});
  if (plan.wide) loops.set_wide();
  KernelBuilder& b = draft.builder();
  loops.set_columns(b.Int(0), dims.minor());
  if (own.arrays > 1) {
    TRY(UpdateOwnArrays(b, loops, dims, plan, own.size));
  } else {
    TRY(SharedUpdates(b, loops, dims, share, b.Int(0), b.Int(dims.updates)));
  }
  Finish(cx, draft, body, steps);
  return JoinOwnArrays(cx, body, own, steps);
}

OwnArrayPlan PlanOwnArrays(const LowerContext& cx, const Instruction& scatter,
                           const ScatterDims& dims) {
  bool wide = SumsInF64(scatter, dims, cx.serial);
  bool shared = !cx.serial && ColumnsOfThread(cx, scatter, dims) == dims.minor();
  if (scatter.attrs<hlo::ScatterAttrs>().unique_indices || (!wide && !shared)) return {0, wide};
  int64_t arrays = cx.serial ? 0 : OwnArrays(cx, scatter, dims, WorkOf(dims));
  arrays = wide ? std::max<int64_t>(arrays, 1) : arrays;
  int64_t chains = wide && dims.window_elements == 1 ? ChainsOf(scatter, dims, arrays) : 1;
  return {arrays * chains, wide, chains};
}

Decision MatchScatterToOwnArrays(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  if (!HasUpdates(scatter)) return Refuse("there are no updates");
  OwnArrayPlan plan = PlanOwnArrays(subject.cx, scatter, ScatterDims(scatter));
  if (plan.arrays == 0) return Refuse("arrays for each thread would cost more than they save");
  return plan.wide ? Take("sums of f32 are kept in f64 until all updates are added")
                   : Take("the result is small: each thread has an array of its own");
}

Status LowerScatterToOwnArrays(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scatter = ScatterOf(subject.instruction);
  KernelBody body = ScatterBody(cx, subject.instruction, scatter);
  CopyScattered(cx, subject.instruction, scatter, body, subject.steps);
  ScatterDims dims(scatter);
  OwnArrayPlan plan = PlanOwnArrays(cx, scatter, dims);
  return ScatterToOwnArrays(cx, body, scatter, plan, ShareOf(cx, scatter, dims), subject.steps);
}

}  // namespace

extern constinit const LoweringRow kScatterToOwnArrays = {
    "scatter to own arrays", {HloOp::kScatter}, MatchScatterToOwnArrays, LowerScatterToOwnArrays};

}  // namespace weft::compiler
