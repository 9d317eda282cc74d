// scatter: updates at places that the program computes, one after the other.
//
// Threads share the work in one of four ways, whichever suits, so that the order at each element
// is the same for any number of them: by columns of the windows; by ranges of places, each thread
// going through all indices; by updates, where no two meet; by updates into arrays of their own,
// which are joined in the end, where the result is small.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/scatter_loops.h"
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

// Elements of the minor window dimension a thread takes.
constexpr int64_t kWindowPiece = program::CodeBounds::kShortLoop;
// Sums of f32 are kept in f64 until all updates are added (sums.h), where that costs little: arrays
// that stay in a cache, or far more updates than places for them.
constexpr int64_t kSmallArray = program::TargetFacts::kSecondLevelBytes / 2 / sizeof(double),
                  kUpdatesPerPlace = 16,
                  kMostPlaces = program::TargetFacts::kThirdLevelBytes / 4 / sizeof(double);
constexpr int64_t kFewUpdates = 2 * kSumRun;  // terms that f32 adds exactly enough (sums.h)
constexpr double kWideCost = 4;  // of an element of f64 that is filled or joined: mostly memory

}  // namespace

const Instruction& ScatterOf(const Instruction& instruction) {
  bool fused = instruction.op() == HloOp::kFusion;
  return fused ? *instruction.attrs<hlo::FusionAttrs>().calls->root() : instruction;
}

bool HasUpdates(const Instruction& scatter) {
  return scatter.operand(scatter.operand_count() - 1)->shape().elements() > 0;
}

KernelBody ScatterBody(const LowerContext& cx, const Instruction& instruction,
                       const Instruction& scatter) {
  KernelBody body = BodyOf(cx, instruction);
  int64_t n = (scatter.operand_count() - 1) / 2;
  // The arrays below are no inputs, unless something else in the kernel reads them.
  std::erase_if(body.inputs, [&](const KernelInput& input) {
    bool below = false, read = false;
    for (const Instruction* m : body.members) {
      for (int64_t k = 0; k < m->operand_count(); ++k) {
        if (m->operand(k) == input.inside) (m == &scatter && k < n ? below : read) = true;
      }
    }
    return below && !read;
  });
  return body;
}

void CopyScattered(LowerContext& cx, const Instruction& instruction, const Instruction& scatter,
                   const KernelBody& body, Steps& steps) {
  bool fused = instruction.op() == HloOp::kFusion;
  int64_t n = (scatter.operand_count() - 1) / 2;
  std::vector<std::pair<MemValue, MemValue>> moves;
  for (int64_t i = 0; i < n; ++i) {
    const Instruction* below = scatter.operand(i);
    if (fused) below = instruction.operand(below->parameter_number());
    moves.emplace_back(cx.memory.Leaf(*below), body.outputs[static_cast<size_t>(i)].value);
  }
  CopyTogether(cx, std::move(moves), "the scattered-into array", instruction, steps);
}

namespace {

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

// Arrays that a thread takes turns with, where filling and joining one more costs little.
int64_t ChainsOf(const Instruction& scatter, const ScatterDims& dims, int64_t threads) {
  int64_t each = dims.updates / (threads * std::max<int64_t>(1, scatter.shape().elements()));
  if (each >= kUpdatesPerPlace * program::CodeBounds::kCopies) return program::CodeBounds::kCopies;
  return each >= kUpdatesPerPlace ? program::CodeBounds::kCopies / 2 : 1;
}

double WorkOf(const ScatterDims& dims) {
  return static_cast<double>(dims.updates) * static_cast<double>(dims.window_elements);
}

// How threads share the updates. At most one of both cuts them.
struct ScatterShare {
  int64_t columns;             // of the windows that a thread takes, of `dims.minor()`
  int64_t dim = -1;            // of the operand, cut in
  int64_t ranges = 1, size{};  // so many ranges of so many places
};

int64_t ColumnsOfThread(const LowerContext& cx, const Instruction& scatter,
                        const ScatterDims& dims) {
  int64_t minor = dims.minor();
  bool shared = !cx.serial && WorkOf(dims) > 4 * cx.target.WorkOfPiece() &&
                minor >= 2 * kWindowPiece && minor % kWindowPiece == 0 &&
                dims.ColumnsApart(scatter);
  return shared ? kWindowPiece : minor;
}

// The longest dimension that indices move windows of one element along: updates of one place along
// it never meet those of another. -1: there is none.
int64_t DimensionOfPlaces(const Instruction& scatter, const ScatterDims& dims) {
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  const Shape& shape = scatter.operand(0)->shape();
  int64_t longest = -1;
  for (int64_t d : attrs.scatter_dims_to_operand_dims) {
    if (!dims.IsOneAlong(d)) continue;
    if (longest < 0 || shape.dim(d) > shape.dim(longest)) longest = d;
  }
  return longest;
}

// Whether a thread gets an update is a branch, which is mispredicted unless indices are sorted: the
// windows must be worth it.
ScatterShare ShareOf(const LowerContext& cx, const Instruction& scatter, const ScatterDims& dims) {
  constexpr double kWorkOfIndex = program::TargetFacts::kUsualLanes;  // beside its window's
  ScatterShare share{ColumnsOfThread(cx, scatter, dims)};
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  double work = WorkOf(dims) + kWorkOfIndex * static_cast<double>(dims.updates);
  int64_t least = attrs.indices_are_sorted ? program::TargetFacts::kUsualLanes
                                           : 4 * program::TargetFacts::kUsualLanes;
  if (cx.serial || attrs.unique_indices || share.columns < dims.minor() ||
      dims.window_elements < least || work < 4 * cx.target.WorkOfPiece()) {
    return share;
  }
  int64_t dim = DimensionOfPlaces(scatter, dims);
  if (dim < 0) return share;
  int64_t places = scatter.operand(0)->shape().dim(dim);
  int64_t ranges = std::min({cx.target.cores, program::TargetFacts::kJoinedPieces,
                             places / program::TargetFacts::kUsualLanes});
  if (ranges < 2) return share;
  share.dim = dim;
  share.ranges = ranges;
  share.size = (places + ranges - 1) / ranges;
  return share;
}

// All updates, in a parallel loop over the parts of the threads.
Status SharedUpdates(KernelBuilder& b, ScatterLoops& loops, const ScatterDims& dims,
                     const ScatterShare& share, ValueId first, ValueId last) {
  int64_t parts = std::max(dims.minor() / share.columns, share.ranges);
  if (parts > 1) {
    ValueId p = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(parts), b.Int(1))[0];
    if (share.ranges > 1) {
      loops.set_range(share.dim, b.Mul(p, b.Int(share.size)), share.size);
    } else {
      loops.set_columns(b.Mul(p, b.Int(share.columns)), share.columns);
    }
  }
  if (dims.updates > 1) {
    TRY(loops.Range(first, last));
  } else {
    TRY(loops.Update(b.Int(0)));
  }
  if (parts > 1) b.End();
  return {};
}

// One kernel for all updates.
Status ScatterBy(Subject& subject, const ScatterShare& share) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& scatter = ScatterOf(subject.instruction);
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  KernelBody body = ScatterBody(cx, subject.instruction, scatter);
  CopyScattered(cx, subject.instruction, scatter, body, steps);
  if (!HasUpdates(scatter)) return {};
  ScatterDims dims(scatter);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  std::vector<KernelBuilder::MemoryId> memory;
  for (const KernelOutput& out : body.outputs) {
    memory.push_back(draft.DeclareBuffer(cx.Buffer(out.value), Access::kReadWrite));
  }
  KernelBuilder& b = draft.builder();
  ScatterLoops loops(draft, scatter, dims, std::move(memory));
  ValueId first = b.Int(0), last = b.Int(dims.updates);
  bool chunked = attrs.unique_indices && !cx.serial && share.columns == dims.minor() &&
                 WorkOf(dims) > cx.target.WorkOfPiece() &&
                 dims.updates >= 64 * program::TargetFacts::kJoinedArrays;
  loops.set_columns(b.Int(0), share.columns);
  if (chunked) {
    int64_t chunk = (dims.updates + program::TargetFacts::kJoinedArrays - 1) /
                    program::TargetFacts::kJoinedArrays;
    ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0),
                            b.Int(program::TargetFacts::kJoinedArrays), b.Int(1))[0];
    first = b.Mul(c, b.Int(chunk));
    last = b.Min(b.Add(first, b.Int(chunk)), b.Int(dims.updates));
  }
  TRY(SharedUpdates(b, loops, dims, share, first, last));
  if (chunked) b.End();
  Finish(cx, draft, body, steps);
  return {};
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

// Arrays that begin with the reduction's identity, each updated by one part of the updates; then
// all of them, in order, are joined with the operand. `wide`: arrays of f64 for sums of f32. Of one
// array threads take their share.
Status ScatterToOwnArrays(LowerContext& cx, const KernelBody& body, const Instruction& scatter,
                          const OwnArrayPlan& plan, const ScatterShare& share, Steps& steps) {
  const Shape& shape = scatter.shape();
  DType type = shape.dtype();
  int64_t size = shape.elements(), arrays = plan.arrays;
  bool wide = plan.wide;
  const hlo::Computation& to_apply = *scatter.attrs<hlo::ScatterAttrs>().to_apply;
  PlainReducer reducer = *AsPlainReducer(to_apply, type, 0);
  DType own_type = wide ? DType::kF64 : type;
  program::BufferId own = cx.Scratch(Shape(own_type, {arrays, size}), "own");
  LoopShape all;
  all.flat = true;
  all.serial = cx.serial;
  all.width = std::max<int64_t>(ByteWidth(own_type), IsFloat(type) ? 4 : 1);
  {
    KernelDraft fill(StrCat(body.instruction->name(), ".own"), cx.program, cx.memory, cx.target);
    KernelBuilder::MemoryId to = fill.DeclareBuffer(own, Access::kWrite);
    all.dims = {arrays * size};
    all.cost = wide ? kWideCost : 1;
    ElementContext& e = fill.elements();
    TRY(fill.ForEach(all, [&](const Index& index) -> Status {
      ValueId identity =
          fill.builder().Number(reducer.identity, {program::ComputeType(own_type), 1});
      StoreAt(e, to, own_type, LinearCoord(e, all.dims, index), {identity, -1});
      return {};
    }));
    Finish(cx, fill, body, steps);
  }
  ScatterDims dims(scatter);
  {
    KernelDraft draft = NewDraft(cx, body);
    draft.Declare(body.inputs, {});
    ScatterLoops loops(draft, scatter, dims, {draft.DeclareBuffer(own, Access::kReadWrite)});
    if (wide) loops.set_wide();
    KernelBuilder& b = draft.builder();
    loops.set_columns(b.Int(0), dims.minor());
    if (arrays > 1) {
      TRY(UpdateOwnArrays(b, loops, dims, plan, size));
    } else {
      TRY(SharedUpdates(b, loops, dims, share, b.Int(0), b.Int(dims.updates)));
    }
    Finish(cx, draft, body, steps);
  }
  KernelDraft join(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  KernelBuilder::MemoryId from = join.DeclareBuffer(own, Access::kRead);
  KernelBuilder::MemoryId to =
      join.DeclareBuffer(cx.Buffer(body.outputs[0].value), Access::kReadWrite);
  all.dims = {size};
  all.in_place = true;
  all.cost = static_cast<double>(arrays) * (wide ? 2 * kWideCost : 2);
  ElementContext& e = join.elements();
  TRY(join.ForEach(all, [&](const Index& index) -> Status {
    Coord at = LinearCoord(e, all.dims, index);
    Element sum = LoadAt(e, to, type, at);
    KernelBuilder& b = join.builder();
    if (wide) sum.re = b.Cast(sum.re, own_type);
    for (int64_t k = 0; k < arrays; ++k) {
      Element part = LoadAt(e, from, own_type, AddConstant(e, at, k * size));
      if (wide) {
        sum.re = b.Add(sum.re, part.re);
      } else {
        sum = TRY(CallComputation(e, to_apply, std::vector<Element>{sum, part}))[0];
      }
    }
    if (wide) sum.re = b.Cast(sum.re, type);
    StoreAt(e, to, type, at, sum);
    return {};
  }));
  Finish(cx, join, body, steps);
  return {};
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

Decision MatchScatter(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  if (ShareOf(subject.cx, scatter, ScatterDims(scatter)).ranges > 1) {
    return Take("updates one after the other, each thread those of its own range of places");
  }
  return Take("updates one after the other, by columns or chunks where threads do not meet");
}

Status LowerScatter(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  ScatterDims dims(scatter);
  return ScatterBy(subject, ShareOf(subject.cx, scatter, dims));
}

Decision MatchScatterByColumns(Subject&) {
  return Take("a thread for each column of the windows, or one where these meet");
}

Status LowerScatterByColumns(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  ScatterDims dims(scatter);
  return ScatterBy(subject, {dims.ColumnsApart(scatter) ? 1 : dims.minor()});
}

}  // namespace

extern constinit const LoweringRow kScatterToOwnArrays = {
    "scatter to own arrays", {HloOp::kScatter}, MatchScatterToOwnArrays, LowerScatterToOwnArrays};
extern constinit const LoweringRow kScatter = {
    "scatter", {HloOp::kScatter}, MatchScatter, LowerScatter};
extern constinit const LoweringRow kScatterByColumns = {
    "scatter by columns", {HloOp::kScatter}, MatchScatterByColumns, LowerScatterByColumns};

}  // namespace weft::compiler
