#include "client/native_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/doing.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread_limit.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "client/client.h"
#include "client/custom_calls.h"
#include "client/executor.h"
#include "compiler/buffers/buffers.h"
#include "compiler/lower/compile.h"
#include "hlo/clone.h"
#include "hlo/evaluate.h"
#include "inspect/fault.h"
#include "runtime/check_steps.h"
#include "runtime/profile.h"
#include "runtime/step_cost.h"

namespace weft::client {
namespace {

// Native code takes about a quarter of a nanosecond a unit of work, less on several threads;
// handing a task to another thread and being woken by it takes 10 to 100 us, more than what the
// caller does meanwhile takes.
constexpr double kTinyNativeWork = 1'200'000;  // for each core
constexpr int64_t kMostCores = 4;
constexpr double kStepWork = 400;
// The caller is held for so long: always, and when it has nothing else to do.
constexpr std::chrono::microseconds kTinyRun(300), kShortRun(10'000);

// On one device, of a program without loops; of others nothing is known.
double WorkOf(const program::Program& program) {
  double work = 0;
  for (const program::Step& step : program.steps) {
    auto cost = runtime::CostOf(program, step);
    if (!cost || HasLists(step)) return 1e18;
    work += kStepWork + cost->flops / 2 + cost->bytes / 4;
  }
  return work;
}

// Of all steps, those of loops and branches counted once: more than is done between two meetings.
double WorkOnce(const program::Program& program) {
  double work = 0;
  program::ForEachStep(program.steps, [&](const program::Step& step) {
    if (HasLists(step)) return;
    const auto* library = std::get_if<program::LibraryStep>(&step.op);
    const bool small = library != nullptr && library->routine.starts_with("device_");
    auto cost = small ? runtime::StepCost() : runtime::CostOf(program, step);
    work += cost ? kStepWork + cost->flops / 2 + cost->bytes / 4 : 1e18;
  });
  return work;
}

// Whether devices that run it wait for each other.
bool Meets(const program::Program& program) {
  bool meets = false;
  program::ForEachStep(program.steps, [&](const program::Step& step) {
    const auto* library = std::get_if<program::LibraryStep>(&step.op);
    meets |= std::holds_alternative<program::CollectiveStep>(step.op);
    meets |= library != nullptr && library->routine.starts_with("device_");
  });
  return meets;
}

}  // namespace

NativeRunner::~NativeRunner() = default;

Result<std::unique_ptr<NativeRunner>> NativeRunner::Create(Client& client,
                                                           const hlo::Module& module,
                                                           const compiler::CompileOptions& options,
                                                           inspect::CompileWatch& watch) {
  runtime::Device* device = client.native_device();
  if (device == nullptr) return Unimplemented("this build has no native code");
  std::unique_ptr<NativeRunner> runner(new NativeRunner);
  compiler::Compiled compiled =
      TRY(compiler::Compile(module, options, device->target(), watch.Hooks()));
  watch.Lowered(compiled);
  runner->module_ = std::move(compiled.module);
  runtime::LoadOptions load;
  load.disabled_passes = options.cpu.disable;
  load.cache = client.object_cache();
  load.show = watch.ShowCode();
  load.cancel = watch.cancel();
  load.progress = watch.ShowProgress();
  runner->program_ = TRY(device->Load(std::move(compiled.program), load));
  runner->literals_ = std::make_unique<runtime::LiteralRunner>(
      *runner->program_, runtime::LiteralRunner::Results::kAsInMemory);
  runner->client_ = &client;
  runner->options_ = options;
  if (client.options().check) runner->input_ = hlo::CloneModule(module);
  runner->DescribeLeaves(module);
  EvaluatorRunnerOptions eval{.max_tensor_bytes = client.memory_limit(),
                              .cancel = &client.cancelled(),
                              .flush_subnormals = options.cpu.flush_subnormals};
  runner->eval_options_ = EvalOptionsFor(eval);
  runner->calls_ =
      TRY(HostCalls::Create(*runner->module_, runner->program_->program(), runner->eval_options_));
  runner->calls_out_ = CallsOut(module);
  runner->meets_ = Meets(runner->program_->program());
  runner->async_ = runtime::HasAsyncCollectives(runner->program_->program());
  runner->work_once_ = WorkOnce(runner->program_->program());
  double tiny = kTinyNativeWork *
                static_cast<double>(std::clamp<int64_t>(device->target().cores, 1, kMostCores));
  runner->may_be_tiny_ = !CallsOutBeyondLapack(module);
  const auto devices = static_cast<double>(runner->program_->program().devices);
  runner->tiny_ = runner->may_be_tiny_ && WorkOf(runner->program_->program()) * devices < tiny;
  if (detail::LogIsOn("cache", 1)) runner->ExplainCache(client, module, options);
  return runner;
}

// A tuple's leaves are the program's parameters, as separate ones are.
void NativeRunner::DescribeLeaves(const hlo::Module& module) {
  const hlo::Computation& entry = *module.entry();
  for (const hlo::Instruction* p : entry.parameters()) {
    compiler::ForEachLeaf(p->shape(), [&](const Shape& shape) {
      parameter_is_token_.push_back(!shape.IsArray());
      has_tokens_ |= !shape.IsArray();
    });
  }
  compiler::ForEachLeaf(entry.root()->shape(), [&](const Shape& shape) {
    result_is_token_.push_back(!shape.IsArray());
    has_tokens_ |= !shape.IsArray();
  });
}

// One line: what the cache had, and where it had not all, what changed.
void NativeRunner::ExplainCache(Client& client, const hlo::Module& module,
                                const compiler::CompileOptions& options) const {
  std::string why = client.history().Explain(
      module.name(), FactsOf(module, compiler::CacheKey(options), client.machine()),
      client.cache());
  const runtime::LoadStats& found = stats();
  std::string decision;
  if (found.compiled + found.from_cache == 0) {
    decision = "nothing to compile";
  } else if (client.object_cache() == nullptr) {
    decision = StrCat("off, compiled: ", why);
  } else if (found.compiled == 0) {
    decision = StrCat("hit, ", found.from_cache, " of ", found.from_cache);
  } else {
    decision =
        StrCat("miss, ", found.compiled, " of ", found.compiled + found.from_cache, ": ", why);
  }
  NOTE("cache", 1) << "cache " << module.name() << ": " << decision;
}

// A line for each kernel and native region, and each other step.
Result<std::vector<Literal>> NativeRunner::RunShowingSteps(std::vector<Literal>& arguments,
                                                           runtime::Call call) const {
  const runtime::Roofline& roofline = client_->roofline();
  std::function<Status(const program::Step&, double, std::span<const std::span<std::byte>>)> after =
      [&](const program::Step& step, double seconds, std::span<const std::span<std::byte>>) {
        NOTE("step", 2) << "step " << module_->name() << " "
                        << runtime::StepLine(program_->program(), step, seconds, roofline);
        return Status();
      };
  call.after_step = &after;
  return literals_->Run(arguments, call);
}

// Every step beside the interpreter, the results beside the evaluator's.
Result<std::vector<Literal>> NativeRunner::RunChecked(std::vector<Literal>& arguments,
                                                      runtime::Call call) const {
  std::vector<Literal> kept;
  for (const Literal& argument : arguments) kept.push_back(TRY(argument.Unpacked()));
  runtime::StepChecker checker(program_->program(), call.device);
  checker.Watch(call);
  Result<std::vector<Literal>> results = literals_->Run(arguments, call);
  if (!results && checker.failed() == nullptr) return results;  // its own error
  inspect::FaultRequest request{.module = *input_,
                                .options = options_,
                                .device = *client_->native_device(),
                                .arguments = kept,
                                .eval = eval_options_,
                                .call = &calls_->hook()};
  std::string what = results ? "" : results.error().ToString();
  // What calls out is not called twice; what one of several devices gets depends on the others.
  const bool alone = program_->program().devices == 1;
  if (results && !calls_out_ && alone) {
    std::vector<Literal> wanted, own = inspect::ArgumentsFromLeaves(*input_, kept);
    inspect::AppendArrays(TRY(hlo::Evaluate(*input_, own, eval_options_)), wanted);
    FloatMode mode(options_.cpu.flush_subnormals);
    std::vector<Literal> got;
    for (const Literal& result : *results) got.push_back(TRY(result.Unpacked()));
    what = inspect::CompareResults(wanted, got);
    if (!what.empty()) {
      Result<inspect::Fault> fault = inspect::FindFault(request);
      what = fault && fault->kind != inspect::FaultKind::kNone ? fault->ToString() : what;
    }
  }
  if (what.empty()) {
    NOTE("check", 1) << "check " << module_->name() << ": " << checker.checked()
                     << " steps as the interpreter" << (alone ? ", results as the evaluator" : "")
                     << (checker.left_out() > 0 ? StrCat(", ", checker.left_out(), " left out")
                                                : "");
    return results;
  }
  const std::string& dump = client_->options().dump_directory;
  std::string folder =
      inspect::WriteFaultFolder(dump.empty() ? "weft-faults" : dump, request, what);
  Error error(Code::kInternal, StrCat("WEFT_CHECK: ", module_->name(), ": ", what));
  error.Hint(StrCat("to see it again: ", folder, "/REPRO"));
  return std::unexpected(std::move(error));
}

Result<std::vector<Literal>> NativeRunner::RunArrays(std::vector<Literal>& arguments,
                                                     runtime::Call call) const {
  call.call = &calls_->hook();
  if (input_ != nullptr) return RunChecked(arguments, call);
  if (detail::LogIsOn("step", 2)) return RunShowingSteps(arguments, call);
  return literals_->Run(arguments, call);
}

bool NativeRunner::TakesAddresses() const {
  return tiny_ && !meets_ && !calls_out_ && !has_tokens_ && input_ == nullptr &&
         !detail::LogIsOn("step", 2) && literals_->signature().IsPlain();
}

Status NativeRunner::RunAt(int64_t device, std::span<std::byte* const> arguments,
                           std::span<std::byte* const> results,
                           const std::atomic<bool>* cancel) const {
  runtime::Call call;
  call.parameters = arguments;
  call.results = results;
  call.device = device;
  call.cancel = cancel;
  call.call = &calls_->hook();
  return program_->Run(call);
}

bool NativeRunner::IsTiny() const {
  return tiny_ || (may_be_tiny_ && last_run_.load(std::memory_order_relaxed) < kTinyRun);
}

bool NativeRunner::IsShort() const {
  return may_be_tiny_ && last_run_.load(std::memory_order_relaxed) < kShortRun;
}

// What a run takes is kept, to know of the next one.
class NativeRunner::TimedRun {
 public:
  explicit TimedRun(const NativeRunner& runner) : runner_(runner) {}
  ~TimedRun() {
    if (runner_.tiny_) return;  // known
    auto taken = std::chrono::steady_clock::now() - start_;
    runner_.last_run_.store(std::chrono::duration_cast<std::chrono::microseconds>(taken),
                            std::memory_order_relaxed);
  }

 private:
  const NativeRunner& runner_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Result<std::vector<Literal>> NativeRunner::RunAlone(std::vector<Literal>& arguments,
                                                    const std::atomic<bool>* cancel) const {
  runtime::Call call;
  call.cancel = cancel;
  TimedRun timed(*this);
  return RunOn(arguments, call);
}

// One device, as `call` says.
Result<std::vector<Literal>> NativeRunner::RunOn(std::vector<Literal>& arguments,
                                                 const runtime::Call& call) const {
  if (!has_tokens_) return RunArrays(arguments, call);
  std::vector<Literal> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!parameter_is_token_[i]) arrays.push_back(std::move(arguments[i]));
  }
  std::vector<Literal> results = TRY(RunArrays(arrays, call)), all;
  size_t next = 0;
  for (bool token : result_is_token_) {
    all.push_back(token ? Literal(TokenStandIn()) : std::move(results[next++]));
  }
  return all;
}

Status NativeRunner::RunMeeting(int64_t devices, const RunDevice& run) const {
  KeptThreads& threads = client_->device_threads();
  runtime::DeviceGroup group(devices);
  // A link of so many Mbit/s, in bytes.
  group.SimulateLink(static_cast<double>(options_.collectives.link) * 1e6 / 8);
  auto one = [&](int64_t device) { return run(device, &group); };
  if (calls_out_) return group.RunAll(one, &threads, 0, async_);  // calls may block
  // Devices take turns, where they meet, on as many threads as there are cores. What all of them do
  // between meetings may be less than waking a thread is. Events of a timeline nest by thread.
  const bool little = work_once_ * static_cast<double>(devices) < kTinyNativeWork;
  const int64_t at_once =
      tiny_ || little ? 1 : std::min(devices, client_->native_device()->target().cores);
  return group.RunAll(one, &threads, trace::IsOn() ? 0 : at_once, async_);
}

Status NativeRunner::RunApart(int64_t devices, const RunDevice& run) const {
  auto one = [&](int64_t device) -> Status {
    Status status = run(device, nullptr);
    if (!status) status.error().Note(StrCat("on device ", device));
    return status;
  };
  if (tiny_) {
    for (int64_t d = 0; d < devices; ++d) TRY(one(d));
    return {};
  }
  std::atomic<int64_t> next = 0;
  std::vector<Status> done(static_cast<size_t>(devices));
  const bool flush = FloatMode::Flushes();
  const Doing* doing = Doing::Top();
  const int64_t at_once = std::min(devices, client_->native_device()->target().cores);
  // As where devices meet: helpers have the cores that no device is busy on.
  const int cores = std::min(ThreadLimit::current(), DefaultPool().threads());
  std::atomic<int> busy = static_cast<int>(at_once);
  client_->device_threads().Run(at_once, [&](int64_t) {
    FloatMode mode(flush);
    Doing::Helping helping(doing);
    ThreadLimit limit(cores, &busy);
    for (int64_t d = next.fetch_add(1); d < devices; d = next.fetch_add(1)) {
      done[static_cast<size_t>(d)] = one(d);
    }
    busy.fetch_sub(1, std::memory_order_relaxed);
  });
  for (Status& status : done) TRY(std::move(status));
  return {};
}

Result<std::vector<std::vector<Literal>>> NativeRunner::Run(
    std::span<std::vector<Literal>> arguments, const std::atomic<bool>* cancel) const {
  std::vector<std::vector<Literal>> results(arguments.size());
  if (arguments.size() == 1) {
    results[0] = TRY(RunAlone(arguments[0], cancel));
    return results;
  }
  TimedRun timed(*this);
  Executor::BlockingScope blocking;  // the devices run on threads kept for them
  auto run = [&](int64_t device, runtime::DeviceGroup* group) -> Status {
    trace::Span span(trace::Kind::kExecute, [&] {
      return trace::What{.name = module_->name(), .program = module_->name(), .op = "native"};
    });
    span.Device(device);
    runtime::Call call;
    call.device = device;
    call.cancel = cancel;
    call.group = group;
    size_t d = static_cast<size_t>(device);
    results[d] = TRY(RunOn(arguments[d], call));
    return {};
  };
  TRY(meets_ || calls_out_ ? RunMeeting(std::ssize(arguments), run)
                           : RunApart(std::ssize(arguments), run));
  return results;
}

}  // namespace weft::client
