// Starts and their dones, sends and receives.
#include <algorithm>

#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

// Hands a value on unchanged, so that the other half may lie beyond it.
bool IsIntermediary(const Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kWhile:
    case Op::kCall:
    case Op::kConditional:
    case Op::kOptBarrier:
    case Op::kDomain:
    case Op::kParameter:
    case Op::kBitcast:
    case Op::kFusion:
    case Op::kCustomCall:
    case Op::kAddDependency: return true;
    default: return false;
  }
}

bool IsControlDep(const Instruction& instruction) {
  return instruction.op() == Op::kCustomCall &&
         instruction.attrs<CustomCallAttrs>().custom_call_target == "control_dep";
}

bool IsCalledByAsync(const Computation& computation) {
  for (const auto& other : computation.module()->computations()) {
    for (const Instruction* instruction : *other) {
      if (instruction->op() == Op::kAsyncStart &&
          instruction->attrs<AsyncAttrs>().calls == &computation) {
        return true;
      }
    }
  }
  return false;
}

// One user: the done, or something that hands the value on.
Status ExpectOneUser(const Instruction& start, Op done) {
  int64_t users = 0;
  for (const Instruction* user : start.users()) {
    if (IsControlDep(*user)) continue;
    ++users;
    if (user->op() != done && !IsIntermediary(*user)) {
      return InvalidArgument("its user must be ", Mnemonic(done), ", not ", user->name());
    }
  }
  if (users == 1) return {};
  if (start.IsRoot() && IsCalledByAsync(*start.parent())) return {};
  return InvalidArgument("must have one user, ", Mnemonic(done), "; it has ", users);
}

Status ExpectProducer(const Instruction& done, std::initializer_list<Op> starts) {
  const Instruction& operand = *done.operand(0);
  if (std::find(starts.begin(), starts.end(), operand.op()) != starts.end()) return {};
  if (IsIntermediary(operand)) return {};
  return InvalidArgument("its operand must be ", Mnemonic(*starts.begin()), ", not ",
                         operand.name());
}

// Channel and kind of transfer of a done are those of its start.
Status ExpectSameChannel(const Instruction& start, Op done_op) {
  const auto& attrs = start.attrs<ChannelAttrs>();
  for (const Instruction* done : start.users()) {
    if (done->op() != done_op) continue;
    const auto& done_attrs = done->attrs<ChannelAttrs>();
    if (attrs.channel_id && attrs.channel_id != done_attrs.channel_id) {
      return InvalidArgument("has channel ", *attrs.channel_id, ", ", done->name(), " has ",
                             done_attrs.channel_id ? StrCat(*done_attrs.channel_id) : "none");
    }
    if (attrs.channel_id && attrs.is_host_transfer != done_attrs.is_host_transfer) {
      return InvalidArgument("is_host_transfer differs from that of ", done->name());
    }
  }
  return {};
}

// An async value goes to one update or done, as operand 0, or is handed on.
Status ExpectAsyncUse(const Instruction& value) {
  int64_t users = 0, halves = 0;
  for (const Instruction* user : value.users()) {
    if (IsControlDep(*user)) continue;
    ++users;
    bool half = user->op() == Op::kAsyncDone || user->op() == Op::kAsyncUpdate;
    if (!half && !IsIntermediary(*user)) {
      return InvalidArgument("its user must be async-update or async-done, not ", user->name());
    }
    halves += half ? 1 : 0;
    for (int64_t i = 1; half && i < user->operand_count(); ++i) {
      if (user->operand(i) == &value) {
        return InvalidArgument("is operand ", i, " of ", user->name(), ", it must be operand 0");
      }
    }
  }
  if (halves > 1) return InvalidArgument("has ", halves, " async-updates and async-dones, not one");
  if (users == 0 && !value.IsRoot()) return InvalidArgument("has no matching async-done");
  return {};
}

// Updates and dones have the computation of their start.
Status ExpectSameComputation(const Instruction& instruction) {
  const Instruction& producer = *instruction.operand(0);
  if (producer.op() != Op::kAsyncStart && producer.op() != Op::kAsyncUpdate) return {};
  const Computation* calls = instruction.attrs<AsyncAttrs>().calls;
  const Computation* started = producer.attrs<AsyncAttrs>().calls;
  if (calls == nullptr || started == nullptr || calls == started) return {};
  if (calls->size() == started->size() && calls->root()->op() == started->root()->op()) return {};
  return InvalidArgument("has computation ", calls->name(), ", ", producer.name(), " has ",
                         started->name());
}

}  // namespace

Status VerifyPairs(const Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kAllReduceStart: return ExpectOneUser(instruction, Op::kAllReduceDone);
    case Op::kAllGatherStart: return ExpectOneUser(instruction, Op::kAllGatherDone);
    case Op::kCopyStart: return ExpectOneUser(instruction, Op::kCopyDone);
    case Op::kCollectivePermuteStart: return ExpectOneUser(instruction, Op::kCollectivePermuteDone);
    case Op::kAllReduceDone: return ExpectProducer(instruction, {Op::kAllReduceStart});
    case Op::kAllGatherDone: return ExpectProducer(instruction, {Op::kAllGatherStart});
    case Op::kCopyDone: return ExpectProducer(instruction, {Op::kCopyStart});
    case Op::kCollectivePermuteDone:
      return ExpectProducer(instruction, {Op::kCollectivePermuteStart});
    case Op::kSend:
      TRY(ExpectOneUser(instruction, Op::kSendDone));
      return ExpectSameChannel(instruction, Op::kSendDone);
    case Op::kRecv:
      TRY(ExpectOneUser(instruction, Op::kRecvDone));
      return ExpectSameChannel(instruction, Op::kRecvDone);
    case Op::kSendDone: return ExpectProducer(instruction, {Op::kSend});
    case Op::kRecvDone: return ExpectProducer(instruction, {Op::kRecv});
    case Op::kAsyncStart: return ExpectAsyncUse(instruction);
    case Op::kAsyncUpdate:
    case Op::kAsyncDone:
      TRY(ExpectProducer(instruction, {Op::kAsyncStart, Op::kAsyncUpdate}));
      TRY(ExpectSameComputation(instruction));
      return instruction.op() == Op::kAsyncUpdate ? ExpectAsyncUse(instruction) : Status();
    default: return {};
  }
}

}  // namespace weft::hlo
