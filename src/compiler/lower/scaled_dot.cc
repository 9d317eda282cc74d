// Products of scaled numbers (scaled-dot, as recognize-scaled-dots leaves them): the library's.
#include "compiler/lower/dot.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;

// The elements that a scale covers: of the batch, of vectors and along the contraction. Empty:
// there is no scale.
std::vector<int64_t> BlockOf(const Instruction& dot, const DotSizes& s, int64_t side) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  const Shape &of = dot.operand(side)->shape(), &by = dot.operand(side + 2)->shape();
  if (by.IsScalar()) return {};
  int64_t k_dim = (side == 0 ? attrs.lhs_contracting_dims : attrs.rhs_contracting_dims)[0];
  int64_t batch_rank = std::ssize(attrs.lhs_batch_dims), scales = 1;
  for (int64_t d = 0; d < batch_rank; ++d) scales *= by.dim(d);
  int64_t free = 2 * batch_rank + 1 - k_dim;
  return {s.batch / scales, of.dim(free) / by.dim(free), of.dim(k_dim) / by.dim(k_dim)};
}

Decision MatchScaledGemm(Subject& subject) {
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  return Take("numbers are scaled where the library packs them");
}

Status LowerScaledGemm(Subject& subject) {
  const DotSizes& s = *subject.dot();
  const Instruction& dot = subject.instruction;
  std::vector<program::Attr> list = {{"m", s.m}, {"n", s.n}, {"k", s.k}};
  if (s.batch > 1) list.push_back({"batch", s.batch});
  if (s.trans_a) list.push_back({"trans_a", true});
  if (s.trans_b) list.push_back({"trans_b", true});
  if (auto block = BlockOf(dot, s, 0); !block.empty()) list.push_back({"a_block", block});
  if (auto block = BlockOf(dot, s, 1); !block.empty()) list.push_back({"b_block", block});
  bool narrow = dot.attrs<hlo::DotAttrs>().algorithm == hlo::DotAlgorithm::kBF16BF16F32;
  if (narrow) list.push_back({"operands", std::string("bf16")});
  subject.steps.push_back(Routine(subject.cx, "scaled_gemm", dot, std::move(list)));
  return {};
}

}  // namespace

extern constinit const LoweringRow kScaledGemm = {
    "scaled gemm", {hlo::Op::kScaledDot}, MatchScaledGemm, LowerScaledGemm};

}  // namespace weft::compiler
