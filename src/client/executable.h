// Compiled programs: what was compiled (Executable), and the same on certain devices
// (LoadedExecutable).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/trace.h"
#include "client/buffer.h"
#include "client/compile_options.h"
#include "client/wait_habit.h"
#include "hlo/module.h"
#include "inspect/compile_watch.h"
#include "runtime/device.h"

namespace weft::client {

class DeviceRunner;             // device_runner.h
struct EvaluatorRunnerOptions;  // evaluator_runner.h

// Runs a module: native code (native_runner.h), a GPU (device_runner.h), or the evaluator
// (evaluator_runner.h) for the whole of what these cannot take.
class Runner {
 public:
  virtual ~Runner() = default;
  // arguments[d][i] for the logical devices d; consumed: one that nobody else holds may be
  // overwritten. Results as [d][k], tuples at the root flattened. `cancel`, once set, ends the run
  // with an error.
  virtual Result<std::vector<std::vector<Literal>>> Run(std::span<std::vector<Literal>> arguments,
                                                        const std::atomic<bool>* cancel) const = 0;
  // The same for programs of one device.
  virtual Result<std::vector<Literal>> RunAlone(std::vector<Literal>& arguments,
                                                const std::atomic<bool>* cancel) const;
  // Whether a run may as well be one of addresses (RunAt): so little work that devices take turns
  // on the caller's thread, nothing donated, packed, of dynamic size or watched. Results are then
  // arrays that have the sizes of the executable's outputs.
  virtual bool TakesAddresses() const { return false; }
  // One device: arguments are read where they lie, results written where the caller says.
  virtual Status RunAt(int64_t device, std::span<std::byte* const> arguments,
                       std::span<std::byte* const> results, const std::atomic<bool>* cancel) const;
  // So little work that it is done on the caller's thread.
  virtual bool IsTiny() const = 0;
  // Every run does, whatever the arguments are.
  virtual bool EndsSoon() const { return false; }
  // So little that it is done there for callers who wait for it.
  virtual bool IsShort() const { return false; }
  // The Program that runs, and the bytes that a run takes for its temporaries; null: there is none.
  virtual const program::Program* program() const { return nullptr; }
  virtual int64_t temp_bytes() const { return 0; }
  virtual runtime::Scratch scratch() const { return {}; }  // part of temp_bytes
  // The module that the Program was made of, as the passes left it; null: the executable's own.
  virtual const hlo::Module* compiled() const { return nullptr; }
};

struct CostAnalysis {
  double flops = 0, transcendentals = 0, bytes_accessed = 0;
  double dot_flops = 0;  // those of matrix products
};
struct MemoryAnalysis {
  int64_t code_bytes = 0, argument_bytes = 0, output_bytes = 0, alias_bytes = 0, temp_bytes = 0,
          peak_bytes = 0;
};

struct OutputInfo {
  Shape shape;              // of one device's shard
  std::string memory_kind;  // "device"
  std::string sharding;     // OpSharding in wire format; empty: none
};

class Executable {
 public:
  // `program` is what PJRT_Client_Compile gets ("mlir": StableHLO bytecode or text; "hlo": proto or
  // text). Looks into the persistent cache first (cache.h).
  static Result<std::shared_ptr<Executable>> Compile(Client& client, std::string_view format,
                                                     std::string program, CompileRequest request,
                                                     const std::atomic<bool>* cancel = nullptr,
                                                     uint64_t caller = 0);
  // `asked`: what the caller wants to be done otherwise than when it was saved.
  static Result<std::shared_ptr<Executable>> Deserialize(Client& client, std::string_view bytes,
                                                         const CompileOverrides& asked = {});
  std::string Serialize() const;

  const std::string& name() const { return name_; }
  const std::string& fingerprint() const { return fingerprint_; }  // hex, same in every process
  const CompileRequest& request() const { return request_; }
  const hlo::Module& module() const { return *module_; }
  // The program as it came, for reports of a crash; empty: it is large, or was not compiled here.
  const std::string& input() const { return input_; }
  std::string OptimizedText() const;   // HLO text
  std::string OptimizedProto() const;  // HloModuleProtoWithConfig, shardings of the boundary too
  const std::vector<Shape>& parameters() const { return parameters_; }  // of one device's shard
  const std::vector<std::string>& parameter_memory_kinds() const { return parameter_memory_kinds_; }
  const std::vector<std::string>& parameter_shardings() const { return parameter_shardings_; }
  const std::vector<OutputInfo>& outputs() const { return outputs_; }
  bool calls_back() const { return calls_back_; }         // into Python: executed synchronously
  int64_t output_bytes() const { return output_bytes_; }  // of one device
  // Indices of arguments that are donated unless the caller revokes it.
  const std::vector<bool>& donated() const { return donated_; }
  bool donates() const { return donates_; }
  // For every output the donated argument whose place it takes; -1: none.
  const std::vector<int64_t>& aliases() const { return aliases_; }
  const CostAnalysis& cost() const;  // worked out when first asked for
  // Exact for native code; for the evaluator the temporaries are an estimate from above.
  const MemoryAnalysis& memory() const;
  const Runner& runner() const { return parts_.empty() ? *runner_ : parts_[0]->runner(); }
  // The same where it runs on a device with memory of its own; else null.
  const DeviceRunner* device_runner() const { return device_runner_; }
  // What each device of a GPU runs by itself; empty: all is one run.
  const std::vector<std::shared_ptr<Executable>>& parts() const { return parts_; }
  // What a timeline says of asking for it and of running it.
  const trace::What* traced_enqueue() const;
  const trace::What* traced_run() const;
  const trace::What* traced_group() const;  // on several devices at once

 private:
  Executable() = default;
  // Everything but name and request, from the module.
  static Result<std::shared_ptr<Executable>> Make(Client& client,
                                                  std::unique_ptr<hlo::Module> module,
                                                  CompileRequest request, std::string fingerprint,
                                                  inspect::CompileWatch& watch);
  static Result<std::shared_ptr<Executable>> CompileModule(Client& client, std::string_view format,
                                                           std::string program,
                                                           CompileRequest request,
                                                           const std::atomic<bool>* cancel,
                                                           trace::Span& span);
  // The program of one device, where it has several partitions.
  Status SplitModule(Client& client, const compiler::CompileOptions& options,
                     inspect::CompileWatch& watch);
  // On a GPU that is several devices: an executable for each of them.
  Status MakeParts(Client& client, inspect::CompileWatch& watch);
  Status MakeDeviceRunner(Client& client, const EvaluatorRunnerOptions& options,
                          inspect::CompileWatch& watch);
  Status MakeRunner(Client& client, const EvaluatorRunnerOptions& options,
                    inspect::CompileWatch& watch);
  const hlo::Module& Optimized() const;
  // What one device runs, before native code is made of it.
  const hlo::Module& Local() const { return part_ ? *part_ : *module_; }
  void DumpIfAsked(const CompileOverrides& asked) const;  // xla_dump_to
  void AnalyseMemory() const;
  Status DescribeArguments();
  void DescribeDonation();
  Status DescribeOutputs();
  void DescribeAliases();
  std::string name_, fingerprint_, input_;
  CompileRequest request_;
  std::unique_ptr<hlo::Module> module_;
  std::unique_ptr<hlo::Module> part_;  // of one device, where the program is partitioned
  std::vector<Shape> parameters_;
  std::vector<std::string> parameter_memory_kinds_, parameter_shardings_;
  std::vector<OutputInfo> outputs_;
  bool calls_back_ = false;
  int64_t output_bytes_ = 0;
  std::vector<bool> donated_;
  bool donates_ = false;  // any of them
  std::vector<int64_t> aliases_;
  std::string how_;  // it came to be: "3 compiled, 11 from cache", or why the evaluator runs it
  mutable std::once_flag analysed_, memory_analysed_;
  mutable CostAnalysis cost_;
  mutable MemoryAnalysis memory_;
  std::unique_ptr<Runner> runner_;
  const DeviceRunner* device_runner_ = nullptr;  // it, or null
  std::vector<std::shared_ptr<Executable>> parts_;
  trace::CachedWhat enqueue_, run_, group_;
};

struct ExecuteRequest {
  // [device][argument]; every list has one entry per parameter.
  std::span<Buffer* const* const> arguments = {};
  int64_t argument_count = 0;
  std::span<const int64_t> not_donated = {};
  Device* device = nullptr;  // portable executables: where to run
  uint64_t caller = 0;       // the framework's number of this call, for timelines
};
// As many of each device, by [device][k], in one piece.
template <class T>
class DeviceLists {
 public:
  DeviceLists() = default;
  DeviceLists(size_t devices, size_t each) : devices_(devices), each_(each), all_(devices * each) {}
  size_t size() const { return devices_; }
  std::span<T> operator[](size_t device) { return std::span(all_).subspan(device * each_, each_); }

 private:
  size_t devices_ = 0, each_ = 0;
  std::vector<T> all_;
};
struct ExecuteResult {
  DeviceLists<std::unique_ptr<Buffer>> outputs;  // [device][output]
  std::vector<EventRef> done = {};               // per device
};

class LoadedExecutable {
 public:
  static Result<std::unique_ptr<LoadedExecutable>> Load(Client& client,
                                                        std::shared_ptr<Executable> executable);
  ~LoadedExecutable();

  Client* client() const { return client_; }
  const std::shared_ptr<Executable>& executable() const { return executable_; }
  const std::vector<Device*>& devices() const { return devices_; }  // in logical order
  void Delete() { deleted_ = true; }
  bool IsDeleted() const { return deleted_; }

  // Wrong arguments are an error here; what goes wrong while running arrives through the outputs'
  // events. Runs tiny programs on this thread when their arguments are there, and short ones for
  // callers who wait.
  Result<ExecuteResult> Execute(const ExecuteRequest& request);

 private:
  struct Inputs;  // the arguments of one call
  struct Launch;  // a call on its way
  LoadedExecutable(Client* client, std::shared_ptr<Executable> executable)
      : client_(client), executable_(std::move(executable)) {}
  Result<std::vector<Device*>> DevicesOf(const ExecuteRequest& request) const;
  Status CheckArgument(const ExecuteRequest& request, size_t device, int64_t index,
                       const Device* on) const;
  Result<Inputs> TakeInputs(const ExecuteRequest& request, std::span<Device* const> devices) const;
  // `flow`: from the request, for timelines.
  ExecuteResult RunHere(Inputs inputs, std::span<Device* const> devices, uint64_t flow) const;
  // The same for what takes addresses.
  ExecuteResult RunDirect(Inputs inputs, std::span<Device* const> devices) const;
  Status FillDirect(const Inputs& inputs, std::span<Device* const> devices,
                    ExecuteResult& result) const;
  ExecuteResult Failed(std::span<Device* const> devices, const Error& error) const;
  ExecuteResult RunLater(Inputs inputs, std::span<Device* const> devices, uint64_t flow) const;
  ExecuteResult EnqueueHere(Inputs inputs, const Device& device, uint64_t flow) const;
  Result<ExecuteResult> ExecuteParts(const ExecuteRequest& request);
  Memory* OutputMemory(const Device& device, size_t output) const;
  Client* client_;
  std::shared_ptr<Executable> executable_;
  std::vector<Device*> devices_;
  std::vector<std::unique_ptr<LoadedExecutable>> parts_;  // as those of the executable
  std::atomic<bool> deleted_ = false;
  bool takes_addresses_ = false;  // the runner does, and nothing is donated
  WaitHabit callers_;
};

}  // namespace weft::client
