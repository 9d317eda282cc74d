#include "serve/graph.h"

#include <algorithm>
#include <utility>

#include "serve/batch.h"

namespace weft::serve {
namespace {

std::vector<std::pair<std::string_view, size_t>> SortedNames(
    const std::vector<TensorSpec>& tensors) {
  std::vector<std::pair<std::string_view, size_t>> names;
  for (size_t i = 0; i < tensors.size(); ++i) names.emplace_back(tensors[i].name, i);
  std::ranges::sort(names);
  return names;
}

const std::pair<std::string_view, size_t>* FindName(
    std::span<const std::pair<std::string_view, size_t>> names, std::string_view name) {
  auto found =
      std::ranges::lower_bound(names, name, {}, &std::pair<std::string_view, size_t>::first);
  return found != names.end() && found->first == name ? &*found : nullptr;
}

std::string NamesOf(const std::vector<TensorSpec>& tensors) {
  std::string out;
  for (const TensorSpec& tensor : tensors) StrAppend(out, out.empty() ? "" : ", ", tensor.name);
  return out;
}

}  // namespace

Graph::Graph(const ModelFolder& folder, const GraphSpec& spec, Variables& variables,
             Backend& backend)
    : folder_(folder),
      spec_(spec),
      variables_(variables),
      backend_(backend),
      input_names_(SortedNames(spec.inputs)),
      output_names_(SortedNames(spec.outputs)),
      ready_(spec.programs.size()) {
  for (const ProgramSpec& program : spec.programs) {
    ProgramKey& key = keys_.emplace_back(spec.name);
    for (const auto& [name, index] : input_names_) {
      key.inputs.push_back(spec.inputs[index].At(program.sizes));
    }
  }
}

Result<std::vector<Literal>> Graph::Order(std::vector<NamedTensor> inputs) const {
  std::vector<Literal> ordered(spec_.inputs.size());
  for (NamedTensor& input : inputs) {
    const auto* found = FindName(input_names_, input.name);
    // One input needs no name.
    if (found == nullptr && input.name.empty() && spec_.inputs.size() == 1)
      found = &input_names_[0];
    if (found == nullptr) {
      return InvalidArgument("input ", input.name, ": ", spec_.name, " has no such input, it has ",
                             NamesOf(spec_.inputs));
    }
    if (ordered[found->second].IsValid()) return InvalidArgument("input ", input.name, ": twice");
    ordered[found->second] = std::move(input.value);
  }
  for (size_t i = 0; i < ordered.size(); ++i) {
    if (!ordered[i].IsValid()) {
      return InvalidArgument("input ", spec_.inputs[i].name, ": missing: ", spec_.name, " takes ",
                             NamesOf(spec_.inputs));
    }
  }
  return ordered;
}

Result<std::vector<size_t>> Graph::Outputs(std::span<const std::string> names) const {
  std::vector<size_t> wanted;
  if (names.empty()) {
    for (size_t i = 0; i < spec_.outputs.size(); ++i) wanted.push_back(i);
  }
  for (const std::string& name : names) {
    const auto* found = FindName(output_names_, name);
    if (found == nullptr) {
      return InvalidArgument("output ", name, ": ", spec_.name, " has no such output, it has ",
                             NamesOf(spec_.outputs));
    }
    wanted.push_back(found->second);
  }
  return wanted;
}

std::unexpected<Error> Graph::TooLarge(std::span<const int64_t> sizes) const {
  std::string asked, known;
  for (size_t s = 0; s < sizes.size(); ++s) {
    StrAppend(asked, s > 0 ? ", " : "", spec_.symbols[s], "=", sizes[s]);
  }
  for (const ProgramKey& key : keys_) StrAppend(known, known.empty() ? "" : ", ", key);
  Error error(Code::kInvalidArgument, StrCat(spec_.name, ": no program is large enough for ", asked,
                                             "; there are: ", known));
  error.Hint("weft.serve.export(..., buckets=...) makes larger ones");
  return std::unexpected(std::move(error));
}

Result<std::vector<size_t>> Graph::Buckets(std::span<const int64_t> sizes) const {
  const size_t batch = spec_.batch < 0 ? sizes.size() : static_cast<size_t>(spec_.batch);
  // Sizes but for the batch: the first in order that holds the request.
  const std::vector<int64_t>* chosen = nullptr;
  double least = 0;
  for (const ProgramSpec& program : spec_.programs) {
    bool holds = true;
    double volume = 1;
    for (size_t s = 0; s < sizes.size(); ++s) {
      if (s == batch && spec_.IsBatched()) continue;
      holds &= program.sizes[s] >= sizes[s];
      if (s != batch) volume *= static_cast<double>(program.sizes[s]);
    }
    if (!holds || (chosen != nullptr && volume >= least)) continue;
    chosen = &program.sizes;
    least = volume;
  }
  if (chosen == nullptr) return TooLarge(sizes);
  std::vector<size_t> buckets;
  for (size_t p = 0; p < spec_.programs.size(); ++p) {
    bool same = true;
    for (size_t s = 0; s < sizes.size(); ++s) {
      same &= s == batch || spec_.programs[p].sizes[s] == (*chosen)[s];
    }
    if (same) buckets.push_back(p);
  }
  std::ranges::sort(buckets, {}, [&](size_t p) {
    return batch < sizes.size() ? spec_.programs[p].sizes[batch] : 0;
  });
  return buckets;
}

Status Graph::CheckProgram(const ProgramSpec& spec, const ProgramText& text,
                           const Program& program) const {
  if (program.parameters().size() != text.kept.size()) {
    return InvalidArgument("it takes ", program.parameters().size(),
                           " arguments, the signature has ", text.kept.size());
  }
  for (size_t i = 0; i < text.kept.size(); ++i) {
    const ArgumentSpec& argument = spec_.arguments[static_cast<size_t>(text.kept[i])];
    const Shape& wants = program.parameters()[i];
    const bool variable = argument.is_variable;
    Shape said = variable ? folder_.spec.variables[argument.index].shape
                          : spec_.inputs[argument.index].At(spec.sizes);
    if (wants.dtype() == said.dtype() && Shape::SameDims(wants, said)) continue;
    const std::string& name =
        variable ? folder_.spec.variables[argument.index].name : spec_.inputs[argument.index].name;
    return InvalidArgument(variable ? "variable " : "input ", name, ": the program takes ",
                           wants.ToStringWithoutLayout(), ", the signature says ", said);
  }
  bool fits = program.results().size() == spec_.outputs.size();
  for (size_t k = 0; fits && k < spec_.outputs.size(); ++k) {
    Shape said = spec_.outputs[k].At(spec.sizes);
    const Shape& gives = program.results()[k];
    if (gives.dtype() == said.dtype() && Shape::SameDims(gives, said)) continue;
    return InvalidArgument("output ", spec_.outputs[k].name, ": the program gives ",
                           gives.ToStringWithoutLayout(), ", the signature says ", said);
  }
  if (fits) return {};
  return InvalidArgument("it gives ", program.results().size(), " results, the signature has ",
                         spec_.outputs.size());
}

Result<std::shared_ptr<const Graph::Bound>> Graph::Compile(size_t index) {
  const ProgramSpec& spec = spec_.programs[index];
  ProgramText text = TRY(ReadProgram(folder_, spec_, spec, backend_.is_gpu()));
  // Weights are read while the program is compiled.
  std::vector<std::string> needed;
  for (int64_t kept : text.kept) {
    const ArgumentSpec& argument = spec_.arguments[static_cast<size_t>(kept)];
    if (argument.is_variable) needed.push_back(folder_.spec.variables[argument.index].name);
  }
  variables_.Prefetch(std::move(needed));
  auto bound = std::make_shared<Bound>();
  Status status = [&]() -> Status {
    bound->program = TRY(backend_.Compile(text));
    return CheckProgram(spec, text, *bound->program);
  }();
  if (!status) {
    return std::unexpected(status.error().Prefix(StrCat(folder_.path, "/", spec.file, ": ")));
  }
  for (int64_t kept : text.kept) {
    const ArgumentSpec& argument = spec_.arguments[static_cast<size_t>(kept)];
    bound->arguments.push_back(argument);
    DeviceValueRef& value = bound->variables.emplace_back();
    if (argument.is_variable) {
      value = TRY(variables_.Get(folder_.spec.variables[argument.index].name));
    }
  }
  return bound;
}

Result<std::shared_ptr<const Graph::Bound>> Graph::Bind(size_t index) {
  return programs_.Get(keys_[index], [&] { return Compile(index); });
}

Status Graph::Prepare(size_t index) {
  TRY(Bind(index));
  return {};
}

// An input that has no batch is the same for all members, of which there is one then.
Result<std::vector<RunArgument>> Graph::Gather(const Bound& bound, std::span<const int64_t> sizes,
                                               std::span<GraphMember* const> members) const {
  std::vector<RunArgument> arguments(bound.arguments.size());
  std::vector<const Literal*> parts(members.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (bound.variables[i] != nullptr) {
      arguments[i].placed = bound.variables[i].get();
      continue;
    }
    size_t input = bound.arguments[i].index;
    for (size_t m = 0; m < members.size(); ++m) parts[m] = &members[m]->inputs[input];
    arguments[i].host = TRY(Assemble(parts, spec_.inputs[input].At(sizes)));
  }
  return arguments;
}

Status Graph::Scatter(std::vector<Literal> results, std::span<GraphMember* const> members) const {
  int64_t row = 0;
  for (GraphMember* member : members) {
    member->outputs.clear();
    for (size_t k = 0; k < results.size(); ++k) {
      Shape own = spec_.outputs[k].At(member->sizes);
      member->outputs.push_back(TRY(CutAt(results[k], own, row)));
    }
    if (spec_.batch >= 0) row += member->sizes[static_cast<size_t>(spec_.batch)];
  }
  return {};
}

Status Graph::Run(size_t index, std::span<GraphMember* const> members,
                  const std::atomic<bool>* cancel, RunTimes* times) {
  const Bound* bound = ready_[index].load(std::memory_order_acquire);
  if (bound == nullptr) {
    bound = TRY(Bind(index)).get();
    ready_[index].store(bound, std::memory_order_release);
  }
  std::vector<RunArgument> arguments = TRY(Gather(*bound, spec_.programs[index].sizes, members));
  std::vector<Literal> results = TRY(bound->program->Run(std::move(arguments), cancel, times));
  return Scatter(std::move(results), members);
}

}  // namespace weft::serve
