#include "client/executable.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/doing.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/metrics.h"
#include "client/cache.h"
#include "client/client.h"
#include "client/custom_calls.h"
#include "client/device_runner.h"
#include "client/evaluator_runner.h"
#include "client/executable_bytes.h"
#include "client/native_runner.h"
#include "compiler/pipeline.h"
#include "hlo/clone.h"
#include "hlo/import/import.h"

namespace weft::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestKept = 8 << 20;  // of programs as they came, in bytes
// A hit saves the pipeline alone (the import comes before, for the fingerprint) and costs reading
// the saved text. In milliseconds, for 12, 915 and 18,333 instructions: import 0.03, 1.1, 139;
// pipeline 0.01, 0.4, 121; preparing 0.00, 0.3, 28; writing 0.02, 1.25, 96; reading 0.04, 2.5, 251
// (two aarch64 cores, busy). So
// only programs with heavy folding are kept: those whose pipeline takes much longer than reading
// them, which takes about twice as long as writing. Folding is limited by instruction, and small
// programs cannot be among them.
constexpr int64_t kWorthLooking = 1000;   // instructions
constexpr double kWorthStoring = 100;     // milliseconds of the pipeline
constexpr double kPipelineToWriting = 4;  // how many times longer the pipeline must take

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Result<std::unique_ptr<hlo::Module>> ImportProgram(std::string_view format, std::string program) {
  if (format != "hlo" && format != "mlir" && format != "hlo_with_config") {
    return InvalidArgument("compile: unknown program format '", format,
                           "', known are mlir and hlo");
  }
  if (program.empty()) return InvalidArgument("compile: the program is empty");
  metrics::Timer timer(metrics::kImportSeconds);
  trace::Span span(trace::Kind::kPhase, [] { return trace::What{.name = "import"}; });
  return hlo::ReadModule(std::move(program));
}

// A conditional on a constant takes one branch, whatever is in the others.
std::optional<int64_t> KnownBranch(const hlo::Instruction& conditional) {
  const hlo::Instruction& selector = *conditional.operand(0);
  if (!selector.IsConstant() || !selector.literal().IsValid()) return std::nullopt;
  int64_t count = static_cast<int64_t>(conditional.called_computations().size());
  int64_t value = selector.literal().GetInt(0);
  if (selector.shape().dtype() == DType::kPred) return value != 0 ? 0 : 1;
  return value < 0 || value >= count ? count - 1 : value;
}

// Custom calls that nobody can run are an error before anything runs. Those that nothing reads, and
// those in branches that are never taken, may be there.
Status CheckCustomCalls(const hlo::Module& module) {
  std::vector<const hlo::Computation*> work = {module.entry()};
  std::unordered_set<const hlo::Computation*> seen(work.begin(), work.end());
  while (!work.empty()) {
    const hlo::Computation& computation = *work.back();
    work.pop_back();
    for (const hlo::Instruction* instruction : computation) {
      const auto called = instruction->called_computations();
      std::optional<int64_t> only;
      if (instruction->op() == hlo::Op::kConditional) only = KnownBranch(*instruction);
      for (size_t i = 0; i < called.size(); ++i) {
        if (only && *only != static_cast<int64_t>(i)) continue;
        if (seen.insert(called[i]).second) work.push_back(called[i]);
      }
      if (instruction->op() == hlo::Op::kCustomCall) TRY(CheckCustomCall(*instruction));
    }
  }
  return {};
}

// JAX's programs are used to XLA's way with subnormal numbers, masks and exponentials, and so are
// its tests.
compiler::CompileOptions UsualOptions(const Client& client) {
  compiler::CompileOptions options;
  options.pipeline.verify = false;
  options.optimize.select_by_masks = true;
  options.optimize.cancel_exponentials = true;
  options.cpu.flush_subnormals = client.gpu() == nullptr;  // GPUs keep them, XLA's too
  options.cpu.lapack = client.gpu() == nullptr && HasForeignCall("lapack_cgetrf_ffi");
  return options;
}

Result<compiler::CompileOptions> NativeOptions(const Client& client) {
  compiler::CompileOptions options = UsualOptions(client);
  TRY(compiler::ParseOptions(client.options().compiler_options, options));
  return options;
}

// What runs before the evaluator. Folding is kept to what costs less than the run it saves.
Result<compiler::CompileOptions> CompilerOptions(const Client& client) {
  compiler::CompileOptions options = UsualOptions(client);
  options.optimize.fold_max_bytes = 1 << 12;
  options.optimize.fold_max_work = 1 << 14;
  TRY(compiler::ParseOptions(client.options().compiler_options, options));
  return options;
}

Status Optimize(hlo::Module& module, const Client& client, const CompileRequest& request,
                inspect::CompileWatch& watch) {
  if (request.device_count() > 1) return {};  // passes may replace the root, which has a sharding
  compiler::CompileOptions options = TRY(CompilerOptions(client));
  std::vector<const compiler::Pass*> passes = TRY(compiler::DefaultPipeline());
  TRY(compiler::RunPasses(module, passes, options, watch.Hooks()));
  return {};
}

enum class InCache { kNothing, kUnusable, kProgram };

// The module as the pipeline left it in an earlier run, instead of the one that was imported. One
// that cannot be used is removed, and should be replaced.
InCache FindCompiled(Client& client, const std::string& fingerprint,
                     std::unique_ptr<hlo::Module>& module) {
  if (client.cache() == nullptr || module->instruction_count() < kWorthLooking) {
    return InCache::kNothing;
  }
  std::optional<std::string> bytes = client.cache()->Find(fingerprint);
  if (!bytes) return InCache::kNothing;
  Result<SavedExecutable> saved = ReadExecutable(*bytes);
  if (!saved || saved->fingerprint != fingerprint) {
    VLOG("cache", 1) << fingerprint << " cannot be used: removed";
    client.cache()->Remove(fingerprint);
    return InCache::kUnusable;
  }
  module = std::move(saved->module);
  return InCache::kProgram;
}

template <class RunnerType>
std::string HowMade(const Result<std::unique_ptr<RunnerType>>& made) {
  if (!made) return StrCat("the evaluator runs it: ", made.error());
  const runtime::LoadStats& stats = (*made)->stats();
  return StrCat(stats.compiled, " compiled, ", stats.from_cache, " from cache");
}

// The module, saying how many devices it is compiled for.
std::unique_ptr<hlo::Module> ForDevices(const hlo::Module& module,
                                        const EvaluatorRunnerOptions& options) {
  std::unique_ptr<hlo::Module> own = hlo::CloneModule(module);
  own->config().replica_count = options.num_replicas;
  own->config().num_partitions = options.num_partitions;
  return own;
}

}  // namespace

// On the GPU where it can; the evaluator takes what is left, as a whole.
Status Executable::MakeDeviceRunner(Client& client, const EvaluatorRunnerOptions& options,
                                    inspect::CompileWatch& watch) {
  compiler::CompileOptions compile = TRY(NativeOptions(client));
  Result<std::unique_ptr<DeviceRunner>> made =
      DeviceRunner::Create(client, *module_, compile, watch);
  how_ = HowMade(made);
  if (made) {
    device_runner_ = made->get();
    runner_ = std::move(*made);
    return {};
  }
  metrics::Add(metrics::kFallbacks);
  if (made.error().code() == Code::kCancelled) return std::unexpected(made.error());
  if (made.error().code() != Code::kUnimplemented) {
    LOG(warn) << "compile " << name_
              << ": the evaluator runs it, since the GPU cannot: " << made.error();
  }
  runner_ = TRY(EvaluatorRunner::Create(*module_, options));
  return {};
}

// Native code where there is some; the evaluator takes what is left, as a whole.
Status Executable::MakeRunner(Client& client, const EvaluatorRunnerOptions& options,
                              inspect::CompileWatch& watch) {
  compiler::CompileOptions compile = TRY(NativeOptions(client));
  if (compile.cpu.native && client.gpu() == nullptr) {
    bool several = request_.device_count() > 1;
    std::unique_ptr<hlo::Module> own = several ? ForDevices(Local(), options) : nullptr;
    Result<std::unique_ptr<NativeRunner>> native =
        NativeRunner::Create(client, several ? *own : *module_, compile, watch);
    how_ = HowMade(native);
    if (!native) metrics::Add(metrics::kFallbacks);
    if (native) {
      runner_ = std::move(*native);
      return {};
    }
    if (native.error().code() == Code::kCancelled) return std::unexpected(native.error());
    if (native.error().code() != Code::kUnimplemented) {
      LOG(warn) << "compile " << name_
                << ": the evaluator runs it, since native code failed: " << native.error();
    }
  } else {
    how_ = "the evaluator runs it: cpu.native=false";
  }
  runner_ = TRY(EvaluatorRunner::Create(Local(), options));
  return {};
}

Result<std::shared_ptr<Executable>> Executable::Make(Client& client,
                                                     std::unique_ptr<hlo::Module> module,
                                                     CompileRequest request,
                                                     std::string fingerprint,
                                                     inspect::CompileWatch& watch) {
  std::shared_ptr<Executable> executable(new Executable);
  executable->name_ = module->name();
  executable->module_ = std::move(module);
  executable->request_ = std::move(request);
  executable->fingerprint_ = std::move(fingerprint);
  if (executable->module_->entry() == nullptr || executable->module_->entry()->root() == nullptr) {
    return InvalidArgument("compile: module ", executable->name_, " has no entry");
  }
  TRY(executable->DescribeArguments());
  TRY(executable->DescribeOutputs());
  executable->DescribeAliases();
  compiler::CompileOptions compile = TRY(NativeOptions(client));
  EvaluatorRunnerOptions options{.num_replicas = executable->request_.num_replicas,
                                 .num_partitions = executable->request_.num_partitions,
                                 .max_tensor_bytes = client.memory_limit(),
                                 .cancel = &client.cancelled(),
                                 .tupled_arguments = executable->request_.tupled_arguments,
                                 .flush_subnormals = compile.cpu.flush_subnormals};
  if (options.num_partitions > 1) TRY(executable->SplitModule(client, compile, watch));
  if (client.gpu() != nullptr && executable->request_.device_count() > 1) {
    TRY(executable->MakeParts(client, watch));
  } else if (client.gpu() != nullptr && compile.cpu.native) {
    TRY(executable->MakeDeviceRunner(client, options, watch));
  } else {
    TRY(executable->MakeRunner(client, options, watch));
  }
  if (executable->part_ != nullptr) {
    executable->how_ = StrCat("a part on each of ", executable->request_.device_count(),
                              " devices, ", executable->how_);
  }
  executable->calls_back_ = CallsBack(*executable->module_);
  for (const OutputInfo& output : executable->outputs_) {
    if (__builtin_add_overflow(executable->output_bytes_, output.shape.ByteSize(),
                               &executable->output_bytes_)) {
      return ResourceExhausted("compile: the results of ", executable->name_,
                               " do not fit in memory");
    }
  }
  return executable;
}

Result<std::shared_ptr<Executable>> Executable::Compile(Client& client, std::string_view format,
                                                        std::string program, CompileRequest request,
                                                        const std::atomic<bool>* cancel,
                                                        uint64_t caller) {
  trace::Span span(trace::Kind::kCompile, [] { return trace::What{.name = "compile"}; });
  span.Caller(caller);
  metrics::Timer timer(metrics::kCompileSeconds);
  auto compiled =
      CompileModule(client, format, std::move(program), std::move(request), cancel, span);
  metrics::Add(compiled ? metrics::kCompiles : metrics::kCompileErrors);
  return compiled;
}

Result<std::shared_ptr<Executable>> Executable::CompileModule(
    Client& client, std::string_view format, std::string program, CompileRequest request,
    const std::atomic<bool>* cancel, trace::Span& span) {
  Doing importing({"import", format, program});
  FloatMode mode(/*flush=*/false);  // JAX calls with the other one; constants are to stay
  Clock::time_point start = Clock::now();
  TRY(CheckOverrides(request.overrides));
  std::unique_ptr<hlo::Module> module = TRY(ImportProgram(format, program));
  span.Rename([&] {
    return trace::What{.name = StrCat("compile ", module->name()), .program = module->name()};
  });
  const std::string options = compiler::CacheKey(TRY(NativeOptions(client)));
  std::string fingerprint = ProgramFingerprint(*module, request, options, client.machine());
  const std::string name = module->name();
  Doing compiling({"compile", name, program});
  inspect::CompileWatch watch(*module, client.options().dump_directory,
                              client.options().compiler_options, client.report());
  watch.CancelBy(cancel);
  const InCache found = FindCompiled(client, fingerprint, module);
  if (found != InCache::kProgram) {
    Clock::time_point before = Clock::now();
    if (Status optimized = Optimize(*module, client, request, watch); !optimized) {
      if (optimized.error().code() == Code::kCancelled) return std::unexpected(optimized.error());
      // A pass that fails is our own fault and no reason not to run the program.
      LOG(warn) << "compile " << module->name() << ": running it as it came: " << optimized.error();
      module = TRY(ImportProgram(format, program));
    } else if (double spent = MillisecondsSince(before);
               client.cache() != nullptr &&
               (spent >= kWorthStoring || found == InCache::kUnusable)) {
      before = Clock::now();
      std::string saved = SaveExecutable(*module, request, fingerprint);
      if (spent >= kPipelineToWriting * MillisecondsSince(before) || found == InCache::kUnusable) {
        client.cache()->Store(fingerprint, std::move(saved));
      }
    }
  }
  TRY(CheckCustomCalls(*module));
  std::shared_ptr<Executable> executable =
      TRY(Make(client, std::move(module), std::move(request), std::move(fingerprint), watch));
  executable->DumpIfAsked(executable->request_.overrides);
  NOTE("compile", 1) << "compile " << executable->name_ << ": " << executable->how_ << ", "
                     << std::lround(MillisecondsSince(start)) << " ms";
  if (program.size() <= kLargestKept) executable->input_ = program;
  return executable;
}

}  // namespace weft::client
