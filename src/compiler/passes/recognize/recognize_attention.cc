// Attention written plainly as one custom call.
#include <algorithm>

#include "base/log.h"
#include "compiler/passes.h"
#include "compiler/passes/recognize/attention_match.h"
#include "compiler/passes/rewrite.h"
#include "hlo/attention_call.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// One letter for each dimension, as hlo/attention_call.h has them.
std::string LettersOf(const AttentionPattern& p, const AxisList& axes) {
  constexpr std::string_view kOthers = "bhgacefijklmnopqruwxyz";
  std::string letters;
  for (int axis : axes) {
    char c = axis == kUnitAxis           ? '1'
             : axis == p.key             ? 's'
             : axis == p.depth           ? 'd'
             : axis == p.values          ? 'v'
             : axis == p.mask.query_axis ? 't'
                                         : kOthers[static_cast<size_t>(axis) % kOthers.size()];
    letters += c;
  }
  return letters;
}

// What bounds do not say of the mask, as one array over the axes that it depends on.
Result<AxisView> MakeMask(Builder& b, const AttentionPattern& p) {
  Instruction* all = nullptr;
  AxisList axes;
  for (const auto& term : p.mask.terms) {
    for (int axis : term.view.axes) {
      if (axis != kUnitAxis && std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        axes.push_back(axis);
      }
    }
  }
  std::sort(axes.begin(), axes.end(),
            [&](int x, int y) { return std::pair(x == p.key, x) < std::pair(y == p.key, y); });
  Shape shape = Shape::Scalar(DType::kPred);
  for (int axis : axes) {
    for (const auto& term : p.mask.terms) {
      auto at = std::find(term.view.axes.begin(), term.view.axes.end(), axis);
      if (at == term.view.axes.end()) continue;
      shape.AppendDim(term.view.value->shape().dim(at - term.view.axes.begin()));
      break;
    }
  }
  for (const auto& term : p.mask.terms) {
    Instruction* value = term.view.value;
    if (term.negated) value = TRY(b.Add(Op::kNot, {value}));
    // In the order of the axes, without dimensions of size 1, then broadcast.
    Ints order, sizes, places;
    for (size_t p = 0; p < axes.size(); ++p) {
      auto at = std::find(term.view.axes.begin(), term.view.axes.end(), axes[p]);
      if (at == term.view.axes.end()) continue;
      order.push_back(at - term.view.axes.begin());
      sizes.push_back(shape.dim(static_cast<int64_t>(p)));
      places.push_back(static_cast<int64_t>(p));
    }
    for (int64_t d = 0; d < std::ssize(term.view.axes); ++d) {
      if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    }
    value = TRY(TransposeTo(b, value, order));
    value = TRY(ReshapeTo(b, value, sizes));
    if (std::ssize(sizes) != shape.rank()) value = TRY(b.Broadcast(value, shape, places));
    all = all == nullptr ? value : TRY(b.Add(Op::kAnd, {all, value}));
  }
  return AxisView{all, axes};
}

// Puts the call in the place of the product, and of a transpose behind it.
Status RewriteAttention(AttentionPattern p) {
  // A transpose of the result is where its elements go.
  Instruction* end = p.product;
  if (p.product->users().size() == 1 && !p.product->IsRoot() &&
      p.product->users()[0]->op() == Op::kTranspose) {
    end = p.product->users()[0];
    AxisList out;
    for (int64_t d : end->attrs<hlo::DimensionsAttrs>().dimensions) {
      out.push_back(p.out[static_cast<size_t>(d)]);
    }
    p.out = std::move(out);
  }
  Builder b(*end->parent(), end, end);
  hlo::AttentionCall call;
  std::vector<Instruction*> operands = {p.q.value, p.k.value, p.v.value};
  call.q = LettersOf(p, p.q.axes), call.k = LettersOf(p, p.k.axes), call.v = LettersOf(p, p.v.axes);
  call.out = LettersOf(p, p.out);
  call.scale = static_cast<float>(p.scale);
  if (p.bias) {
    call.has_bias = true;
    call.bias = LettersOf(p, p.bias->axes);
    operands.push_back(p.bias->value);
  }
  if (!p.mask.terms.empty()) {
    AxisView mask = TRY(MakeMask(b, p));
    operands.push_back(mask.value);
    call.has_mask = true;
    call.mask = LettersOf(p, mask.axes);
  }
  call.first = p.mask.first, call.last = p.mask.last;
  call.fill = p.fill.value_or(call.fill);
  hlo::CustomCallAttrs attrs;
  attrs.custom_call_target = hlo::kAttentionTarget;
  Shape shape = end->shape();
  Instruction* made = TRY(b.Add(Op::kCustomCall, operands, std::move(attrs), &shape, "attention"));
  hlo::ReplaceInstruction(end, made);
  made->mutable_extras().backend_config = {hlo::ConfigOfAttention(call), true};
  return TRY(hlo::AttentionCallOf(*made)), Status();
}

Result<bool> RecognizeProduct(Instruction* dot) {
  if (dot->op() != Op::kDot || !IsStaticallyShaped(*dot)) return false;
  for (int64_t side : {0, 1}) {
    AttentionVerdict verdict = MatchAttentionAt(dot, side);
    if (verdict.why_not.empty()) {
      TRY(RewriteAttention(std::move(verdict.pattern)));
      return true;
    }
    if (verdict.has_softmax) {
      VLOG("attention", 3) << dot->name() << " is not attention in one call: " << verdict.why_not;
    }
  }
  return false;
}

}  // namespace

Result<bool> RecognizeAttention(hlo::Module& module, const PassContext& context) {
  // GPUs have no such routine yet.
  if (context.target.HasThreadGrid() || module.config().is_scheduled) return false;
  // Dots only: the transposes behind them, which go too, come later in a snapshot of all.
  bool changed = false;
  for (const auto& computation : module.computations()) {
    std::vector<Instruction*> dots = computation->Snapshot();
    std::erase_if(dots, [](const Instruction* i) { return i->op() != Op::kDot; });
    for (Instruction* dot : dots) changed |= TRY(RecognizeProduct(dot));
  }
  return changed;
}

}  // namespace weft::compiler
