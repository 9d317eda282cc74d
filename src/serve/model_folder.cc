#include "serve/model_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "base/file.h"
#include "hlo/import/import.h"
#include "serve/export_blob.h"

namespace weft::serve {
namespace {

constexpr int64_t kMaxSignatureBytes = int64_t{1} << 28;

bool IsThere(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0;
}

TensorSpec StaticTensor(std::string name, const Shape& shape) {
  TensorSpec tensor{std::move(name), shape.dtype(), {}};
  for (int64_t d = 0; d < shape.rank(); ++d) tensor.dims.push_back({shape.dim(d), -1});
  return tensor;
}

Result<Shape> StaticShape(const ExportedValue& value) {
  if (value.dtype == DType::kInvalid) return Unimplemented("a value that is no array");
  if (!value.IsStatic()) {
    Error error(Code::kUnimplemented, StrCat("a size is symbolic: ", StrJoin(value.symbols, ",")));
    error.Hint("weft.serve.export writes one program for each bucket of sizes");
    return std::unexpected(std::move(error));
  }
  return Shape(value.dtype, value.dims);
}

// The signature of a program that stands alone.
Result<GraphSpec> DescribeExport(const ExportBlob& blob) {
  GraphSpec graph;
  for (size_t i = 0; i < blob.inputs.size(); ++i) {
    graph.inputs.push_back(StaticTensor(StrCat("arg_", i), TRY(StaticShape(blob.inputs[i]))));
  }
  for (size_t i = 0; i < blob.outputs.size(); ++i) {
    graph.outputs.push_back(StaticTensor(StrCat("output_", i), TRY(StaticShape(blob.outputs[i]))));
  }
  return graph;
}

Result<GraphSpec> DescribeModule(std::string text) {
  std::unique_ptr<hlo::Module> module = TRY(hlo::ReadModule(std::move(text)));
  GraphSpec graph;
  const hlo::Computation& entry = *module->entry();
  for (size_t i = 0; i < entry.parameters().size(); ++i) {
    const Shape& shape = entry.parameters()[i]->shape();
    if (!shape.IsArray()) return Unimplemented("parameter ", i, " is ", shape);
    graph.inputs.push_back(StaticTensor(StrCat("arg_", i), shape));
  }
  const Shape& root = entry.root()->shape();
  std::vector<Shape> results = root.IsTuple() ? root.elements_of_tuple() : std::vector{root};
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].IsArray()) return Unimplemented("result ", i, " is ", results[i]);
    graph.outputs.push_back(StaticTensor(StrCat("output_", i), results[i]));
  }
  return graph;
}

Result<ModelSpec> DescribeAlone(const std::string& folder) {
  for (std::string_view file : {"model.jaxexport", "model.mlirbc", "model.mlir", "model.hlo"}) {
    std::string path = StrCat(folder, "/", file);
    if (!IsThere(path)) continue;
    std::string text = TRY(ReadFile(path));
    Result<GraphSpec> graph = [&]() -> Result<GraphSpec> {
      if (!file.ends_with(".jaxexport")) return DescribeModule(std::move(text));
      return DescribeExport(TRY(ParseExportBlob(text)));
    }();
    if (!graph) return std::unexpected(graph.error().Prefix(StrCat(path, ": ")));
    graph->name = kDefaultGraph;
    for (size_t i = 0; i < graph->inputs.size(); ++i) graph->arguments.push_back({false, i});
    graph->programs.push_back({std::string(file), {}, std::nullopt});
    ModelSpec model;
    model.graphs.push_back(std::move(*graph));
    TRY(CheckModel(model));
    return model;
  }
  Error error(Code::kNotFound, StrCat(folder, ": neither signature.json nor a program"));
  error.Hint(
      "weft.serve.export writes such a folder; model.jaxexport, model.mlirbc, model.mlir "
      "and model.hlo are looked for too");
  return std::unexpected(std::move(error));
}

// What the blob takes and gives must be what the signature says.
Status CheckBlob(const ExportBlob& blob, const GraphSpec& graph, const ProgramSpec& program) {
  if (blob.devices > 1) return Unimplemented("it is for ", blob.devices, " devices");
  if (blob.ordered_effects > 0) return Unimplemented("it has ordered effects (host callbacks)");
  if (blob.inputs.size() != graph.arguments.size()) {
    return InvalidArgument("it takes ", blob.inputs.size(), " arguments, the signature has ",
                           graph.arguments.size());
  }
  if (blob.outputs.size() != graph.outputs.size()) {
    return InvalidArgument("it gives ", blob.outputs.size(), " results, the signature has ",
                           graph.outputs.size());
  }
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    if (graph.arguments[i].is_variable) continue;  // against the program's own parameters
    const TensorSpec& input = graph.inputs[graph.arguments[i].index];
    Shape wants = TRY(StaticShape(blob.inputs[i])), said = input.At(program.sizes);
    if (Shape::Compatible(wants, said)) continue;
    return InvalidArgument("input ", input.name, " is ", wants, ", the signature says ", said);
  }
  return {};
}

// One of several platforms is chosen by an argument. Programs for cpu run anywhere.
Status ChoosePlatform(const ExportBlob& blob, bool on_gpu, ProgramText& program) {
  if (blob.platforms.size() <= 1) return {};
  program.platform_index = true;
  auto wanted = on_gpu ? std::initializer_list<std::string_view>{"weft", "cuda", "cpu"}
                       : std::initializer_list<std::string_view>{"weft", "cpu"};
  for (std::string_view name : wanted) {
    auto found = std::ranges::find(blob.platforms, name);
    if (found == blob.platforms.end()) continue;
    program.platform = static_cast<int32_t>(found - blob.platforms.begin());
    return {};
  }
  return InvalidArgument("it is for ", StrJoin(blob.platforms, ", "));
}

}  // namespace

Result<ModelFolder> ReadModelFolder(const std::string& path) {
  ModelFolder folder{path, {}};
  std::string signature = path + "/signature.json";
  if (!IsThere(signature)) {
    folder.spec = TRY(DescribeAlone(path));
    return folder;
  }
  std::string text = TRY(ReadFile(signature, kMaxSignatureBytes));
  Result<ModelSpec> spec = ParseSignature(text);
  if (!spec) return std::unexpected(spec.error().Prefix(signature + ": "));
  folder.spec = std::move(*spec);
  return folder;
}

Result<ProgramText> ReadProgram(const ModelFolder& folder, const GraphSpec& graph,
                                const ProgramSpec& program, bool on_gpu) {
  std::string path = StrCat(folder.path, "/", program.file);
  ProgramText read;
  std::string bytes = TRY(ReadFile(path));
  if (!program.file.ends_with(".jaxexport")) {
    read.text = std::move(bytes);
    if (program.kept) {
      read.kept = *program.kept;
    } else {
      read.kept.resize(graph.arguments.size());
      std::iota(read.kept.begin(), read.kept.end(), 0);
    }
    return read;
  }
  Status status = [&]() -> Status {
    ExportBlob blob = TRY(ParseExportBlob(bytes));
    TRY(CheckBlob(blob, graph, program));
    TRY(ChoosePlatform(blob, on_gpu, read));
    read.kept = blob.kept;
    read.text = std::string(blob.module);
    return {};
  }();
  if (!status) return std::unexpected(status.error().Prefix(path + ": "));
  return read;
}

Result<std::vector<int64_t>> ListVersions(const std::string& base) {
  DIR* directory = opendir(base.c_str());
  if (directory == nullptr) {
    Code code = errno == ENOENT ? Code::kNotFound : Code::kUnavailable;
    return MakeError(code, base, ": cannot be opened: ", std::strerror(errno));
  }
  std::vector<int64_t> versions;
  while (dirent* entry = readdir(directory)) {
    std::optional<int64_t> version = ParseInt(entry->d_name);
    struct stat info{};
    std::string path = StrCat(base, "/", entry->d_name);
    if (!version || *version < 0 || stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      continue;
    }
    versions.push_back(*version);
  }
  closedir(directory);
  std::ranges::sort(versions);
  // 1 and 01 are one version, twice: which of them it is cannot be told.
  auto twice = std::ranges::adjacent_find(versions);
  if (twice != versions.end()) {
    return MakeError(Code::kAlreadyExists, base, ": version ", *twice, " is there twice");
  }
  return versions;
}

}  // namespace weft::serve
