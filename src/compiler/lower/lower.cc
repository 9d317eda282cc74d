// Lowering: the walk over executed computations, copies, and what a module becomes.
#include "compiler/lower/lower.h"

#include <algorithm>

#include "base/doing.h"
#include "base/log.h"
#include "base/str.h"
#include "compiler/analysis/collectives.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::BufferId;
using program::Step;
using HloOp = hlo::Op;

BufferId LowerContext::Scratch(const Shape& shape, std::string_view name) {
  return AddBuffer(program, StrCat(name, ".", scratch_count++), shape, program::BufferKind::kTemp);
}

// Bytes of the first into the second, from `offset` on.
void CopyInto(LowerContext& cx, BufferId from, int64_t bytes, BufferId to, int64_t offset,
              const Instruction& at, Steps& steps, int64_t start) {
  Step step;
  step.op = program::CopyStep{};
  step.uses = {In(cx.program, from), Out(cx.program, to)};
  step.uses[0].slice.size = step.uses[1].slice.size = bytes;
  step.uses[0].slice.offset = start;
  step.uses[1].slice.offset = offset;
  step.name = at.name();
  step.source = at.SourceLocation();
  steps.push_back(std::move(step));
}

std::optional<int64_t> StartOfPart(const Instruction& slice) {
  const Shape &from = slice.operand(0)->shape(), &to = slice.shape();
  if (BitWidth(to.dtype()) < 8 || to.elements() == 0) return std::nullopt;
  const auto& parts = slice.attrs<hlo::SliceAttrs>().slice;
  int64_t start = 0;
  bool runs = false;  // a dimension before has several elements: whatever follows must be whole
  for (int64_t d = 0; d < from.rank(); ++d) {
    const auto& part = parts[static_cast<size_t>(d)];
    if (runs && to.dim(d) != from.dim(d)) return std::nullopt;
    if (to.dim(d) > 1 && part.stride != 1) return std::nullopt;
    runs |= to.dim(d) > 1;
    start = start * from.dim(d) + part.start;
  }
  return start * ByteWidth(to.dtype());
}

void CopyBytes(LowerContext& cx, BufferId from, BufferId to, std::string_view reason,
               const Instruction& at, Steps& steps) {
  Step step;
  step.op = program::CopyStep{};
  step.uses = {In(cx.program, from), Out(cx.program, to)};
  step.name = StrCat("copy.", at.name());
  step.source = at.SourceLocation();
  cx.copies.push_back(
      {at.name(), step.source, std::string(reason), step.uses[0].slice.size, cx.in_loop});
  VLOG("copies", 3) << ToString(cx.copies.back());
  steps.push_back(std::move(step));
}

void Copy(LowerContext& cx, MemValue from, MemValue to, std::string_view reason,
          const Instruction& at, Steps& steps) {
  if (cx.memory.Coalesced(from, to)) return;
  CopyBytes(cx, cx.Buffer(from), cx.Buffer(to),
            StrCat(reason, ": ", cx.memory.WhyInterfere(from, to)), at, steps);
}

// One after the other, so that nothing is overwritten that another one still reads. Where they go
// round in a circle, one is put aside.
void CopyTogether(LowerContext& cx, std::vector<std::pair<MemValue, MemValue>> moves,
                  std::string_view reason, const Instruction& at, Steps& steps) {
  struct Move {
    MemValue from, to;
    BufferId source;
    bool aside = false;
  };
  std::vector<Move> pending;
  for (const auto& [from, to] : moves) {
    if (!cx.memory.Coalesced(from, to)) pending.push_back({from, to, cx.Buffer(from)});
  }
  auto is_read = [&](const Move& move) {
    return std::any_of(pending.begin(), pending.end(), [&](const Move& other) {
      return !other.aside && cx.memory.Coalesced(other.from, move.to);
    });
  };
  while (!pending.empty()) {
    auto next = std::find_if_not(pending.begin(), pending.end(), is_read);
    if (next == pending.end()) {
      next = pending.begin();
      BufferId kept = cx.Buffer(next->to);
      BufferId aside = cx.Scratch(cx.program.buffers[kept].shape, "aside");
      CopyBytes(cx, kept, aside, StrCat(reason, ": values that change places"), at, steps);
      for (Move& move : pending) {
        if (move.aside || !cx.memory.Coalesced(move.from, next->to)) continue;
        move.aside = true;
        move.source = aside;
      }
    }
    CopyBytes(cx, next->source, cx.Buffer(next->to),
              StrCat(reason, ": ", cx.memory.WhyInterfere(next->from, next->to)), at, steps);
    pending.erase(next);
  }
}

namespace {

// Only a loop reads it, and that writes over all of it.
bool IsOverwrittenUnread(const Instruction& i) {
  if (i.op() != HloOp::kFusion && i.op() != HloOp::kBroadcast && i.op() != HloOp::kIota)
    return false;
  if (!i.shape().IsArray() || i.IsRoot() || i.users().size() != 1) return false;
  const Instruction& tuple = *i.users()[0];
  if (tuple.op() != HloOp::kTuple || tuple.IsRoot() || tuple.users().size() != 1) return false;
  const Instruction& loop = *tuple.users()[0];
  if (loop.op() != HloOp::kWhile) return false;
  int64_t found = -1;
  for (int64_t k = 0; k < tuple.operand_count(); ++k) {
    if (tuple.operand(k)->shape().IsTuple()) return false;
    if (tuple.operand(k) != &i) continue;
    if (found >= 0) return false;
    found = k;
  }
  return found >= 0 && WritesWholeState(loop, found);
}

Status LowerInstruction(LowerContext& cx, const Instruction& i, Steps& steps) {
  if (IsOverwrittenUnread(i)) return {};
  if (i.IsConstant() && !i.literal().IsValid()) {
    return Unimplemented("constant: its value was left out of the text");
  }
  if (i.IsParameter() || i.IsConstant() || IsForwarding(i)) return {};
  if (i.op() == HloOp::kOutfeed) return {};   // nobody takes what the host gets
  if (i.op() == HloOp::kSendDone) return {};  // what is sent is copied at once
  return LowerByTable(cx, i, steps);
}

}  // namespace

Status LowerComputation(LowerContext& cx, const hlo::Computation& computation, Steps& steps) {
  for (const Instruction* i : computation) {
    std::string source = i->SourceLocation();
    DoingItem item{i->name(), source};
    Doing doing({"lowering", computation.module()->name()});
    doing.At(&item);
    size_t before = steps.size();
    Status lowered = LowerInstruction(cx, *i, steps);
    if (!lowered) {
      lowered.error().Note(StrCat("lowering ", i->name(), " of ", computation.name()));
      if (!source.empty()) lowered.error().Source(source);
      return lowered;
    }
    if (i->metadata() == nullptr) continue;
    for (size_t k = before; k < steps.size(); ++k) {
      if (steps[k].op_name.empty()) steps[k].op_name = i->metadata()->op_name;
    }
  }
  return {};
}

namespace {

Result<program::Program> LowerModule(LowerContext& cx) {
  cx.program.name = cx.module.name();
  cx.program.devices = DeviceCount(cx.module);
  cx.memory.Assign(cx.program);
  const hlo::Computation& entry = *cx.module.entry();
  TRY(LowerComputation(cx, entry, cx.program.steps));
  std::vector<MemValue> roots;
  for (MemValue v : cx.memory.Leaves(*entry.root())) {
    if (v >= 0) roots.push_back(v);
  }
  const auto& results = cx.memory.Results();
  std::vector<std::pair<MemValue, MemValue>> moves;
  for (size_t k = 0; k < results.size(); ++k) moves.emplace_back(roots[k], results[k]);
  CopyTogether(cx, std::move(moves), "result", *entry.root(), cx.program.steps);
  if (cx.random_counter >= 0) {
    Step start;
    start.op = program::FillStep{std::vector<std::byte>(8)};
    start.uses = {Out(cx.program, cx.random_counter)};
    start.name = "random_counter";
    cx.program.steps.insert(cx.program.steps.begin(), std::move(start));
    if (cx.program.devices > 1) {  // each a stream of its own: the upper half is its number
      Step number;
      program::LibraryStep call;
      call.routine = "device_id";
      number.op = std::move(call);
      number.uses = {Out(cx.program, cx.random_counter)};
      number.uses[0].slice.offset += 4;
      number.uses[0].slice.size = 4;
      number.name = "random_stream";
      cx.program.steps.insert(cx.program.steps.begin() + 1, std::move(number));
    }
  }
  return std::move(cx.program);
}

}  // namespace

std::string ToString(const CopyNote& copy) {
  return StrCat("copy of ", copy.bytes, " bytes", copy.in_loop ? " in a loop, at " : " at ",
                copy.name, copy.source.empty() ? "" : StrCat(" (", copy.source, ")"), ": ",
                copy.reason);
}

std::string ToString(const LoweringChoice& choice) {
  std::string text = choice.name;
  if (!choice.source.empty()) StrAppend(text, " (", choice.source, ")");
  auto append = [&](const RowVerdict& v) {
    StrAppend(text, v.row, ": ", v.reason);
    if (!v.figures.empty()) StrAppend(text, " (", v.figures, ")");
    text += '\n';
  };
  text += ": ";
  append(choice.taken);
  bool own = choice.steps.size() == 1 && choice.steps[0] == choice.name;
  if (!own && !choice.steps.empty())
    StrAppend(text, "  steps: ", StrJoin(choice.steps, ", "), "\n");
  for (const RowVerdict& v : choice.refused) {
    text += "  not ";
    append(v);
  }
  return text;
}

Result<program::Program> Lower(const hlo::Module& module, const program::TargetInfo& target,
                               LowerNotes* notes, const LowerOptions& options) {
  TRY(CheckDisabled(target, options));
  Memory memory = TRY(Memory::Analyse(module, target.RunsOnHost()));
  LowerContext cx(module, target, std::move(memory));
  cx.disabled = options.disable;
  if (notes != nullptr) cx.choices = notes->choices;
  Result<program::Program> program = LowerModule(cx);
  if (notes != nullptr) {
    notes->copies = std::move(cx.copies);
    notes->not_fused = std::move(cx.not_fused);
  }
  return program;
}

}  // namespace weft::compiler
