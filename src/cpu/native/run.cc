#include "cpu/native/run.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/cancel_flag.h"
#include "base/float_mode.h"
#include "base/inline_vec.h"
#include "base/storage.h"
#include "base/thread_limit.h"
#include "base/trace.h"
#include "cpu/native/call.h"
#include "program/library.h"
#include "program/target_facts.h"
#include "runtime/device_group.h"

namespace weft::cpu {
namespace {

using Bytes = std::span<std::byte>;

constexpr size_t kKeptArenas =
    program::TargetFacts::kUsualThreads / 2;  // arenas: runs of one program at once
// Larger ones go back to where all can reuse them.
constexpr int64_t kKeptArenaBytes = program::TargetFacts::kSecondLevelBytes;
const std::byte kNeverCancelled{0};
static_assert(sizeof(std::atomic<bool>) == 1);

std::vector<Bytes> MemoryOf(const program::Step& step, std::byte* const* addresses) {
  std::vector<Bytes> memory;
  for (size_t i = 0; i < step.uses.size(); ++i) {
    memory.emplace_back(addresses[i], static_cast<size_t>(step.uses[i].slice.size));
  }
  return memory;
}

// A collective of one device with itself.
void RunAlone(const program::CollectiveStep& op, std::span<const Bytes> memory) {
  size_t n = memory.size() / 2;
  bool to_self = op.kind != program::CollectiveKind::kPermute;
  for (const auto& pair : op.groups) to_self = to_self || pair == std::vector<int64_t>{0, 0};
  for (size_t i = 0; i < n; ++i) {
    if (memory[n + i].empty()) continue;
    if (to_self) {
      std::memmove(memory[n + i].data(), memory[i].data(), memory[n + i].size());
    } else {
      std::memset(memory[n + i].data(), 0, memory[n + i].size());
    }
  }
}

bool IsCancelled(const runtime::Call& call) {
  return call.cancel != nullptr && call.cancel->load(std::memory_order_relaxed);
}

std::unexpected<Error> Cancelled(const program::Program& program) {
  return MakeError(Code::kCancelled, "program ", program.name, ": cancelled");
}

}  // namespace

Error AtStep(const program::Step& step, Error error) {
  if (!step.name.empty()) error.Prefix(StrCat(step.name, ": "));
  if (!step.source.empty()) error.Source(step.source);
  return error;
}

Status NativeProgram::RunSequence(Context& context, int64_t number, std::byte* const* table) const {
  InlineVec<std::byte*, 32> storage(most_arguments_, nullptr);
  std::byte** addresses = storage.data();
  const trace::What* const* traced = trace::IsOn() ? Traces().sequences[number].data() : nullptr;
  trace::Steps timeline(traced != nullptr, context.run->device);
  const std::vector<SequenceStep>& sequence = sequences_[number];
  for (size_t at = 0; at < sequence.size(); ++at) {
    const SequenceStep& step = sequence[at];
    // A timeline shows each of them.
    if (step.together > 1 && !timeline.on()) {
      if (IsCancelled(*context.run)) return Cancelled(program_);
      auto count = static_cast<size_t>(step.together);
      RunTogether(context, std::span(sequence).subspan(at, count), table);
      at += count - 1;
      continue;
    }
    std::byte** next = addresses;
    for (const SequenceStep::Argument& argument : step.arguments) {
      *next++ = table[argument.slot] + argument.offset;
    }
    if (IsCancelled(*context.run)) return Cancelled(program_);
    context.doing->At(&step.item);
    switch (step.kind) {
      case SequenceStep::Kind::kKernel:
        if (step.n == 1) {
          CallNative(step.task, addresses, 0, 1);
        } else {
          context.pool->ParallelFor(step.n, 1, [&](int64_t begin, int64_t end) {
            if (!IsCancelled(*context.run)) CallNative(step.task, addresses, begin, end);
          });
        }
        break;
      case SequenceStep::Kind::kCopy:
        CopyMemory(*context.pool, addresses[1], addresses[0], step.n);
        break;
      case SequenceStep::Kind::kFill: FillMemory(addresses[0], step.n, step.pattern); break;
      case SequenceStep::Kind::kCall: TRY(RunCall(context, step.n, addresses, table)); break;
    }
    if (timeline.on()) timeline.End(*traced++);
  }
  return {};
}

// One range over the grids of all of them, one behind the other.
void NativeProgram::RunTogether(Context& context, std::span<const SequenceStep> kernels,
                                std::byte* const* table) const {
  InlineVec<std::byte*, 256> addresses;
  InlineVec<int64_t, 64> first_address, first_piece;
  int64_t pieces = 0;
  for (const SequenceStep& step : kernels) {
    first_address.push_back(static_cast<int64_t>(addresses.size()));
    first_piece.push_back(pieces);
    for (const SequenceStep::Argument& argument : step.arguments) {
      addresses.push_back(table[argument.slot] + argument.offset);
    }
    pieces += step.n;
  }
  context.doing->At(&kernels.front().item);
  context.pool->ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    size_t kernel = kernels.size() - 1;
    while (first_piece[kernel] > begin) --kernel;
    for (; begin < end && !IsCancelled(*context.run); ++kernel) {
      int64_t first = first_piece[kernel], last = std::min(end, first + kernels[kernel].n);
      CallNative(kernels[kernel].task, addresses.data() + first_address[kernel], begin - first,
                 last - first);
      begin = last;
    }
  });
}

int32_t NativeProgram::SequenceFromCode(NativeContext* context, int64_t number,
                                        std::byte* const* table) {
  Context& c = *static_cast<Context*>(context);
  Status status = c.program->RunSequence(c, number, table);
  if (status) return 0;
  c.status = std::move(status);
  return kRunFailed;
}

// A region is one event: nobody sees into it.
void NativeProgram::RegionFromCode(NativeContext* context, int64_t number, int64_t is_end) {
  Context& c = *static_cast<Context*>(context);
  if (is_end == 0) {
    c.region_begin = trace::Now();
  } else {
    trace::Record({.begin = c.region_begin,
                   .end = trace::Now(),
                   .what = c.program->Traces().regions[number],
                   .device = static_cast<int32_t>(c.run->device)});
  }
}

const StepTraces& NativeProgram::Traces() const {
  std::call_once(traced_, [this] { traces_ = DescribeSteps(program_, plan_, sequences_); });
  return traces_;
}

// One with effects ends where it begins, so that these keep their order whoever causes them.
Status NativeProgram::StartList(Context& context, const program::Step& step,
                                std::byte* const* table) const {
  const int32_t number = plan_.list_numbers.at(&step);
  if (context.beside == nullptr || HasEffects(step)) return RunList(context, number, table);
  context.started.emplace_back(
      &step, context.beside->Start([this, outer = context, number, table,
                                    threads = ThreadLimit::current()]() -> Status {
        ThreadLimit limit(threads);
        return RunList(outer, number, table);
      }));
  return {};
}

Status NativeProgram::RunList(const Context& outer, int32_t number, std::byte* const* table) const {
  FloatMode mode(program_.flush_subnormals);
  CancelFlag cancel(outer.run->cancel);
  Doing doing({"run", program_.name});
  Context context = outer;
  context.started.clear();
  context.region = -1;
  context.doing = &doing;
  doing.AtOneOf(region_items_.data(), &context.region);
  const int32_t sequence = plan_.lists[number].sequence;
  int32_t code = 0;
  if (lists_[number] != nullptr) {
    code = CallNative(lists_[number], &context, table);
  } else if (sequence >= 0) {
    code = SequenceFromCode(&context, sequence, table);
  }
  if (code == kRunCancelled) return Cancelled(program_);
  return code == 0 ? Status() : std::move(context.status);
}

Status NativeProgram::WaitFor(Context& context, const program::Step& step) const {
  const std::string& event = std::get<program::WaitStep>(step.op).event;
  auto found = std::ranges::find_if(context.started,
                                    [&](const auto& one) { return one.first->event == event; });
  if (found != context.started.end()) {
    const runtime::Beside::TaskPtr task = std::move(found->second);
    context.started.erase(found);
    return context.beside->Wait(task);
  }
  if (context.run->group == nullptr) return {};
  return context.run->group->Wait(event, context.run->device);
}

Status NativeProgram::RunCall(Context& context, int64_t number, std::byte* const* addresses,
                              std::byte* const* table) const {
  const program::Step& step = *plan_.calls[number];
  Status status;
  auto* call = std::get_if<program::LibraryStep>(&step.op);
  auto* collective = std::get_if<program::CollectiveStep>(&step.op);
  const program::Routine* known = call ? program::FindRoutine(call->routine) : nullptr;
  bool has_hook = context.run->call != nullptr && *context.run->call;
  if (routines_[number]) {
    status = routines_[number]->Run({*context.pool, {addresses, step.uses.size()}, context.room});
  } else if (known) {
    status = known->interpret(program_, step, context.run->device, MemoryOf(step, addresses));
  } else if (collective && program_.devices == 1) {
    RunAlone(*collective, MemoryOf(step, addresses));
  } else if (collective && context.run->group != nullptr) {
    const bool is_async = !step.event.empty() && !context.in_place;
    auto run = is_async ? &runtime::DeviceGroup::Start : &runtime::DeviceGroup::Collective;
    status =
        (context.run->group->*run)(program_, step, context.run->device, MemoryOf(step, addresses));
  } else if (std::holds_alternative<program::WaitStep>(step.op)) {
    status = WaitFor(context, step);
  } else if (IsAsyncList(step)) {
    status = StartList(context, step, table);
  } else if (call && context.run->group != nullptr && call->routine == "device_send") {
    status = context.run->group->Send(step, context.run->device, MemoryOf(step, addresses)[0]);
  } else if (call && context.run->group != nullptr && call->routine == "device_recv") {
    status = context.run->group->Receive(step, context.run->device, MemoryOf(step, addresses)[0]);
  } else if (has_hook) {
    status = (*context.run->call)(step, MemoryOf(step, addresses));
  } else if (call) {
    status = Unimplemented("cpu: routine \"", call->routine, "\" is not known");
  } else {
    status = Unimplemented("cpu: nobody runs steps of kind ", KindName(step));
  }
  if (!status) return std::unexpected(AtStep(step, std::move(status).error()));
  return status;
}

std::shared_ptr<std::byte[]> NativeProgram::TakeArena() const {
  if (memory_bytes() <= kKeptArenaBytes) {
    MutexLock lock(mutex_);
    if (!arenas_.empty()) {
      std::shared_ptr<std::byte[]> arena = std::move(arenas_.back());
      arenas_.pop_back();
      return arena;
    }
  }
  return AllocateStorage(static_cast<size_t>(memory_bytes()), false);
}

void NativeProgram::KeepArena(std::shared_ptr<std::byte[]> arena) const {
  if (memory_bytes() > kKeptArenaBytes) return;
  MutexLock lock(mutex_);
  if (arenas_.size() < kKeptArenas) arenas_.push_back(std::move(arena));
}

Status NativeProgram::CheckCall(const runtime::Call& call) const {
  if (call.parameters.size() != parameters_ || call.results.size() != results_) {
    return InvalidArgument("program ", program_.name, " takes ", parameters_, " parameters and ",
                           results_, " results, not ", call.parameters.size(), " and ",
                           call.results.size());
  }
  for (const Binding& b : bindings_) {
    if (b.bytes > 0 && !(b.result ? call.results : call.parameters)[b.index]) {
      return InvalidArgument("program ", program_.name, ": ", b.result ? "result " : "parameter ",
                             b.index, " has no memory");
    }
  }
  for (const Donated& d : donated_) {
    if (call.results[d.result] == call.parameters[d.parameter] + d.offset) continue;
    return InvalidArgument("program ", program_.name, ": result ", d.result, " lies in parameter ",
                           d.parameter, ", which is at another address");
  }
  return {};
}

Status NativeProgram::Run(const runtime::Call& call) const {
  TRY(CheckCall(call));
  FloatMode mode(program_.flush_subnormals);
  CancelFlag cancel(call.cancel);
  Doing doing({"run", program_.name});
  if (call.after_step != nullptr || call.before_step != nullptr) return RunStepByStep(*this, call);
  InlineVec<std::byte*, 32> table(table_);
  for (const Binding& b : bindings_) {
    table[b.slot] = (b.result ? call.results : call.parameters)[b.index];
  }
  std::shared_ptr<std::byte[]> arena;
  Context context;
  std::optional<ScratchRoom> room;
  if (memory_bytes() > 0) {
    arena = TakeArena();
    if (!arena) {
      return ResourceExhausted("program ", program_.name, ": no memory for ", memory_bytes(),
                               " bytes of temps");
    }
    table[0] = arena.get();
    if (room_bytes_ > 0) {
      room.emplace(std::span(arena.get() + room_offset_, static_cast<size_t>(room_bytes_)));
      context.room = &*room;
    }
  }
  context.sequence = &SequenceFromCode;
  if (trace::IsOn()) context.note_region = &RegionFromCode;
  context.cancel = call.cancel ? reinterpret_cast<const std::byte*>(call.cancel) : &kNeverCancelled;
  context.program = this;
  context.run = &call;
  context.doing = &doing;
  doing.AtOneOf(region_items_.data(), &context.region);
  context.pool = call.pool ? call.pool : &DefaultPool();
  Status status = lists_.empty() ? RunSteps(context, table.data())
                                 : runtime::Beside::Run(kept_, list_threads_, [&](auto& beside) {
                                     context.beside = &beside;
                                     return RunSteps(context, table.data());
                                   });
  if (arena) KeepArena(std::move(arena));
  return status;
}

Status NativeProgram::RunSteps(Context& context, std::byte* const* table) const {
  const runtime::Call& call = *context.run;
  int32_t code = 0;
  if (run_) {
    code = CallNative(run_, &context, table);
  } else if (!sequences_.empty()) {
    code = SequenceFromCode(&context, 0, table);
  }
  // What the last step left out nobody may take for a result.
  if (code == 0 && IsCancelled(call)) code = kRunCancelled;
  if (code != 0 && call.group != nullptr) call.group->Abandon(call.device);
  if (code == kRunCancelled) return Cancelled(program_);
  return code == 0 ? Status() : std::move(context.status);
}

}  // namespace weft::cpu
