#include "program/interpret.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/float_mode.h"
#include "base/str.h"
#include "program/buffer_elements.h"
#include "program/collective.h"
#include "program/library.h"

namespace weft::program {

namespace {

using Bytes = std::span<std::byte>;

// One device: its memory and where it is in the steps.
class DeviceState {
 public:
  DeviceState(const Program& program, int64_t number, const InterpretOptions& options,
              detail::Budget& budget)
      : program_(program), number_(number), options_(options), budget_(budget) {}

  Status Start(std::span<const Literal> arguments) {
    memory_.resize(program_.buffers.size());
    size_t parameters = 0;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      parameters += buffer.kind == BufferKind::kParameter;
      if (buffer.base >= 0) continue;
      TRY(OwnStorage(i));
      if (buffer.kind != BufferKind::kParameter || memory_[i].empty()) continue;
      if (buffer.index >= static_cast<int64_t>(arguments.size())) {
        return InvalidArgument("argument ", buffer.index, " is missing");
      }
      const Literal& argument = arguments[buffer.index];
      if (argument.dtype() != buffer.shape.dtype() ||
          !Shape::SameDims(argument.shape(), buffer.shape)) {
        return InvalidArgument("argument ", buffer.index, " is ", argument.shape(), ", not ",
                               buffer.shape);
      }
      ToBuffer(buffer, argument.data(), memory_[i].data());
    }
    if (parameters != arguments.size()) {
      return InvalidArgument("program takes ", parameters, " arguments, has ", arguments.size());
    }
    frames_.push_back({&program_.steps, 0, nullptr, false});
    return {};
  }

  // On memory of the caller's, by buffer; null: storage of our own.
  Status StartOn(std::span<std::byte* const> addresses) {
    memory_.resize(program_.buffers.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].base >= 0) continue;
      if (i >= addresses.size() || addresses[i] == nullptr) {
        TRY(OwnStorage(i));
      } else {
        memory_[i] = {addresses[i], static_cast<size_t>(*ByteSize(program_.buffers[i]))};
      }
    }
    frames_.push_back({&program_.steps, 0, nullptr, false});
    return {};
  }

  // Runs until the end (then waits_at is null), a collective, or a wait for one.
  Status Run() {
    waits_at_ = nullptr;
    while (!frames_.empty() && !waits_at_) {
      TRY(budget_.Spend(1));
      Frame& frame = frames_.back();
      if (frame.next < frame.list->size()) {
        const Step& step = (*frame.list)[frame.next++];
        Status status = RunStep(step);
        if (!status) {
          Error error = status.error();
          if (!step.name.empty()) error.Prefix(StrCat(step.name, ": "));
          if (!step.source.empty()) error.Source(step.source);
          return std::unexpected(std::move(error));
        }
        if (options_.after_step && !HasLists(step)) options_.after_step(step);
        continue;
      }
      Frame done = frame;
      frames_.pop_back();
      auto* loop = done.owner ? std::get_if<WhileStep>(&done.owner->op) : nullptr;
      if (!loop) continue;
      bool again = done.in_body || MemoryOf(done.owner->uses[0])[0] != std::byte{0};
      if (!done.in_body && loop->count_step > 0 && CountsOn(*done.owner) != again) {
        return InvalidArgument("while ", done.owner->name, ": does not end at its limit");
      }
      if (!again) {
        if (loop->trip_count && *loop->trip_count != done.rounds) {
          return InvalidArgument("while ", done.owner->name, ": ", done.rounds,
                                 " iterations, not the promised ", *loop->trip_count);
        }
        continue;
      }
      frames_.push_back({done.in_body ? &loop->condition : &loop->body, 0, done.owner,
                         !done.in_body, done.rounds + (done.in_body ? 1 : 0)});
    }
    return {};
  }

  // Whether the counter of a loop is below its limit.
  bool CountsOn(const Step& step) {
    auto number = [&](size_t k) {
      Bytes bytes = MemoryOf(step.uses[k]);
      int32_t narrow = 0;
      int64_t wide = 0;
      if (bytes.size() == sizeof(wide)) {
        std::memcpy(&wide, bytes.data(), sizeof(wide));
        return wide;
      }
      std::memcpy(&narrow, bytes.data(), sizeof(narrow));
      return int64_t{narrow};
    };
    const auto& loop = std::get<WhileStep>(step.op);
    return number(1) < (loop.count_limit ? *loop.count_limit : number(2));
  }

  const Step* waits_at() const { return waits_at_; }
  // Whether the device has come to the collective, and not gone on from it.
  bool IsAt(const Step& step) const { return waits_at_ == &step || IsUnderWay(step); }
  // The collective has run: true if the device was waiting for it.
  bool Leave(const Step& step) {
    std::erase(under_way_, &step);
    return std::exchange(waits_at_, waits_at_ == &step ? nullptr : waits_at_) == &step;
  }

  Bytes MemoryOf(const Use& use) {
    Slice slice = Resolve(program_, use.slice);
    return memory_[slice.buffer].subspan(static_cast<size_t>(slice.offset),
                                         static_cast<size_t>(slice.size));
  }

  std::vector<Literal> Results() {
    std::vector<Literal> results;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.kind != BufferKind::kResult) continue;
      if (buffer.index >= static_cast<int64_t>(results.size())) results.resize(buffer.index + 1);
      Use use = {Access::kRead,
                 {static_cast<BufferId>(&buffer - program_.buffers.data()), 0, *ByteSize(buffer)}};
      Literal literal(buffer.shape);
      if (use.slice.size > 0) {
        FromBuffer(buffer, MemoryOf(use).data(), literal.mutable_data());
      }
      results[buffer.index] = std::move(literal);
    }
    return results;
  }

 private:
  struct Frame {
    const std::vector<Step>* list;
    size_t next;
    const Step* owner;   // the while or conditional; null for the program
    bool in_body;        // of a while; else in its condition
    int64_t rounds = 0;  // of a while, so far
  };

  Status OwnStorage(size_t i) {
    const Buffer& buffer = program_.buffers[i];
    int64_t bytes = *ByteSize(buffer);
    TRY(budget_.Reserve(bytes));
    memory_[i] =
        storage_.emplace_back(std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0xcd}));
    if (bytes > 0 && buffer.kind == BufferKind::kConstant) {
      ToBuffer(buffer, buffer.value.data(), memory_[i].data());
    }
    return {};
  }

  Status RunStep(const Step& step) {
    return std::visit([&](const auto& op) { return RunOp(step, op); }, step.op);
  }

  std::vector<Bytes> AllMemory(const Step& step) {
    std::vector<Bytes> memory;
    for (const Use& use : step.uses) memory.push_back(MemoryOf(use));
    return memory;
  }

  Status RunOp(const Step& step, const KernelStep& op) {
    std::vector<Bytes> memory = AllMemory(step);
    return detail::RunKernel(program_.kernels[op.kernel], memory, budget_, options_.check_races);
  }
  Status RunOp(const Step& step, const CopyStep&) {
    Bytes from = MemoryOf(step.uses[0]);
    std::copy(from.begin(), from.end(), MemoryOf(step.uses[1]).begin());
    return budget_.Spend(static_cast<int64_t>(from.size()) / 64);
  }
  Status RunOp(const Step& step, const FillStep& op) {
    Bytes to = MemoryOf(step.uses[0]);
    for (size_t i = 0; i < to.size(); ++i) to[i] = op.pattern[i % op.pattern.size()];
    return budget_.Spend(static_cast<int64_t>(to.size()) / 64);
  }
  Status RunOp(const Step& step, const LibraryStep& op) {
    std::vector<Bytes> memory = AllMemory(step);
    if (const Routine* routine = FindRoutine(op.routine)) {
      TRY(budget_.Spend(routine->cost(program_, step)));
      return routine->interpret(program_, step, number_, memory);
    }
    if (options_.call) return options_.call(number_, step, memory);
    return Unimplemented("interpreter: routine \"", op.routine, "\" is not known");
  }
  Status RunOp(const Step& step, const SendStep& op) {
    if (!options_.send) return Unimplemented("interpreter: no host to send to");
    return options_.send(number_, op.channel, MemoryOf(step.uses[0]));
  }
  Status RunOp(const Step& step, const RecvStep& op) {
    if (!options_.recv) return Unimplemented("interpreter: no host to receive from");
    return options_.recv(number_, op.channel, MemoryOf(step.uses[0]));
  }
  // Asynchronous collectives and lists are done as late as they may be, so that whoever touches
  // their memory on the way is found out.
  Status RunOp(const Step& step, const CollectiveStep&) {
    if (step.event.empty()) {
      waits_at_ = &step;
    } else {
      under_way_.push_back(&step);
    }
    return {};
  }
  Status RunOp(const Step&, const WaitStep& op) {
    auto found = std::ranges::find_if(under_way_, [&](auto* s) { return s->event == op.event; });
    if (found == under_way_.end()) return {};
    const Step* step = *found;
    if (auto* list = std::get_if<ListStep>(&step->op)) {
      under_way_.erase(found);
      frames_.push_back({&list->steps, 0, step, false});
    } else {
      waits_at_ = step;
    }
    return {};
  }
  bool IsUnderWay(const Step& step) const {
    return std::find(under_way_.begin(), under_way_.end(), &step) != under_way_.end();
  }
  Status RunOp(const Step& step, const WhileStep& op) {
    frames_.push_back({&op.condition, 0, &step, false});
    return {};
  }
  Status RunOp(const Step& step, const ListStep& op) {
    if (step.event.empty()) {
      frames_.push_back({&op.steps, 0, &step, false});
    } else {
      under_way_.push_back(&step);
    }
    return {};
  }
  Status RunOp(const Step& step, const ConditionalStep& op) {
    Bytes selector = MemoryOf(step.uses[0]);
    size_t branch;
    if (selector.size() == 1) {
      branch = selector[0] != std::byte{0} ? 0 : 1;
      if (branch >= op.branches.size()) return {};
    } else {
      int32_t index;
      std::memcpy(&index, selector.data(), sizeof(index));
      size_t last = op.branches.size() - 1;
      branch = index < 0 ? last : std::min(static_cast<size_t>(index), last);
    }
    frames_.push_back({&op.branches[branch], 0, &step, false});
    return {};
  }

  const Program& program_;
  int64_t number_;
  const InterpretOptions& options_;
  detail::Budget& budget_;
  std::vector<Bytes> memory_;                    // by buffer; none where there is a base
  std::vector<std::vector<std::byte>> storage_;  // what of it is our own
  std::vector<Frame> frames_;
  const Step* waits_at_ = nullptr;
  std::vector<const Step*> under_way_;  // asynchronous collectives and lists
};

// Exchanges data if all devices of the group have come to the step.
bool TryCollective(const Program& program, const Step& step, std::span<const int64_t> group,
                   std::vector<DeviceState>& devices) {
  std::vector<std::vector<Bytes>> memory;
  for (int64_t device : group) {
    if (!devices[device].IsAt(step)) return false;
    memory.emplace_back();
    for (const Use& use : step.uses) memory.back().push_back(devices[device].MemoryOf(use));
  }
  std::vector<CollectivePart> parts;
  for (const std::vector<Bytes>& of : memory) parts.push_back({&program, &step, of});
  CollectiveWork::RunForAll(parts, group);
  return true;
}

// For a device that the step's pairs leave out.
void FillZeroes(const Program& program, const Step& step, DeviceState& device) {
  std::vector<Bytes> memory;
  for (const Use& use : step.uses) memory.push_back(device.MemoryOf(use));
  CollectiveWork(program, step, {}, 0).FillZeroes(memory);
}

}  // namespace

Result<std::vector<std::vector<Literal>>> InterpretDevices(
    const Program& program, std::span<const std::vector<Literal>> arguments,
    const InterpretOptions& options) {
  TRY(Verify(program));
  if (static_cast<int64_t>(arguments.size()) != program.devices) {
    return InvalidArgument("program runs on ", program.devices, " devices, has arguments for ",
                           arguments.size());
  }
  FloatMode mode(program.flush_subnormals);
  detail::Budget budget{options.max_instructions, options.max_bytes, options.cancel};
  std::vector<DeviceState> devices;
  for (int64_t d = 0; d < program.devices; ++d) {
    devices.emplace_back(program, d, options, budget);
    TRY(devices.back().Start(arguments[d]));
    TRY(devices.back().Run());
  }
  while (true) {
    const Step* stuck = nullptr;
    bool progress = false;
    for (int64_t d = 0; d < program.devices; ++d) {
      const Step* step = devices[d].waits_at();
      if (!step) continue;
      stuck = step;
      std::vector<int64_t> group = GroupOf(std::get<CollectiveStep>(step->op), d, program.devices);
      if (std::find(group.begin(), group.end(), d) == group.end()) {
        FillZeroes(program, *step, devices[d]);
        group = {d};
      } else if (!TryCollective(program, *step, group, devices)) {
        continue;
      }
      progress = true;
      for (int64_t member : group) {
        if (devices[member].Leave(*step)) TRY(devices[member].Run());
      }
    }
    if (!stuck) break;
    if (!progress) {
      return FailedPrecondition("collective ", stuck->name,
                                ": some devices of a group do not come");
    }
  }
  std::vector<std::vector<Literal>> results;
  for (DeviceState& device : devices) results.push_back(device.Results());
  return results;
}

Status InterpretOn(const Program& program, int64_t device, std::span<std::byte* const> addresses,
                   const InterpretOptions& options) {
  FloatMode mode(program.flush_subnormals);
  detail::Budget budget{options.max_instructions, options.max_bytes, options.cancel};
  DeviceState state(program, device, options, budget);
  TRY(state.StartOn(addresses));
  TRY(state.Run());
  if (const Step* step = state.waits_at()) {
    return Unimplemented("collective ", step->name, ": the interpreter runs one device here");
  }
  return {};
}

std::vector<std::byte> ConstantBytes(const Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<size_t>(*ByteSize(buffer)));
  if (!bytes.empty()) ToBuffer(buffer, buffer.value.data(), bytes.data());
  return bytes;
}

Result<std::vector<Literal>> Interpret(const Program& program, std::span<const Literal> arguments,
                                       const InterpretOptions& options) {
  std::vector<std::vector<Literal>> per_device(
      static_cast<size_t>(std::clamp<int64_t>(program.devices, 1, 1 << 10)),
      std::vector<Literal>(arguments.begin(), arguments.end()));
  auto results = TRY(InterpretDevices(program, per_device, options));
  return std::move(results[0]);
}

}  // namespace weft::program
