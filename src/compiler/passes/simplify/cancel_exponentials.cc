// Identities of real exponentials and roots, as XLA's algebraic simplifier has them. Programs rely
// on them: ratios of densities and logarithms of samples are written with an exponential in
// between that overflows or underflows, though the result does neither.
#include <cmath>

#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/match.h"

namespace weft::compiler {
namespace {

namespace m = hlo::m;
using hlo::Builder;
using hlo::Instruction;
using hlo::Match;
using hlo::Op;

// Sums of exponents are rounded to their type, whose error the exponential multiplies by up to the
// largest exponent: too much for narrow ones.
bool HoldsExponents(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64;
}

// exp(x) * exp(y) = exp(x + y);  exp(x) / exp(y) = exp(x - y);  exp(x)^c = exp(x * c)
Result<Instruction*> MergeExponentials(const Instruction& i, Builder& b) {
  Instruction *x, *y;
  if (!HoldsExponents(i.shape().dtype()) || i.operands().size() != 2) return nullptr;
  if (i.operand(0) == i.operand(1) || !Match(i.operand(0), m::Exponential(m::Op(&x)))) {
    return nullptr;  // the square overflows where its exponential does
  }
  Instruction* exponent = nullptr;
  bool both = Match(i.operand(1), m::Exponential(m::Op(&y)));
  if (i.op() == Op::kMultiply && both) exponent = TRY(b.Add(Op::kAdd, {x, y}));
  if (i.op() == Op::kDivide && both) exponent = TRY(b.Add(Op::kSubtract, {x, y}));
  if (i.op() == Op::kPower) {
    const Literal* power = SplatValue(*i.operand(1));  // anything to the power of 0 is 1
    if (power == nullptr || power->GetDouble(0) == 0 || !std::isfinite(power->GetDouble(0))) {
      return nullptr;
    }
    exponent = TRY(b.Add(Op::kMultiply, {x, i.operand(1)}));
  }
  return exponent == nullptr ? exponent : TRY(b.Add(Op::kExponential, {exponent}));
}

Result<bool> CancelExponential(Instruction* i) {
  Instruction *x, *y;
  if (!i->shape().IsArray() || !IsFloat(i->shape().dtype()) || !IsStaticallyShaped(*i))
    return false;
  if (Match(i, m::Log(m::Exponential(m::Op(&x))))) {  // log(exp(x)) = x
    ReplaceWithValue(i, x);
    return true;
  }
  Builder b(*i->parent(), i, i);
  Instruction* value = nullptr;
  bool root = i->op() == Op::kSqrt && Match(i->operand(0), m::Multiply(m::Op(&x), m::Op(&y)));
  if (root && x == y) {  // sqrt(x * x) = |x|
    value = TRY(b.Add(Op::kAbs, {x}));
  } else {
    value = TRY(MergeExponentials(*i, b));
  }
  if (value == nullptr) return false;
  hlo::ReplaceInstruction(i, value);
  return true;
}

}  // namespace

Result<bool> CancelExponentials(hlo::Module& module, const PassContext& context) {
  if (!context.options.optimize.cancel_exponentials) return false;
  return RewriteEach(module, CancelExponential);
}

}  // namespace weft::compiler
