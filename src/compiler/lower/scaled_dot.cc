// Products of block-scaled numbers: the library decodes where it packs.
#include "compiler/analysis/scaled_product.h"
#include "compiler/lower/table.h"

namespace weft::compiler {
namespace {

using program::Attr;

Decision MatchScaledGemm(Subject& subject) {
  if (!ScaledProductOf(subject.instruction, subject.cx.target)) {
    return Refuse("the target has no product of scaled numbers in this form");
  }
  return Take("the library decodes scaled numbers");
}

Status LowerScaledGemm(Subject& subject) {
  LowerContext& cx = subject.cx;
  const hlo::Instruction& dot = subject.instruction;
  ScaledProduct p = *ScaledProductOf(dot, cx.target);
  std::vector<Attr> list = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
  if (p.batch > 1) list.push_back({"batch", p.batch});
  if (p.trans_a) list.push_back({"trans_a", true});
  if (p.trans_b) list.push_back({"trans_b", true});
  auto block = [](const ScaledProduct::Scale& s) { return std::vector<int64_t>{s.vectors, s.k}; };
  if (p.a_scale) list.push_back({"a_block", block(*p.a_scale)});
  if (p.b_scale) list.push_back({"b_block", block(*p.b_scale)});
  program::Step step = Routine(cx, "scaled_gemm", dot, std::move(list));
  // Scales that are none are no operands.
  if (!p.b_scale) step.uses.erase(step.uses.begin() + 3);
  if (!p.a_scale) step.uses.erase(step.uses.begin() + 2);
  subject.steps.push_back(std::move(step));
  return {};
}

}  // namespace

extern constinit const LoweringRow kScaledGemm = {
    "scaled gemm", {hlo::Op::kScaledDot}, MatchScaledGemm, LowerScaledGemm};

}  // namespace weft::compiler
