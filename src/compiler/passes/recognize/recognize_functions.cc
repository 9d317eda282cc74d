// Formulas that stand for a function of the instruction set. Frameworks write out what their own
// dialect has as one op, for lack of it in the one that programs travel in.
#include <cmath>
#include <complex>

#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

bool IsLogOfHalf(const Instruction& i) {
  if (!IsComplex(i.shape().dtype())) return false;
  const Literal* value = SplatValue(i);
  if (value == nullptr && i.IsConstant() && !i.attrs<hlo::ConstantAttrs>().elided &&
      IsSplat(i.literal())) {
    value = &i.literal();
  }
  if (value == nullptr) return false;
  std::complex<double> z = value->GetComplex(0);
  return z.imag() == 0 && std::fabs(z.real() + std::log(2.0)) < 1e-7;
}

// exp(x + log 1/2), the operands of the sum in either order; null: something else.
Instruction* HalfExponential(Instruction* i) {
  if (i->op() != Op::kExponential || i->operand(0)->op() != Op::kAdd) return nullptr;
  Instruction* sum = i->operand(0);
  if (IsLogOfHalf(*sum->operand(1))) return sum->operand(0);
  return IsLogOfHalf(*sum->operand(0)) ? sum->operand(1) : nullptr;
}

// exp(log 1/2 - x)
bool IsHalfExponentialOfNegated(Instruction* i, const Instruction* x) {
  if (i->op() != Op::kExponential || i->operand(0)->op() != Op::kSubtract) return false;
  Instruction* difference = i->operand(0);
  return difference->operand(1) == x && IsLogOfHalf(*difference->operand(0));
}

// Complex cosh and sinh. As sums they cost twice as much, and at two infinite parts and near the
// zeros of sinh they are not what the function is.
Result<bool> RecognizeHyperbolic(Instruction* i) {
  if (i->op() != Op::kAdd && i->op() != Op::kSubtract) return false;
  if (!i->shape().IsArray() || !IsComplex(i->shape().dtype())) return false;
  Instruction* x = HalfExponential(i->operand(0));
  if (x == nullptr || !IsHalfExponentialOfNegated(i->operand(1), x)) return false;
  Builder b(*i->parent(), i, i);
  hlo::ReplaceInstruction(i, TRY(b.Add(i->op() == Op::kAdd ? Op::kCosh : Op::kSinh, {x})));
  return true;
}

// Single numbers are most often latency-bound, in a loop, and most formulas take less than the
// functions that have more in parallel. The formula of erf is the better one for narrow floats, and
// those of complex inverse functions are nearer to the last place.
struct NamedFunction {
  std::string_view name;
  Op op;
  bool single = false, wide_only = false, complex = false;
};
constexpr NamedFunction kNamedFunctions[] = {
    {"chlo.acos", Op::kAcos, /*single=*/true},
    {"chlo.acosh", Op::kAcosh},
    {"chlo.asin", Op::kAsin, /*single=*/true},
    {"chlo.asinh", Op::kAsinh},
    {"chlo.atanh", Op::kAtanh},
    {"chlo.cosh", Op::kCosh, /*single=*/false, /*wide_only=*/false, /*complex=*/true},
    {"chlo.erf", Op::kErf, /*single=*/false, /*wide_only=*/true},
    {"chlo.sinh", Op::kSinh, /*single=*/false, /*wide_only=*/false, /*complex=*/true},
};

// A call that says which function its formula stands for.
Result<bool> RecognizeNamed(Instruction* i) {
  if (i->op() != Op::kCall || !i->attrs<hlo::CallAttrs>().is_composite) return false;
  if (i->operand_count() != 1 || !i->shape().IsArray() || !i->shape().IsStatic()) return false;
  if (!Shape::Compatible(i->shape(), i->operand(0)->shape())) return false;
  const std::string* name = i->FrontendAttributeValue("composite.name");
  const std::string* attributes = i->FrontendAttributeValue("composite.attributes");
  if (name == nullptr || (attributes != nullptr && *attributes != "{}")) return false;
  const bool complex = IsComplex(i->shape().dtype());
  if (!complex && !IsFloat(i->shape().dtype())) return false;
  const bool single = i->shape().elements() == 1 && !complex;
  for (const NamedFunction& function : kNamedFunctions) {
    if (*name != function.name) continue;
    if ((single && !function.single) || (complex && !function.complex)) return false;
    if (function.wide_only && i->shape().dtype() != DType::kF64) return false;
    Builder b(*i->parent(), i, i);
    hlo::ReplaceInstruction(i, TRY(b.Add(function.op, {i->operand(0)})));
    return true;
  }
  return false;
}

}  // namespace

Result<bool> RecognizeComposites(hlo::Module& module, const PassContext&) {
  return RewriteEach(module, RecognizeNamed);
}

Result<bool> RecognizeFunctions(hlo::Module& module, const PassContext&) {
  return RewriteEach(module, RecognizeHyperbolic);
}

}  // namespace weft::compiler
