// Reduction of strided elements: what reduce is, and parts of its like.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/computation.h"
#include "hlo/evaluate/scalar_function.h"

namespace weft::hlo {

class EvalContext;

// A dimension to walk: how many elements, and how far apart they are.
struct StridedDim {
  int64_t size, stride;
};
using StridedDims = InlineVec<StridedDim, 6>;

// Joins neighbours (outer dimension first) that are one run of elements.
StridedDims JoinDims(std::span<const StridedDim> dims);
// The place of element `index` of a walk in row-major order.
int64_t PlaceOf(std::span<const StridedDim> dims, int64_t index);
int64_t WalkSize(std::span<const StridedDim> dims);

// Walks strided dimensions in row-major order.
class Walk {
 public:
  explicit Walk(std::span<const StridedDim> dims) : dims_(dims), index_(dims.size(), 0) {}
  int64_t place() const { return place_; }
  void Next() {
    for (size_t d = dims_.size(); d-- > 0;) {
      place_ += dims_[d].stride;
      if (++index_[d] < dims_[d].size) return;
      place_ -= dims_[d].stride * dims_[d].size;
      index_[d] = 0;
    }
  }

 private:
  std::span<const StridedDim> dims_;
  Dims index_;
  int64_t place_ = 0;
};

// argmax and argmin, if the function is the reducer of one of them and the types suit. `out` holds
// the initial values.
bool TryFindExtremes(const Computation& function, std::span<const Literal> arrays,
                     std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                     std::span<Literal> out);

// out[k][o] = f(init[k], arrays[k] at kept place o + every reduced place), for all o. The function
// takes as many accumulators, then as many values, as there are arrays.
Status ReduceStrided(EvalContext& context, const Computation& function,
                     std::span<const Literal> arrays, std::span<const Literal> inits,
                     std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                     std::span<Literal> out);

// A function of scalars that is called one element at a time, compiled or through the evaluator.
class ElementFunction {
 public:
  ElementFunction(EvalContext& context, const Computation& computation);
  const ScalarFunction* compiled() const { return compiled_; }
  // One call. Inputs and outputs are elements in storage form.
  Status Call(std::span<const ScalarFunction::In> in, std::span<const ScalarFunction::Out> out);
  // n calls, of consecutive elements.
  Status CallMany(std::span<const ScalarFunction::In> in, std::span<const ScalarFunction::Out> out,
                  int64_t n);

 private:
  EvalContext& context_;
  const Computation& computation_;
  const ScalarFunction* compiled_;  // null: through the evaluator
  std::optional<ScalarFunction::Frame> frame_;
};

}  // namespace weft::hlo
