// What is told of an executable: arguments, results and aliases, what it costs, its optimized text.
#include <algorithm>
#include <mutex>
#include <utility>

#include "base/wire.h"
#include "client/auto_layout.h"
#include "client/client.h"
#include "client/cost.h"
#include "client/evaluator_runner.h"
#include "client/executable.h"
#include "hlo/import/import.h"
#include "hlo/text.h"
#include "runtime/buffers.h"

namespace weft::client {

namespace {

constexpr int64_t kHostMemorySpace = 5;  // S(5) of a layout

// Said by name (a list from the import), or by the memory space of the layout.
std::string MemoryKindOf(const Shape& shape, const std::vector<std::string>& names, size_t index) {
  const Layout* layout = shape.layout();
  if (index < names.size() && !names[index].empty()) {
    return names[index].ends_with("_host") ? names[index] : "device";
  }
  const bool host = layout != nullptr && layout->memory_space() == kHostMemorySpace;
  return host ? "pinned_host" : "device";
}

// The layout that the framework asked for, kept to be reported: elements lie row-major here
// whatever it says. Tiles and the like are not promised.
void SetAskedLayout(Shape& shape, const std::vector<std::string>& modes, size_t index) {
  if (index >= modes.size() || !modes[index].starts_with('{')) return;
  Result<Shape> asked = hlo::ParseShape(StrCat(shape.ToStringWithoutLayout(), modes[index]));
  if (!asked || asked->layout() == nullptr || asked->layout()->extras) return;
  const Dims& order = asked->layout()->minor_to_major;
  std::vector<bool> seen(static_cast<size_t>(shape.rank()), false);
  if (order.size() != seen.size() || asked->layout()->IsRowMajor()) return;
  for (int64_t d : order) {
    if (d < 0 || d >= shape.rank() || seen[static_cast<size_t>(d)]) return;
    seen[static_cast<size_t>(d)] = true;
  }
  shape.set_layout(*asked->layout());
}

// The leaves of a shape, layouts kept.
void AppendLeaves(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.IsTuple()) {
    leaves.push_back(shape.IsToken() ? TokenStandIn() : shape);
    return;
  }
  for (const Shape& element : shape.elements_of_tuple()) AppendLeaves(element, leaves);
}

Status CheckBoundary(const Shape& shape, std::string_view what, size_t index) {
  if (shape.IsToken() || (shape.IsArray() && shape.CheckedElements())) return {};
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
  std::vector<std::string> kinds = hlo::EntryList(*module_, "parameter_memory_kinds");
  std::vector<std::string> modes = hlo::EntryList(*module_, "parameter_layout_modes");
  for (size_t i = 0; i < leaves.size(); ++i) {
    TRY(CheckBoundary(leaves[i], "parameter", i));
    parameter_memory_kinds_.push_back(MemoryKindOf(leaves[i], kinds, i));
    leaves[i].ClearLayout();
    SetAskedLayout(leaves[i], modes, i);
  }
  parameter_shardings_.resize(leaves.size());
  parameters_ = std::move(leaves);
  DescribeDonation();
  return {};
}

// Which arguments the program may take for its own.
void Executable::DescribeDonation() {
  const hlo::ModuleConfig& config = Local().config();
  donated_.assign(parameters_.size(), false);
  donates_ = false;
  auto donate = [&](int64_t parameter, const ShapeIndex& index) {
    if (request_.tupled_arguments) parameter = index.empty() ? -1 : index[0];
    if (parameter < 0 || parameter >= static_cast<int64_t>(parameters_.size())) return;
    donated_[static_cast<size_t>(parameter)] = donates_ = true;
  };
  for (const auto& alias : config.input_output_alias) {
    donate(alias.parameter, alias.parameter_index);
  }
  for (const auto& donor : config.buffer_donors) donate(donor.parameter, donor.index);
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
  std::vector<std::string> modes = hlo::EntryList(*module_, "result_layout_modes");
  const bool any = std::find(modes.begin(), modes.end(), "auto") != modes.end();
  std::vector<Layout> chosen;
  if (any) chosen = AutoLayouts(*module_->entry(), parameters_);
  for (size_t i = 0; i < leaves.size(); ++i) {
    TRY(CheckBoundary(leaves[i], "result", i));
    std::string kind = MemoryKindOf(leaves[i], kinds, i);
    leaves[i].ClearLayout();
    SetAskedLayout(leaves[i], modes, i);
    if (i < chosen.size() && i < modes.size() && modes[i] == "auto" && !chosen[i].IsRowMajor()) {
      leaves[i].set_layout(chosen[i]);
    }
    outputs_.push_back({std::move(leaves[i]), std::move(kind), ""});
  }
  return {};
}

void Executable::DescribeAliases() {
  aliases_.assign(outputs_.size(), -1);
  bool tuple = module_->entry()->root()->shape().IsTuple();
  for (const auto& alias : Local().config().input_output_alias) {
    int64_t parameter = alias.parameter, output = 0;
    const ShapeIndex& leaf = alias.parameter_index;
    if (request_.tupled_arguments) parameter = leaf.size() == 1 ? leaf[0] : -1;
    if (tuple) output = alias.output.size() == 1 ? alias.output[0] : -1;
    if (parameter < 0 || parameter >= static_cast<int64_t>(parameters_.size()) || output < 0 ||
        output >= static_cast<int64_t>(outputs_.size())) {
      continue;
    }
    size_t from = static_cast<size_t>(parameter), to = static_cast<size_t>(output);
    if (parameter_memory_kinds_[from] == outputs_[to].memory_kind) aliases_[to] = parameter;
  }
}

const trace::What* Executable::traced_enqueue() const {
  return enqueue_.Get(trace::Kind::kEnqueue, [this] {
    return trace::What{.name = StrCat("enqueue ", name_), .program = name_};
  });
}

const trace::What* Executable::traced_group() const {
  return group_.Get(trace::Kind::kPhase, [this] {
    return trace::What{.name = StrCat("run ", name_, " on ", request_.device_count(), " devices"),
                       .program = name_};
  });
}

const trace::What* Executable::traced_run() const {
  return run_.Get(trace::Kind::kExecute, [this] {
    std::string shapes;
    for (const Shape& shape : parameters_) {
      StrAppend(shapes, shapes.empty() ? "" : ", ", shape.ToStringWithoutLayout());
    }
    shapes += " -> ";
    for (size_t i = 0; i < outputs_.size(); ++i) {
      StrAppend(shapes, i > 0 ? ", " : "", outputs_[i].shape.ToStringWithoutLayout());
    }
    return trace::What{.name = name_,
                       .program = name_,
                       .op = runner().program() != nullptr ? "native" : "evaluator",
                       .shapes = shapes,
                       .flops = cost().flops,
                       .bytes = cost().bytes_accessed};
  });
}

// What runs, where that is not the module itself: fused, with the layouts and names of the passes.
const hlo::Module& Executable::Optimized() const {
  const hlo::Module* compiled = runner().compiled();
  return compiled != nullptr ? *compiled : Local();
}

std::string Executable::OptimizedText() const {
  return hlo::PrintModule(Optimized());
}

std::string Executable::OptimizedProto() const {
  WireWriter more;
  if (request_.device_count() > 1 && request_.num_partitions > 1) {
    if (module_->entry()->root()->shape().IsTuple()) {
      WireWriter result;
      result.Int(1, 2);  // a tuple of them
      for (const OutputInfo& output : outputs_) result.BytesAlways(5, output.sharding);
      more.Message(12, result);
    } else if (outputs_.size() == 1) {
      more.Bytes(12, outputs_[0].sharding);
    }
    for (const std::string& sharding : parameter_shardings_) more.BytesAlways(14, sharding);
  }
  return hlo::ExportHloProtoWithConfig(Optimized(), more.str());
}

const CostAnalysis& Executable::cost() const {
  std::call_once(analysed_, [this] { cost_ = AnalyseCost(Local()); });
  return cost_;
}

void Executable::AnalyseMemory() const {
  if (const program::Program* program = runner().program()) {
    runtime::MemoryUse use = runtime::MemoryOf(*program, runner().temp_bytes());
    memory_ = {.argument_bytes = use.arguments,
               .output_bytes = use.results,
               .alias_bytes = use.alias,
               .temp_bytes = use.temps,
               .peak_bytes = use.peak()};
    return;
  }
  for (const Shape& shape : parameters_) memory_.argument_bytes += shape.ByteSize();
  memory_.output_bytes = output_bytes_;
  for (const auto& alias : Local().config().input_output_alias) {
    size_t at = alias.output.empty() ? 0 : static_cast<size_t>(alias.output[0]);
    if (at < outputs_.size()) memory_.alias_bytes += outputs_[at].shape.ByteSize();
  }
  memory_.temp_bytes = TemporaryBytes(Local());
  memory_.peak_bytes =
      memory_.argument_bytes + memory_.output_bytes - memory_.alias_bytes + memory_.temp_bytes;
}

const MemoryAnalysis& Executable::memory() const {
  std::call_once(memory_analysed_, [this] { AnalyseMemory(); });
  return memory_;
}

}  // namespace weft::client
