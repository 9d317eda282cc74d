// Running a compiled program: arguments are checked and taken, then it runs here, or on the
// executor once the arguments are there.
#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/doing.h"
#include "base/mutex.h"
#include "base/trace.h"
#include "client/cancel.h"
#include "client/client.h"
#include "client/donation.h"
#include "client/executable.h"
#include "client/execute_device.h"
#include "client/execute_values.h"
#include "client/interrupt.h"

namespace weft::client {

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
  Mutex mutex;
  Executor::GiveUpScope* running WEFT_GUARDED_BY(mutex) = nullptr;  // where it runs on the host

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
    // A routine of somebody else's may not look for long that its run is cancelled.
    MutexLock lock(mutex);
    if (running != nullptr) running->GiveUp();
  }
  void SetRunning(Executor::GiveUpScope* scope) WEFT_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    running = scope;
  }

  Result<std::vector<std::vector<Literal>>> Compute() {
    for (const ArrayRef& input : inputs.arrays) {
      if (const Status& status = input->ready->status(); !status) {
        return std::unexpected(status.error());
      }
    }
    const Client* client = outputs.empty() ? nullptr : outputs[0]->memory->client();
    CancelList::Entry entry(*cancels, cancelled);
    const size_t count = executable->outputs().size();
    return RunOnInputs(
        *executable, client, inputs.arrays, inputs.donated, devices,
        [&](size_t device, size_t k) { return outputs[device * count + k]->memory; }, &cancelled);
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
    Executor::GiveUpScope scope;
    SetRunning(&scope);
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
    SetRunning(nullptr);
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
  for (const std::shared_ptr<Executable>& part : loaded->executable_->parts()) {
    auto& one = loaded->parts_.emplace_back(new LoadedExecutable(&client, part));
    one->devices_ = {loaded->devices_[loaded->parts_.size() - 1]};
  }
  const Executable& program = *loaded->executable_;
  loaded->takes_addresses_ = program.parts().empty() && program.device_runner() == nullptr &&
                             !program.donates() && program.runner().TakesAddresses();
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

// All devices at once or in turns, as the runner has it; the caller has the results when it is
// back.
ExecuteResult LoadedExecutable::RunHere(Inputs inputs, std::span<Device* const> devices,
                                        uint64_t flow) const {
  Doing doing({"run", executable_->name(), executable_->input()});
  std::optional<InterruptibleRun> run;
  if (!executable_->runner().EndsSoon()) run.emplace();
  const std::atomic<bool>* cancel = run ? run->cancel() : nullptr;
  auto values = [&] {
    trace::Span span(devices.size() == 1 ? executable_->traced_run() : executable_->traced_group());
    span.From(flow).Device(devices[0]->id());
    CountedRun counted(*executable_);
    return counted.Keep(RunOnInputs(
        *executable_, client_, inputs.arrays, inputs.donated, devices.size(),
        [&](size_t device, size_t k) { return OutputMemory(*devices[device], k); },
        cancel ? cancel : &client_->cancelled()));
  }();
  run.reset();
  inputs.arrays.clear();
  if (!values) {
    HintAtMemory(values.error());
    return Failed(devices, values.error());
  }
  const std::vector<OutputInfo>& infos = executable_->outputs();
  ExecuteResult result{.outputs = {devices.size(), infos.size()}};
  result.done.assign(devices.size(), Event::Done());
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t k = 0; k < infos.size(); ++k) {
      Literal& value = (*values)[d][k];
      if (infos[k].shape.layout() != nullptr) value = value.WithShape(infos[k].shape);
      result.outputs[d][k] = BufferFromLiteral(OutputMemory(*devices[d], k), std::move(value));
    }
  }
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
  const std::vector<OutputInfo>& infos = executable_->outputs();
  ExecuteResult result{.outputs = {devices.size(), infos.size()}};
  result.done.assign(devices.size(), launch->done);
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t k = 0; k < infos.size(); ++k) {
      auto array = std::make_shared<Array>(infos[k].shape, OutputMemory(*devices[d], k));
      array->ready->SetSource(launch);
      result.outputs[d][k] = std::make_unique<Buffer>(client_, array);
      launch->outputs.push_back(std::move(array));
    }
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
  if (!parts_.empty()) return ExecuteParts(request);
  Inputs inputs = TRY(TakeInputs(request, devices));
  uint64_t flow = trace::NewFlow();
  span.To(flow);
  if (const DeviceRunner* runner = executable_->device_runner();
      runner != nullptr && inputs.defined && !CallsOut(*runner)) {
    return EnqueueHere(std::move(inputs), *devices[0], flow);
  }
  inputs.ready &= client_->gpu() == nullptr;  // what is there is the host's to see
  if (inputs.ready && executable_->runner().IsTiny()) {
    // Timelines show each device.
    return takes_addresses_ && !trace::IsOn() ? RunDirect(std::move(inputs), devices)
                                              : RunHere(std::move(inputs), devices, flow);
  }
  bool here = callers_.Begin() && inputs.ready;
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
