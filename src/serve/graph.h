// A named graph of a loaded version: which program takes which sizes, and running one for several
// requests at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "serve/backend.h"
#include "serve/program_cache.h"
#include "serve/signature.h"
#include "serve/variables.h"

namespace weft::serve {

struct NamedTensor {
  std::string name;
  Literal value;
};

// One request's share of a run.
struct GraphMember {
  std::vector<Literal> inputs;  // in the signature's order
  std::vector<int64_t> sizes;   // values of the symbols
  std::vector<Literal> outputs = {};
};

class Graph {
 public:
  Graph(const ModelFolder& folder, const GraphSpec& spec, Variables& variables, Backend& backend);

  const GraphSpec& spec() const { return spec_; }

  // Inputs by name in the signature's order, whatever order they come in. Missing, unknown and
  // double ones are errors.
  Result<std::vector<Literal>> Order(std::vector<NamedTensor> inputs) const;
  // Positions of outputs by name, in the order asked; none asked: all.
  Result<std::vector<size_t>> Outputs(std::span<const std::string> names) const;

  // Programs that take requests of these sizes together: those with the same sizes but for the
  // batch, the smallest that hold them; ascending by batch. Sizes beyond all programs are an error
  // that lists what there is, but for the batch, which the caller may split.
  Result<std::vector<size_t>> Buckets(std::span<const int64_t> sizes) const;

  // Compiles program `index` and brings its variables, where that was not done yet.
  Status Prepare(size_t index);
  void Freeze() { programs_.Freeze(); }
  int64_t compiles() const { return programs_.compiles(); }
  // Runs program `index` for all members, whose rows together are within its batch. The outputs are
  // cut to each member's sizes.
  Status Run(size_t index, std::span<GraphMember* const> members, const std::atomic<bool>* cancel,
             RunTimes* times);

 private:
  // A program and its weights, in the order that it takes them.
  struct Bound {
    std::shared_ptr<const Program> program;
    std::vector<ArgumentSpec> arguments;    // those that the program kept
    std::vector<DeviceValueRef> variables;  // by argument; null: an input
  };
  Result<std::shared_ptr<const Bound>> Bind(size_t index);
  Result<std::shared_ptr<const Bound>> Compile(size_t index);
  Status CheckProgram(const ProgramSpec& spec, const ProgramText& text,
                      const Program& program) const;
  Result<std::vector<RunArgument>> Gather(const Bound& bound, std::span<const int64_t> sizes,
                                          std::span<GraphMember* const> members) const;
  Status Scatter(std::vector<Literal> results, std::span<GraphMember* const> members) const;
  std::unexpected<Error> TooLarge(std::span<const int64_t> sizes) const;

  const ModelFolder& folder_;
  const GraphSpec& spec_;
  Variables& variables_;
  Backend& backend_;
  std::vector<std::pair<std::string_view, size_t>> input_names_, output_names_;  // sorted
  std::vector<ProgramKey> keys_;                                                 // by program
  ProgramCache<Bound> programs_;
  // Those that are there, by program, kept by the cache: a run looks nothing up.
  std::vector<std::atomic<const Bound*>> ready_;
};

}  // namespace weft::serve
