// A computation of scalars compiled to a short program over blocks of lanes, so that calling it for
// every element of an array (reduce, map, sort, scatter ...) costs little.
//
//   Result<ScalarFunction> f = ScalarFunction::Compile(*attrs.to_apply);
//   if (f) f->Run({in(acc), in(updates)}, {out(acc)}, n);   // acc[i] = f(acc[i], updates[i])
//   else   ... EvalContext::Call for each element; Unimplemented says that f has other ops
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "hlo/computation.h"
#include "hlo/evaluate/lanes.h"

namespace weft::hlo {

class ScalarFunction {
 public:
  // Computations of elementwise ops, constants, tuples of one level, calls and fusions of the like
  // whose arrays are all scalars, or all of dimensions `dims` (then lanes are their elements).
  // Unimplemented for any other.
  static Result<ScalarFunction> Compile(const Computation& computation,
                                        std::span<const int64_t> dims = {});

  // A chain of elementwise instructions: each takes earlier values by number, first the inputs,
  // then the results of the instructions. An instruction of `same` is its operand under another
  // shape.
  struct Link {
    const Instruction* instruction;
    int32_t in[3] = {-1, -1, -1};
    bool same = false;
  };
  static Result<ScalarFunction> Chain(std::span<const DType> inputs, std::span<const Link> links,
                                      std::span<const int32_t> results);

  int64_t parameter_count() const { return static_cast<int64_t>(parameters_.size()); }
  DType parameter_type(int64_t i) const { return registers_[parameters_[i]].dtype; }
  int64_t result_count() const { return static_cast<int64_t>(results_.size()); }
  DType result_type(int64_t i) const { return registers_[results_[i]].dtype; }

  // The op of a function `op(p0, p1)` or `op(p1, p0)` with op commutative and all of one type (add,
  // multiply, maximum, minimum, and, or, xor ...).
  std::optional<Op> commutative_op() const { return commutative_op_; }

  // A function `compare(a(p), b(q))` of two parameters, each side depending on one of them.
  struct KeyCompare {
    int64_t left_parameter, right_parameter;
    CompareAttrs compare;
    DType dtype;  // of the keys
  };
  // The keys a and b of all elements at once: as this function, but its results are a and b.
  std::optional<KeyCompare> AsKeyCompare() const;
  ScalarFunction Keys() const;  // needs AsKeyCompare()

  // Arrays of lanes in storage form of their dtype, converted when the parameter or result has
  // another float type. With `broadcast`, one element for all lanes.
  struct In {
    DType dtype;
    const std::byte* data;
    bool broadcast = false;
  };
  struct Out {
    DType dtype;
    std::byte* data;
  };

  // The registers of one thread; holds for the function that made it.
  class Frame {
   public:
    Frame(const ScalarFunction& function, int64_t max_lanes);

   private:
    friend class ScalarFunction;
    int64_t lanes_;
    std::vector<int64_t> offsets_;  // of registers in memory_
    std::vector<std::byte> memory_;
    std::vector<const void*> at_;   // where registers are now: in memory_ or in an input
    std::vector<uint8_t> uniform_;  // registers that are the same in all lanes
  };

  // Outputs may be inputs (same start, same type): a block is read before it is written.
  void Run(Frame& frame, std::span<const In> in, std::span<const Out> out, int64_t n) const;
  // As above with frames of its own, in parallel when n is large.
  void Run(std::span<const In> in, std::span<const Out> out, int64_t n) const;

 private:
  friend class ScalarFunctionCompiler;
  struct Register {
    DType dtype;
    bool constant = false;
    std::byte value[16] = {};  // of a constant, in storage form
  };
  struct Step {
    LaneOp op;
    Op code;
    int32_t in[3] = {-1, -1, -1};
    int32_t out = -1;
    const Attrs* attrs = nullptr;
  };
  ScalarFunction() = default;
  void RunBlock(Frame& frame, std::span<const In> in, std::span<const Out> out, int64_t begin,
                int64_t n) const;
  void RunStep(const Step& step, Frame& frame, int64_t n) const;
  void Finish();  // what follows from steps and results

  std::vector<Register> registers_;
  std::vector<int32_t> parameters_, results_;
  std::vector<bool> parameter_is_result_;  // such a parameter is copied before anything is written
  std::vector<Step> steps_;
  std::vector<int32_t> places_;       // of registers; those that are not needed at once share one
  std::vector<int64_t> place_bytes_;  // of one lane
  std::optional<Op> commutative_op_;
};

}  // namespace weft::hlo
