#include "client/execute_device.h"

#include <algorithm>
#include <utility>

#include "base/doing.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/client.h"
#include "client/interrupt.h"
#include "client/packed_transfer.h"
#include "runtime/buffers.h"

namespace weft::client {
namespace {

// What the device says of memory, and what the program wants it for.
Error Explain(const Executable& executable, Error error) {
  error.Prefix(StrCat("execute ", executable.name(), ": "));
  if (error.code() != Code::kResourceExhausted) return error;
  const MemoryAnalysis& memory = executable.memory();
  error.Note(StrCat("arguments ", runtime::HumanBytes(memory.argument_bytes), ", results ",
                    runtime::HumanBytes(memory.output_bytes), " (",
                    runtime::HumanBytes(memory.alias_bytes), " in donated arguments), temporaries ",
                    runtime::HumanBytes(memory.temp_bytes)));
  error.Note("the largest buffers:");
  const Runner& runner = executable.runner();
  for (std::string& line : runtime::LargestBuffers(*runner.program(), 10, runner.scratch())) {
    error.Note("  " + line);
  }
  HintAtMemory(error);
  return error;
}

}  // namespace

void DeviceRun::Cancel(std::vector<EventRef>& earlier) {
  if (cancel.exchange(true)) return;
  earlier.insert(earlier.end(), before.begin(), before.end());
  Settle(MakeError(Code::kCancelled, "execute ", executable->name(), ": interrupted"));
}

void DeviceRun::Settle(Status status) {
  if (!settled.exchange(true, std::memory_order_acq_rel)) ready->Set(std::move(status));
}

void DeviceRun::EndWith(std::shared_ptr<CancelList> list) {
  list_ = std::move(list);
  entry_.emplace(*list_, cancel);
}

std::shared_ptr<DeviceRun> CancellableRun(const std::shared_ptr<Executable>& executable,
                                          std::span<const ArrayRef> arguments,
                                          const std::shared_ptr<CancelList>& list) {
  std::vector<EventRef> before;
  for (const ArrayRef& array : arguments) {
    if (!array->ready->IsReady() && !array->ready->source().expired()) {
      before.push_back(array->ready);
    }
  }
  const bool loops = executable->device_runner()->loops();
  if (!loops && before.empty()) return nullptr;
  auto run = std::make_shared<DeviceRun>(executable);
  run->before = std::move(before);
  run->ready->SetSource(run);
  if (loops) run->EndWith(list);
  return run;
}

bool CallsOut(const DeviceRunner& runner) {
  return runner.calls_out();
}

Result<DeviceResults> RunProgram(const std::shared_ptr<Executable>& executable,
                                 Accelerator* accelerator, std::vector<ArrayRef>& arguments,
                                 const std::vector<bool>& donated,
                                 const std::shared_ptr<DeviceRun>& run, uint64_t flow) {
  metrics::Add(metrics::kExecutions);
  for (const ArrayRef& array : arguments) TRY(array->defined()->status());
  const DeviceRunner& runner = *executable->device_runner();
  std::shared_ptr<Lane> spare;  // other programs go on while the host does its part
  if (runner.calls_out()) spare = TRY(accelerator->SpareLane());
  std::vector<Literal> copies;  // for the evaluator
  if (runner.checks()) {
    for (const ArrayRef& array : arguments) copies.push_back(TRY(HostValue(array)));
  }
  Lane& lane = spare != nullptr ? *spare : accelerator->compute();
  auto enqueued = runner.Enqueue(*accelerator, lane, {arguments, donated, flow},
                                 run != nullptr ? &run->cancel : nullptr);
  arguments.clear();
  if (!enqueued) {
    metrics::Add(metrics::kExecutionErrors);
    return std::unexpected(Explain(*executable, std::move(enqueued).error()));
  }
  DeviceResults results{enqueued->results, nullptr};
  if (spare != nullptr) {
    TRY(enqueued->written->Wait());
    if (runner.checks()) TRY(runner.CheckResults(*accelerator, copies, *enqueued));
    results.ready = Event::Done();
    return results;
  }
  results.ready = run != nullptr ? run->ready : std::make_shared<Event>();
  lane.When(std::move(enqueued->written),
            [ready = results.ready, run, executable,
             held = std::move(enqueued->held)](Status status) mutable {
              if (!status) metrics::Add(metrics::kExecutionErrors);
              held.clear();  // before anybody is told
              if (run != nullptr) return run->Settle(std::move(status));
              ready->Set(std::move(status));
            });
  return results;
}

void DefineOutput(const ArrayRef& output, const Device& device, const DeviceBytesRef& bytes,
                  const EventRef& ready) {
  if (output->memory->accelerator() != nullptr) return output->Define(bytes, ready);
  Result<Literal> value = AllocateArray(output->memory, output->shape);
  if (!value) return output->Fulfil(std::move(value));
  std::byte* to = value->mutable_data();
  DownloadElements(*device.accelerator(), output->shape,
                   {bytes, ready, 0, value->byte_size(), to, bytes,
                    [output, value = std::move(*value)](Result<const std::byte*> there) mutable {
                      if (!there) return output->Fulfil(std::unexpected(std::move(there).error()));
                      output->Fulfil(std::move(value));
                    }});
}

ExecuteResult LoadedExecutable::EnqueueHere(Inputs inputs, const Device& device,
                                            uint64_t flow) const {
  Doing doing({"run", executable_->name(), executable_->input()});
  const std::vector<OutputInfo>& infos = executable_->outputs();
  ExecuteResult result{.outputs = {1, infos.size()}};
  const std::span<std::unique_ptr<Buffer>> outputs = result.outputs[0];
  std::shared_ptr<DeviceRun> run = CancellableRun(executable_, inputs.arrays, client_->cancels());
  // Enqueueing may wait for the device, round by round.
  if (executable_->device_runner()->loops()) AboutToWait(run->ready);
  Result<DeviceResults> results =
      RunProgram(executable_, device.accelerator(), inputs.arrays, inputs.donated, run, flow);
  if (!results && run != nullptr) run->Settle(std::unexpected(results.error()));
  for (size_t k = 0; k < infos.size(); ++k) {
    Memory* memory = OutputMemory(device, k);
    if (!results) {
      outputs[k] = ErrorBuffer(memory, infos[k].shape, results.error());
    } else if (memory->accelerator() != nullptr) {
      outputs[k] = std::make_unique<Buffer>(
          client_, std::make_shared<Array>(infos[k].shape, memory, std::move(results->bytes[k]),
                                           results->ready));
    } else {
      auto array = std::make_shared<Array>(infos[k].shape, memory);
      outputs[k] = std::make_unique<Buffer>(client_, array);
      DefineOutput(array, device, results->bytes[k], results->ready);
    }
  }
  result.done.push_back(results ? results->ready : Event::Failed(results.error()));
  return result;
}

// Devices of a GPU that wait for nobody: each run is its own.
Result<ExecuteResult> LoadedExecutable::ExecuteParts(const ExecuteRequest& request) {
  ExecuteResult all{.outputs = {parts_.size(), executable_->outputs().size()}};
  for (size_t d = 0; d < parts_.size(); ++d) {
    ExecuteRequest one = request;
    one.arguments = request.arguments.subspan(d, 1);
    ExecuteResult result = TRY(parts_[d]->Execute(one));
    std::ranges::move(result.outputs[0], all.outputs[d].begin());
    all.done.push_back(std::move(result.done[0]));
  }
  return all;
}

}  // namespace weft::client
