// Steps in which devices meet, and their numbers.
#include "compiler/analysis/collectives.h"

#include <algorithm>

#include "compiler/lower/table.h"
#include "hlo/evaluate/collectives.h"

namespace weft::compiler {

using hlo::Instruction;
using program::CollectiveKind;
using program::Step;
using HloOp = hlo::Op;

namespace {

Decision MatchOnlyWay(Subject&) {
  return Take("there is one way");
}

Status LowerDeviceId(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& i = subject.instruction;
  Steps& steps = subject.steps;
  int64_t partitions = std::max<int64_t>(cx.module.config().num_partitions, 1);
  bool partition = i.op() == HloOp::kPartitionId;
  program::Attr attr =
      partition ? program::Attr{"modulo", partitions} : program::Attr{"divide", partitions};
  steps.push_back(Routine(cx, "device_id", i, {std::move(attr)}));
  return {};
}

// What a device gives and gets goes together with the size of its group.
Status CheckSizes(const Instruction& i, const program::CollectiveStep& op, const Step& step) {
  if (op.kind == CollectiveKind::kPermute) return {};
  int64_t group = std::ssize(op.groups[0]);
  size_t n = step.uses.size() / 2;
  bool fits = true;
  for (const auto& other : op.groups) {
    fits &= op.kind == CollectiveKind::kAllReduce || std::ssize(other) == group;
  }
  for (size_t k = 0; k < n; ++k) {
    int64_t given = step.uses[k].slice.size, got = step.uses[n + k].slice.size;
    switch (op.kind) {
      case CollectiveKind::kAllGather: fits &= got % group == 0 && got / group == given; break;
      case CollectiveKind::kReduceScatter:
        fits &= given % group == 0 && given / group == got;
        break;
      case CollectiveKind::kAllToAll: {
        int64_t dim = i.operand(0)->shape().dim(i.attrs<hlo::AllToAllAttrs>().dimensions[0]);
        fits &= given == got && dim % group == 0;
        break;
      }
      default: fits &= given == got;
    }
  }
  if (fits) return {};
  return InvalidArgument(hlo::Mnemonic(i.op()), ": ", i.shape().ToStringWithoutLayout(),
                         " does not go together with groups of ", group, " devices");
}

// expand-ops leaves collectives whose parts lie one after the other. `step` has the uses; none are
// left where there is nothing to send.
Status MakeCollective(const Instruction& i, Step& step) {
  // Arrays without elements are nobody's to send.
  size_t n = step.uses.size() / 2;
  std::vector<program::Use> uses;
  for (size_t half = 0; half < 2; ++half) {
    for (size_t k = 0; k < n; ++k) {
      if (step.uses[k].slice.size > 0 && step.uses[n + k].slice.size > 0) {
        uses.push_back(step.uses[half * n + k]);
      }
    }
  }
  step.uses = std::move(uses);
  if (step.uses.empty()) return {};
  if (!IsFlatCollective(i)) {
    return Unimplemented(hlo::Mnemonic(i.op()), ": no native lowering of this form");
  }
  program::CollectiveStep op;
  op.channel = i.attrs().Collective()->channel_id.value_or(0);
  bool pairs = false;
  switch (i.op()) {
    case HloOp::kAllGather: op.kind = CollectiveKind::kAllGather; break;
    case HloOp::kAllToAll: op.kind = CollectiveKind::kAllToAll; break;
    case HloOp::kAllReduce:
      op.reduce = *SimpleReduction(*i.attrs<hlo::AllReduceAttrs>().to_apply);
      break;
    case HloOp::kReduceScatter:
      op.kind = CollectiveKind::kReduceScatter;
      op.reduce = *SimpleReduction(*i.attrs<hlo::ReduceScatterAttrs>().to_apply);
      break;
    default: op.kind = CollectiveKind::kPermute, pairs = true;
  }
  op.groups = TRY(pairs ? DevicePairs(i) : DeviceGroups(i));
  TRY(CheckSizes(i, op, step));
  step.op = std::move(op);
  return {};
}

Status LowerCollective(Subject& subject) {
  Step step = Routine(subject.cx, "", subject.instruction, {});
  TRY(MakeCollective(subject.instruction, step));
  if (!step.uses.empty()) subject.steps.push_back(std::move(step));
  return {};
}

// The collective that an async pair is of.
Decision MatchAsyncCollective(Subject& subject) {
  const hlo::Computation* calls = subject.instruction.attrs<hlo::AsyncAttrs>().calls;
  if (calls == nullptr || IsAsyncCall(subject.instruction)) return Refuse("it is no collective");
  return Take("it begins here and ends at its done");
}

Decision MatchAsyncCall(Subject& subject) {
  if (!IsAsyncCall(subject.instruction)) return Refuse("it calls no computation");
  return Take("its steps begin here and have ended at its done");
}

// What the computation does, as one step that goes on beside those behind it. Effects keep their
// order, so that they come here.
Status LowerAsyncCall(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& start = subject.instruction;
  const auto& attrs = start.attrs<hlo::AsyncAttrs>();
  program::ListStep list;
  list.thread = attrs.async_execution_thread == "main" ? "" : attrs.async_execution_thread;
  TRY(LowerComputation(cx, *attrs.calls, list.steps));
  if (list.steps.empty()) return {};
  Step step;
  step.op = std::move(list);
  if (!program::HasEffects(step)) {
    step.event = start.name();
    step.stream = 2;
  }
  step.name = start.name();
  step.source = start.SourceLocation();
  subject.steps.push_back(std::move(step));
  return {};
}

Decision MatchDone(Subject& subject) {
  if (subject.instruction.operand(0)->op() != HloOp::kAsyncStart) return Refuse("of no start");
  return Take("what has begun at the start has ended here");
}

// (operands, result): the operands are there already.
Status LowerCollectiveStart(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& start = subject.instruction;
  Step step = Routine(cx, "", start, {});
  const auto operands = step.uses.begin() + std::ssize(step.uses) / 3;
  const Instruction& collective = *start.attrs<hlo::AsyncAttrs>().calls->root();
  if (step.uses.size() % 3 != 0) return Unimplemented("async-start: operands and results differ");
  step.uses.erase(operands, operands + std::ssize(step.uses) / 3);
  TRY(MakeCollective(collective, step));
  step.event = start.name();
  step.stream = 1;
  if (!step.uses.empty()) subject.steps.push_back(std::move(step));
  return {};
}

Status LowerAsyncDone(Subject& subject) {
  const Instruction& done = subject.instruction;
  const std::string& event = done.operand(0)->name();
  const bool is_started = std::any_of(subject.steps.rbegin(), subject.steps.rend(),
                                      [&](const Step& s) { return s.event == event; });
  if (!is_started) return {};
  Step step;
  step.op = program::WaitStep{event};
  step.name = done.name();
  step.source = done.SourceLocation();
  subject.steps.push_back(std::move(step));
  return {};
}

// The routine that sends or receives between devices; pairs as the op writes them.
Result<std::vector<program::Attr>> ChannelAttrsOf(const Instruction& op, const Instruction& start) {
  int64_t mailbox = hlo::MailboxOf(start, hlo::MessageChannels(*op.parent()->module()));
  std::vector<program::Attr> list = {{"channel", mailbox}};
  if (const std::string* text = start.FrontendAttributeValue(hlo::kSendRecvPairs)) {
    std::vector<int64_t> pairs;
    for (const auto& pair : TRY(DevicePairs(start, *text))) {
      pairs.insert(pairs.end(), pair.begin(), pair.end());
    }
    list.push_back({"pairs", std::move(pairs)});
  }
  return list;
}

// The recv that a recv-done waits for.
const Instruction& StartOf(const Instruction& done) {
  if (done.operand(0)->op() == HloOp::kRecv) return *done.operand(0);
  for (const auto& computation : done.parent()->module()->computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() == HloOp::kRecv &&
          i->attrs<hlo::ChannelAttrs>().channel_id == done.attrs<hlo::ChannelAttrs>().channel_id) {
        return *i;
      }
    }
  }
  return done;
}

void FillZeroes(LowerContext& cx, MemValue value, const Instruction& at, Steps& steps) {
  if (value < 0) return;
  Step step;
  step.op = program::FillStep{std::vector<std::byte>(1)};
  step.uses = {Out(cx.program, cx.Buffer(value))};
  if (step.uses[0].slice.size == 0) return;
  step.name = at.name();
  steps.push_back(std::move(step));
}

// (data, context, token): the data goes to another device, and along with the result.
Status LowerSend(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& send = subject.instruction;
  Steps& steps = subject.steps;
  const auto made = cx.memory.Leaves(send), given = cx.memory.Leaves(*send.operand(0));
  if (!send.attrs<hlo::ChannelAttrs>().is_host_transfer && cx.program.devices > 1) {
    if (given.size() != 1 || given[0] < 0)
      return Unimplemented("send: no native lowering of a tuple");
    Step step;
    step.op = program::LibraryStep{"device_send", TRY(ChannelAttrsOf(send, send)), true};
    step.uses = {In(cx.program, cx.Buffer(given[0]))};
    step.name = send.name();
    step.source = send.SourceLocation();
    steps.push_back(std::move(step));
  }
  for (size_t k = 0; k < given.size(); ++k) {
    if (given[k] >= 0) Copy(cx, given[k], made[k], "what is sent", send, steps);
  }
  for (size_t k = given.size(); k < made.size(); ++k) FillZeroes(cx, made[k], send, steps);
  return {};
}

Step LibraryCall(LowerContext& cx, const Instruction& at, program::LibraryStep call, MemValue out) {
  Step step;
  step.op = std::move(call);
  step.uses = {Out(cx.program, cx.Buffer(out))};
  step.name = at.name();
  step.source = at.SourceLocation();
  return step;
}

// Nothing has come yet. From the host nothing ever does, which is an error where it is reached.
Status LowerRecv(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& recv = subject.instruction;
  Steps& steps = subject.steps;
  const bool from_host = recv.attrs<hlo::ChannelAttrs>().is_host_transfer;
  if (!from_host && cx.program.devices == 1) {
    return Unimplemented("recv: no native lowering on one device");
  }
  const auto made = cx.memory.Leaves(recv);
  for (MemValue v : made) FillZeroes(cx, v, recv, steps);
  for (size_t k = 0; from_host && k < made.size(); ++k) {
    if (made[k] < 0) continue;
    steps.push_back(LibraryCall(cx, recv, {"host_recv", {}, true}, made[k]));
    break;
  }
  return {};
}

Status LowerRecvDone(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& done = subject.instruction;
  Steps& steps = subject.steps;
  const Instruction& start = StartOf(done);
  const auto made = cx.memory.Leaves(done);
  if (start.op() != HloOp::kRecv || made.size() != 2 || made[0] < 0) {
    return Unimplemented("recv-done: no native lowering of this form");
  }
  if (start.attrs<hlo::ChannelAttrs>().is_host_transfer) {
    FillZeroes(cx, made[0], done, steps);  // not reached
    return {};
  }
  auto attrs = TRY(ChannelAttrsOf(done, start));
  steps.push_back(LibraryCall(cx, done, {"device_recv", std::move(attrs), true}, made[0]));
  return {};
}

}  // namespace

extern constinit const LoweringRow kDeviceId = {
    "number of the device", {HloOp::kPartitionId, HloOp::kReplicaId}, MatchOnlyWay, LowerDeviceId};
extern constinit const LoweringRow kCollective = {
    "collective",
    {HloOp::kAllGather, HloOp::kAllReduce, HloOp::kAllToAll, HloOp::kCollectiveBroadcast,
     HloOp::kCollectivePermute, HloOp::kReduceScatter},
    MatchOnlyWay,
    LowerCollective};
extern constinit const LoweringRow kCollectiveStart = {
    "asynchronous collective", {HloOp::kAsyncStart}, MatchAsyncCollective, LowerCollectiveStart};
extern constinit const LoweringRow kAsyncCall = {
    "asynchronous steps", {HloOp::kAsyncStart}, MatchAsyncCall, LowerAsyncCall};
extern constinit const LoweringRow kAsyncDone = {
    "wait for a start", {HloOp::kAsyncDone}, MatchDone, LowerAsyncDone};
extern constinit const LoweringRow kSend = {"send", {HloOp::kSend}, MatchOnlyWay, LowerSend};
extern constinit const LoweringRow kRecv = {"recv", {HloOp::kRecv}, MatchOnlyWay, LowerRecv};
extern constinit const LoweringRow kRecvDone = {
    "recv-done", {HloOp::kRecvDone}, MatchOnlyWay, LowerRecvDone};

}  // namespace weft::compiler
