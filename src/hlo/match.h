// Patterns over instructions, for rewrites:
//
//   Instruction *x, *c;
//   if (Match(i, m::Add(m::Op(&x), m::Constant(&c)))) ...
//
// Two-operand patterns of commutative ops match in either order. A pattern with operands stores
// what it matched with To(&place); what was stored means something only after a match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "hlo/instruction.h"

namespace weft::hlo {

template <class Pattern>
bool Match(Instruction* i, const Pattern& pattern) {
  return pattern.Matches(i);
}

namespace m {

struct AnyPattern {
  Instruction** store = nullptr;
  bool Matches(Instruction* i) const {
    if (store != nullptr) *store = i;
    return true;
  }
};
inline AnyPattern Op(Instruction** store = nullptr) {
  return {store};
}

// The very same instruction; read when matching, so an earlier part of the pattern may store it.
struct SamePattern {
  Instruction* const* wanted;
  bool Matches(Instruction* i) const { return i == *wanted; }
};
inline SamePattern Same(Instruction* const& wanted) {
  return {&wanted};
}

// A constant whose elements are known.
struct ConstantPattern {
  Instruction** store = nullptr;
  bool Matches(Instruction* i) const {
    if (!i->IsConstant() || i->attrs<ConstantAttrs>().elided) return false;
    if (store != nullptr) *store = i;
    return true;
  }
};
inline ConstantPattern Constant(Instruction** store = nullptr) {
  return {store};
}

// A scalar constant, or the broadcast of one, of this value (-0 counts as 0).
struct ScalarPattern {
  double value;
  bool Matches(Instruction* i) const {
    if (i->op() == hlo::Op::kBroadcast) i = i->operand(0);
    if (!i->IsConstant() || !i->shape().IsScalar() || i->attrs<ConstantAttrs>().elided) {
      return false;
    }
    if (IsComplex(i->shape().dtype())) return i->literal().GetComplex(0) == value;
    return i->literal().GetDouble(0) == value;
  }
};
inline ScalarPattern Scalar(double value) {
  return {value};
}

struct OpIs {
  hlo::Op op;
  bool operator()(hlo::Op other) const { return op == other; }
};
struct OpHasTraits {
  uint32_t traits;
  bool operator()(hlo::Op op) const { return (detail::kOps[size_t(op)].traits & traits) == traits; }
};

template <class Accepts, class... Operands>
struct OpPattern {
  Accepts accepts;
  std::tuple<Operands...> operands;
  Instruction** store = nullptr;
  bool one_user = false;

  OpPattern To(Instruction** place) const {  // stores the instruction itself
    OpPattern copy = *this;
    copy.store = place;
    return copy;
  }
  OpPattern OneUser() const {  // matches only when nobody else reads it
    OpPattern copy = *this;
    copy.one_user = true;
    return copy;
  }
  bool Matches(Instruction* i) const {
    if (!accepts(i->op()) || (one_user && (i->users().size() != 1 || i->IsRoot()))) return false;
    if (sizeof...(Operands) > 0 && i->operand_count() != int64_t{sizeof...(Operands)}) return false;
    if (!MatchOperands(i, std::index_sequence_for<Operands...>())) return false;
    if (store != nullptr) *store = i;
    return true;
  }

 private:
  template <size_t... k>
  bool MatchOperands(Instruction* i, std::index_sequence<k...>) const {
    if ((std::get<k>(operands).Matches(i->operand(int64_t{k})) && ...)) return true;
    if constexpr (sizeof...(Operands) == 2) {
      return HasTrait(i->op(), kCommutative) && std::get<0>(operands).Matches(i->operand(1)) &&
             std::get<1>(operands).Matches(i->operand(0));
    }
    return false;
  }
};

// Any op with patterns for all of its operands, or for none.
template <class... Operands>
OpPattern<OpIs, Operands...> Is(hlo::Op op, Operands... operands) {
  return {{op}, {operands...}};
}
// An op that has all of these traits.
template <class... Operands>
OpPattern<OpHasTraits, Operands...> WithTraits(uint32_t traits, Operands... operands) {
  return {{traits}, {operands...}};
}

#define WEFT_MATCH_OP(Name)                                 \
  template <class... Operands>                              \
  OpPattern<OpIs, Operands...> Name(Operands... operands) { \
    return {{hlo::Op::k##Name}, {operands...}};             \
  }
// clang-format off
WEFT_MATCH_OP(Add) WEFT_MATCH_OP(And) WEFT_MATCH_OP(Broadcast) WEFT_MATCH_OP(Compare)
WEFT_MATCH_OP(Concatenate) WEFT_MATCH_OP(Convert) WEFT_MATCH_OP(Copy) WEFT_MATCH_OP(Divide)
WEFT_MATCH_OP(Dot) WEFT_MATCH_OP(Exponential) WEFT_MATCH_OP(GetTupleElement) WEFT_MATCH_OP(Log)
WEFT_MATCH_OP(Maximum) WEFT_MATCH_OP(Minimum) WEFT_MATCH_OP(Multiply) WEFT_MATCH_OP(Negate)
WEFT_MATCH_OP(Not) WEFT_MATCH_OP(Or) WEFT_MATCH_OP(Pad) WEFT_MATCH_OP(Parameter)
WEFT_MATCH_OP(Reduce) WEFT_MATCH_OP(Reshape) WEFT_MATCH_OP(Select) WEFT_MATCH_OP(Slice)
WEFT_MATCH_OP(Subtract) WEFT_MATCH_OP(Transpose) WEFT_MATCH_OP(Tuple) WEFT_MATCH_OP(Xor)
// clang-format on
#undef WEFT_MATCH_OP

}  // namespace m
}  // namespace weft::hlo
