#include "serve/client_backend.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/doing.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/buffer.h"
#include "client/client.h"
#include "client/executable.h"

namespace weft::serve {
namespace {

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct HostValue final : DeviceValue {
  explicit HostValue(Literal v) : value(std::move(v)) {}
  Literal value;
};

struct PlacedBuffer final : DeviceValue {
  explicit PlacedBuffer(std::unique_ptr<client::Buffer> b) : buffer(std::move(b)) {}
  std::unique_ptr<client::Buffer> buffer;
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

// A device with memory of its own: inputs are copied there and results back.
class DeviceProgram final : public ClientProgram {
 public:
  using ClientProgram::ClientProgram;
  Result<std::vector<Literal>> Run(std::vector<RunArgument> arguments, const std::atomic<bool>*,
                                   RunTimes* times) const override {
    int64_t begin = Nanoseconds();
    client::Memory* memory = loaded_->devices()[0]->default_memory();
    // All of the host's values at once: small ones share a copy.
    std::vector<Literal> brought;
    std::vector<client::Buffer*> buffers;  // null: the next that is brought
    if (platform_.IsValid()) {
      brought.push_back(platform_);
      buffers.push_back(nullptr);
    }
    for (RunArgument& argument : arguments) {
      if (argument.placed == nullptr) {
        brought.push_back(std::move(argument.host));
        buffers.push_back(nullptr);
      } else {
        buffers.push_back(static_cast<const PlacedBuffer*>(argument.placed)->buffer.get());
      }
    }
    std::vector<std::unique_ptr<client::Buffer>> own =
        client::BuffersFromLiterals(memory, std::move(brought));
    size_t next = 0;
    for (client::Buffer*& buffer : buffers) {
      if (buffer == nullptr) buffer = own[next++].get();
    }
    client::Buffer* const* list = buffers.data();
    std::vector<int64_t> not_donated(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) not_donated[i] = static_cast<int64_t>(i);
    client::ExecuteRequest request{.arguments = std::span(&list, 1),
                                   .argument_count = static_cast<int64_t>(buffers.size()),
                                   .not_donated = not_donated};
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
    return values;
  }
};

class ClientBackend final : public Backend {
 public:
  explicit ClientBackend(std::unique_ptr<client::Client> c) : client_(std::move(c)) {}
  std::string description() const override { return client_->devices()[0]->kind(); }
  bool is_gpu() const override { return client_->gpu() != nullptr; }

  Result<DeviceValueRef> Place(Literal value) override {
    if (!is_gpu()) return std::make_shared<HostValue>(std::move(value));
    client::Memory* memory = client_->devices()[0]->default_memory();
    std::unique_ptr<client::Buffer> buffer = client::BufferFromLiteral(memory, std::move(value));
    if (const Status& ready = buffer->ready()->Await(); !ready)
      return std::unexpected(ready.error());
    return std::make_shared<PlacedBuffer>(std::move(buffer));
  }

  Result<bool> Holds(const DeviceValue& placed, const Literal& value) const override {
    Literal there;
    if (is_gpu()) {
      there = TRY(client::HostValue(TRY(static_cast<const PlacedBuffer&>(placed).buffer->Get())));
    } else {
      there = static_cast<const HostValue&>(placed).value;
    }
    if (there.byte_size() != value.byte_size()) return false;
    return there.data() == value.data() ||
           std::memcmp(there.data(), value.data(), static_cast<size_t>(value.byte_size())) == 0;
  }

  Result<std::shared_ptr<const Program>> Compile(const ProgramText& program) override {
    std::shared_ptr<client::Executable> executable =
        TRY(client::Executable::Compile(*client_, "mlir", program.text, {}));
    bool on_device = executable->device_runner() != nullptr || is_gpu();
    auto loaded = TRY(client::LoadedExecutable::Load(*client_, std::move(executable)));
    if (!on_device) return std::make_shared<HostProgram>(*client_, std::move(loaded), program);
    return std::make_shared<DeviceProgram>(*client_, std::move(loaded), program);
  }

 private:
  std::unique_ptr<client::Client> client_;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeClientBackend() {
  client::ClientOptions options = TRY(client::ClientOptions::FromEnvironment());
  return std::make_unique<ClientBackend>(TRY(client::Client::Create(std::move(options))));
}

}  // namespace weft::serve
