// Large transposes of fewer and larger dimensions.
#include <algorithm>

#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// Smaller ones may be computed where they are used.
constexpr int64_t kMinElements = 2 * program::TargetFacts::kFirstLevelBytes / sizeof(float);

// A transpose as one of groups of the operand's dimensions.
struct Merged {
  Dims from;                         // the operand's, merged
  std::vector<int64_t> permutation;  // of those
};

Merged MergeDimensions(const Dims& dims, std::span<const int64_t> permutation) {
  // Groups in the order of the result, each by its first dimension of the operand.
  std::vector<int64_t> first, size;
  int64_t next = -1;  // the operand's dimension that would go on with the last group
  for (int64_t d : permutation) {
    int64_t length = dims[static_cast<size_t>(d)];
    if (length == 1) continue;
    while (next >= 0 && next < d && dims[static_cast<size_t>(next)] == 1) ++next;
    if (d == next) {
      size.back() *= length;
    } else {
      first.push_back(d);
      size.push_back(length);
    }
    next = d + 1;
  }
  std::vector<int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  Merged merged;
  merged.from.resize(sorted.size());
  for (size_t k = 0; k < first.size(); ++k) {
    int64_t at = std::lower_bound(sorted.begin(), sorted.end(), first[k]) - sorted.begin();
    merged.permutation.push_back(at);
    merged.from[static_cast<size_t>(at)] = size[k];
  }
  return merged;
}

Result<bool> MergeOne(Instruction* i) {
  if (i->op() != Op::kTranspose || !IsStaticallyShaped(*i)) return false;
  if (i->shape().elements() < kMinElements) return false;
  Instruction* x = i->operand(0);
  const Dims& dims = x->shape().dims();
  Merged merged = MergeDimensions(dims, i->attrs<hlo::DimensionsAttrs>().dimensions);
  if (merged.from.size() == dims.size()) return false;
  Builder b(*i->parent(), i, i);
  Instruction* narrow = TRY(ReshapeTo(b, x, merged.from));
  Instruction* turned = TRY(TransposeTo(b, narrow, merged.permutation));
  Instruction* result = TRY(ReshapeTo(b, turned, i->shape().dims()));
  ReplaceWithValue(i, result);
  return true;
}

}  // namespace

Result<bool> MergeTransposedDimensions(hlo::Module& module, const PassContext&) {
  return RewriteEach(module, MergeOne);
}

}  // namespace weft::compiler
