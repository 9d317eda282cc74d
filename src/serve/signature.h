// What a model is to those who call it: named graphs with named inputs and outputs, the sizes that
// vary, the programs that there are. signature.json, as weft.serve.export writes it:
//
//   {"format": "weft-serve/1", "weights": "weights.safetensors",
//    "variables": [{"name": "w", "dtype": "f32", "shape": [4, 3]}],
//    "graphs": [{"name": "serving_default", "batch": "b",
//      "inputs": [{"name": "x", "dtype": "f32", "shape": ["b", 4]}],
//      "outputs": [{"name": "y", "dtype": "f32", "shape": ["b", 3]}],
//      "arguments": [{"variable": "w"}, {"input": "x"}],
//      "programs": [{"file": "model.jaxexport", "sizes": {"b": 8}}]}]}
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/shape.h"

namespace weft::serve {

inline constexpr std::string_view kDefaultGraph = "serving_default";

struct DimSpec {
  int64_t size = 0;  // where it is no symbol
  int symbol = -1;   // of the graph
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<DimSpec> dims;
  // With values for the symbols.
  Shape At(std::span<const int64_t> sizes) const;
  // "f32[b,4]".
  std::string ToString(std::span<const std::string> symbols) const;
};

struct VariableSpec {
  std::string name;
  Shape shape;
};

struct ArgumentSpec {
  bool is_variable = false;
  size_t index = 0;  // of the model's variables, or of the graph's inputs
};

struct ProgramSpec {
  std::string file;            // within the folder
  std::vector<int64_t> sizes;  // by symbol
  // "kept": arguments of the graph that the module takes, where its file does not say; otherwise
  // all.
  std::optional<std::vector<int64_t>> kept = std::nullopt;
};

struct GraphSpec {
  std::string name;
  std::vector<std::string> symbols;
  int batch = -1;  // the symbol that requests are joined along; -1: none
  std::vector<TensorSpec> inputs, outputs;
  std::vector<ArgumentSpec> arguments;  // of the programs, in order
  std::vector<ProgramSpec> programs;    // smaller sizes first
  // Requests may share a run: every input and output has the batch first, and nowhere else.
  bool IsBatched() const;
  int64_t LargestBatch() const;  // of the programs; 0: there is no batch
  // The values that inputs of these shapes give to the symbols. Errors name the input.
  Result<std::vector<int64_t>> SizesOf(std::span<const Shape* const> shapes) const;
};

struct ModelSpec {
  std::string weights;  // the file within the folder; empty: none
  std::vector<VariableSpec> variables;
  std::vector<GraphSpec> graphs;
  const GraphSpec* Find(std::string_view graph) const;  // null: none of that name
};

Result<ModelSpec> ParseSignature(std::string_view json);
// Names are unique, indices lead somewhere, sizes are there: what ParseSignature ends with.
Status CheckModel(const ModelSpec& model);

}  // namespace weft::serve
