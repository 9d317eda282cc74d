// Reduce-windows of few elements as ops of shifted slices of the padded operand. Loops are then cut
// at the pads, loads are contiguous, and windows of several dimensions that any order gives the
// same result for are taken one dimension after the other (separable filters).
#include <optional>
#include <vector>

#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;
using hlo::WindowDim;

const std::vector<WindowDim>& WindowOf(const Instruction& i) {
  return i.attrs<hlo::ReduceWindowAttrs>().window.dims;
}

// Exact in any order, so that dimensions may be reduced one after the other.
bool IsSeparable(const Instruction& i, Op op) {
  return IsIdempotent(op) || (op == Op::kAdd && IsInteger(i.shape().dtype()));
}

// What the windows take in where they reach over the edge changes nothing.
bool IsPaddingNeutral(const Instruction& i, Op op) {
  if (IsIdempotent(op)) return true;
  const Instruction& init = *i.operand(1);
  DType dtype = i.shape().dtype();
  bool adds = op == Op::kAdd && (IsInteger(dtype) || dtype == DType::kF32 || dtype == DType::kF64);
  return adds && init.op() == Op::kConstant && init.literal().GetDouble(0) == 0;
}

// How a reduce-window is written out.
struct WindowForm {
  Op op;
  bool separable = false;  // dimension by dimension
};

// Lanes are of neighbours within a window; elsewhere (channels of images) all lanes are inside or
// outside together, and windows are loops as they stand.
bool LanesAreInWindows(const Instruction& i) {
  int64_t minor = i.shape().rank() - 1;
  while (minor > 0 && i.shape().dim(minor) == 1) --minor;
  return minor >= 0 && WindowOf(i)[static_cast<size_t>(minor)].size > 1;
}

// The form of windows that overlap, and either reach over the edge or are separable. What is taken
// dimension by dimension goes through memory in between, which has to be a cache.
std::optional<WindowForm> FormOfShortWindow(const Instruction& i, int64_t cache_bytes) {
  if (i.op() != Op::kReduceWindow || i.operand_count() != 2 || !IsStaticallyShaped(i) ||
      !i.shape().IsArray() || i.shape().elements() == 0 || HasControlDependencies(i)) {
    return std::nullopt;
  }
  std::optional<Op> op = BinaryReducer(*i.attrs<hlo::ReduceWindowAttrs>().to_apply);
  if (!op || !IsPaddingNeutral(i, *op) || !LanesAreInWindows(i)) return std::nullopt;
  int64_t sum = 0, product = 1, dims = 0;
  bool padded = false;
  for (const WindowDim& w : WindowOf(i)) {
    if (w.stride != 1 || w.base_dilation != 1 || w.pad_low < 0 || w.pad_high < 0) {
      return std::nullopt;
    }
    padded |= w.pad_low > 0 || w.pad_high > 0;
    if (w.size == 1) continue;
    ++dims;
    sum += w.size;
    product *= w.size;
  }
  bool few = product <= kUnrolledTerms;
  bool separable = IsSeparable(i, *op) && (!few || i.operand(0)->shape().ByteSize() <= cache_bytes);
  bool pays = dims > 0 && (padded || (separable && dims > 1));
  if (!pays || (separable ? sum : product) > kUnrolledTerms) return std::nullopt;
  return WindowForm{*op, separable};
}

Result<Instruction*> PaddedOperand(Builder& b, const Instruction& i) {
  hlo::PadAttrs pad;
  bool any = false;
  for (const WindowDim& w : WindowOf(i)) {
    pad.padding.push_back({w.pad_low, w.pad_high, 0});
    any |= w.pad_low != 0 || w.pad_high != 0;
  }
  if (!any) return i.operand(0);
  return b.Add(Op::kPad, {i.operand(0), i.operand(1)}, std::move(pad));
}

// The elements at place `at` of all windows, of dimensions whose windows have more than one place.
Result<Instruction*> AtPlace(Builder& b, Instruction* x, const std::vector<WindowDim>& window,
                             const Ints& at) {
  hlo::SliceAttrs part;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    int64_t start = at[d] * w.window_dilation;
    int64_t count = x->shape().dims()[d] - (w.size - 1) * w.window_dilation;
    part.slice.push_back({.start = start, .limit = start + count});
  }
  return b.Add(Op::kSlice, {x}, std::move(part));
}

// All places of the windows, put together behind `value`, the last dimension's next to each other.
Result<Instruction*> Combine(Builder& b, Op op, Instruction* x, std::vector<WindowDim> window,
                             Instruction* value) {
  Ints at(window.size(), 0);
  for (bool more = true; more;) {
    Instruction* next = TRY(AtPlace(b, x, window, at));
    if (value != nullptr && value->shape().rank() == 0 && next->shape().rank() > 0) {
      value = TRY(b.Broadcast(value, Shape(next->shape().dtype(), next->shape().dims()), {}));
    }
    value = value == nullptr ? next : TRY(b.Add(op, {value, next}));
    more = false;
    for (size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < window[d].size;
      if (!more) at[d] = 0;
    }
  }
  return value;
}

Result<bool> ExpandWindow(Instruction* i, int64_t cache_bytes) {
  std::optional<WindowForm> form = FormOfShortWindow(*i, cache_bytes);
  if (!form) return false;
  Builder b(*i->parent(), i, i);
  Instruction *x = TRY(PaddedOperand(b, *i)), *value = i->operand(1);
  const std::vector<WindowDim>& window = WindowOf(*i);
  if (!form->separable) {
    hlo::ReplaceInstruction(i, TRY(Combine(b, form->op, x, window, value)));
    return true;
  }
  for (size_t d = window.size(); d-- > 0;) {
    if (window[d].size == 1) continue;
    std::vector<WindowDim> one(window.size());
    one[d] = window[d];
    x = TRY(Combine(b, form->op, x, std::move(one), value));
    value = nullptr;
  }
  hlo::ReplaceInstruction(i, x);
  return true;
}

}  // namespace

Result<bool> ExpandWindows(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || context.target.LaneBits() == 0) return false;
  return RewriteEach(module,
                     [&](Instruction* i) { return ExpandWindow(i, context.target.l2_bytes); });
}

}  // namespace weft::compiler
