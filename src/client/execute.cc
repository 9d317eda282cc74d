// Running a compiled program: arguments are checked and taken, then it runs here, or on the
// executor once the arguments are there.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/doing.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/cancel.h"
#include "client/client.h"
#include "client/executable.h"
#include "client/execute_device.h"
#include "client/interrupt.h"
#include "runtime/buffers.h"

namespace weft::client {

namespace {

constexpr size_t kShownBuffers = 10;  // when memory is short
constexpr size_t kFewArguments = 32;  // compared one by one

// The argument as the program gets it: the sole holder of its bytes where it was donated and nobody
// else reads them, so that they may be overwritten. For a token any buffer will do.
Literal TakeArgument(ArrayRef& array, const Shape& parameter, bool donated) {
  if (parameter.IsToken()) return Literal::Token();
  Literal value = array->value;
  if (donated && !IsReadOnlyHostMemory(value)) array.reset();
  return value;
}

// An array of its own for an output that shares its bytes with an argument, a constant or another
// output.
Result<Literal> OwnBytes(Literal value, Memory* memory) {
  if (value.storage() == nullptr || value.OwnsStorage()) return value;
  Literal copy = TRY(AllocateArray(memory, value.shape()));
  if (copy.byte_size() > 0) {
    std::memcpy(copy.mutable_data(), value.data(), static_cast<size_t>(copy.byte_size()));
  }
  if (value.HasDynamicSizes()) {
    for (int64_t d = 0; d < value.shape().rank(); ++d) {
      if (value.shape().is_dynamic(d)) copy.set_dynamic_size(d, value.dynamic_size(d));
    }
  }
  return copy;
}

// The donated arguments of one device whose place an output takes, held while the program runs. Of
// larger ones that is up to the runner, which may write where nobody else holds the bytes.
constexpr int64_t kLargestHeld = 16 << 10;

std::vector<Literal> HoldDonated(const Executable& executable, std::span<const Literal> arguments,
                                 const std::vector<bool>& donated) {
  std::vector<Literal> held;
  if (donated.empty()) return held;
  const std::vector<int64_t>& aliases = executable.aliases();
  for (size_t k = 0; k < aliases.size(); ++k) {
    size_t i = static_cast<size_t>(aliases[k]);
    if (aliases[k] < 0 || !donated[i] || arguments[i].storage() == nullptr ||
        arguments[i].byte_size() > kLargestHeld || IsReadOnlyHostMemory(arguments[i])) {
      continue;
    }
    held.resize(aliases.size());
    held[k] = arguments[i];
  }
  return held;
}

// Moves outputs that were computed elsewhere into the arguments held for them, where nobody else
// holds those.
void FillDonated(std::vector<Literal> held, std::span<Literal> outputs) {
  for (size_t k = 0; k < held.size() && k < outputs.size(); ++k) {
    std::shared_ptr<std::byte[]> place = held[k].TakeStorage();
    Literal& value = outputs[k];
    if (place == nullptr || value.storage() == nullptr || value.HasDynamicSizes() ||
        value.storage() == place || !IsSoleOwner(place) ||
        value.byte_size() != held[k].byte_size()) {
      continue;
    }
    std::memcpy(place.get(), value.data(), static_cast<size_t>(value.byte_size()));
    value.PutStorage(std::move(place));
  }
}

// Counts a run and takes its time.
class CountedRun {
 public:
  explicit CountedRun(const Executable& executable) : timer_(metrics::kExecuteSeconds) {
    bool native = executable.runner().program() != nullptr;
    metrics::Add(native ? metrics::kExecutions : metrics::kEvaluations);
  }
  template <class Results>
  Results Keep(Results results) {
    if (!results) metrics::Add(metrics::kExecutionErrors);
    return results;
  }

 private:
  metrics::Timer timer_;
};

void HintAtMemory(Error& error) {
  if (error.code() == Code::kResourceExhausted) error.Hint("WEFT_MEMORY_LIMIT sets the limit");
}

Status CheckOutputs(const Executable& executable, std::span<const Literal> values) {
  const std::vector<OutputInfo>& outputs = executable.outputs();
  bool same = outputs.size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    same = values[i].dtype() == outputs[i].shape.dtype() &&
           Shape::SameDims(values[i].shape(), outputs[i].shape);
  }
  if (same) return {};
  return MakeError(Code::kInternal, "execute ", executable.name(),
                   ": the results are not of the shapes that were promised");
}

// Position of an array that occurs before, else -1. Sorted when there are many.
int64_t FirstDuplicateOfDonated(std::span<const ArrayRef> arrays, const std::vector<bool>& donated,
                                int64_t* earlier) {
  auto is_donated = [&](size_t i) { return donated[i]; };
  if (arrays.size() <= kFewArguments) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (arrays[i] == arrays[j] && (is_donated(i) || is_donated(j))) {
          *earlier = static_cast<int64_t>(j);
          return static_cast<int64_t>(i);
        }
      }
    }
    return -1;
  }
  std::vector<size_t> order(arrays.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(arrays[a].get(), a) < std::pair(arrays[b].get(), b);
  });
  for (size_t k = 1; k < order.size(); ++k) {
    if (arrays[order[k]] != arrays[order[k - 1]]) continue;
    size_t first = k - 1;
    bool any = is_donated(order[first]);
    for (; k < order.size() && arrays[order[k]] == arrays[order[first]]; ++k) {
      any |= is_donated(order[k]);
      if (any) {
        *earlier = static_cast<int64_t>(order[first]);
        return static_cast<int64_t>(order[k]);
      }
    }
    --k;
  }
  return -1;
}

// The instruction with the largest array; null when there is none.
const hlo::Instruction* LargestValue(const hlo::Module& module) {
  const hlo::Instruction* largest = nullptr;
  int64_t bytes = 0;
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* instruction : *computation) {
      if (!instruction->shape().IsArray() || instruction->shape().ByteSize() <= bytes) continue;
      largest = instruction;
      bytes = instruction->shape().ByteSize();
    }
  }
  return largest;
}

Status CheckProgramMemory(const Executable& executable, const Client& client, size_t devices) {
  const MemoryAnalysis& memory = executable.memory();
  int64_t more = memory.output_bytes - memory.alias_bytes + memory.temp_bytes;
  if (__builtin_mul_overflow(more, static_cast<int64_t>(devices), &more)) more = INT64_MAX;
  Status fits = client.CheckMemory(more);
  if (fits) return {};
  fits.error().Prefix(StrCat("execute ", executable.name(), ": "));
  fits.error().Note(StrCat("arguments ", runtime::HumanBytes(memory.argument_bytes), ", results ",
                           runtime::HumanBytes(memory.output_bytes), " (",
                           runtime::HumanBytes(memory.alias_bytes), " in donated arguments), ",
                           "temporaries ", runtime::HumanBytes(memory.temp_bytes)));
  fits.error().Note("the largest buffers:");
  const Runner& runner = executable.runner();
  for (std::string& line :
       runtime::LargestBuffers(*runner.program(), kShownBuffers, runner.scratch())) {
    fits.error().Note("  " + line);
  }
  return fits;
}

// What is temporary is an estimate from above: it is refused where it could not fit even alone.
Status CheckEstimatedMemory(const Executable& executable, const Client& client) {
  int64_t results = executable.output_bytes(), bytes = 0;
  int64_t temporary = executable.memory().temp_bytes;
  if (Status fits = client.CheckMemory(results); !fits) {
    fits.error().Prefix(StrCat("results of ", executable.name(), ": "));
    return fits;
  }
  if (!__builtin_add_overflow(results, temporary, &bytes) && bytes <= client.memory_limit()) {
    return {};
  }
  Error error(Code::kResourceExhausted,
              StrCat("execute ", executable.name(), ": out of memory: results of ", results,
                     " bytes and temporary values of ", temporary, " bytes do not fit into ",
                     client.memory_limit(), " bytes"));
  if (const hlo::Instruction* largest = LargestValue(executable.module())) {
    error.Note(StrCat("the largest is ", largest->ToString()));
    error.Source(largest->SourceLocation());
  }
  return std::unexpected(std::move(error));
}

// Results and temporaries must fit beside all that is in use, before anything runs.
Status CheckMemory(const Executable& executable, const Client& client, size_t devices) {
  if (executable.runner().program() == nullptr) return CheckEstimatedMemory(executable, client);
  return CheckProgramMemory(executable, client, devices);
}

}  // namespace

// Kept alive by the events it waits for, then by its task, then by the device's event.
struct LoadedExecutable::Launch : Cancellable, std::enable_shared_from_this<Launch> {
  std::shared_ptr<Executable> executable;
  std::shared_ptr<TaskGate> gate;
  std::shared_ptr<CancelList> cancels;
  Inputs inputs;
  std::vector<ArrayRef> outputs;  // [device * outputs + output]
  size_t devices = 1;
  EventRef done = std::make_shared<Event>();
  std::atomic<int64_t> waiting = 1;  // inputs not there, and the one who sets it up
  std::vector<EventRef> before;      // inputs that are not ready, for who cancels
  std::shared_ptr<DeviceRun> run;    // on a device with memory of its own; else null
  std::atomic<bool> cancelled = false;
  std::atomic<bool> settled = false;  // somebody sets the events, or has

  // Whether the caller is the one to set the events.
  bool Settle() { return !settled.exchange(true, std::memory_order_acq_rel); }
  std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();
  uint64_t flow = 0;  // from the request to the run
  int64_t device = 0;
  const Device* on = nullptr;  // the first one

  void Fail(const Error& error) {
    if (!Settle()) return;
    for (ArrayRef& output : outputs) output->Fulfil(std::unexpected(error));
    done->Set(std::unexpected(error));
  }

  void Cancel(std::vector<EventRef>& earlier) override {
    if (cancelled.exchange(true)) return;
    earlier.insert(earlier.end(), before.begin(), before.end());
    if (run != nullptr) run->Cancel(earlier);
    Fail(Error(Code::kCancelled, StrCat("execute ", executable->name(), ": interrupted")));
  }

  Result<std::vector<std::vector<Literal>>> Compute() {
    for (const ArrayRef& input : inputs.arrays) {
      if (const Status& status = input->ready->status(); !status) {
        return std::unexpected(status.error());
      }
    }
    if (!outputs.empty()) TRY(CheckMemory(*executable, *outputs[0]->memory->client(), devices));
    size_t parameters = inputs.arrays.size() / devices;
    std::vector<std::vector<Literal>> arguments(devices);
    for (size_t i = 0; i < inputs.arrays.size(); ++i) {
      bool donated = !inputs.donated.empty() && inputs.donated[i];
      Literal& argument = arguments[i / std::max<size_t>(parameters, 1)].emplace_back();
      if (inputs.arrays[i]->device != nullptr) {
        Executor::BlockingScope blocking;
        argument = TRY(HostValue(inputs.arrays[i]));
      } else {
        argument =
            TakeArgument(inputs.arrays[i], executable->parameters()[i % parameters], donated);
      }
    }
    std::vector<std::vector<Literal>> held;
    for (const auto& own : arguments) held.push_back(HoldDonated(*executable, own, inputs.donated));
    CancelList::Entry entry(*cancels, cancelled);
    auto results = TRY(executable->runner().Run(arguments, &cancelled));
    arguments.clear();
    inputs.arrays.clear();  // what only this call held is the results' own now
    for (const auto& values : results) TRY(CheckOutputs(*executable, values));
    size_t next = 0;
    for (size_t d = 0; d < results.size(); ++d) FillDonated(std::move(held[d]), results[d]);
    for (auto& values : results) {
      for (Literal& value : values) {
        value = TRY(OwnBytes(std::move(value), outputs[next++]->memory));
      }
    }
    return results;
  }

  // Nobody above catches on a worker.
  Result<std::vector<std::vector<Literal>>> TryCompute() {
    try {
      return Compute();
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("execute ", executable->name(), ": out of memory");
    }
  }

  // The host's part of it, and of some programs all that the device does too.
  void RunOnDevice() {
    run->EndWith(cancels);
    auto results = [this]() -> Result<DeviceResults> {
      Executor::BlockingScope blocking;
      return RunProgram(executable, on->accelerator(), inputs.arrays, inputs.donated, run, flow);
    }();
    inputs.arrays.clear();
    if (!results) return Fail(results.error());
    if (!Settle()) return;
    for (size_t k = 0; k < outputs.size(); ++k) {
      DefineOutput(outputs[k], *on, results->bytes[k], results->ready);
    }
    outputs.clear();
    // Until then it can be cancelled.
    results->ready->OnReady(
        [launch = shared_from_this()](const Status& status) { launch->done->Set(status); });
  }

  void Run() {
    Doing doing({"run", executable->name(), executable->input()});
    if (settled) return inputs.arrays.clear();  // cancelled before it began
    if (executable->device_runner() != nullptr) return RunOnDevice();
    std::chrono::duration<double> queued = std::chrono::steady_clock::now() - asked;
    metrics::Observe(metrics::kQueueSeconds, queued.count());
    auto results = [this] {
      trace::Span span(devices == 1 ? executable->traced_run() : executable->traced_group());
      span.From(flow).Device(device);
      CountedRun counted(*executable);
      return counted.Keep(TryCompute());
    }();
    if (!results) HintAtMemory(results.error());
    inputs.arrays.clear();
    Executor::FinishingScope finishing;
    if (!results) return Fail(results.error());
    if (!Settle()) return;
    size_t next = 0;
    for (auto& values : *results) {
      for (Literal& value : values) {
        ArrayRef output = std::move(outputs[next++]);
        output->Fulfil(std::move(value));
      }
    }
    done->Set({});
  }
};

Result<std::unique_ptr<LoadedExecutable>> LoadedExecutable::Load(
    Client& client, std::shared_ptr<Executable> executable) {
  const CompileRequest& request = executable->request();
  std::vector<int64_t> ids = request.device_assignment;
  if (ids.empty()) {
    ids = TRY(client.DefaultAssignment(request.num_replicas, request.num_partitions));
  }
  std::unique_ptr<LoadedExecutable> loaded(new LoadedExecutable(&client, std::move(executable)));
  for (int64_t id : ids) loaded->devices_.push_back(TRY(client.FindDevice(id)));
  return loaded;
}

LoadedExecutable::~LoadedExecutable() = default;

Memory* LoadedExecutable::OutputMemory(const Device& device, size_t output) const {
  Memory* memory = device.FindMemory(executable_->outputs()[output].memory_kind);
  return memory != nullptr ? memory : device.default_memory();
}

Result<std::vector<Device*>> LoadedExecutable::DevicesOf(const ExecuteRequest& request) const {
  if (request.device == nullptr) return devices_;
  if (devices_.size() != 1) {
    return InvalidArgument("execute ", executable_->name(), ": it runs on ", devices_.size(),
                           " devices, not on one of choice");
  }
  return std::vector<Device*>{request.device};
}

Status LoadedExecutable::CheckArgument(const ExecuteRequest& request, size_t device, int64_t index,
                                       const Device* on) const {
  const Buffer* buffer = request.arguments[device][index];
  const Shape& expected = executable_->parameters()[static_cast<size_t>(index)];
  if (buffer == nullptr) {
    return InvalidArgument("execute ", executable_->name(), ": argument ", index, " is missing");
  }
  if (!expected.IsToken() && (buffer->shape().dtype() != expected.dtype() ||
                              !Shape::SameDims(buffer->shape(), expected))) {
    return InvalidArgument("execute ", executable_->name(), ": argument ", index, " has shape ",
                           buffer->shape().ToStringWithoutLayout(), ", the program expects ",
                           expected.ToStringWithoutLayout());
  }
  if (buffer->device() != on) {
    return InvalidArgument("execute ", executable_->name(), ": argument ", index, " is on ",
                           buffer->device()->to_string(), ", the program runs on ",
                           on->to_string());
  }
  return {};
}

Result<LoadedExecutable::Inputs> LoadedExecutable::TakeInputs(
    const ExecuteRequest& request, std::span<Device* const> devices) const {
  size_t count = executable_->parameters().size();
  Inputs inputs;
  inputs.arrays.reserve(devices.size() * count);
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t i = 0; i < count; ++i) {
      TRY(CheckArgument(request, d, static_cast<int64_t>(i), devices[d]));
      Result<ArrayRef> array = request.arguments[d][i]->Get();
      if (!array) {
        return std::unexpected(
            array.error().Prefix(StrCat("execute ", executable_->name(), ": argument ", i, ": ")));
      }
      const Event& ready = *(*array)->ready;
      if (!ready.IsReady() || !ready.status()) inputs.ready = false;
      if (!inputs.ready && !(*array)->defined()->IsReady()) inputs.defined = false;
      inputs.arrays.push_back(std::move(*array));
    }
  }
  if (!executable_->donates()) return inputs;
  std::vector<bool> donated = executable_->donated();
  for (int64_t i : request.not_donated) {
    if (i >= 0 && i < static_cast<int64_t>(count)) donated[static_cast<size_t>(i)] = false;
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    inputs.donated.insert(inputs.donated.end(), donated.begin(), donated.end());
  }
  int64_t first = 0, second = FirstDuplicateOfDonated(inputs.arrays, inputs.donated, &first);
  if (second >= 0) {
    size_t n = std::max<size_t>(count, 1);
    return InvalidArgument("execute ", executable_->name(),
                           ": attempt to donate the same buffer twice in Execute() (arguments ",
                           static_cast<size_t>(first) % n, " and ", static_cast<size_t>(second) % n,
                           ")");
  }
  for (size_t i = 0; i < inputs.arrays.size(); ++i) {
    if (!inputs.donated[i]) continue;
    inputs.arrays[i].reset();
    Result<ArrayRef> array = request.arguments[i / count][i % count]->Donate();
    if (!array) {
      return std::unexpected(array.error().Prefix(
          StrCat("execute ", executable_->name(), ": argument ", i % count, ": ")));
    }
    inputs.arrays[i] = std::move(*array);
  }
  return inputs;
}

ExecuteResult LoadedExecutable::RunHere(Inputs inputs, std::span<Device* const> devices,
                                        uint64_t flow) const {
  const Device& device = *devices[0];
  std::vector<Literal> arguments;
  arguments.reserve(inputs.arrays.size());
  for (size_t i = 0; i < inputs.arrays.size(); ++i) {
    arguments.push_back(TakeArgument(inputs.arrays[i], executable_->parameters()[i],
                                     !inputs.donated.empty() && inputs.donated[i]));
  }
  ExecuteResult result;
  std::vector<std::unique_ptr<Buffer>>& outputs = result.outputs.emplace_back();
  const std::vector<OutputInfo>& infos = executable_->outputs();
  outputs.reserve(infos.size());
  std::vector<Literal> held = HoldDonated(*executable_, arguments, inputs.donated);
  Doing doing({"run", executable_->name(), executable_->input()});
  std::optional<InterruptibleRun> run;
  if (!executable_->runner().EndsSoon()) run.emplace();
  const std::atomic<bool>* cancel = run ? run->cancel() : nullptr;
  auto values = [&]() -> Result<std::vector<Literal>> {
    TRY(CheckMemory(*executable_, *client_, 1));
    trace::Span span(executable_->traced_run());
    span.From(flow).Device(device.id());
    CountedRun counted(*executable_);
    return counted.Keep(
        executable_->runner().RunAlone(arguments, cancel ? cancel : &client_->cancelled()));
  }();
  run.reset();
  if (!values) HintAtMemory(values.error());
  arguments.clear();
  inputs.arrays.clear();
  Status status = values ? CheckOutputs(*executable_, *values)
                         : Status(std::unexpected(std::move(values).error()));
  if (status) FillDonated(std::move(held), *values);
  for (size_t k = 0; status && k < infos.size(); ++k) {
    Memory* memory = OutputMemory(device, k);
    Result<Literal> own = OwnBytes(std::move((*values)[k]), memory);
    if (own && infos[k].shape.layout() != nullptr) own = own->WithShape(infos[k].shape);
    if (own) {
      outputs.push_back(BufferFromLiteral(memory, std::move(*own)));
    } else {
      status = std::unexpected(std::move(own).error());
    }
  }
  if (status) {
    result.done.push_back(Event::Done());
    return result;
  }
  outputs.clear();
  for (size_t k = 0; k < infos.size(); ++k) {
    outputs.push_back(ErrorBuffer(OutputMemory(device, k), infos[k].shape, status.error()));
  }
  result.done.push_back(Event::Failed(status.error()));
  return result;
}

ExecuteResult LoadedExecutable::RunLater(Inputs inputs, std::span<Device* const> devices,
                                         uint64_t flow) const {
  auto launch = std::make_shared<Launch>();
  launch->executable = executable_;
  launch->gate = client_->gate();
  launch->cancels = client_->cancels();
  launch->done->SetSource(launch);
  launch->devices = devices.size();
  launch->flow = flow;
  launch->device = devices[0]->id();
  launch->on = devices[0];
  if (executable_->device_runner() != nullptr) {
    launch->run = std::make_shared<DeviceRun>(executable_);
  }
  ExecuteResult result;
  for (const Device* device : devices) {
    std::vector<std::unique_ptr<Buffer>>& outputs = result.outputs.emplace_back();
    for (size_t k = 0; k < executable_->outputs().size(); ++k) {
      auto array =
          std::make_shared<Array>(executable_->outputs()[k].shape, OutputMemory(*device, k));
      array->ready->SetSource(launch);
      outputs.push_back(std::make_unique<Buffer>(client_, array));
      launch->outputs.push_back(std::move(array));
    }
    result.done.push_back(launch->done);
  }
  launch->inputs = std::move(inputs);
  // Always through the executor, also when an input failed: a long chain of programs that wait for
  // each other would otherwise unwind on one stack.
  auto arrived = [launch](const Status&) {
    if (launch->waiting.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (!launch->gate->Schedule([launch] { launch->Run(); })) {
      launch->Fail(Error(Code::kCancelled, "execute: the client is gone"));
    }
  };
  if (!launch->inputs.ready) {
    std::vector<EventRef> pending;
    for (const ArrayRef& input : launch->inputs.arrays) {
      // What runs on the device waits there.
      const EventRef& event = launch->run == nullptr ? input->ready : input->defined();
      if (!event->IsReady()) pending.push_back(event);
      if (!input->ready->IsReady()) launch->before.push_back(input->ready);
    }
    launch->waiting.fetch_add(static_cast<int64_t>(pending.size()), std::memory_order_relaxed);
    for (const EventRef& event : pending) event->OnReady(arrived);
  }
  arrived({});
  return result;
}

Result<ExecuteResult> LoadedExecutable::Execute(const ExecuteRequest& request) {
  if (deleted_.load(std::memory_order_relaxed)) {
    return FailedPrecondition("execute ", executable_->name(), ": the executable was deleted");
  }
  trace::Span span(executable_->traced_enqueue());
  span.Caller(request.caller);
  std::vector<Device*> chosen;
  std::span<Device* const> devices = devices_;
  if (request.device != nullptr) {
    chosen = TRY(DevicesOf(request));
    devices = chosen;
  }
  if (request.arguments.size() != devices.size()) {
    return InvalidArgument("execute ", executable_->name(), ": arguments for ",
                           request.arguments.size(), " devices, it runs on ", devices.size());
  }
  if (request.argument_count != static_cast<int64_t>(executable_->parameters().size())) {
    return InvalidArgument("execute ", executable_->name(), ": ", request.argument_count,
                           " arguments, the program takes ", executable_->parameters().size());
  }
  Inputs inputs = TRY(TakeInputs(request, devices));
  uint64_t flow = trace::NewFlow();
  span.To(flow);
  if (const DeviceRunner* runner = executable_->device_runner();
      runner != nullptr && inputs.defined && !CallsOut(*runner)) {
    return EnqueueHere(std::move(inputs), *devices[0], flow);
  }
  inputs.ready &= client_->gpu() == nullptr;  // what is there is the host's to see
  if (inputs.ready && devices.size() == 1 && executable_->runner().IsTiny()) {
    return RunHere(std::move(inputs), devices, flow);
  }
  bool here = callers_.Begin() && inputs.ready && devices.size() == 1;
  here = here && executable_->runner().IsShort();
  ExecuteResult result =
      here ? RunHere(std::move(inputs), devices, flow) : RunLater(std::move(inputs), devices, flow);
  callers_.End();
  if (executable_->calls_back()) {
    for (const EventRef& done : result.done) {
      AboutToWait(done);
      TRY(done->Await());
    }
  }
  return result;
}

}  // namespace weft::client
