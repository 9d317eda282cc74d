// Evaluation of gather and scatter; signatures as in OpRow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/attrs.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateGather(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateScatter(EvalContext&, const Instruction&, std::span<Literal>);

// What gather and scatter share: an array of index vectors, and for each of them a window in the
// operand (of one size for all) and a window in the slices, gathered or to be scattered.
class IndexedWindows {
 public:
  struct Form {
    const Ints& window_dims;       // dimensions of the slices that run over a window
    const Ints& collapsed_dims;    // operand dimensions that have no such dimension
    const Ints& index_map;         // operand dimension of each element of an index vector
    const Ints& operand_batching;  // operand dimensions that go along with ...
    const Ints& indices_batching;  // ... these of the indices
    int64_t index_vector_dim;
  };
  IndexedWindows(const Form& form, const Shape& operand, const Literal& indices,
                 const Shape& slices);

  int64_t count() const { return count_; }      // of index vectors
  const Dims& sizes() const { return sizes_; }  // of the window, by operand dimension
  const Dims& slice_strides() const { return slice_strides_; }  // likewise, in the slices

  // Indices into a dimension of which each window is one element, update i being the i-th of the
  // slices; empty where windows are not like that.
  std::span<const int64_t> PlacesInOrder() const {
    bool plain = sizes_.size() == 1 && index_map_.size() == 1 && batching_.empty();
    int64_t stride = 1;
    for (size_t d = batch_sizes_.size(); d-- > 0 && plain; stride *= batch_sizes_[d]) {
      plain = batch_strides_[d] == stride || batch_sizes_[d] == 1;
    }
    return plain ? std::span<const int64_t>(indices_) : std::span<const int64_t>();
  }

  // Where window i begins: in the operand (by dimension, as the indices say, not clamped) and in
  // the slices (in elements).
  int64_t Locate(int64_t i, Dims& starts) const;

 private:
  std::vector<int64_t> indices_;  // [count][vector size]
  Dims sizes_, slice_strides_;
  Dims batch_sizes_, batch_strides_;  // of the dimensions that run over index vectors
  Ints index_map_;
  std::vector<std::pair<int64_t, size_t>> batching_;  // operand dimension, batch dimension
  int64_t count_ = 1;
};

}  // namespace weft::hlo
