// Iteration spaces of fused row reductions.
#include "compiler/analysis/row_space.h"

#include <algorithm>

#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

namespace {

// Fewer are not worth a kernel of their kind.
constexpr int64_t kManyShortRows = program::CodeBounds::kShortLoop;
// Elements, so that a row stays in a cache close by.
constexpr int64_t kMaxRow = 2 * program::TargetFacts::kFirstLevelBytes / sizeof(float);
// Below that rows are worth cutting, unless all is small.
constexpr int64_t kMinRows = program::TargetFacts::kUsualThreads;
// Elements.
constexpr int64_t kSmallArray = program::TargetFacts::kSecondLevelBytes / 8 / sizeof(float);

Dims WithoutOnes(std::span<const int64_t> dims) {
  Dims result;
  for (int64_t d : dims) {
    if (d != 1) result.push_back(d);
  }
  return result;
}

}  // namespace

bool RowSpace::IsWide(const Shape& shape) const {
  return shape.IsArray() && shape.dims() == wide;
}

bool RowSpace::IsNarrow(const Shape& shape) const {
  return shape.IsArray() && shape.elements() == rows && shape.dims() != wide &&
         WithoutOnes(shape.dims()) == WithoutOnes(std::span(wide.data(), kept));
}

std::optional<RowSpace> RowSpaceOfReduce(const Instruction& reduce) {
  if (reduce.op() != Op::kReduce || !reduce.shape().IsArray()) return std::nullopt;
  const auto& dimensions = reduce.attrs<hlo::ReduceAttrs>().dimensions;
  RowSpace space;
  space.wide = reduce.operand(0)->shape().dims();
  if (dimensions.empty() || dimensions.size() > space.wide.size()) return std::nullopt;
  space.kept = space.wide.size() - dimensions.size();
  for (int64_t d : dimensions) {
    if (d < static_cast<int64_t>(space.kept)) return std::nullopt;
  }
  for (size_t d = 0; d < space.wide.size(); ++d) {
    (d < space.kept ? space.rows : space.length) *= space.wide[d];
  }
  if (space.IsShort() && space.rows < kManyShortRows) return std::nullopt;
  if (space.wide.back() == 1 || space.length < kLeastRowElements || space.length > kMaxRow)
    return std::nullopt;
  if (space.rows < kMinRows && space.rows * space.length > kSmallArray) return std::nullopt;
  return space;
}

bool IsRowReduce(const Instruction& instruction, const RowSpace& space) {
  if (instruction.op() != Op::kReduce || !instruction.shape().IsArray()) return false;
  auto own = RowSpaceOfReduce(instruction);
  return own && *own == space;
}

bool KeepsRows(const Instruction& user, const Instruction& operand, const RowSpace& space) {
  const Shape &to = user.shape(), &from = operand.shape();
  if (space.IsWide(from)) {
    if (user.op() == Op::kReduce) {
      int64_t n = user.operand_count() / 2;
      for (int64_t k = n; k < 2 * n; ++k) {
        if (user.operand(k) == &operand) return false;
      }
      return IsRowReduce(user, space);
    }
    return (hlo::IsElementwise(user.op()) || user.op() == Op::kCopy) && space.IsWide(to);
  }
  if (!space.IsNarrow(from)) return false;
  if (hlo::IsElementwise(user.op()) || user.op() == Op::kCopy) {
    return from.dims() == to.dims() || (from.IsScalar() && space.IsWide(to));
  }
  if (user.op() == Op::kReshape || user.op() == Op::kBitcast) return space.IsNarrow(to);
  if (user.op() != Op::kBroadcast) return false;
  const auto& dims = user.attrs<hlo::BroadcastAttrs>().dimensions;
  int64_t before = -1;
  for (size_t k = 0; k < from.dims().size(); ++k) {
    if (from.dims()[k] == 1) continue;
    if (dims[k] <= before || to.dim(dims[k]) != from.dims()[k]) return false;
    if (space.IsWide(to) && dims[k] >= static_cast<int64_t>(space.kept)) return false;
    before = dims[k];
  }
  return space.IsWide(to) || space.IsNarrow(to);
}

std::optional<RowSpace> RowSpaceOf(std::span<const Instruction* const> members) {
  // Short reductions among long ones are computed where they are needed.
  std::optional<RowSpace> found;
  bool any_long = std::any_of(members.begin(), members.end(), [](const Instruction* m) {
    auto space = RowSpaceOfReduce(*m);
    return space && !space->IsShort();
  });
  for (const Instruction* m : members) {
    auto space = RowSpaceOfReduce(*m);
    if (!space || (any_long && space->IsShort())) continue;
    if (found && !(*found == *space)) return std::nullopt;
    found = space;
  }
  return found;
}

}  // namespace weft::compiler
