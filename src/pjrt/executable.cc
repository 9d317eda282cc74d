#include "pjrt/executable.h"

#include <chrono>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "compiler/pipeline.h"
#include "hlo/import/import.h"
#include "hlo/import/readers.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "pjrt/client.h"
#include "pjrt/cost.h"
#include "pjrt/evaluator_runner.h"
#include "pjrt/executable_bytes.h"

namespace weft::pjrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kHostMemorySpace = 5;  // S(5) of a layout

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Result<std::unique_ptr<hlo::Module>> ImportProgram(std::string_view format, std::string program) {
  if (format != "hlo" && format != "mlir" && format != "hlo_with_config") {
    return InvalidArgument("compile: unknown program format '", format,
                           "', known are mlir and hlo");
  }
  if (program.empty()) return InvalidArgument("compile: the program is empty");
  bool bytecode = program.starts_with(hlo::mlir::kBytecodeMagic);
  if (bytecode || (format == "mlir" && !program.contains("HloModule"))) {
    return hlo::ImportStableHlo(std::move(program));
  }
  std::unique_ptr<hlo::Module> module = TRY(hlo::ParseModule(program));
  TRY(hlo::Verify(*module));
  return module;
}

// Options of the command line's compiler are fine, as are XLA's own (which mean nothing here).
Status CheckOverrides(const CompileRequest& request) {
  for (const auto& [key, value] : request.overrides) {
    if (key.starts_with("xla_") || key == "exec_time_optimization_effort" ||
        key == "memory_fitting_effort" || key == "optimization_level" ||
        key == "memory_fitting_level" || key == "fdo_profile") {
      continue;
    }
    return InvalidArgument("No such compile option: '", key, "'");
  }
  return {};
}

// What runs before the evaluator. Folding is kept to what costs less than the run it saves.
Result<compiler::CompileOptions> CompilerOptions(const Client& client) {
  compiler::CompileOptions options;
  options.pipeline.verify = false;
  options.optimize.fold_max_bytes = 1 << 12;
  options.optimize.fold_max_work = 1 << 14;
  TRY(compiler::ParseOptions(client.options().compiler_options, options));
  return options;
}

Status Optimize(hlo::Module& module, const Client& client) {
  compiler::CompileOptions options = TRY(CompilerOptions(client));
  std::vector<const compiler::Pass*> passes = TRY(compiler::DefaultPipeline());
  TRY(compiler::RunPasses(module, passes, options));
  return {};
}

void DumpProgram(const Client& client, const hlo::Module& module, std::string_view fingerprint) {
  const std::string& directory = client.options().dump_directory;
  if (directory.empty()) return;
  std::string path = StrCat(directory, "/", fingerprint.substr(0, 16), ".hlo");
  if (Status written = WriteFile(path, hlo::PrintModule(module)); !written) {
    LOG(warn) << "WEFT_DUMP: " << written.error();
  }
}

// Said by name (a list from the import), or by the memory space of the layout.
std::string MemoryKindOf(const Shape& shape, const std::vector<std::string>& names, size_t index) {
  const Layout* layout = shape.layout();
  bool host = layout != nullptr && layout->memory_space() == kHostMemorySpace;
  if (index < names.size() && !names[index].empty()) host = names[index].ends_with("_host");
  return host ? "pinned_host" : "device";
}

// The leaves of a shape, layouts kept.
void AppendLeaves(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.IsTuple()) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape& element : shape.elements_of_tuple()) AppendLeaves(element, leaves);
}

Status CheckBoundary(const Shape& shape, std::string_view what, size_t index) {
  if (shape.IsArray() && shape.CheckedElements()) return {};
  return Unimplemented("compile: ", what, " ", index, " is ", shape.ToStringWithoutLayout(),
                       ", which no buffer can hold");
}

}  // namespace

Status Executable::DescribeArguments() {
  const hlo::Computation& entry = *module_->entry();
  const hlo::ModuleConfig& config = module_->config();
  std::vector<Shape> leaves;
  for (size_t i = 0; i < entry.parameters().size(); ++i) {
    const Shape& shape = entry.parameters()[i]->shape();
    if (shape.IsTuple() && !(request_.tupled_arguments && entry.parameters().size() == 1)) {
      return Unimplemented("compile: parameter ", i, " is a tuple: ", shape);
    }
    bool given = config.entry_layout && i < config.entry_layout->parameters.size();
    AppendLeaves(given ? config.entry_layout->parameters[i] : shape, leaves);
  }
  bool tupled = request_.tupled_arguments && entry.parameters().size() == 1 &&
                entry.parameter(0)->shape().IsTuple();
  request_.tupled_arguments = tupled;
  donated_.assign(leaves.size(), false);
  auto donate = [&](int64_t parameter, const ShapeIndex& index) {
    if (tupled) parameter = index.empty() ? -1 : index[0];
    if (parameter < 0 || parameter >= static_cast<int64_t>(leaves.size())) return;
    donated_[static_cast<size_t>(parameter)] = donates_ = true;
  };
  for (const auto& alias : config.input_output_alias)
    donate(alias.parameter, alias.parameter_index);
  for (const auto& donor : config.buffer_donors) donate(donor.parameter, donor.index);
  std::vector<std::string> kinds = hlo::EntryList(*module_, "parameter_memory_kinds");
  for (size_t i = 0; i < leaves.size(); ++i) {
    TRY(CheckBoundary(leaves[i], "parameter", i));
    parameter_memory_kinds_.push_back(MemoryKindOf(leaves[i], kinds, i));
    leaves[i].ClearLayout();
  }
  parameter_shardings_.resize(leaves.size());
  parameters_ = std::move(leaves);
  return {};
}

Status Executable::DescribeOutputs() {
  const hlo::ModuleConfig& config = module_->config();
  const Shape& result = module_->entry()->root()->shape();
  std::vector<Shape> leaves;
  AppendLeaves(config.entry_layout && config.entry_layout->result.IsValid()
                   ? config.entry_layout->result
                   : result,
               leaves);
  std::vector<std::string> kinds = hlo::EntryList(*module_, "result_memory_kinds");
  for (size_t i = 0; i < leaves.size(); ++i) {
    TRY(CheckBoundary(leaves[i], "result", i));
    std::string kind = MemoryKindOf(leaves[i], kinds, i);
    leaves[i].ClearLayout();
    outputs_.push_back({std::move(leaves[i]), std::move(kind), ""});
  }
  return {};
}

Result<std::shared_ptr<Executable>> Executable::Make(Client& client,
                                                     std::unique_ptr<hlo::Module> module,
                                                     CompileRequest request,
                                                     std::string fingerprint) {
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
  EvaluatorRunnerOptions options{.num_replicas = executable->request_.num_replicas,
                                 .num_partitions = executable->request_.num_partitions,
                                 .max_tensor_bytes = client.memory_limit(),
                                 .cancel = &client.cancelled(),
                                 .tupled_arguments = executable->request_.tupled_arguments};
  executable->runner_ = TRY(EvaluatorRunner::Create(*executable->module_, options));
  return executable;
}

Result<std::shared_ptr<Executable>> Executable::Compile(Client& client, std::string_view format,
                                                        std::string program,
                                                        CompileRequest request) {
  Clock::time_point start = Clock::now();
  TRY(CheckOverrides(request));
  std::unique_ptr<hlo::Module> module = TRY(ImportProgram(format, program));
  std::string fingerprint = ProgramFingerprint(*module, request, client.options().compiler_options);
  double imported = MillisecondsSince(start);
  if (Status optimized = Optimize(*module, client); !optimized) {
    // A pass that fails is our own fault and no reason not to run the program.
    LOG(warn) << "compile " << module->name() << ": running it as it came: " << optimized.error();
    module = TRY(ImportProgram(format, std::move(program)));
  }
  DumpProgram(client, *module, fingerprint);
  std::shared_ptr<Executable> executable =
      TRY(Make(client, std::move(module), std::move(request), std::move(fingerprint)));
  VLOG("compile", 1) << executable->name_ << ": 1 compiled, 0 from cache, "
                     << MillisecondsSince(start) << " ms (import " << imported
                     << " ms); the evaluator runs it: no backend yet";
  return executable;
}

std::string Executable::OptimizedText() const {
  return hlo::PrintModule(*module_);
}

const CostAnalysis& Executable::cost() const {
  std::call_once(analysed_, [this] {
    cost_ = AnalyseCost(*module_);
    for (const Shape& shape : parameters_) memory_.argument_bytes += shape.ByteSize();
    for (const OutputInfo& output : outputs_) memory_.output_bytes += output.shape.ByteSize();
    for (const auto& alias : module_->config().input_output_alias) {
      size_t at = alias.output.empty() ? 0 : static_cast<size_t>(alias.output[0]);
      if (at < outputs_.size()) memory_.alias_bytes += outputs_[at].shape.ByteSize();
    }
    memory_.temp_bytes = TemporaryBytes(*module_);
    memory_.peak_bytes =
        memory_.argument_bytes + memory_.output_bytes - memory_.alias_bytes + memory_.temp_bytes;
  });
  return cost_;
}

const MemoryAnalysis& Executable::memory() const {
  cost();
  return memory_;
}

}  // namespace weft::pjrt
