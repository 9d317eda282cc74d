// Programs on Literals: memory for results, and donated arguments that become results.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "runtime/device.h"

namespace weft::runtime {

// What a program takes and gives, worked out once.
class LiteralRunner {
 public:
  explicit LiteralRunner(const LoadedProgram& program);

  // Arguments by parameter number, sizes excepted: those come with the arrays, and results have
  // theirs. Arguments are consumed: a donated one that nobody else holds is overwritten,
  // and its memory may be that of a result. `call`: everything but parameters and results.
  Result<std::vector<Literal>> Run(std::span<Literal> arguments, Call call) const;
  // The same on all devices of the program, which meet at its collectives.
  Result<std::vector<std::vector<Literal>>> RunOnDevices(std::span<std::vector<Literal>> arguments,
                                                         const Call& call) const;

 private:
  struct Parameter {
    Shape shape;
    bool donated = false;
  };
  struct Output {
    Shape shape;
    int64_t parameter = -1;  // whose memory it takes
  };
  struct Size {
    size_t array;
    int64_t dim;
  };
  const LoadedProgram& program_;
  std::vector<Parameter> parameters_;
  std::vector<Output> results_;
  std::vector<Size> parameter_sizes_, result_sizes_;
};

}  // namespace weft::runtime
