// The walk begins at the product with V and goes up: weights = E / sum(E), E = exp(S - max(S)),
// S = select(mask, scale * dot(Q, K) + bias, fill), each behind transposes, unit dimensions and
// broadcasts. Dimensions are told apart by the axes of S.
#include "compiler/passes/recognize/attention_match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hlo/module.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// Below, the scores stay in cache and the calls of products cost as much as they gain.
constexpr int64_t kFewestScores = program::TargetFacts::kFirstLevelBytes / 2 / sizeof(float);

bool IsListed(const Ints& list, int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

}  // namespace

bool IsAttentionFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

ProductViews OperandViews(Instruction* dot, const AxisList& result, int inner) {
  const auto& a = dot->attrs<DotAttrs>();
  size_t next = a.lhs_batch_dims.size();
  auto side = [&](int64_t n, const Ints& batch, const Ints& contracting) {
    const Shape& shape = dot->operand(n)->shape();
    AxisView view{dot->operand(n), AxisList(static_cast<size_t>(shape.rank()), kUnitAxis)};
    for (size_t i = 0; i < batch.size(); ++i) view.axes[static_cast<size_t>(batch[i])] = result[i];
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (IsListed(batch, d)) continue;
      int axis = IsListed(contracting, d) ? inner : result[next++];
      view.axes[static_cast<size_t>(d)] = shape.dim(d) == 1 ? kUnitAxis : axis;
    }
    return view;
  };
  ProductViews views;
  views.lhs = side(0, a.lhs_batch_dims, a.lhs_contracting_dims);
  views.rhs = side(1, a.rhs_batch_dims, a.rhs_contracting_dims);
  return views;
}

AxisView BehindWidening(AxisView view) {
  Instruction* i = view.value;
  if (i->op() == Op::kConvert && i->shape().dtype() == DType::kF32 &&
      IsAttentionFloat(i->operand(0)->shape().dtype())) {
    view.value = i->operand(0);
  }
  return view;
}

std::optional<Contraction> ContractionOf(Instruction* dot, int64_t side, const AxisList& axes,
                                         int more) {
  const auto& a = dot->attrs<DotAttrs>();
  bool left = side == 0;
  const Ints& batch = left ? a.lhs_batch_dims : a.rhs_batch_dims;
  const Ints& other_batch = left ? a.rhs_batch_dims : a.lhs_batch_dims;
  const Ints& contracting = left ? a.lhs_contracting_dims : a.rhs_contracting_dims;
  const Ints& other_contracting = left ? a.rhs_contracting_dims : a.lhs_contracting_dims;
  Contraction c;
  c.other.value = dot->operand(1 - side);
  c.other.axes.resize(static_cast<size_t>(c.other.value->shape().rank()), kUnitAxis);
  AxisList out_own, out_more;
  for (size_t i = 0; i < batch.size(); ++i) {
    int axis = axes[static_cast<size_t>(batch[i])];
    c.other.axes[static_cast<size_t>(other_batch[i])] = axis;
    c.out.push_back(axis);
  }
  for (size_t i = 0; i < contracting.size(); ++i) {
    int axis = axes[static_cast<size_t>(contracting[i])];
    if (axis != kUnitAxis) c.contracted.push_back(axis);
    c.other.axes[static_cast<size_t>(other_contracting[i])] = axis;
  }
  for (int64_t d = 0; d < std::ssize(axes); ++d) {
    if (!IsListed(batch, d) && !IsListed(contracting, d)) {
      out_own.push_back(axes[static_cast<size_t>(d)]);
    }
  }
  for (int64_t d = 0; d < c.other.value->shape().rank(); ++d) {
    if (IsListed(other_batch, d) || IsListed(other_contracting, d)) continue;
    int axis = c.other.value->shape().dim(d) == 1 ? kUnitAxis : more;
    c.other.axes[static_cast<size_t>(d)] = axis;
    out_more.push_back(axis);
  }
  if (std::count(out_more.begin(), out_more.end(), more) != 1) return std::nullopt;
  for (const AxisList* part : {left ? &out_own : &out_more, left ? &out_more : &out_own}) {
    c.out.insert(c.out.end(), part->begin(), part->end());
  }
  return c;
}

namespace {

bool HasTooManyAxes(const Shape& shape) {
  constexpr int64_t kMostAxes = 20;  // there is a letter for each
  return shape.rank() > kMostAxes;
}

class AttentionMatch {
 public:
  AttentionMatch(Instruction* product, AttentionVerdict& verdict)
      : product_(product), verdict_(verdict), p_(verdict.pattern) {
    p_.product = product;
  }

  // Why not; empty: it is attention.
  std::string_view Match(int64_t weights_side);
  // From exponentials up, by their axes.
  std::string_view MatchFrom(Instruction* exponential, std::set<Instruction*>& inside);

 private:
  std::string_view MatchSoftmax(const AxisView& weights);
  std::string_view MatchDifference(const AxisView& exponential);
  std::string_view MatchScores(AxisView scores);
  std::string_view MatchFirstProduct(const AxisView& scores);
  std::string_view MatchSecondProduct(int64_t weights_side);
  std::string_view CheckUsers() const;
  // The reduction along keys behind a broadcast, of the same elements as `of`.
  bool IsReductionOf(const AxisView& broadcast, Op op, const AxisView& of);
  AxisView BehindReduction(AxisView view, Op op);
  // Behind moves; what is on the way is part of the pattern.
  AxisView Step(AxisView view) {
    inside_.insert(view.value);
    while (auto next = BehindMove(view)) {
      view = std::move(*next);
      inside_.insert(view.value);
    }
    return view;
  }

  Instruction* product_;
  AttentionVerdict& verdict_;
  AttentionPattern& p_;
  std::set<Instruction*> inside_;  // what goes
  int64_t queries_ = 1, keys_ = 1;
};

std::string_view AttentionMatch::Match(int64_t weights_side) {
  AxisView weights{product_->operand(weights_side), {}};
  weights.axes = NumberAxes(weights.value->shape());
  p_.depth = static_cast<int>(weights.axes.size());
  p_.values = p_.depth + 1;
  weights = Step(std::move(weights));
  if (weights.value->op() == Op::kConvert &&
      weights.value->operand(0)->shape().dtype() == DType::kF32) {
    weights = Step({weights.value->operand(0), weights.axes});
  }
  if (std::string_view why = MatchSoftmax(weights); !why.empty()) return why;
  if (std::string_view why = MatchSecondProduct(weights_side); !why.empty()) return why;
  if (queries_ * keys_ < kFewestScores) return "there are few scores";
  if (HasTooManyAxes(product_->operand(weights_side)->shape())) {
    return "there are too many dimensions";
  }
  return CheckUsers();
}

// What is behind broadcasts, and behind the maximum with -inf that jax.nn.softmax has.
AxisView AttentionMatch::BehindReduction(AxisView view, Op op) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  for (;;) {
    view = Step(std::move(view));
    Instruction* i = view.value;
    if (i->op() == Op::kBroadcast) {
      AxisList axes;
      for (int64_t d : i->attrs<hlo::BroadcastAttrs>().dimensions) {
        axes.push_back(view.axes[static_cast<size_t>(d)]);
      }
      view = {i->operand(0), std::move(axes)};
    } else if (i->op() == Op::kMaximum && op == Op::kMaximum) {
      bool first = SplatOf({i->operand(0), view.axes}) == kLowest;
      if (!first && SplatOf({i->operand(1), view.axes}) != kLowest) return view;
      view.value = i->operand(first ? 1 : 0);
    } else {
      return view;
    }
  }
}

bool AttentionMatch::IsReductionOf(const AxisView& broadcast, Op op, const AxisView& of) {
  AxisView view = BehindReduction(broadcast, op);
  Instruction* reduce = view.value;
  if (reduce->op() != Op::kReduce || reduce->operand_count() != 2) return false;
  const auto& attrs = reduce->attrs<hlo::ReduceAttrs>();
  const Instruction* root = attrs.to_apply->root();
  if (attrs.dimensions.size() != 1 || root->op() != op || root->operand_count() != 2 ||
      !root->operand(0)->IsParameter() || !root->operand(1)->IsParameter() ||
      root->operand(0) == root->operand(1)) {
    return false;
  }
  auto init = SplatOf({reduce->operand(1), {}});
  if (!init || (op == Op::kAdd ? *init != 0 : !(std::isinf(*init) && *init < 0))) return false;
  // Its operand: the same elements, but for the axis that is reduced, which these name.
  constexpr int kReduced = -3;
  AxisList axes = view.axes;
  axes.insert(axes.begin() + attrs.dimensions[0], kReduced);
  AxisView operand = Step({reduce->operand(0), std::move(axes)});
  if (operand.value != of.value) return false;
  for (size_t d = 0; d < of.axes.size(); ++d) {
    if (operand.axes[d] == of.axes[d]) continue;
    if (operand.axes[d] != kReduced || (p_.key != -2 && p_.key != of.axes[d])) return false;
    p_.key = of.axes[d];
  }
  return p_.key >= 0;
}

std::string_view AttentionMatch::MatchSoftmax(const AxisView& weights) {
  Instruction* divide = weights.value;
  if (divide->op() != Op::kDivide) return "weights are no quotient";
  if (divide->shape().dtype() != DType::kF32) return "weights are not f32";
  AxisView e = Step({divide->operand(0), weights.axes});
  if (e.value->op() != Op::kExponential) return "weights are no exponentials";
  if (!IsReductionOf({divide->operand(1), weights.axes}, Op::kAdd, e)) {
    return "weights are not divided by their sum";
  }
  verdict_.has_softmax = true;
  return MatchDifference(e);
}

std::string_view AttentionMatch::MatchDifference(const AxisView& e) {
  AxisView difference = Step({e.value->operand(0), e.axes});
  if (difference.value->op() != Op::kSubtract) return "the largest score is not subtracted";
  AxisView scores = Step({difference.value->operand(0), difference.axes});
  if (!IsReductionOf({difference.value->operand(1), difference.axes}, Op::kMaximum, scores)) {
    return "what is subtracted is not the largest score";
  }
  for (size_t d = 0; d < scores.axes.size(); ++d) {
    int64_t size = scores.value->shape().dim(static_cast<int64_t>(d));
    (scores.axes[d] == p_.key ? keys_ : queries_) *= size;
  }
  return MatchScores(std::move(scores));
}

// From the outermost op to the product: select, then + bias, then * scale, each any number of
// times.
std::string_view AttentionMatch::MatchScores(AxisView scores) {
  p_.mask.key_axis = p_.key;
  bool scaled = false;
  while (scores.value->op() != Op::kDot) {
    Instruction* i = scores.value;
    auto operand = [&](int64_t n) { return AxisView{i->operand(n), scores.axes}; };
    std::optional<double> constants[3];
    for (int64_t n = 0; n < std::min<int64_t>(i->operand_count(), 3); ++n) {
      if (i->op() != Op::kSelect || n > 0) constants[n] = SplatOf(operand(n));
    }
    int64_t next = 0;
    if (i->op() == Op::kSelect && (constants[1] || constants[2]) && !scaled && !p_.bias) {
      next = constants[2] ? 1 : 2;
      double fill = *constants[3 - next];
      if (p_.fill.value_or(fill) != fill) return "masks have several fills";
      if (i->operand(0)->shape().rank() != i->shape().rank()) return "one predicate chooses all";
      p_.fill = fill;
      p_.mask.Add(operand(0), next == 2);
      p_.selects.push_back({BehindBroadcasts(operand(0)), next == 2});
    } else if (i->op() == Op::kMultiply && (constants[0] || constants[1])) {
      next = constants[1] ? 0 : 1;
      p_.scale *= *constants[1 - next];
      scaled = true;
    } else if (i->op() == Op::kDivide && constants[1]) {
      p_.scale /= *constants[1];
      scaled = true;
    } else if (i->op() == Op::kAdd && !p_.bias && !scaled) {
      // The side that leads to a product through what is allowed.
      AxisView first = BehindMoves(operand(0));
      while (first.value->op() == Op::kMultiply || first.value->op() == Op::kDivide) {
        first = BehindMoves(
            {first.value->operand(SplatOf({first.value->operand(0), first.axes}) ? 1 : 0),
             first.axes});
      }
      next = first.value->op() == Op::kDot ? 0 : 1;
      p_.bias = BehindBroadcasts(BehindWidening(BehindBroadcasts(operand(1 - next))));
      const Shape& shape = p_.bias->value->shape();
      if (!IsAttentionFloat(shape.dtype())) return "the bias is no float of 16 or 32 bits";
      if (hlo::IsElementwise(p_.bias->value->op()) && shape.elements() >= queries_ * keys_) {
        return "the bias is computed for every score";
      }
    } else {
      return "scores are made by another op";
    }
    scores = Step(operand(next));
  }
  inside_.insert(scores.value);
  return MatchFirstProduct(scores);
}

std::string_view AttentionMatch::MatchFirstProduct(const AxisView& scores) {
  Instruction* dot = scores.value;
  if (dot->shape().dtype() != DType::kF32) return "scores are rounded to a narrow type";
  ProductViews views = OperandViews(dot, scores.axes, p_.depth);
  bool key_is_right = views.rhs.Has(p_.key), both = key_is_right && views.lhs.Has(p_.key);
  if (both) return "keys are a batch of the product";
  p_.k = BehindWidening(key_is_right ? views.rhs : views.lhs);
  p_.q = BehindWidening(key_is_right ? views.lhs : views.rhs);
  if (std::count(p_.q.axes.begin(), p_.q.axes.end(), p_.depth) != 1 ||
      std::count(p_.k.axes.begin(), p_.k.axes.end(), p_.depth) != 1) {
    return "the depth is not one dimension";
  }
  if (!IsAttentionFloat(p_.q.value->shape().dtype()) ||
      !IsAttentionFloat(p_.k.value->shape().dtype())) {
    return "queries or keys are no floats of 16 or 32 bits";
  }
  return {};
}

std::string_view AttentionMatch::MatchSecondProduct(int64_t weights_side) {
  AxisList weights = NumberAxes(product_->operand(weights_side)->shape());
  auto c = ContractionOf(product_, weights_side, weights, p_.values);
  if (!c) return "values are not along one dimension";
  if (!c->other.Has(p_.key)) return "keys are not contracted with values";
  if (c->contracted != AxisList{p_.key}) return "more than keys is contracted with values";
  p_.out = std::move(c->out);
  p_.v = BehindWidening(std::move(c->other));
  bool floats =
      IsAttentionFloat(p_.v.value->shape().dtype()) && IsAttentionFloat(product_->shape().dtype());
  return floats ? std::string_view() : "values are no floats of 16 or 32 bits";
}

std::string_view AttentionMatch::MatchFrom(Instruction* exponential,
                                           std::set<Instruction*>& inside) {
  AxisView e{exponential, NumberAxes(exponential->shape())};
  p_.depth = static_cast<int>(e.axes.size());
  p_.values = p_.depth + 1;
  inside_.insert(exponential);
  if (std::string_view why = MatchDifference(e); !why.empty()) return why;
  if (queries_ * keys_ < kFewestScores) return "there are few scores";
  if (HasTooManyAxes(exponential->shape())) return "there are too many dimensions";
  inside.insert(inside_.begin(), inside_.end());
  return {};
}

// Nothing else reads what would no longer be computed.
std::string_view AttentionMatch::CheckUsers() const {
  for (const Instruction* i : inside_) {
    for (Instruction* user : i->users()) {
      if (user != product_ && !inside_.contains(user))
        return "scores or weights are read elsewhere";
    }
    if (i->IsRoot()) return "scores or weights are read elsewhere";
  }
  return {};
}

}  // namespace

AttentionVerdict MatchAttentionAt(Instruction* product, int64_t weights) {
  AttentionVerdict verdict;
  verdict.why_not = AttentionMatch(product, verdict).Match(weights);
  return verdict;
}

std::string_view MatchExponentials(Instruction* exponential, AttentionPattern& pattern,
                                   std::set<Instruction*>& inside) {
  AttentionVerdict verdict;
  std::string_view why = AttentionMatch(nullptr, verdict).MatchFrom(exponential, inside);
  pattern = std::move(verdict.pattern);
  return why;
}

}  // namespace weft::compiler
