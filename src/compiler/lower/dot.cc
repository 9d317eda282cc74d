// Products (dot): the library's matrix multiplication.
#include "compiler/lower/dot.h"

#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Attr;

bool IsInlineDot(const LowerContext& cx, const Instruction& dot, const DotSizes& s) {
  return cx.serial || s.batch * s.m * s.n * s.k <= kInlineDot ||
         dot.shape().dtype() == DType::kPred;
}

bool IsComputedInOneFloat(const Instruction& dot) {
  DType type = program::ComputeType(dot.shape().dtype());
  bool same = type == DType::kF32 || type == DType::kF64;
  for (const Instruction* operand : dot.operands()) {
    same = same && program::ComputeType(operand->shape().dtype()) == type;
  }
  return same;
}

bool IsInRegisterBlocks(const LowerContext& cx, const Instruction& dot, const DotSizes& s) {
  if (cx.target.HasThreadGrid() || s.batch == 1 || s.m * s.n * s.k > kBlockedProducts) return false;
  if (s.trans_b || s.n < program::TargetFacts::kUsualLanes) return false;
  // Narrower ones are the library's, which has instructions for them.
  bool whole = std::ranges::all_of(dot.operands(), [](const Instruction* operand) {
    return BitWidth(operand->shape().dtype()) >= 32;
  });
  return whole && IsComputedInOneFloat(dot);
}

void AddPrecision(const LowerContext& cx, const Instruction& product,
                  std::span<const hlo::Precision> precision, hlo::DotAlgorithm algorithm,
                  std::vector<Attr>& list) {
  using enum hlo::DotAlgorithm;
  if (!cx.target.tf32) return;
  if (algorithm == kAnyF8AnyF8F32FastAccum)
    list.push_back({"precision", std::string("fast_accum")});
  bool rounds = false;
  for (const Instruction* operand : product.operands()) {
    rounds |= RealType(operand->shape().dtype()) == DType::kF32;
  }
  DType result = RealType(product.shape().dtype());
  if (!rounds || BitWidth(result) > 32 || !IsFloat(result)) return;
  std::string_view name = "default";
  for (hlo::Precision p : precision) {
    if (p == hlo::Precision::kHighest) name = "highest";
  }
  // Algorithms that add up several products of parts are f32 here, which is no less.
  if (algorithm != kUnset) name = "highest";
  if (algorithm == kTF32TF32F32) name = "default";
  if (algorithm == kBF16BF16F32 || algorithm == kBF16BF16BF16) name = "bf16";
  if (name != "highest") list.push_back({"precision", std::string(name)});
}

namespace {

// One product of a batch that a loop has done before a call has packed its operands. Lanes run over
// columns that lie side by side, or apart where sums of real numbers are written out.
bool IsTinyInBatch(const LowerContext& cx, const Instruction& dot, const DotSizes& s) {
  if (IsInRegisterBlocks(cx, dot, s)) return true;
  constexpr int64_t kInLanes = kInlineDot / 4, kOneByOne = kInlineDot / 64;  // multiplications
  if (cx.target.HasThreadGrid() || s.batch == 1) return false;
  bool written_out = s.k <= kUnrolledTerms && !IsComplex(dot.shape().dtype());
  bool in_lanes = s.n > 1 && (!s.trans_b || written_out);
  return s.m * s.n * s.k <= (in_lanes ? kInLanes : kOneByOne);
}

Decision MatchGemm(Subject& subject) {
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  if (IsInlineDot(subject.cx, subject.instruction, *subject.dot())) {
    return Refuse("a call would cost more than the product, or its type is pred");
  }
  if (IsTinyInBatch(subject.cx, subject.instruction, *subject.dot())) {
    return Refuse("for each product of the batch a call would cost more than the product");
  }
  return Take("there are enough products for the library");
}

Status LowerGemm(Subject& subject) {
  const DotSizes& s = *subject.dot();
  std::vector<Attr> list = {{"m", s.m}, {"n", s.n}, {"k", s.k}};
  if (s.batch > 1) list.push_back({"batch", s.batch});
  if (s.trans_a) list.push_back({"trans_a", true});
  if (s.trans_b) list.push_back({"trans_b", true});
  const auto& attrs = subject.instruction.attrs<hlo::DotAttrs>();
  AddPrecision(subject.cx, subject.instruction, attrs.operand_precision, attrs.algorithm, list);
  subject.steps.push_back(Routine(subject.cx, "gemm", subject.instruction, std::move(list)));
  return {};
}

}  // namespace

extern constinit const LoweringRow kGemm = {"gemm", {hlo::Op::kDot}, MatchGemm, LowerGemm};

}  // namespace weft::compiler
