// The walk begins at the exponentials and goes down, in the order of the computation: every value
// that is made of them is a sum of terms (softmax_terms.h) along known axes, until products take
// it.
#include "compiler/passes/recognize/attention_gradient_match.h"

#include <algorithm>
#include <cmath>

#include "compiler/passes/recognize/softmax_terms.h"
#include "hlo/computation.h"
#include "hlo/module.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// A dimension that a broadcast makes: any axis.
constexpr int kAnyAxis = -5;

struct SoftmaxValue {
  AxisList axes;
  SoftmaxTerms terms;
  std::set<size_t> masks;  // of the attention, beyond which it is 0
};

// Operands of products by what they are made of.
AxisView Source(AxisView view) {
  return BehindMoves(BehindWidening(BehindMoves(std::move(view))));
}

AxisList Sorted(AxisList axes) {
  std::erase(axes, kUnitAxis);
  std::sort(axes.begin(), axes.end());
  return axes;
}

class GradientMatch {
 public:
  GradientMatch(Instruction* exponential, GradientVerdict& verdict)
      : e_(exponential), p_(verdict.pattern), a_(p_.attention) {}

  std::string_view Match();
  bool HasGradients() const { return p_.dq.dot || p_.dk.dot || p_.dv.dot || g_.value; }
  bool IsWorthAWord() const { return HasGradients() || refused_; }

 private:
  // Why an instruction that reads a value is no part of the pattern.
  std::string_view Read(Instruction* i);
  std::optional<SoftmaxValue> ValueOf(Instruction* i);
  std::optional<SoftmaxValue> Binary(Instruction* i);
  std::optional<SoftmaxValue> Reduced(Instruction* i);
  std::optional<SoftmaxValue> Selected(Instruction* i);
  // An operand beside a value with these axes: a value, a constant, or G.
  std::optional<SoftmaxValue> Beside(Instruction* operand, const AxisList& axes);
  bool BindGradient(Instruction* i, AxisList axes);
  std::string_view ReadProduct(Instruction* dot);
  std::string_view Keep(GradientProduct& product, Instruction* dot, const Contraction& c);
  std::string_view MatchGradientOfWeights();
  std::string_view CheckSides() const;
  std::string_view CheckUsers() const;

  Instruction* e_;
  GradientPattern& p_;
  AttentionPattern& a_;
  std::map<Instruction*, SoftmaxValue> values_;
  std::set<Instruction*> inside_;
  bool refused_ = false;            // something else reads weights
  AxisView g_;                      // gradients of weights
  AxisView keys_, queries_, dout_;  // as the gradients' products have them
};

std::string_view GradientMatch::Match() {
  if (std::string_view why = MatchExponentials(e_, a_, inside_); !why.empty()) return why;
  values_[e_] = {NumberAxes(e_->shape()), {{1, 1, 0, 0, 0}}, {}};
  bool behind = false;
  for (Instruction* i : *e_->parent()) {
    behind |= i == e_;
    if (!behind || i == e_) continue;
    bool reads = std::any_of(i->operands().begin(), i->operands().end(),
                             [&](Instruction* operand) { return values_.contains(operand); });
    if (!reads) continue;
    if (std::string_view why = Read(i); !why.empty()) return why;
  }
  if (!HasGradients()) return "there are no gradients";
  if (std::string_view why = MatchGradientOfWeights(); !why.empty()) return why;
  if (std::string_view why = CheckSides(); !why.empty()) return why;
  return CheckUsers();
}

std::string_view GradientMatch::Read(Instruction* i) {
  if (i->op() == Op::kDot) return ReadProduct(i);
  auto value = ValueOf(i);
  if (!value) {
    refused_ = true;
    return i->op() == Op::kSelect ? "weights are masked behind the softmax, as dropout does"
                                  : "scores or weights are read by another op";
  }
  if (i->IsRoot()) return "scores or weights are a result";
  inside_.insert(i);
  values_[i] = std::move(*value);
  return {};
}

std::optional<SoftmaxValue> GradientMatch::ValueOf(Instruction* i) {
  auto known = values_.find(i->operand(0));
  switch (i->op()) {
    case Op::kCopy:
    case Op::kReshape:
    case Op::kTranspose: {
      auto axes = AxesAfterMove(*i, known->second.axes);
      if (!axes) return std::nullopt;
      return SoftmaxValue{std::move(*axes), known->second.terms, known->second.masks};
    }
    case Op::kConvert:
      if (!IsAttentionFloat(i->shape().dtype())) return std::nullopt;
      return known->second;
    case Op::kNegate:
      return SoftmaxValue{known->second.axes, SumOf({}, known->second.terms, -1),
                          known->second.masks};
    case Op::kBroadcast: {
      SoftmaxValue value = known->second;
      AxisList axes;
      for (int64_t d = 0; d < i->shape().rank(); ++d) {
        axes.push_back(i->shape().dim(d) == 1 ? kUnitAxis : kAnyAxis);
      }
      const auto& dimensions = i->attrs<hlo::BroadcastAttrs>().dimensions;
      for (size_t d = 0; d < dimensions.size(); ++d) {
        int64_t to = dimensions[d];
        bool grows = i->shape().dim(to) != i->operand(0)->shape().dim(static_cast<int64_t>(d));
        if (!grows) axes[static_cast<size_t>(to)] = value.axes[d];
      }
      value.axes = std::move(axes);
      return value;
    }
    case Op::kReduce: return Reduced(i);
    case Op::kSelect: return Selected(i);
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide: return Binary(i);
    default: return std::nullopt;
  }
}

std::optional<SoftmaxValue> GradientMatch::Reduced(Instruction* i) {
  auto known = values_.find(i->operand(0));
  if (i->operand_count() != 2 || known == values_.end() || !known->second.masks.empty()) {
    return std::nullopt;
  }
  const auto& attrs = i->attrs<hlo::ReduceAttrs>();
  const Instruction* root = attrs.to_apply->root();
  bool adds = root->op() == Op::kAdd && root->operand(0)->IsParameter() &&
              root->operand(1)->IsParameter() && root->operand(0) != root->operand(1);
  auto init = SplatOf({i->operand(1), {}});
  if (!adds || !init || *init != 0) return std::nullopt;
  AxisList axes;
  bool along_keys = false;
  for (int64_t d = 0; d < std::ssize(known->second.axes); ++d) {
    int axis = known->second.axes[static_cast<size_t>(d)];
    const auto& dims = attrs.dimensions;
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      axes.push_back(axis);
    } else if (axis == a_.key) {
      along_keys = true;
    } else if (axis != kUnitAxis) {
      return std::nullopt;
    }
  }
  auto terms = SumOverKeys(known->second.terms);
  if (!along_keys || !terms) return std::nullopt;
  return SoftmaxValue{std::move(axes), std::move(*terms), {}};
}

// The mask of the scores, which leaves no gradient where it is false.
std::optional<SoftmaxValue> GradientMatch::Selected(Instruction* i) {
  int64_t side = values_.contains(i->operand(1)) ? 1 : 2;
  auto known = values_.find(i->operand(side));
  if (known == values_.end()) return std::nullopt;
  Instruction* other = i->operand(3 - side);
  auto splat = SplatOf({other, NumberAxes(other->shape())});
  if (!splat || *splat != 0 || i->operand(0)->shape().rank() != i->shape().rank()) {
    return std::nullopt;
  }
  SoftmaxValue value = known->second;
  AxisView view = BehindBroadcasts({i->operand(0), value.axes});
  for (size_t n = 0; n < a_.selects.size(); ++n) {
    if (a_.selects[n].view == view && a_.selects[n].negated == (side == 2)) {
      value.masks.insert(n);
      return value;
    }
  }
  return std::nullopt;
}

bool GradientMatch::BindGradient(Instruction* i, AxisList axes) {
  for (int& axis : axes) {
    if (axis == kAnyAxis) axis = a_.key;
  }
  if (Sorted(axes) != Sorted(NumberAxes(e_->shape()))) return false;
  std::vector<Instruction*> path = {i};
  AxisView view = {i, std::move(axes)};
  for (;;) {
    auto next = BehindMove(view);
    view = next ? std::move(*next) : BehindWidening(view);
    if (view.value == path.back()) break;
    path.push_back(view.value);
  }
  if (view.value->op() != Op::kDot || (g_.value != nullptr && g_ != view)) return false;
  g_ = std::move(view);
  inside_.insert(path.begin(), path.end());
  return true;
}

std::optional<SoftmaxValue> GradientMatch::Beside(Instruction* operand, const AxisList& axes) {
  if (auto known = values_.find(operand); known != values_.end()) return known->second;
  AxisList any;
  for (int axis : axes) any.push_back(axis == kUnitAxis ? kUnitAxis : kAnyAxis);
  if (auto splat = SplatOf({operand, NumberAxes(operand->shape())})) {
    return SoftmaxValue{std::move(any), {{*splat, 0, 0, 0, 0}}, {}};
  }
  if (!BindGradient(operand, axes)) return std::nullopt;
  AxisList bound = axes;
  for (int& axis : bound) {
    if (axis == kAnyAxis) axis = a_.key;
  }
  return SoftmaxValue{std::move(bound), {{1, 0, 1, 0, 0}}, {}};
}

std::optional<SoftmaxValue> GradientMatch::Binary(Instruction* i) {
  bool first = values_.contains(i->operand(0));
  AxisList axes = values_.find(i->operand(first ? 0 : 1))->second.axes;
  auto a = Beside(i->operand(0), axes), b = Beside(i->operand(1), axes);
  if (!a || !b) return std::nullopt;
  SoftmaxValue value;
  for (size_t d = 0; d < axes.size(); ++d) {
    int x = a->axes[d], y = b->axes[d];
    if (x != y && x != kAnyAxis && y != kAnyAxis) return std::nullopt;
    value.axes.push_back(x == kAnyAxis ? y : x);
  }
  bool is_product = i->op() == Op::kMultiply || i->op() == Op::kDivide;
  if (!is_product) {
    if (a->masks != b->masks) return std::nullopt;
    value.masks = a->masks;
    value.terms = SumOf(a->terms, b->terms, i->op() == Op::kAdd ? 1 : -1);
    return value;
  }
  value.masks = a->masks;
  value.masks.insert(b->masks.begin(), b->masks.end());
  auto terms =
      i->op() == Op::kMultiply ? ProductOf(a->terms, b->terms) : QuotientOf(a->terms, b->terms);
  if (!terms) return std::nullopt;
  value.terms = std::move(*terms);
  return value;
}

std::string_view GradientMatch::Keep(GradientProduct& product, Instruction* dot,
                                     const Contraction& c) {
  if (product.dot != nullptr) return "a gradient is computed twice";
  if (!IsAttentionFloat(dot->shape().dtype())) return "gradients are no floats of 16 or 32 bits";
  product = {dot, c.out};
  return {};
}

std::string_view GradientMatch::ReadProduct(Instruction* dot) {
  int64_t side = values_.contains(dot->operand(0)) ? 0 : 1;
  if (values_.contains(dot->operand(1 - side))) return "weights are multiplied by weights";
  const SoftmaxValue& value = values_.at(dot->operand(side));
  bool weights = AreWeights(value.terms) && value.masks.empty();
  auto scale = ScaleOfGradient(value.terms);
  if (!weights && !scale) return "a product takes another function of the scores";
  if (Sorted(value.axes) != Sorted(NumberAxes(e_->shape()))) return "axes are not known";
  auto c = ContractionOf(dot, side, value.axes, weights ? a_.values : a_.depth);
  if (!c) return "a gradient is not along one dimension";
  bool along_keys = c->contracted == AxisList{a_.key};
  if (!along_keys && std::count(c->contracted.begin(), c->contracted.end(), a_.key) != 0) {
    return "more than keys is contracted";
  }
  if (weights && along_keys) {
    if (a_.product != nullptr) return "values are read twice";
    a_.product = dot, a_.out = c->out, a_.v = BehindWidening(c->other);
    return {};
  }
  if (weights) {
    dout_ = c->other;
    return Keep(p_.dv, dot, *c);
  }
  if (std::abs(*scale - a_.scale) > 1e-6 * std::abs(a_.scale)) {
    return "the gradient has another scale";
  }
  if (value.masks.size() != a_.selects.size()) return "the gradient has another mask";
  (along_keys ? keys_ : queries_) = c->other;
  return Keep(along_keys ? p_.dq : p_.dk, dot, *c);
}

// G = dout V^T.
std::string_view GradientMatch::MatchGradientOfWeights() {
  AxisView dout = dout_;
  if (g_.value != nullptr) {
    ProductViews views = OperandViews(g_.value, g_.axes, a_.values);
    bool right = views.rhs.Has(a_.key);
    AxisView v = right ? views.rhs : views.lhs;
    dout = right ? views.lhs : views.rhs;
    if (!v.Has(a_.values) || !dout.Has(a_.values) || dout.Has(a_.key)) {
      return "the gradient of weights is another product";
    }
    if (a_.product != nullptr && Source(v) != Source(a_.v)) return "values differ";
    if (a_.product == nullptr) a_.v = BehindWidening(std::move(v));
    if (dout_.value != nullptr && Source(dout) != Source(dout_)) return "gradients differ";
  } else if (a_.product == nullptr) {
    return "values are not known";
  }
  p_.dout = BehindWidening(std::move(dout));
  bool floats = IsAttentionFloat(p_.dout.value->shape().dtype()) &&
                IsAttentionFloat(a_.v.value->shape().dtype());
  return floats ? std::string_view() : "values are no floats of 16 or 32 bits";
}

std::string_view GradientMatch::CheckSides() const {
  if (keys_.value != nullptr && Source(keys_) != Source(a_.k)) return "keys differ";
  if (queries_.value != nullptr && Source(queries_) != Source(a_.q)) return "queries differ";
  for (int axis : Sorted(NumberAxes(e_->shape()))) {
    if (axis == a_.key) continue;
    if (!a_.q.Has(axis) || !p_.dout.Has(axis)) return "rows share a query";
    if (a_.k.Has(axis) != a_.v.Has(axis)) return "keys and values have different dimensions";
  }
  auto fits = [](const GradientProduct& product, const AxisView& of) {
    return product.dot == nullptr || Sorted(product.out) == Sorted(of.axes);
  };
  if (!fits(p_.dq, a_.q) || !fits(p_.dk, a_.k) || !fits(p_.dv, a_.v)) {
    return "a gradient is summed elsewhere";
  }
  return {};
}

std::string_view GradientMatch::CheckUsers() const {
  for (const Instruction* i : inside_) {
    if (i->IsRoot()) return "scores or weights are a result";
    for (Instruction* user : i->users()) {
      bool known = inside_.contains(user) || user == a_.product || user == p_.dq.dot ||
                   user == p_.dk.dot || user == p_.dv.dot;
      if (!known) return "scores or weights are read elsewhere";
    }
  }
  return {};
}

}  // namespace

GradientVerdict MatchGradientAt(Instruction* exponential) {
  GradientVerdict verdict;
  GradientMatch match(exponential, verdict);
  verdict.why_not = match.Match();
  verdict.is_worth_a_word = match.IsWorthAWord();
  return verdict;
}

}  // namespace weft::compiler
