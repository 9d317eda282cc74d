// Parts of the verifier. Everybody else calls Verify (program.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "program/program.h"

namespace weft::program {

inline bool IsPowerOfTwo(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

// An InvalidArgument at a position of `text` (which may be empty).
std::unexpected<Error> VerifyError(std::string_view text, Position pos, std::string message);

// Native regions: what runs in them, and which buffers they keep.
Status VerifyRegions(const Program& program, std::string_view text);

// Follows index arithmetic through a kernel, so that accesses which are out of bounds, or which
// collide in a concurrent loop, are found where that can be decided: indices that are sums of
// constants and constant multiples of the counters of loops with constant bounds.
class AccessChecker {
 public:
  explicit AccessChecker(const Kernel& kernel)
      : kernel_(kernel), forms_(kernel.values.size()), home_(kernel.memories.size(), 0) {}

  // To be called on each instruction in order, after its types were checked.
  std::optional<std::string> Visit(const Instr& instr);  // a message if the access is wrong

 private:
  struct Term {
    size_t loop;  // index into loops_
    int64_t factor;
  };
  struct Form {  // constant + sum of factor * counter
    int64_t constant = 0;
    std::vector<Term> terms;
  };
  struct Loop {
    bool is_loop = false;  // else an if
    LoopKind kind = LoopKind::kSerial;
    ValueId counter = -1;
    std::optional<int64_t> trips;
    int64_t begin = 0, step = 1;
  };

  std::optional<Form> FormOf(ValueId id) const;
  std::optional<Form> Combine(const Form& a, const Form& b, int sign) const;
  std::optional<Form> Scale(const Form& a, int64_t factor) const;
  void Compute(const Instr& instr);
  std::optional<std::string> CheckBounds(const Instr& instr, const Form& form) const;
  std::optional<std::string> CheckCollision(const Instr& instr, const Form& form) const;

  const Kernel& kernel_;
  std::vector<std::optional<Form>> forms_;
  std::vector<size_t> home_;  // number of blocks open where the memory was declared
  std::vector<Loop> open_;
};

}  // namespace weft::program
