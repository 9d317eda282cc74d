// Attention written plainly as one custom call, and its gradient as another.
#include <algorithm>
#include <vector>

#include "base/log.h"
#include "compiler/passes.h"
#include "compiler/passes/recognize/attention_gradient_match.h"
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

// The product, or a transpose behind it, which is where its elements go.
Instruction* EndOf(Instruction* product, AxisList& out) {
  if (product->users().size() != 1 || product->IsRoot() ||
      product->users()[0]->op() != Op::kTranspose) {
    return product;
  }
  Instruction* end = product->users()[0];
  AxisList moved;
  for (int64_t d : end->attrs<hlo::DimensionsAttrs>().dimensions) {
    moved.push_back(out[static_cast<size_t>(d)]);
  }
  out = std::move(moved);
  return end;
}

// A call without its result.
struct PartOfCall {
  hlo::AttentionCall call;
  std::vector<Instruction*> operands;
};
Result<PartOfCall> InputsOf(Builder& b, const AttentionPattern& p) {
  PartOfCall part;
  hlo::AttentionCall& call = part.call;
  part.operands = {p.q.value, p.k.value, p.v.value};
  call.q = LettersOf(p, p.q.axes), call.k = LettersOf(p, p.k.axes), call.v = LettersOf(p, p.v.axes);
  call.scale = static_cast<float>(p.scale);
  if (p.bias) {
    call.has_bias = true;
    call.bias = LettersOf(p, p.bias->axes);
    part.operands.push_back(p.bias->value);
  }
  if (!p.mask.terms.empty()) {
    AxisView mask = TRY(MakeMask(b, p));
    part.operands.push_back(mask.value);
    call.has_mask = true;
    call.mask = LettersOf(p, mask.axes);
  }
  call.first = p.mask.first, call.last = p.mask.last;
  call.fill = p.fill.value_or(call.fill);
  return part;
}

Result<Instruction*> AddCall(Builder& b, const PartOfCall& part, const Shape& shape) {
  hlo::CustomCallAttrs attrs;
  bool gradient = part.call.is_gradient;
  attrs.custom_call_target = gradient ? hlo::kAttentionGradientTarget : hlo::kAttentionTarget;
  Instruction* made = TRY(b.Add(Op::kCustomCall, part.operands, std::move(attrs), &shape,
                                gradient ? "attention_gradient" : "attention"));
  made->mutable_extras().backend_config = {hlo::ConfigOfAttention(part.call), true};
  TRY(hlo::AttentionCallOf(*made));
  return made;
}

// Puts the call in the place of the product, and of a transpose behind it.
Status RewriteAttention(AttentionPattern p) {
  Instruction* end = EndOf(p.product, p.out);
  Builder b(*end->parent(), end, end);
  PartOfCall part = TRY(InputsOf(b, p));
  part.call.out = LettersOf(p, p.out);
  Instruction* made = TRY(AddCall(b, part, end->shape()));
  hlo::ReplaceInstruction(end, made);
  return {};
}

// The attention with the statistics of its rows: the operands of its gradient but the last.
Result<PartOfCall> AddStatistics(GradientPattern& g, Instruction* before) {
  AttentionPattern& p = g.attention;
  Instruction* end = p.product == nullptr ? nullptr : EndOf(p.product, p.out);
  if (end == nullptr) p.out = g.dout.axes;
  Builder b(*before->parent(), end == nullptr ? before : end, end == nullptr ? before : end);
  PartOfCall part = TRY(InputsOf(b, p));
  part.call.out = LettersOf(p, p.out);
  Shape out = end == nullptr ? g.dout.value->shape() : end->shape();
  Shape statistics = hlo::StatisticsShape(part.call, out);
  Instruction* made = TRY(AddCall(b, part, Shape::Tuple({out, statistics})));
  Instruction* rows = TRY(b.GetTupleElement(made, 1));
  Instruction* result = TRY(b.GetTupleElement(made, 0));
  part.operands.insert(part.operands.end(), {result, rows});
  if (end != nullptr) hlo::ReplaceInstruction(end, result);
  return part;
}

// One call in the place of the products that are gradients, which recomputes the scores.
Status RewriteGradient(GradientPattern g) {
  const AttentionPattern& p = g.attention;
  GradientProduct* products[] = {&g.dq, &g.dk, &g.dv};
  Instruction* ends[3] = {};
  Instruction* before = nullptr;
  std::vector<Shape> shapes;
  for (int n = 0; n < 3; ++n) {
    if (products[n]->dot == nullptr) continue;
    before = ends[n] = EndOf(products[n]->dot, products[n]->out);
    shapes.push_back(ends[n]->shape());
  }
  hlo::Computation& computation = *before->parent();
  PartOfCall part = TRY(AddStatistics(g, before));
  hlo::AttentionCall& call = part.call;
  call.is_gradient = true;
  part.operands.push_back(g.dout.value);
  call.dout = LettersOf(p, g.dout.axes);
  std::string* letters[] = {&call.dq, &call.dk, &call.dv};
  for (int n = 0; n < 3; ++n) {
    if (ends[n] != nullptr) *letters[n] = LettersOf(p, products[n]->out);
  }
  Builder b(computation, before, before);
  Instruction* made = TRY(AddCall(b, part, Shape::Tuple(shapes)));
  int64_t at = 0;
  for (Instruction* end : ends) {
    if (end == nullptr) continue;
    Builder beside(computation, end, end);
    hlo::ReplaceInstruction(end, TRY(beside.GetTupleElement(made, at++)));
  }
  computation.SortTopologically();
  return {};
}

Result<bool> RecognizeGradient(Instruction* exponential) {
  if (!IsStaticallyShaped(*exponential) || exponential->shape().dtype() != DType::kF32) {
    return false;
  }
  GradientVerdict verdict = MatchGradientAt(exponential);
  if (verdict.why_not.empty()) {
    TRY(RewriteGradient(std::move(verdict.pattern)));
    return true;
  }
  if (verdict.is_worth_a_word) {
    VLOG("attention", 3) << "the softmax of " << exponential->name()
                         << " and its gradient are not attention in calls: " << verdict.why_not;
  }
  return false;
}

Result<bool> RecognizeProduct(Instruction* dot) {
  // What a gradient was made of is dead.
  if (!IsStaticallyShaped(*dot) || (dot->users().empty() && !dot->IsRoot())) return false;
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
  // A transpose behind the product goes with it: the walks are over exponentials and products, none
  // of which another one's rewrite removes.
  auto walk = [&](Op op, Result<bool> (*recognize)(Instruction*)) -> Result<bool> {
    std::vector<Instruction*> list;
    for (const auto& computation : module.computations()) {
      for (Instruction* i : *computation) {
        if (i->op() == op) list.push_back(i);
      }
    }
    bool changed = false;
    for (Instruction* i : list) changed |= TRY(recognize(i));
    return changed;
  };
  bool gradients = TRY(walk(Op::kExponential, RecognizeGradient));
  return TRY(walk(Op::kDot, RecognizeProduct)) || gradients;
}

}  // namespace weft::compiler
