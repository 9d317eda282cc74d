#include "compiler/lower/lower.h"

#include <algorithm>

#include "base/doing.h"
#include "base/log.h"
#include "base/str.h"
#include "compiler/analysis/collectives.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::BufferId;
using program::Step;
using HloOp = hlo::Op;

namespace {

// One round of a loop that costs less than this (units of ElementCost) for each 128 bits of a
// vector runs on one thread, in one native function.
constexpr double kSerialLoopCost = 150'000;

double CostOf(const hlo::Computation& computation);

double CostOf(const Instruction& instruction) {
  double cost = 0;
  switch (instruction.op()) {
    case HloOp::kWhile: {
      const auto& attrs = instruction.attrs<hlo::WhileAttrs>();
      return 100 * (CostOf(*attrs.body) + CostOf(*attrs.condition));
    }
    case HloOp::kConditional:
      for (const hlo::Computation* c : instruction.called_computations()) {
        cost = std::max(cost, CostOf(*c));
      }
      return cost;
    case HloOp::kFusion: return CostOf(*instruction.attrs<hlo::FusionAttrs>().calls);
    case HloOp::kDot: {
      const auto& attrs = instruction.attrs<hlo::DotAttrs>();
      double work = static_cast<double>(instruction.shape().elements());
      for (int64_t d : attrs.lhs_contracting_dims) {
        work *= static_cast<double>(instruction.operand(0)->shape().dim(d));
      }
      return work;
    }
    case HloOp::kConvolution:
      return static_cast<double>(instruction.shape().elements()) *
             static_cast<double>(instruction.operand(1)->shape().elements());
    case HloOp::kReduce: {
      cost = static_cast<double>(instruction.operand(0)->shape().elements());
      return cost;
    }
    case HloOp::kDynamicUpdateSlice:
      return static_cast<double>(instruction.operand(1)->shape().elements());
    case HloOp::kCholesky:
    case HloOp::kTriangularSolve: {
      const Shape& a = instruction.operand(0)->shape();
      return static_cast<double>(instruction.shape().elements()) *
             static_cast<double>(a.dim(a.rank() - 1));
    }
    case HloOp::kCustomCall: {
      // Factors of n x n matrices; of other calls nothing is known.
      if (instruction.operand_count() == 0 || !instruction.operand(0)->shape().IsArray()) break;
      const Shape& a = instruction.operand(0)->shape();
      double longest = 1;
      for (int64_t d : a.dims()) longest = std::max(longest, static_cast<double>(d));
      return static_cast<double>(a.elements()) * longest;
    }
    case HloOp::kSort: return 30 * static_cast<double>(instruction.operand(0)->shape().elements());
    default: break;
  }
  double elements = 0;
  ForEachLeaf(instruction.shape(), [&](const Shape& s) {
    if (!s.IsArray()) return;
    // Of narrow numbers more are computed at once.
    double width = std::clamp<double>(ByteWidth(RealType(s.dtype())), 1, 4);
    elements += static_cast<double>(s.elements()) * width / 4;
  });
  return elements * ElementCost(instruction);
}

double CostOf(const hlo::Computation& computation) {
  double cost = 0;
  for (const Instruction* i : computation) {
    if (!IsForwarding(*i) && !i->IsParameter() && !i->IsConstant()) cost += CostOf(*i);
  }
  return cost;
}

}  // namespace

BufferId Lowering::Scratch(const Shape& shape, std::string_view name) {
  return AddBuffer(program_, StrCat(name, ".", scratch_count_++), shape,
                   program::BufferKind::kTemp);
}

// Bytes of the first into the second, from `offset` on.
void Lowering::CopyInto(BufferId from, int64_t bytes, BufferId to, int64_t offset,
                        const Instruction& at, Steps& steps) {
  Step step;
  step.op = program::CopyStep{};
  step.uses = {In(program_, from), Out(program_, to)};
  step.uses[0].slice.size = step.uses[1].slice.size = bytes;
  step.uses[1].slice.offset = offset;
  step.name = at.name();
  step.source = at.SourceLocation();
  steps.push_back(std::move(step));
}

void Lowering::CopyBytes(BufferId from, BufferId to, std::string_view reason, const Instruction& at,
                         Steps& steps) {
  Step step;
  step.op = program::CopyStep{};
  step.uses = {In(program_, from), Out(program_, to)};
  step.name = StrCat("copy.", at.name());
  step.source = at.SourceLocation();
  copies_.push_back(
      {at.name(), step.source, std::string(reason), step.uses[0].slice.size, in_loop_});
  VLOG("copies", 3) << ToString(copies_.back());
  steps.push_back(std::move(step));
}

void Lowering::Copy(MemValue from, MemValue to, std::string_view reason, const Instruction& at,
                    Steps& steps) {
  if (memory_.Share(from, to)) return;
  CopyBytes(Buffer(from), Buffer(to), StrCat(reason, ": ", memory_.WhyApart(from, to)), at, steps);
}

// One after the other, so that nothing is overwritten that another one still reads. Where they go
// round in a circle, one is put aside.
void Lowering::CopyTogether(std::vector<std::pair<MemValue, MemValue>> moves,
                            std::string_view reason, const Instruction& at, Steps& steps) {
  struct Move {
    MemValue from, to;
    BufferId source;
    bool aside = false;
  };
  std::vector<Move> pending;
  for (const auto& [from, to] : moves) {
    if (!memory_.Share(from, to)) pending.push_back({from, to, Buffer(from)});
  }
  auto is_read = [&](const Move& move) {
    return std::any_of(pending.begin(), pending.end(), [&](const Move& other) {
      return !other.aside && memory_.Share(other.from, move.to);
    });
  };
  while (!pending.empty()) {
    auto next = std::find_if_not(pending.begin(), pending.end(), is_read);
    if (next == pending.end()) {
      next = pending.begin();
      BufferId kept = Buffer(next->to);
      BufferId aside = Scratch(program_.buffers[kept].shape, "aside");
      CopyBytes(kept, aside, StrCat(reason, ": values that change places"), at, steps);
      for (Move& move : pending) {
        if (move.aside || !memory_.Share(move.from, next->to)) continue;
        move.aside = true;
        move.source = aside;
      }
    }
    CopyBytes(next->source, Buffer(next->to),
              StrCat(reason, ": ", memory_.WhyApart(next->from, next->to)), at, steps);
    pending.erase(next);
  }
}

Status Lowering::LowerComputation(const hlo::Computation& computation, Steps& steps) {
  for (const Instruction* i : computation) {
    std::string source = i->SourceLocation();
    DoingItem item{i->name(), source};
    Doing doing({"lowering", computation.module()->name()});
    doing.At(&item);
    size_t before = steps.size();
    Status lowered = LowerInstruction(*i, steps);
    if (!lowered) {
      lowered.error().Note(StrCat("lowering ", i->name()));
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

}  // namespace

Status Lowering::LowerInstruction(const Instruction& i, Steps& steps) {
  if (IsOverwrittenUnread(i)) return {};
  if (i.IsConstant() && !i.literal().IsValid()) {
    return Unimplemented("constant: its value was left out of the text");
  }
  if (i.IsParameter() || i.IsConstant() || IsForwarding(i)) return {};
  if (i.op() == HloOp::kOutfeed) return {};  // nobody takes what the host gets
  switch (i.op()) {
    case HloOp::kWhile: return LowerWhile(i, steps);
    case HloOp::kConditional: return LowerConditional(i, steps);
    case HloOp::kScatter: return LowerScatter(i, steps);
    case HloOp::kSelectAndScatter: return LowerSelectAndScatter(i, steps);
    case HloOp::kScan: return LowerScan(i, steps);
    case HloOp::kDot: return LowerDot(i, steps);
    case HloOp::kSort: return LowerSort(i, steps);
    case HloOp::kCholesky: return LowerCholesky(i, steps);
    case HloOp::kTriangularSolve: return LowerTriangularSolve(i, steps);
    case HloOp::kPartitionId:
    case HloOp::kReplicaId: return LowerDeviceId(i, steps);
    case HloOp::kSend: return LowerSend(i, steps);
    case HloOp::kRecv: return LowerRecv(i, steps);
    case HloOp::kRecvDone: return LowerRecvDone(i, steps);
    case HloOp::kSendDone: return {};
    case HloOp::kAllGather:
    case HloOp::kAllReduce:
    case HloOp::kAllToAll:
    case HloOp::kCollectiveBroadcast:
    case HloOp::kCollectivePermute:
    case HloOp::kReduceScatter: return LowerCollective(i, steps);
    case HloOp::kFft:
    case HloOp::kTopK:
    case HloOp::kRng:
    case HloOp::kRngGetAndUpdateState:
    case HloOp::kRngBitGenerator:
    case HloOp::kConvolution:
    case HloOp::kCustomCall: return LowerRoutine(i, steps);
    default: return LowerKernel(i, steps);
  }
}

namespace {

// The same steps with buffers exchanged.
void ExchangeBuffers(Steps& steps, const std::vector<std::pair<BufferId, BufferId>>& pairs) {
  ForEachStep(steps, [&](Step& step) {
    for (program::Use& use : step.uses) {
      for (const auto& [a, b] : pairs) {
        if (use.slice.buffer == a || use.slice.buffer == b) {
          use.slice.buffer = use.slice.buffer == a ? b : a;
          break;
        }
      }
    }
  });
}

}  // namespace

// What the body made becomes the state of the next round: by a copy, or by a second round in which
// it is where the state was. An odd round then comes before the loop; where nothing is known of the
// number of rounds, the loop's condition is tested in between.
void Lowering::NextRound(const Instruction& loop, program::WhileStep& op, Steps& before) {
  const auto& state = memory_.State(loop);
  const auto next = memory_.Leaves(*loop.attrs<hlo::WhileAttrs>().body->root());
  const auto& alternating = memory_.Alternating(loop);
  std::vector<std::pair<MemValue, MemValue>> moves, turns;
  std::vector<std::pair<BufferId, BufferId>> exchanged;
  for (size_t k = 0; k < state.size(); ++k) {
    if (state[k] < 0) continue;
    bool takes_turns = std::find(alternating.begin(), alternating.end(), k) != alternating.end();
    (takes_turns ? turns : moves).emplace_back(next[k], state[k]);
    if (takes_turns) exchanged.emplace_back(Buffer(next[k]), Buffer(state[k]));
  }
  CopyTogether(std::move(moves), "next loop state", loop, op.body);
  op.trip_count = TripCount(loop);
  if (exchanged.empty()) return;
  if (!op.trip_count) {
    // body; if (condition) { body, exchanged } else { the state goes back to its place }
    program::ConditionalStep choice;
    ExchangeBuffers(choice.branches.emplace_back(op.body), exchanged);
    in_loop_ = false;
    CopyTogether(std::move(turns), "state that takes turns, at the end of the loop", loop,
                 choice.branches.emplace_back());
    in_loop_ = true;
    Steps test = op.condition;
    ExchangeBuffers(test, exchanged);
    op.body.insert(op.body.end(), test.begin(), test.end());
    Step step;
    const hlo::Computation& condition = *loop.attrs<hlo::WhileAttrs>().condition;
    step.uses = {In(program_, Buffer(memory_.Leaf(*condition.root())))};
    step.op = std::move(choice);
    step.name = StrCat(loop.name(), ".turn");
    step.source = loop.SourceLocation();
    op.body.push_back(std::move(step));
    return;
  }
  if (*op.trip_count % 2 != 0) {
    before.insert(before.end(), op.body.begin(), op.body.end());
    CopyTogether(std::move(turns), "state that takes turns, odd number of rounds", loop, before);
  }
  Steps second = op.body;
  ExchangeBuffers(second, exchanged);
  op.body.insert(op.body.end(), second.begin(), second.end());
  *op.trip_count /= 2;
}

Status Lowering::LowerWhile(const Instruction& loop, Steps& steps) {
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  const auto init = memory_.Leaves(*loop.operand(0));
  const auto& state = memory_.State(loop);
  std::vector<std::pair<MemValue, MemValue>> start;
  for (size_t k = 0; k < state.size(); ++k) {
    if (state[k] < 0) continue;
    bool flat = loop.operand(0)->op() == HloOp::kTuple &&
                static_cast<size_t>(loop.operand(0)->operand_count()) == state.size();
    if (flat && WritesWholeState(loop, static_cast<int64_t>(k))) continue;
    start.emplace_back(init[k], state[k]);
  }
  CopyTogether(std::move(start), "initial loop state", loop, steps);
  if (TRY(LowerStateLoop(loop, steps))) return {};
  bool outer = serial_, outer_in_loop = in_loop_;
  in_loop_ = true;
  double serial_cost = kSerialLoopCost * static_cast<double>(target_.vector_bits) / 128;
  serial_ = serial_ || CostOf(*attrs.body) + CostOf(*attrs.condition) < serial_cost;
  program::WhileStep op;
  in_condition_ = true;
  TRY(LowerComputation(*attrs.condition, op.condition));
  in_condition_ = false;
  TRY(LowerComputation(*attrs.body, op.body));
  serial_ = outer;
  NextRound(loop, op, steps);
  in_loop_ = outer_in_loop;
  Step step;
  step.uses = {In(program_, Buffer(memory_.Leaf(*attrs.condition->root())))};
  NoteCounter(loop, op, step);
  step.op = std::move(op);
  step.name = loop.name();
  step.source = loop.SourceLocation();
  steps.push_back(std::move(step));
  return {};
}

// Loops that count to something known before they begin.
void Lowering::NoteCounter(const Instruction& loop, program::WhileStep& op, Step& step) {
  if (op.trip_count || target_.kind != program::TargetKind::kCpu) return;
  if (!memory_.Alternating(loop).empty()) return;  // two rounds are one
  std::optional<LoopCounter> counter = FindLoopCounter(loop);
  if (!counter || !ranges_.NeverWraps(*counter->sum)) return;
  MemValue number = memory_.State(loop)[static_cast<size_t>(counter->index)];
  if (number < 0) return;
  op.count_step = counter->step;
  op.count_limit = counter->value;
  step.uses.push_back(In(program_, Buffer(number)));
  if (!counter->value) step.uses.push_back(In(program_, Buffer(memory_.Leaf(*counter->limit))));
}

Status Lowering::LowerConditional(const Instruction& conditional, Steps& steps) {
  program::ConditionalStep op;
  const auto& results = memory_.Leaves(conditional);
  for (hlo::Computation* branch : conditional.attrs<hlo::ConditionalAttrs>().branches()) {
    Steps& into = op.branches.emplace_back();
    TRY(LowerComputation(*branch, into));
    const auto made = memory_.Leaves(*branch->root());
    std::vector<std::pair<MemValue, MemValue>> moves;
    for (size_t k = 0; k < results.size(); ++k) {
      if (results[k] >= 0) moves.emplace_back(made[k], results[k]);
    }
    CopyTogether(std::move(moves), "branch result", conditional, into);
  }
  Step step;
  step.uses = {In(program_, Buffer(memory_.Leaf(*conditional.operand(0))))};
  step.op = std::move(op);
  step.name = conditional.name();
  step.source = conditional.SourceLocation();
  steps.push_back(std::move(step));
  return {};
}

Result<program::Program> Lowering::Run() {
  program_.name = module_.name();
  program_.devices = DeviceCount(module_);
  memory_.Assign(program_);
  const hlo::Computation& entry = *module_.entry();
  TRY(LowerComputation(entry, program_.steps));
  std::vector<MemValue> roots;
  for (MemValue v : memory_.Leaves(*entry.root())) {
    if (v >= 0) roots.push_back(v);
  }
  const auto& results = memory_.Results();
  std::vector<std::pair<MemValue, MemValue>> moves;
  for (size_t k = 0; k < results.size(); ++k) moves.emplace_back(roots[k], results[k]);
  CopyTogether(std::move(moves), "result", *entry.root(), program_.steps);
  if (random_counter_ >= 0) {
    Step start;
    start.op = program::FillStep{std::vector<std::byte>(8)};
    start.uses = {Out(program_, random_counter_)};
    start.name = "random_counter";
    program_.steps.insert(program_.steps.begin(), std::move(start));
    if (program_.devices > 1) {  // each a stream of its own: the upper half is its number
      Step number;
      program::LibraryStep call;
      call.routine = "device_id";
      number.op = std::move(call);
      number.uses = {Out(program_, random_counter_)};
      number.uses[0].slice.offset += 4;
      number.uses[0].slice.size = 4;
      number.name = "random_stream";
      program_.steps.insert(program_.steps.begin() + 1, std::move(number));
    }
  }
  return std::move(program_);
}

std::string ToString(const CopyNote& copy) {
  return StrCat("copy of ", copy.bytes, " bytes", copy.in_loop ? " in a loop, at " : " at ",
                copy.name, copy.source.empty() ? "" : StrCat(" (", copy.source, ")"), ": ",
                copy.reason);
}

Result<program::Program> Lower(const hlo::Module& module, const program::TargetInfo& target,
                               std::vector<CopyNote>* copies, std::vector<FusionNote>* not_fused) {
  Memory memory = TRY(Memory::Analyse(module, target.kind == program::TargetKind::kCpu));
  Lowering lowering(module, target, std::move(memory));
  Result<program::Program> program = lowering.Run();
  if (copies != nullptr) *copies = lowering.TakeCopies();
  if (not_fused != nullptr) {
    for (FusionNote& note : lowering.TakeNotFused()) not_fused->push_back(std::move(note));
  }
  return program;
}

}  // namespace weft::compiler
