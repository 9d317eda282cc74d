// scatter: updates at places that the program computes, one after the other.
//
// Threads share the work in one of four ways, whichever suits, so that the order at each element
// is the same for any number of them: by columns of the windows; by ranges of places, each thread
// going through all indices; by updates, where no two meet; by updates into arrays of their own,
// which are joined in the end, where the result is small (scatter_own_arrays.cc).
#include <algorithm>

#include "compiler/lower/scatter_share.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

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

extern constinit const LoweringRow kScatter = {
    "scatter", {HloOp::kScatter}, MatchScatter, LowerScatter};
extern constinit const LoweringRow kScatterByColumns = {
    "scatter by columns", {HloOp::kScatter}, MatchScatterByColumns, LowerScatterByColumns};

}  // namespace weft::compiler
