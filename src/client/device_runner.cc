#include "client/device_runner.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/sole_owner.h"
#include "base/str.h"
#include "client/client.h"
#include "client/evaluator_runner.h"
#include "client/packed_transfer.h"
#include "compiler/buffers/buffers.h"
#include "compiler/lower/compile.h"
#include "hlo/clone.h"
#include "inspect/fault.h"

namespace weft::client {

using program::BufferKind;
using runtime::CopyKind;
using runtime::MemorySpace;

DeviceRunner::~DeviceRunner() = default;

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::Create(Client& client,
                                                           const hlo::Module& module,
                                                           const compiler::CompileOptions& options,
                                                           inspect::CompileWatch& watch) {
  runtime::Device& device = *client.gpu();
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner);
  compiler::Compiled compiled =
      TRY(compiler::Compile(module, options, device.target(), watch.Hooks()));
  watch.Lowered(compiled);
  runner->client_ = &client;
  runner->module_ = std::move(compiled.module);
  runtime::LoadOptions load;
  load.cache = client.object_cache();
  load.show = watch.ShowCode();
  load.cancel = watch.cancel();
  load.progress = watch.ShowProgress();
  runner->program_ = TRY(device.Load(std::move(compiled.program), load));
  EvaluatorRunnerOptions eval{.max_tensor_bytes = client.memory_limit(),
                              .cancel = &client.cancelled(),
                              .flush_subnormals = options.cpu.flush_subnormals};
  runner->eval_options_ = EvalOptionsFor(eval);
  if (client.options().check) runner->input_ = hlo::CloneModule(module);
  runner->calls_ =
      TRY(HostCalls::Create(*runner->module_, runner->program_->program(), runner->eval_options_));
  program::ForEachStep(runner->program_->program().steps, [&](const program::Step& step) {
    runner->loops_ |= std::holds_alternative<program::WhileStep>(step.op);
  });
  TRY(runner->DescribeBuffers());
  runner->DescribeLeaves(module);
  return runner;
}

Status DeviceRunner::DescribeBuffers() {
  const program::Program& program = program_->program();
  for (const program::Buffer& b : program.buffers) {
    if (b.size_of >= 0) return Unimplemented("run-time sizes of arguments or results on a GPU");
    size_t number = static_cast<size_t>(b.index) + 1;
    if (b.kind == BufferKind::kParameter) {
      if (parameters_.size() < number) parameters_.resize(number);
      parameters_[number - 1] = {*ByteSize(b), b.donation != program::Donation::kNone};
    } else if (b.kind == BufferKind::kResult) {
      if (outputs_.size() < number) outputs_.resize(number);
      outputs_[number - 1].bytes = *ByteSize(b);
      if (b.base >= 0) outputs_[number - 1].parameter = program.buffers[b.base].index;
    }
  }
  return {};
}

// A tuple's leaves are the program's parameters, as separate ones are.
void DeviceRunner::DescribeLeaves(const hlo::Module& module) {
  const hlo::Computation& entry = *module.entry();
  for (const hlo::Instruction* p : entry.parameters()) {
    compiler::ForEachLeaf(
        p->shape(), [&](const Shape& shape) { parameter_is_token_.push_back(!shape.IsArray()); });
  }
  compiler::ForEachLeaf(entry.root()->shape(),
                        [&](const Shape& shape) { result_is_token_.push_back(!shape.IsArray()); });
}

// Puts arguments and results in place on one stream, in whose order all of it is freed.
class DeviceRunner::Frame {
 public:
  Frame(const DeviceRunner& runner, Accelerator& on, Lane& lane)
      : runner_(runner), on_(on), lane_(lane), stream_(lane.stream()) {
    taken_.resize(runner.parameters_.size());
  }

  Status TakeArgument(size_t parameter, ArrayRef& array, bool donated) {
    const Parameter& expected = runner_.parameters_[parameter];
    if (DeviceByteSize(array->shape) != expected.bytes) {
      return InvalidArgument("argument ", parameter, " is ", array->shape.ToStringWithoutLayout(),
                             ", the program takes ", expected.bytes, " bytes");
    }
    if (array->device == nullptr) return CopyIn(parameter, array);
    DeviceBytes& bytes = *array->device;
    TRY(WaitUntilWritten(stream_, bytes, array->ready));
    bool here = &lane_ == &on_.compute();
    if (here && !std::exchange(bytes.freed_by_compute, true) && !bytes.lent()) {
      bytes.memory.FreeAfter(lane_.shared_stream());
    }
    bool sole =
        here && donated && !bytes.lent() && IsSoleOwner(array) && IsSoleOwner(array->device);
    if (expected.overwritten && !sole) {
      TRY(Fresh(parameter, expected.bytes));
      TRY(stream_.Copy(CopyKind::kOnDevice, in.back(), bytes.address, expected.bytes));
    } else {
      in.push_back(bytes.address);
      if (sole) taken_[parameter] = std::move(bytes.memory);
    }
    if (!here || bytes.lent()) held.push_back(array->device);
    return {};
  }

  Result<DeviceBytesRef> MakeResult(const Output& output) {
    auto bytes = std::make_shared<DeviceBytes>();
    bytes->freed_by_compute = &lane_ == &on_.compute();
    if (output.parameter >= 0) {
      bytes->memory = std::move(taken_[static_cast<size_t>(output.parameter)]);
    } else {
      bytes->memory = TRY(on_.device().AllocateOn(stream_, output.bytes, MemorySpace::kDevice,
                                                  runner_.module_->name()));
    }
    bytes->address = bytes->memory.address();
    out.push_back(bytes->address);
    return bytes;
  }

  std::vector<std::byte*> in, out;
  std::vector<std::shared_ptr<const void>> held;

 private:
  Status Fresh(size_t parameter, int64_t bytes) {
    taken_[parameter] = TRY(on_.device().AllocateOn(
        stream_, bytes, MemorySpace::kDevice, StrCat("argument of ", runner_.module_->name())));
    in.push_back(taken_[parameter].address());
    return {};
  }
  Status CopyIn(size_t parameter, const ArrayRef& array) {
    int64_t bytes = DeviceByteSize(array->shape);
    TRY(Fresh(parameter, bytes));
    held.push_back(array->value.storage());
    return stream_.Copy(CopyKind::kToDevice, in.back(), array->value.data(), bytes);
  }

  const DeviceRunner& runner_;
  Accelerator& on_;
  Lane& lane_;
  runtime::Stream& stream_;
  std::vector<runtime::Allocation> taken_;  // by parameter: what is the run's own
};

Result<DeviceRunner::Enqueued> DeviceRunner::Enqueue(Accelerator& on, Lane& lane,
                                                     Arguments arguments,
                                                     const std::atomic<bool>* cancel) const {
  MutexLock lock(lane.order());
  runtime::Stream& stream = lane.stream();
  TRY(stream.ForgetError());
  Frame frame(*this, on, lane);
  size_t next = 0;
  for (size_t i = 0; i < arguments.arrays.size(); ++i) {
    if (parameter_is_token_[i]) continue;
    bool donated = !arguments.donated.empty() && arguments.donated[i];
    TRY(frame.TakeArgument(next++, arguments.arrays[i], donated));
  }
  Enqueued enqueued;
  next = 0;
  for (bool token : result_is_token_) {
    if (token) {
      enqueued.results.push_back(std::make_shared<DeviceBytes>());
    } else {
      enqueued.results.push_back(TRY(frame.MakeResult(outputs_[next++])));
    }
  }
  runtime::Call call;
  call.parameters = frame.in;
  call.results = frame.out;
  call.cancel = cancel;
  call.flow = arguments.flow;
  if (!calls_->empty()) call.call = &calls_->hook();
  TRY(program_->Enqueue(call, stream));
  enqueued.written = TRY(stream.Record());
  for (const DeviceBytesRef& bytes : enqueued.results) bytes->written = enqueued.written;
  enqueued.held = std::move(frame.held);
  return enqueued;
}

Result<std::vector<std::vector<Literal>>> DeviceRunner::Run(
    std::span<std::vector<Literal>> arguments, const std::atomic<bool>* cancel) const {
  if (arguments.size() != 1) {
    return Unimplemented("programs that ", arguments.size(), " devices of a GPU run together");
  }
  Memory* memory = client_->devices()[0]->default_memory();
  Accelerator& on = *memory->accelerator();
  std::vector<ArrayRef> arrays;
  for (Literal& value : arguments[0]) {
    arrays.push_back(std::make_shared<Array>(TokenStandIn(), memory));
    if (!value.shape().IsArray()) continue;
    arrays.back() = std::make_shared<Array>(TRY(value.Packed()), memory);
  }
  std::shared_ptr<Lane> spare = TRY(on.SpareLane());
  Enqueued enqueued = TRY(Enqueue(on, *spare, {arrays, {}}, cancel));
  TRY(enqueued.written->Wait());
  std::vector<std::vector<Literal>> results;
  results.push_back(TRY(Fetch(on, enqueued)));
  return results;
}

// What a run that is done has written.
Result<std::vector<Literal>> DeviceRunner::Fetch(Accelerator& on, const Enqueued& enqueued) const {
  std::vector<Shape> shapes;
  compiler::ForEachLeaf(module_->entry()->root()->shape(),
                        [&](const Shape& shape) { shapes.push_back(shape); });
  std::vector<Literal> results;
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (result_is_token_[k]) {
      results.push_back(Literal(TokenStandIn()));
      continue;
    }
    Literal value = TRY(Literal::AllocateUnset(shapes[k]));
    auto done = std::make_shared<Event>();
    DownloadElements(on, shapes[k],
                     {enqueued.results[k], Event::Done(), 0, value.byte_size(),
                      value.mutable_data(), nullptr, [done](Result<const std::byte*> there) {
                        done->Set(there ? Status() : Status(std::unexpected(there.error())));
                      }});
    if (const Status& status = done->Await(); !status) return std::unexpected(status.error());
    results.push_back(std::move(value));
  }
  return results;
}

Status DeviceRunner::CheckResults(Accelerator& on, std::span<const Literal> arguments,
                                  const Enqueued& enqueued) const {
  std::vector<Literal> given, got, wanted;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!parameter_is_token_[i]) given.push_back(arguments[i]);
  }
  std::vector<Literal> results = TRY(Fetch(on, enqueued));
  for (size_t k = 0; k < results.size(); ++k) {
    if (!result_is_token_[k]) got.push_back(std::move(results[k]));
  }
  std::vector<Literal> own = inspect::ArgumentsFromLeaves(*input_, given);
  inspect::AppendArrays(TRY(hlo::Evaluate(*input_, own, eval_options_)), wanted);
  std::string what = inspect::CompareResults(wanted, got);
  if (what.empty()) {
    NOTE("check", 1) << "check " << module_->name() << ": results as the evaluator";
    return {};
  }
  return MakeError(Code::kInternal, "WEFT_CHECK: ", module_->name(), ": ", what);
}

}  // namespace weft::client
