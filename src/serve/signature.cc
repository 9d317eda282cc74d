#include "serve/signature.h"

#include <algorithm>
#include <map>
#include <set>

#include "serve/json.h"

namespace weft::serve {

Shape TensorSpec::At(std::span<const int64_t> sizes) const {
  Shape shape(dtype, {});
  for (const DimSpec& dim : dims) {
    shape.AppendDim(dim.symbol < 0 ? dim.size : sizes[static_cast<size_t>(dim.symbol)]);
  }
  return shape;
}

std::string TensorSpec::ToString(std::span<const std::string> symbols) const {
  std::string out = StrCat(Name(dtype), "[");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ",";
    if (dims[i].symbol < 0) {
      StrAppend(out, dims[i].size);
    } else {
      StrAppend(out, symbols[static_cast<size_t>(dims[i].symbol)]);
    }
  }
  return out + "]";
}

bool GraphSpec::IsBatched() const {
  auto first_only = [&](const TensorSpec& tensor) {
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      if ((tensor.dims[i].symbol == batch) != (i == 0)) return false;
    }
    return !tensor.dims.empty();
  };
  return batch >= 0 && !inputs.empty() && std::ranges::all_of(inputs, first_only) &&
         std::ranges::all_of(outputs, first_only);
}

int64_t GraphSpec::LargestBatch() const {
  int64_t most = 0;
  for (const ProgramSpec& program : programs) {
    if (batch >= 0) most = std::max(most, program.sizes[static_cast<size_t>(batch)]);
  }
  return most;
}

Result<std::vector<int64_t>> GraphSpec::SizesOf(std::span<const Shape* const> shapes) const {
  std::vector<int64_t> sizes(symbols.size(), 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSpec& input = inputs[i];
    const Shape& shape = *shapes[i];
    bool fits =
        shape.dtype() == input.dtype && shape.rank() == static_cast<int64_t>(input.dims.size());
    for (size_t d = 0; fits && d < input.dims.size(); ++d) {
      int64_t size = shape.dim(static_cast<int64_t>(d));
      int symbol = input.dims[d].symbol;
      if (symbol < 0) {
        fits = size == input.dims[d].size;
        continue;
      }
      int64_t& known = sizes[static_cast<size_t>(symbol)];
      if (size < 1 || (known != 0 && known != size)) {
        return InvalidArgument(
            "input ", input.name, ": ", symbols[static_cast<size_t>(symbol)], " is ", size, " in ",
            shape.ToStringWithoutLayout(),
            known == 0 ? ", at least 1 is wanted" : StrCat(", but ", known, " in an input before"));
      }
      known = size;
    }
    if (!fits) {
      return InvalidArgument("input ", input.name, ": is ", shape.ToStringWithoutLayout(), ", ",
                             name, " takes ", input.ToString(symbols));
    }
  }
  return sizes;
}

const GraphSpec* ModelSpec::Find(std::string_view graph) const {
  for (const GraphSpec& spec : graphs) {
    if (spec.name == graph) return &spec;
  }
  return nullptr;
}

namespace {

constexpr size_t kMaxSpecItems = 100'000, kMaxSymbols = 16;
constexpr int64_t kMaxSize = int64_t{1} << 40;

// Folders hold their own files only.
bool IsPlainFile(std::string_view name) {
  return !name.empty() && name[0] != '.' && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : json_(text) {}

  Result<ModelSpec> Read() {
    std::string key, format;
    TRY(json_.BeginObject());
    std::string_view graphs;
    while (TRY(json_.NextKey(key))) {
      if (key == "format") {
        format = TRY(json_.String());
      } else if (key == "weights") {
        model_.weights = TRY(json_.String());
      } else if (key == "variables") {
        TRY(List([&] { return ReadVariable(); }));
      } else if (key == "graphs") {
        graphs = TRY(json_.Skip());  // behind the variables, which it names
      } else {
        TRY(json_.Skip());
      }
    }
    TRY(json_.End());
    if (format != "weft-serve/1") {
      return InvalidArgument("format is '", format, "', this server reads weft-serve/1");
    }
    for (size_t i = 0; i < model_.variables.size(); ++i) {
      variables_.emplace(model_.variables[i].name, i);
    }
    json_ = JsonReader(graphs.empty() ? "[]" : graphs);
    TRY(List([&] { return ReadGraph(); }));
    TRY(CheckModel(model_));
    return std::move(model_);
  }

 private:
  template <class Fn>
  Status List(const Fn& read) {
    TRY(json_.BeginArray());
    for (size_t n = 0; TRY(json_.NextElement()); ++n) {
      if (n >= kMaxSpecItems) return json_.Fail("more than ", kMaxSpecItems, " items");
      TRY(read());
    }
    return {};
  }

  Result<DType> ReadType() {
    std::string name = TRY(json_.String());
    std::optional<DType> type = ParseDType(name);
    if (!type || !IsArrayType(*type)) return json_.Fail("unknown type ", name);
    return *type;
  }

  Result<int> Symbol(GraphSpec& graph, const std::string& name) {
    auto found = std::ranges::find(graph.symbols, name);
    if (found != graph.symbols.end()) return static_cast<int>(found - graph.symbols.begin());
    if (name.empty() || graph.symbols.size() >= kMaxSymbols) {
      return json_.Fail("sizes have names, at most ", kMaxSymbols, " of them");
    }
    graph.symbols.push_back(name);
    return static_cast<int>(graph.symbols.size()) - 1;
  }

  // `graph` null: numbers only.
  Result<TensorSpec> ReadTensor(GraphSpec* graph) {
    TensorSpec tensor;
    std::string key;
    TRY(json_.BeginObject());
    while (TRY(json_.NextKey(key))) {
      if (key == "name") {
        tensor.name = TRY(json_.String());
      } else if (key == "dtype") {
        tensor.dtype = TRY(ReadType());
      } else if (key == "shape") {
        TRY(List([&]() -> Status {
          DimSpec dim;
          if (graph != nullptr && json_.Peek() == JsonReader::Kind::kString) {
            dim.symbol = TRY(Symbol(*graph, TRY(json_.String())));
          } else {
            dim.size = TRY(json_.Int());
          }
          if (dim.size < 0 || dim.size > kMaxSize || tensor.dims.size() >= kMaxRank) {
            return json_.Fail("no shape has dimension ", tensor.dims.size(), " of ", dim.size);
          }
          tensor.dims.push_back(dim);
          return {};
        }));
      } else {
        TRY(json_.Skip());
      }
    }
    if (tensor.name.empty() || tensor.dtype == DType::kInvalid) {
      return json_.Fail("a tensor has a name and a dtype");
    }
    return tensor;
  }

  Status ReadVariable() {
    TensorSpec tensor = TRY(ReadTensor(nullptr));
    model_.variables.push_back({tensor.name, tensor.At({})});
    return {};
  }

  Status ReadArgument(GraphSpec& graph) {
    std::string key;
    TRY(json_.BeginObject());
    while (TRY(json_.NextKey(key))) {
      std::string name = TRY(json_.String());
      if (key == "variable") {
        auto found = variables_.find(name);
        if (found == variables_.end()) return json_.Fail("no variable ", name);
        graph.arguments.push_back({true, found->second});
      } else if (key == "input") {
        auto found = std::ranges::find(graph.inputs, name, &TensorSpec::name);
        if (found == graph.inputs.end()) return json_.Fail("no input ", name);
        graph.arguments.push_back({false, static_cast<size_t>(found - graph.inputs.begin())});
      } else {
        return json_.Fail("an argument is a variable or an input, not ", key);
      }
    }
    return {};
  }

  Status ReadProgram(GraphSpec& graph) {
    ProgramSpec program;
    program.sizes.assign(graph.symbols.size(), 0);
    std::string key, name;
    TRY(json_.BeginObject());
    while (TRY(json_.NextKey(key))) {
      if (key == "file") {
        program.file = TRY(json_.String());
      } else if (key == "sizes") {
        TRY(json_.BeginObject());
        while (TRY(json_.NextKey(name))) {
          auto found = std::ranges::find(graph.symbols, name);
          if (found == graph.symbols.end()) return json_.Fail("no shape has a size ", name);
          program.sizes[static_cast<size_t>(found - graph.symbols.begin())] = TRY(json_.Int());
        }
      } else if (key == "kept") {
        program.kept.emplace();
        TRY(List([&]() -> Status { return program.kept->push_back(TRY(json_.Int())), Status(); }));
      } else {
        TRY(json_.Skip());
      }
    }
    graph.programs.push_back(std::move(program));
    return {};
  }

  Status ReadGraph() {
    GraphSpec& graph = model_.graphs.emplace_back();
    std::string key, batch;
    std::string_view arguments, programs;
    TRY(json_.BeginObject());
    while (TRY(json_.NextKey(key))) {
      if (key == "name") {
        graph.name = TRY(json_.String());
      } else if (key == "batch") {
        batch = TRY(json_.String());
      } else if (key == "inputs") {
        TRY(List(
            [&]() -> Status { return graph.inputs.push_back(TRY(ReadTensor(&graph))), Status(); }));
      } else if (key == "outputs") {
        TRY(List([&]() -> Status {
          return graph.outputs.push_back(TRY(ReadTensor(&graph))), Status();
        }));
      } else if (key == "arguments") {
        arguments = TRY(json_.Skip());
      } else if (key == "programs") {
        programs = TRY(json_.Skip());
      } else {
        TRY(json_.Skip());
      }
    }
    if (!batch.empty()) graph.batch = TRY(Symbol(graph, batch));
    JsonReader outer = json_;  // the lists that name what came before
    json_ = JsonReader(arguments.empty() ? "[]" : arguments);
    TRY(List([&] { return ReadArgument(graph); }));
    json_ = JsonReader(programs.empty() ? "[]" : programs);
    TRY(List([&] { return ReadProgram(graph); }));
    std::ranges::sort(graph.programs, {}, &ProgramSpec::sizes);
    json_ = outer;
    return {};
  }

  JsonReader json_;
  ModelSpec model_;
  std::map<std::string, size_t, std::less<>> variables_;
};

Status CheckNames(std::string_view what, const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> seen;
  for (const TensorSpec& tensor : tensors) {
    if (!seen.insert(tensor.name).second) return InvalidArgument(what, " ", tensor.name, " twice");
  }
  return {};
}

Status CheckGraph(const GraphSpec& graph) {
  TRY(CheckNames("input", graph.inputs));
  TRY(CheckNames("output", graph.outputs));
  if (graph.programs.empty()) return InvalidArgument("it has no program");
  std::vector<bool> given(graph.symbols.size(), false);
  for (const TensorSpec& input : graph.inputs) {
    for (const DimSpec& dim : input.dims) {
      if (dim.symbol >= 0) given[static_cast<size_t>(dim.symbol)] = true;
    }
  }
  for (size_t s = 0; s < given.size(); ++s) {
    if (!given[s]) return InvalidArgument("no input has the size ", graph.symbols[s]);
  }
  for (size_t p = 0; p < graph.programs.size(); ++p) {
    const ProgramSpec& program = graph.programs[p];
    if (!IsPlainFile(program.file)) return InvalidArgument("not a file name: ", program.file);
    if (p > 0 && program.sizes == graph.programs[p - 1].sizes) {
      return InvalidArgument("two programs for the same sizes: ", program.file);
    }
    int64_t before = -1, count = static_cast<int64_t>(graph.arguments.size());
    for (int64_t kept : program.kept.value_or(std::vector<int64_t>())) {
      if (kept <= before || kept >= count) {
        return InvalidArgument(program.file, ": kept argument ", kept, " of ", count);
      }
      before = kept;
    }
    for (size_t s = 0; s < program.sizes.size(); ++s) {
      if (program.sizes[s] >= 1 && program.sizes[s] <= kMaxSize) continue;
      return InvalidArgument(program.file, ": ", graph.symbols[s], " is ", program.sizes[s]);
    }
  }
  return {};
}

}  // namespace

Status CheckModel(const ModelSpec& model) {
  if (model.graphs.empty()) return InvalidArgument("it has no graph");
  if (!model.weights.empty() && !IsPlainFile(model.weights)) {
    return InvalidArgument("not a file name: ", model.weights);
  }
  if (model.weights.empty() && !model.variables.empty()) {
    return InvalidArgument("variables without a file of weights");
  }
  std::set<std::string_view> seen;
  for (const VariableSpec& variable : model.variables) {
    if (!seen.insert(variable.name).second) {
      return MakeError(Code::kAlreadyExists, "variable ", variable.name, ": registered twice");
    }
  }
  seen.clear();
  for (const GraphSpec& graph : model.graphs) {
    if (!seen.insert(graph.name).second) return InvalidArgument("graph ", graph.name, " twice");
    if (Status status = CheckGraph(graph); !status) {
      return std::unexpected(status.error().Prefix(StrCat("graph ", graph.name, ": ")));
    }
  }
  return {};
}

Result<ModelSpec> ParseSignature(std::string_view json) {
  return SignatureReader(json).Read();
}

}  // namespace weft::serve
