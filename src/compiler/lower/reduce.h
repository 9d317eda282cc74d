// Reductions along the minor dimensions: lanes of partial results, combined at the end of a row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/lower/draft.h"
#include "compiler/lower/sums.h"

namespace weft::compiler {

// The kernel operation of a computation (a, b) -> op(a, b), if it is one, and its identity.
struct PlainReducer {
  program::Op op;
  double identity;  // as a number; +-inf for min and max
};
std::optional<PlainReducer> AsPlainReducer(const hlo::Computation& computation, DType dtype,
                                           int64_t leaf = 0);

// Dimensions of a reduce, sorted: which are kept, which go.
struct ReduceDims {
  Dims kept, reduced;  // dimension numbers
  Dims kept_sizes, reduced_sizes;
  int64_t rows = 1, length = 1;  // elements of the result, elements that make one of them
  // The innermost dimension (of more than one element) is reduced, or one with hardly any inside.
  bool minor = false;
};
ReduceDims SplitDims(const hlo::Instruction& reduce);

// A dimension of the operands, of a few elements, that is kept: all of them are reduced side by
// side, so that what they have in common is computed once.
struct KeptTogether {
  int64_t dimension = -1;  // -1: none
  int64_t size = 1;
};
// The kept dimension inside the reduced ones, where there is one and it is small.
KeptTogether KeptInside(const ReduceDims& dims);

// Emits one row of several reduces over the same dimensions. `begin`, `size`: the part of the row;
// results as the reduces' operands in order, without the initial values if `partial`; once for
// each element of the dimension kept together, whose coordinate in the row is of no use.
class RowReducer {
 public:
  RowReducer(KernelDraft& draft, std::span<const hlo::Instruction* const> reduces, int64_t width,
             KeptTogether together = {});
  // Whether lanes can be used: reducers are plain, or their initial values constants.
  bool CanUseLanes() const { return can_use_lanes_; }
  Result<std::vector<Element>> Row(const Index& row, ValueId begin, int64_t size, bool partial);
  // Called with the index before each step of Row's loops, lanes set.
  void set_also(std::function<Status(const Index&)> also) { also_ = std::move(also); }
  // What an element costs: cheap ones are taken several at once.
  void set_cost(double cost) { cost_ = cost; }
  // acc (+) value for all operands.
  Result<std::vector<Element>> Combine(std::vector<Element> acc, std::span<const Element> value);
  // The initial values with those of pieces 0 to `count`: `load` gives the i-th operand's.
  Result<std::vector<Element>> Pieces(
      int64_t count, const std::function<Element(const Coord& piece, size_t i)>& load);
  Result<std::vector<Element>> Inits();
  Result<std::vector<Element>> Starts();  // identities, or the initial values
  size_t operand_count() const { return types_.size(); }
  DType type(size_t i) const { return types_[i]; }
  // acc (+) element j of the row; and elements as the values that a loop carries.
  Result<std::vector<Element>> Accumulate(const Index& row, const Coord& j,
                                          std::vector<Element> acc);
  const std::vector<bool>& sums() const { return sums_; }
  std::vector<ValueId> Pack(std::span<const Element> elements, int lanes);
  std::vector<Element> Unpack(std::span<const ValueId> values);
  // What does not fill lanes: elements [from, to) of the part of a row that begins at `begin`.
  struct RestOfRow {
    const Index* row;
    ValueId begin;
    int64_t from, to;
  };
  Result<std::vector<Element>> CombineLanes(std::vector<Element> acc, int lanes,
                                            const RestOfRow* rest = nullptr);
  // The most elements that lie next to each other in every row.
  int64_t unit() const {
    return IsInOrder() || dims_.reduced_sizes.empty() ? dims_.length : dims_.reduced_sizes.back();
  }

 private:
  Result<std::vector<Element>> Terms(const Index& index);
  bool TakesPairs(int64_t vectors) const;
  // Predicates alone, combined by `and` and `or`.
  bool AreFlags() const;
  std::vector<Element> FoldFlags(std::span<const Element> lanes);
  Result<std::vector<Element>> CombineFlags(std::vector<Element> acc, int lanes,
                                            const RestOfRow* rest);
  Result<std::vector<Element>> VectorsByPairs(const Index& row, ValueId begin, int64_t main,
                                              int lanes, std::vector<Element> acc);
  Result<std::vector<Element>> ByUnits(const Index& row, ValueId begin, int64_t size, int lanes,
                                       std::vector<Element> acc);
  // Rows are made of several dimensions, but read in the order of memory: by their numbers, or from
  // dimension `row_from` on.
  bool IsInOrder() const;
  bool ReadAsRows(int64_t row_from) const;
  Index At(const Index& row, const Coord& j);
  Result<std::vector<Element>> AccumulateAt(const Index& index, std::vector<Element> acc);

  KernelDraft& draft_;
  ElementContext& e_;
  KernelBuilder& b_;
  std::vector<const hlo::Instruction*> reduces_;  // again for each element kept together
  KeptTogether together_;
  ReduceDims dims_;
  std::vector<DType> types_;  // of all operands
  std::vector<std::optional<PlainReducer>> plain_;
  std::vector<bool> sums_;  // of f32, for each value that a loop carries
  int64_t width_;
  bool can_use_lanes_ = true;
  double cost_ = 1e9;
  std::function<Status(const Index&)> also_;
};

}  // namespace weft::compiler
