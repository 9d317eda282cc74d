#include "serve/check.h"

#include <sys/stat.h>

#include <utility>

#include "serve/graph.h"
#include "serve/run_handler.h"

namespace weft::serve {
namespace {

bool HasFile(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0;
}

Result<std::string> VersionFolder(const std::string& path) {
  for (std::string_view file :
       {"signature.json", "model.jaxexport", "model.mlirbc", "model.mlir", "model.hlo"}) {
    if (HasFile(StrCat(path, "/", file))) return path;
  }
  std::vector<int64_t> versions = TRY(ListVersions(path));
  if (versions.empty()) return NotFound(path, ": neither a model nor a folder of versions");
  return StrCat(path, "/", versions.back());
}

void AppendTensors(std::string& out, std::string_view what, const GraphSpec& graph,
                   const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& tensor : tensors) {
    StrAppend(out, "  ", what, " ", tensor.name, ": ", tensor.ToString(graph.symbols), "\n");
  }
}

void AppendProblem(CheckReport& report, const Error& error) {
  StrAppend(report.text, "  problem: ", error.ToString(), "\n");
  ++report.problems;
}

void CheckGraphPrograms(Graph& graph, CheckReport& report) {
  const GraphSpec& spec = graph.spec();
  StrAppend(report.text, "graph ", spec.name, spec.IsBatched() ? ", requests are batched" : "",
            "\n");
  AppendTensors(report.text, "input", spec, spec.inputs);
  AppendTensors(report.text, "output", spec, spec.outputs);
  for (size_t p = 0; p < spec.programs.size(); ++p) {
    std::string sizes;
    for (size_t s = 0; s < spec.symbols.size(); ++s) {
      StrAppend(sizes, s > 0 ? ", " : " for ", spec.symbols[s], "=", spec.programs[p].sizes[s]);
    }
    Time begin = Now();
    Status status = graph.Prepare(p);
    StrAppend(report.text, "  program ", spec.programs[p].file, sizes, ": ",
              status ? StrCat("ready in ", (Now() - begin) / kMillisecond, " ms") : "does not run",
              "\n");
    if (!status) AppendProblem(report, status.error());
  }
}

}  // namespace

Result<CheckReport> CheckFolder(const std::string& path, Backend& backend) {
  ModelFolder folder = TRY(ReadModelFolder(TRY(VersionFolder(path))));
  CheckReport report;
  StrAppend(report.text, "model ", folder.path, " on ", backend.description(), "\n");
  std::shared_ptr<const WeightsFile> weights;
  if (!folder.spec.weights.empty()) {
    weights = TRY(WeightsFile::Open(StrCat(folder.path, "/", folder.spec.weights)));
  }
  WeightStore store(backend);
  Variables variables(store, weights);
  for (const VariableSpec& variable : folder.spec.variables) {
    if (Status status = variables.Register(variable); !status)
      AppendProblem(report, status.error());
  }
  for (const GraphSpec& spec : folder.spec.graphs) {
    Graph graph(folder, spec, variables, backend);
    CheckGraphPrograms(graph, report);
  }
  StrAppend(report.text, "weights: ", folder.spec.variables.size(), " variables, ",
            variables.registered_bytes(), " bytes, of which ", variables.loaded_bytes(),
            " are used\n");
  return report;
}

}  // namespace weft::serve
