#include "serve/client_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/doing.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/accelerator.h"
#include "client/buffer.h"
#include "client/client.h"
#include "client/executable.h"

namespace weft::serve {
namespace {

constexpr int kDeviceLanes = 8;

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct HostValue final : DeviceValue {
  explicit HostValue(Literal v) : value(std::move(v)) {}
  Literal value;
};

// On each of the devices.
struct PlacedBuffers final : DeviceValue {
  std::vector<std::unique_ptr<client::Buffer>> buffers;
};

// Programs take their platform's number as a first argument where they are for several.
class ClientProgram : public Program {
 public:
  ClientProgram(client::Client& client, std::unique_ptr<client::LoadedExecutable> loaded,
                const ProgramText& text)
      : client_(client), loaded_(std::move(loaded)) {
    const client::Executable& executable = *loaded_->executable();
    parameters_ = executable.parameters();
    if (text.platform_index && !parameters_.empty()) {
      parameters_.erase(parameters_.begin());
      platform_ = Literal::Scalar<int32_t>(DType::kS32, text.platform);
    }
    for (const client::OutputInfo& output : executable.outputs()) results_.push_back(output.shape);
    run_bytes_ = executable.memory().output_bytes + executable.memory().temp_bytes;
  }
  const std::vector<Shape>& parameters() const override { return parameters_; }
  const std::vector<Shape>& results() const override { return results_; }

 protected:
  client::Client& client_;
  std::unique_ptr<client::LoadedExecutable> loaded_;
  std::vector<Shape> parameters_, results_;
  int64_t run_bytes_ = 0;  // results and temporaries
  Literal platform_;       // invalid: none is asked for
};

// Runs on the calling thread: the run handler has decided that it is its turn.
class HostProgram final : public ClientProgram {
 public:
  using ClientProgram::ClientProgram;
  Result<std::vector<Literal>> Run(std::vector<RunArgument> arguments,
                                   const std::atomic<bool>* cancel,
                                   RunTimes* times) const override {
    std::vector<Literal> values;
    values.reserve(arguments.size() + 1);
    if (platform_.IsValid()) values.push_back(platform_);
    for (RunArgument& argument : arguments) {
      values.push_back(argument.placed == nullptr
                           ? std::move(argument.host)
                           : static_cast<const HostValue*>(argument.placed)->value);
    }
    const client::Executable& executable = *loaded_->executable();
    if (Status fits = client_.CheckMemory(run_bytes_); !fits) {
      return std::unexpected(fits.error().Prefix(StrCat("execute ", executable.name(), ": ")));
    }
    Doing doing({"run", executable.name(), executable.input()});
    trace::Span span(executable.traced_run());
    metrics::Timer timer(metrics::kExecuteSeconds);
    metrics::Add(executable.runner().program() != nullptr ? metrics::kExecutions
                                                          : metrics::kEvaluations);
    int64_t begin = Nanoseconds();
    auto results =
        executable.runner().RunAlone(values, cancel != nullptr ? cancel : &client_.cancelled());
    times->run = Nanoseconds() - begin;
    if (!results) metrics::Add(metrics::kExecutionErrors);
    return results;
  }
};

// Devices with memory of their own: inputs are copied to the one that is chosen and results back.
class DeviceProgram final : public ClientProgram {
 public:
  DeviceProgram(client::Client& client, std::unique_ptr<client::LoadedExecutable> loaded,
                const ProgramText& text, DeviceSelector& selector)
      : ClientProgram(client, std::move(loaded), text),
        selector_(selector),
        times_(static_cast<int>(client.devices().size())) {}
  Result<std::vector<Literal>> Run(std::vector<RunArgument> arguments, const std::atomic<bool>*,
                                   RunTimes* times) const override {
    int64_t begin = Nanoseconds();
    // Held until the results are the host's.
    DeviceSelector::Reservation held = selector_.Reserve(times_.expected());
    const size_t chosen = static_cast<size_t>(held.device());
    client::Device* device = client_.devices()[chosen].get();
    client::Memory* memory = device->default_memory();
    // All of the host's values at once: small ones share a copy.
    std::vector<Literal> brought;
    std::vector<client::Buffer*> buffers;  // null: the next that is brought
    std::vector<int64_t> kept;             // weights: a program that aliases them gets copies
    if (platform_.IsValid()) {
      brought.push_back(platform_);
      buffers.push_back(nullptr);
    }
    for (RunArgument& argument : arguments) {
      if (argument.placed == nullptr) {
        brought.push_back(std::move(argument.host));
        buffers.push_back(nullptr);
      } else {
        const auto& placed = static_cast<const PlacedBuffers&>(*argument.placed);
        kept.push_back(static_cast<int64_t>(buffers.size()));
        buffers.push_back(placed.buffers[chosen].get());
      }
    }
    std::vector<std::unique_ptr<client::Buffer>> own =
        client::BuffersFromLiterals(memory, std::move(brought));
    size_t next = 0;
    for (client::Buffer*& buffer : buffers) {
      if (buffer == nullptr) buffer = own[next++].get();
    }
    client::Buffer* const* list = buffers.data();
    client::ExecuteRequest request{.arguments = std::span(&list, 1),
                                   .argument_count = static_cast<int64_t>(buffers.size()),
                                   .not_donated = kept,
                                   .device = device};
    int64_t there = Nanoseconds();
    client::ExecuteResult result = TRY(loaded_->Execute(request));
    if (const Status& status = result.done[0]->Await(); !status)
      return std::unexpected(status.error());
    int64_t done = Nanoseconds();
    std::vector<Literal> values;
    for (const auto& output : result.outputs[0]) {
      values.push_back(TRY(client::HostValue(TRY(output->Get()))));
    }
    *times = {there - begin, done - there, Nanoseconds() - done};
    times_.Learn(held.device(), done - there);
    return values;
  }

 private:
  DeviceSelector& selector_;
  mutable DeviceTimes times_;
};

class ClientBackend final : public Backend {
 public:
  ClientBackend(std::unique_ptr<client::Client> c, const BackendOptions& options)
      : client_(std::move(c)),
        selector_(static_cast<int>(client_->devices().size()), options.selection) {}
  std::string description() const override { return client_->devices()[0]->kind(); }
  bool is_gpu() const override { return client_->gpu() != nullptr; }
  int Lanes() const override { return is_gpu() ? static_cast<int>(client_->devices().size()) : 0; }
  std::vector<DeviceSelector::Load> DeviceLoads() const override {
    return is_gpu() ? selector_.loads() : std::vector<DeviceSelector::Load>();
  }

  Result<DeviceValueRef> Place(Literal value) override {
    if (!is_gpu()) return std::make_shared<HostValue>(std::move(value));
    auto placed = std::make_shared<PlacedBuffers>();
    for (const auto& device : client_->devices())
      placed->buffers.push_back(TRY(PlaceOn(*device, value, placed->buffers)));
    return placed;
  }

  Result<bool> Holds(const DeviceValue& placed, const Literal& value) const override {
    Literal there;
    if (is_gpu()) {
      const auto& buffers = static_cast<const PlacedBuffers&>(placed).buffers;
      there = TRY(client::HostValue(TRY(buffers[0]->Get())));
    } else {
      there = static_cast<const HostValue&>(placed).value;
    }
    if (there.byte_size() != value.byte_size()) return false;
    return there.data() == value.data() ||
           std::memcmp(there.data(), value.data(), static_cast<size_t>(value.byte_size())) == 0;
  }

  Result<std::shared_ptr<const Program>> Compile(const ProgramText& program) override {
    client::CompileRequest request;
    request.portable_executable = is_gpu();
    std::shared_ptr<client::Executable> executable =
        TRY(client::Executable::Compile(*client_, "mlir", program.text, request));
    bool on_device = executable->device_runner() != nullptr || is_gpu();
    auto loaded = TRY(client::LoadedExecutable::Load(*client_, std::move(executable)));
    if (!on_device) return std::make_shared<HostProgram>(*client_, std::move(loaded), program);
    return std::make_shared<DeviceProgram>(*client_, std::move(loaded), program, selector_);
  }

 private:
  // Logical devices of one real device read the same bytes.
  static Result<std::unique_ptr<client::Buffer>> PlaceOn(
      const client::Device& device, const Literal& value,
      std::span<const std::unique_ptr<client::Buffer>> there) {
    client::Memory* memory = device.default_memory();
    for (const auto& other : there) {
      client::ArrayRef array = TRY(other->Get());
      const bool lent = array->device == nullptr || array->device->lent();
      if (lent || &other->device()->accelerator()->device() != &device.accelerator()->device())
        continue;
      auto bytes = std::make_shared<client::DeviceBytes>();
      bytes->address = array->device->address;
      bytes->on_delete = [array] {};
      return std::make_unique<client::Buffer>(
          memory->client(), std::make_shared<client::Array>(array->shape, memory, std::move(bytes),
                                                            client::Event::Done()));
    }
    std::unique_ptr<client::Buffer> buffer = client::BufferFromLiteral(memory, value);
    if (const Status& ready = buffer->ready()->Await(); !ready)
      return std::unexpected(ready.error());
    return buffer;
  }

  std::unique_ptr<client::Client> client_;
  DeviceSelector selector_;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeClientBackend(const BackendOptions& options) {
  client::ClientOptions chosen = TRY(client::ClientOptions::FromEnvironment());
  if (options.lanes > 0) {
    chosen.gpu_devices = options.lanes;
  } else if (chosen.gpu_devices == 1) {
    chosen.gpu_devices = kDeviceLanes;
  }
  return std::make_unique<ClientBackend>(TRY(client::Client::Create(std::move(chosen))), options);
}

}  // namespace weft::serve
