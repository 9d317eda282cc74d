// Programs on Literals: memory for results, and donated arguments that become results.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "runtime/device.h"

namespace weft::runtime {

// What a program takes and gives as Literals, worked out once.
struct LiteralSignature {
  explicit LiteralSignature(const program::Program& program);
  // As many arguments as the program takes, of the sizes that it takes.
  Status Check(std::span<const Literal> arguments) const;

  struct Parameter {
    Shape shape;
    bool donated = false;
    bool packed = false;  // in the program's memory
  };
  struct Output {
    Shape shape;
    int64_t parameter = -1;  // whose memory it takes
    bool packed = false;
  };
  // Bytes in, bytes out: nothing is donated, packed or of dynamic size.
  bool IsPlain() const;
  // Bytes of an array in the program's memory.
  static int64_t BytesOf(const Shape& shape, bool packed);
  struct Size {  // of a dynamic dimension: a buffer of its own, behind the arrays
    size_t array;
    int64_t dim;
  };
  std::vector<Parameter> parameters;
  std::vector<Output> results;
  std::vector<Size> parameter_sizes, result_sizes;
};

// At once, where the host sees the device's memory; else stream_runner.h.
class LiteralRunner {
 public:
  // How results come whose elements lie packed in the program's memory; arguments may come in
  // either form.
  enum class Results : uint8_t { kUnpacked, kAsInMemory };
  explicit LiteralRunner(const LoadedProgram& program, Results results = Results::kUnpacked);

  // Arguments by parameter number, sizes excepted: those come with the arrays, and results have
  // theirs. Arguments are consumed: a donated one that nobody else holds is overwritten,
  // and its memory may be that of a result. `call`: everything but parameters and results.
  Result<std::vector<Literal>> Run(std::span<Literal> arguments, Call call) const;
  const LiteralSignature& signature() const { return signature_; }
  // The same on all devices of the program, which meet at its collectives.
  Result<std::vector<std::vector<Literal>>> RunOnDevices(std::span<std::vector<Literal>> arguments,
                                                         const Call& call) const;

 private:
  // Packs and unpacks arguments that do not lie as the program wants them.
  Status TakeAsInMemory(std::span<Literal> arguments) const;

  const LoadedProgram& program_;
  const LiteralSignature signature_;
  const Results results_;
  bool any_packed_ = false;
};

}  // namespace weft::runtime
