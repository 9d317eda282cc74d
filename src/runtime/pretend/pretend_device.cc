#include "runtime/pretend/pretend_device.h"

#include <utility>

#include "base/str.h"
#include "base/trace.h"
#include "program/library.h"
#include "runtime/binding.h"
#include "runtime/pretend/pretend_stream.h"
#include "runtime/step_trace.h"

namespace weft::runtime {
namespace {

// Held by work under way too.
struct InterpretedProgram {
  explicit InterpretedProgram(program::Program program) : program(std::move(program)) {}
  const program::Program program;
  const StepTraces traces{program};
};

class PretendProgram : public LoadedProgram {
 public:
  PretendProgram(program::Program program, std::shared_ptr<PretendCore> core)
      : program_(std::make_shared<const InterpretedProgram>(std::move(program))),
        core_(std::move(core)),
        binding_(program_->program) {
    stats_.kernels = std::ssize(this->program().kernels);
  }

  Status PlaceConstants(PretendStream& stream) {
    int64_t bytes = binding_.constant_bytes();
    if (bytes == 0) return {};
    constants_ = std::make_shared<Allocation>(TRY(core_->Allocate(
        stream, bytes, MemorySpace::kDevice, StrCat("constants of ", program().name))));
    TRY(stream.Copy(CopyKind::kToDevice, constants_->address(), binding_.constants().data(),
                    bytes));
    return stream.Synchronize();
  }

  Status Run(const Call&) const override {
    return FailedPrecondition("program ", program().name, ": ", core_->name,
                              " has memory that the host does not see: it has to be enqueued");
  }

  Status Enqueue(const Call& call, Stream& any_stream) const override {
    TRY(CheckCall(program(), call));
    TRY(CheckAddresses(call));
    auto* stream = dynamic_cast<PretendStream*>(&any_stream);
    if (stream == nullptr || stream->core() != core_) {
      return InvalidArgument("program ", program().name, ": a stream of another device than ",
                             core_->name);
    }
    ++core_->counts.programs;
    core_->counts.steps += std::ssize(program().steps);
    Allocation temps;
    if (binding_.temp_bytes() > 0) {
      temps = TRY(core_->Allocate(*stream, binding_.temp_bytes(), MemorySpace::kDevice,
                                  StrCat("temps of ", program().name)));
    }
    if (!core_->options.runs) return {};
    std::vector<std::byte*> addresses =
        binding_.Bind(call, temps.address(), constants_ ? constants_->address() : nullptr);
    for (std::byte*& address : addresses) {
      if (core_->memory->Contains(address)) address = core_->memory->OnDevice(address);
    }
    program::InterpretOptions options = core_->options.interpret;
    options.cancel = call.cancel;
    if (call.call != nullptr) {
      options.call = [hook = call.call](int64_t, const program::Step& step,
                                        std::span<const std::span<std::byte>> memory) {
        return (*hook)(step, memory);
      };
    }
    if (call.call != nullptr && CallsOut()) return RunHere(call, *stream, addresses, options);
    // `temps` are freed behind this.
    stream->Enqueue([program = program_, constants = constants_, device = call.device,
                     flow = call.flow, options = std::move(options),
                     addresses = std::move(addresses)]() mutable {
      const bool traced = trace::IsOn();
      trace::Span run(traced ? program->traces.Run() : nullptr);
      run.From(flow).Device(device);
      trace::Steps timeline(traced, device);
      if (traced) {
        options.after_step = [&](const program::Step& step) {
          timeline.End(program->traces.Of(step));
        };
      }
      return program::InterpretOn(program->program, device, addresses, options);
    });
    return {};
  }

  const program::Program& program() const override { return program_->program; }
  const LoadStats& stats() const override { return stats_; }
  int64_t temp_bytes() const override { return binding_.temp_bytes(); }

 private:
  // Steps that are the caller's own, who may use the device in them.
  bool CallsOut() const {
    bool found = false;
    program::ForEachStep(program().steps, [&](const program::Step& step) {
      auto* library = std::get_if<program::LibraryStep>(&step.op);
      found |= library != nullptr && program::FindRoutine(library->routine) == nullptr;
    });
    return found;
  }
  // On the caller's thread, behind what the stream has been given.
  Status RunHere(const Call& call, PretendStream& stream, std::span<std::byte* const> addresses,
                 const program::InterpretOptions& options) const {
    if (!stream.Synchronize()) return {};  // which the stream knows
    Status status = program::InterpretOn(program(), call.device, addresses, options);
    if (status) return {};
    stream.EnqueueAlways([error = status.error()](Status& of_stream) {
      if (of_stream) of_stream = std::unexpected(error);
    });
    return {};
  }
  Status CheckAddresses(const Call& call) const {
    for (const program::Buffer& b : program().buffers) {
      bool result = b.kind == program::BufferKind::kResult;
      if (!result && b.kind != program::BufferKind::kParameter) continue;
      if (b.space != MemorySpace::kDevice) continue;
      TRY(core_->CheckAddress(
          StrCat("program ", program().name, ": ", result ? "result " : "parameter ", b.index),
          (result ? call.results : call.parameters)[b.index], *ByteSize(b)));
    }
    return {};
  }

  const std::shared_ptr<const InterpretedProgram> program_;
  std::shared_ptr<Allocation> constants_;
  const std::shared_ptr<PretendCore> core_;
  const ProgramBinding binding_;
  LoadStats stats_;
};

}  // namespace

Result<std::unique_ptr<PretendDevice>> PretendDevice::Create(const PretendOptions& options,
                                                             int64_t number) {
  auto memory = TRY(DeviceMemory::Create(options.memory_bytes, options.runs));
  return std::unique_ptr<PretendDevice>(new PretendDevice(std::make_shared<PretendCore>(
      options, StrCat(options.runs ? "pretend:" : "null:", number), std::move(memory))));
}

Result<std::vector<std::unique_ptr<PretendDevice>>> PretendDevice::CreateSeveral(
    int64_t count, const PretendOptions& options) {
  std::vector<std::unique_ptr<PretendDevice>> devices;
  for (int64_t i = 0; i < count; ++i) devices.push_back(TRY(Create(options, i)));
  return devices;
}

const program::TargetInfo& PretendDevice::target() const {
  return core_->options.target;
}

std::string PretendDevice::description() const {
  return core_->name;
}

Result<std::unique_ptr<LoadedProgram>> PretendDevice::Load(program::Program program,
                                                           const LoadOptions&) {
  TRY(program::Verify(program));
  TRY(CheckSpaces(program));
  auto stream = std::make_shared<PretendStream>(StreamKind::kToDevice, core_);
  auto loaded = std::make_unique<PretendProgram>(std::move(program), core_);
  TRY(loaded->PlaceConstants(*stream));
  return loaded;
}

Result<Allocation> PretendDevice::AllocateOn(Stream& stream, int64_t bytes, MemorySpace space,
                                             std::string_view label) {
  auto* own = dynamic_cast<PretendStream*>(&stream);
  if (own == nullptr || own->core() != core_) {
    return InvalidArgument("allocate: a stream of another device than ", core_->name);
  }
  return core_->Allocate(*own, bytes, space, label);
}

MemoryStats PretendDevice::memory() const {
  return core_->ledger.stats();
}

Result<StreamPtr> PretendDevice::NewStream(StreamKind kind) {
  return std::make_shared<PretendStream>(kind, core_);
}

const PretendCounts& PretendDevice::counts() const {
  return core_->counts;
}

}  // namespace weft::runtime
