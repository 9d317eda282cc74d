#include "inspect/fault.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/float_mode.h"
#include "compiler/lower/compile.h"
#include "hlo/clone.h"
#include "hlo/text.h"
#include "inspect/dump_folder.h"
#include "runtime/check_steps.h"
#include "runtime/compare.h"
#include "runtime/literals.h"

namespace weft::inspect {
namespace {

using Memory = std::span<const std::span<std::byte>>;

std::span<const std::byte> BytesOf(const Literal& value) {
  return {value.data(), static_cast<size_t>(value.byte_size())};
}

std::string CompareArrays(const Literal& wanted, std::span<const std::byte> got) {
  double scale = runtime::LargestOf(wanted.dtype(), BytesOf(wanted));
  double slack = runtime::SlackOf(wanted.dtype(), true);
  runtime::Difference difference =
      runtime::Compare(wanted.dtype(), BytesOf(wanted), got, slack, scale);
  return difference.any() ? difference.ToString(wanted.size()) : "";
}

Literal TakeLeaf(const Shape& shape, std::span<const Literal>& leaves) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements_of_tuple()) {
      elements.push_back(TakeLeaf(element, leaves));
    }
    return Literal::Tuple(std::move(elements));
  }
  if (!shape.IsArray() || leaves.empty()) return Literal(shape);
  Literal value = leaves.front();
  leaves = leaves.subspan(1);
  return value;
}

Result<std::vector<Literal>> EvaluateLeaves(const hlo::Module& module,
                                            const FaultRequest& request) {
  std::vector<Literal> arguments = ArgumentsFromLeaves(module, request.arguments), leaves;
  AppendArrays(TRY(hlo::Evaluate(module, arguments, request.eval)), leaves);
  return leaves;
}

// What every instruction of the entry evaluates to, in order. Ends early at one that cannot be
// evaluated alone.
using EntryValues = std::vector<std::pair<const hlo::Instruction*, Literal>>;
EntryValues EvaluateEntry(const hlo::Module& module, const FaultRequest& request) {
  EntryValues values;
  std::vector<Literal> arguments = ArgumentsFromLeaves(module, request.arguments);
  std::unordered_map<const hlo::Instruction*, size_t> index;
  hlo::EvalContext context(module, request.eval);
  context.SetAlone();
  for (const hlo::Instruction* i : *module.entry()) {
    std::vector<Literal> operands;
    for (const hlo::Instruction* operand : i->operands()) {
      operands.push_back(values[index.at(operand)].second);
    }
    if (!i->IsParameter() && i->def().evaluate == nullptr) break;
    Result<Literal> value = i->IsParameter() ? arguments[static_cast<size_t>(i->parameter_number())]
                                             : i->def().evaluate(context, *i, operands);
    if (!value) break;
    index[i] = values.size();
    values.emplace_back(i, std::move(*value));
  }
  return values;
}

void SetOp(Fault& fault, const hlo::Instruction& instruction, std::string difference) {
  fault.op = instruction.ToString();
  fault.source = instruction.SourceLocation();
  for (const hlo::Computation* called : instruction.called_computations()) {
    for (const hlo::Instruction* i : *called) {
      if (fault.source.empty()) fault.source = i->SourceLocation();
    }
  }
  fault.what = std::move(difference);
}

// The module between passes.
struct Snapshot {
  std::string pass;
  std::unique_ptr<hlo::Module> module;
};

// The first instruction of `after` that has the name of one in `before` and another value.
void NameChangedOp(const hlo::Module& before, const hlo::Module& after, const FaultRequest& request,
                   Fault& fault) {
  EntryValues was = EvaluateEntry(before, request), is = EvaluateEntry(after, request);
  std::unordered_map<std::string_view, const Literal*> old;
  for (const auto& [instruction, value] : was) old[instruction->name()] = &value;
  for (const auto& [instruction, value] : is) {
    auto found = old.find(instruction->name());
    if (found == old.end() || !value.shape().IsArray() || !found->second->shape().IsArray())
      continue;
    if (value.byte_size() != found->second->byte_size()) continue;
    std::string difference = CompareArrays(*found->second, BytesOf(value));
    if (!difference.empty()) return SetOp(fault, *instruction, std::move(difference));
  }
}

// The first pass after which results are others. Those before it are taken to be fine.
Result<Fault> FindPass(const std::vector<Snapshot>& snapshots, std::span<const Literal> wanted,
                       const FaultRequest& request) {
  size_t good = 0, bad = snapshots.size() - 1;  // snapshots[0]: the input
  std::string what;
  while (bad - good > 1) {
    size_t middle = good + (bad - good) / 2;
    Result<std::vector<Literal>> got = EvaluateLeaves(*snapshots[middle].module, request);
    (got && CompareResults(wanted, *got).empty() ? good : bad) = middle;
  }
  Fault fault;
  fault.kind = FaultKind::kPass;
  fault.pass = snapshots[bad].pass;
  Result<std::vector<Literal>> got = EvaluateLeaves(*snapshots[bad].module, request);
  fault.what = got ? CompareResults(wanted, *got) : got.error().ToString();
  NameChangedOp(*snapshots[good].module, *snapshots[bad].module, request, fault);
  return fault;
}

// Runs the steps and compares what those of the program's own list write with the evaluator's
// values of the instructions of the same name.
Status NameLoweredOp(const runtime::LoadedProgram& program, const hlo::Module& module,
                     const FaultRequest& request, Fault& fault) {
  EntryValues values = EvaluateEntry(module, request);
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < values.size(); ++i) by_name[values[i].first->name()] = i;
  std::unordered_map<const program::Step*, bool> own;
  for (const program::Step& step : program.program().steps) own[&step] = true;
  std::function<Status(const program::Step&, double, Memory)> after =
      [&](const program::Step& step, double, Memory memory) -> Status {
    auto found = by_name.find(step.name);
    if (!fault.op.empty() || found == by_name.end() || !own.contains(&step)) return {};
    if (std::holds_alternative<program::CopyStep>(step.op)) return {};
    std::vector<Literal> leaves;
    AppendArrays(values[found->second].second, leaves);
    size_t next = 0;
    for (size_t i = 0; i < step.uses.size() && next < leaves.size(); ++i) {
      if (!program::Writes(step.uses[i].access)) continue;
      const Literal& wanted = leaves[next++];
      if (memory[i].size() != static_cast<size_t>(wanted.byte_size())) return {};
      std::string difference = CompareArrays(wanted, memory[i]);
      if (!difference.empty()) SetOp(fault, *values[found->second].first, std::move(difference));
    }
    return {};
  };
  runtime::Call call;
  call.call = request.call;
  call.after_step = &after;
  std::vector<Literal> arguments(request.arguments.begin(), request.arguments.end());
  TRY(runtime::LiteralRunner(program).Run(arguments, call));
  return {};
}

}  // namespace

std::string Fault::ToString() const {
  if (kind == FaultKind::kNone) return "";
  std::string out;
  if (kind == FaultKind::kPass) {
    out = StrCat("pass ", pass, " changes results");
  } else if (kind == FaultKind::kLowering) {
    out = "lowering is wrong (native code does what the Program says)";
  } else {
    out = "native code does not do what the Program says";
  }
  StrAppend(out, ": ", what);
  if (!op.empty()) StrAppend(out, "\n  first at ", op);
  if (!source.empty()) StrAppend(out, "\n  at ", source);
  return out;
}

void AppendArrays(const Literal& value, std::vector<Literal>& leaves) {
  if (value.shape().IsTuple()) {
    for (const Literal& element : value.tuple()) AppendArrays(element, leaves);
  } else if (value.shape().IsArray()) {
    leaves.push_back(value);
  }
}

std::vector<Literal> ArgumentsFromLeaves(const hlo::Module& module,
                                         std::span<const Literal> leaves) {
  std::vector<Literal> arguments;
  for (const hlo::Instruction* p : module.entry()->parameters()) {
    arguments.push_back(TakeLeaf(p->shape(), leaves));
  }
  return arguments;
}

std::string CompareResults(std::span<const Literal> wanted, std::span<const Literal> got) {
  if (wanted.size() != got.size()) {
    return StrCat(got.size(), " results, there should be ", wanted.size());
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].byte_size() != got[i].byte_size()) {
      return StrCat("result ", i, " is ", got[i].shape().ToStringWithoutLayout(), " and should be ",
                    wanted[i].shape().ToStringWithoutLayout());
    }
    std::string difference = CompareArrays(wanted[i], BytesOf(got[i]));
    if (!difference.empty()) return StrCat("result ", i, ": ", difference);
  }
  return "";
}

Result<Fault> FindFault(const FaultRequest& request) {
  FloatMode mode(request.options.cpu.flush_subnormals);
  std::vector<Literal> wanted = TRY(EvaluateLeaves(request.module, request));
  std::vector<Snapshot> snapshots;
  snapshots.push_back({"", hlo::CloneModule(request.module)});
  std::unique_ptr<hlo::Module> module = hlo::CloneModule(request.module);
  module->config().is_scheduled = false;
  compiler::RunnerHooks hooks;
  hooks.after = [&](const compiler::PassRun& run, const hlo::Module& now) {
    if (run.changed) snapshots.push_back({std::string(run.pass), hlo::CloneModule(now)});
  };
  std::vector<const compiler::Pass*> passes = request.passes;
  if (passes.empty()) passes = TRY(compiler::NativePipeline());
  TRY(compiler::RunPasses(*module, passes, request.options, hooks, request.device.target()));
  Result<std::vector<Literal>> optimised = EvaluateLeaves(*module, request);
  if (snapshots.size() > 1 && (!optimised || !CompareResults(wanted, *optimised).empty())) {
    return FindPass(snapshots, wanted, request);
  }
  program::Program program =
      TRY(compiler::LowerWith(*module, request.options, request.device.target()));
  std::unique_ptr<runtime::LoadedProgram> loaded = TRY(request.device.Load(std::move(program), {}));
  runtime::StepChecker checker(loaded->program());
  runtime::Call call;
  call.call = request.call;
  checker.Watch(call);
  std::vector<Literal> arguments(request.arguments.begin(), request.arguments.end());
  runtime::LiteralRunner runner(*loaded);
  Result<std::vector<Literal>> got = runner.Run(arguments, call);
  Fault fault;
  if (!got) {
    if (checker.failed() == nullptr) return std::unexpected(got.error());
    fault.kind = FaultKind::kCode;
    fault.what = got.error().message();
    fault.source = checker.failed()->source;
    return fault;
  }
  fault.what = CompareResults(wanted, *got);
  if (fault.what.empty()) return fault;
  fault.kind = FaultKind::kLowering;
  TRY(NameLoweredOp(*loaded, *module, request, fault));
  return fault;
}

std::string WriteFaultFolder(const std::string& directory, const FaultRequest& request,
                             const std::string& report) {
  Result<DumpFolder> folder = DumpFolder::Make(directory, StrCat("fault.", request.module.name()));
  if (!folder) return folder.error().ToString();
  folder->Write("module.hlo", hlo::PrintModule(request.module));
  folder->Write("report.txt", report + "\n");
  std::string flags = folder->WriteArguments(request.arguments);
  std::string options = compiler::PrintOptions(request.options);
  if (!options.empty()) flags = StrCat(" --options=", options, flags);
  folder->WriteRepro(StrCat("weft run --check", flags, " module.hlo\nweft bisect", flags,
                            " module.hlo\nweft reduce module.hlo > small.hlo"));
  return folder->path();
}

}  // namespace weft::inspect
