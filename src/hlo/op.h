// The op table: what Weft knows about each opcode, one row per op. See ops.def for the list and
// ops/ for the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"
#include "base/shape.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;
struct DimRule;

enum class Op : uint8_t {
#define OP(e, mnemonic, arity, attrs, traits) e,
#include "hlo/ops.def"
#undef OP
};
inline constexpr int kOpCount = 0
#define OP(e, mnemonic, arity, attrs, traits) +1
#include "hlo/ops.def"
#undef OP
    ;

enum Trait : uint32_t {
  kNone = 0,
  kElementwise = 1 << 0,  // a result element depends on the operand elements of the same index (or
                          // scalars) alone
  kCommutative = 1 << 1,  // op(a, b) == op(b, a)
  kAssociative = 1 << 2,  // up to rounding
  kCollective = 1 << 3,   // devices take part together
  kAsyncStart = 1 << 4,
  kAsyncDone = 1 << 5,
  kSideEffect = 1 << 6,    // may not be removed or merged though its result is unused
  kShapeWritten = 1 << 7,  // the result shape cannot be inferred from operands and attributes
  kCalls = 1 << 8,         // may have computation attributes
};

// What shape inference sees. `declared` is the shape written or stored on the instruction, null
// when there is none.
struct InferArgs {
  Op op;
  std::span<const Shape* const> operands;
  const Attrs& attrs;
  const Shape* declared;
  const Shape& operand(int64_t i) const { return *operands[static_cast<size_t>(i)]; }
  int64_t size() const { return static_cast<int64_t>(operands.size()); }
};

// The part of a row that is written by hand.
struct OpRow {
  std::string_view doc;
  // The result shape (layouts unset), or an error that names what is wrong with operands or
  // attributes. For ops with trait kShapeWritten it checks *declared and returns it. Number of
  // operands was checked against arity before.
  Result<Shape> (*infer)(const InferArgs&) = nullptr;
  // Rules about this op beyond shapes; null: none.
  Status (*check)(const Instruction&) = nullptr;
  // The reference semantics. Operands that are used here for the last time are passed as sole
  // owners of their bytes, so that in-place updates need no copy. Null: not evaluated alone (see
  // evaluate.h).
  Result<Literal> (*evaluate)(EvalContext&, const Instruction&,
                              std::span<Literal> operands) = nullptr;
  // A local identity: an instruction (existing or newly inserted before this one) with the same
  // value; null: none.
  Instruction* (*fold)(Instruction&) = nullptr;
  // Which dimensions of operands and results go together (dim_rule.h). Elementwise ops have theirs
  // by trait; any other op has a rule or says why it has none.
  DimRule (*dim_rule)(const Instruction&) = nullptr;
  std::string_view no_dim_rule = {};
};

template <Op>
OpRow Define();  // one specialisation per op, in ops/; forgetting one does not link

struct OpDef : OpRow {
  Op op;
  std::string_view mnemonic;
  int arity;  // -1: any number
  uint32_t traits;
  const struct AttrsType* attrs;
};

const OpDef& GetOp(Op op);
inline std::string_view Mnemonic(Op op);
std::optional<Op> FindOp(std::string_view mnemonic);
inline bool HasTrait(Op op, uint32_t traits);

namespace detail {
struct OpStatic {
  std::string_view mnemonic;
  int arity;
  uint32_t traits;
};
inline constexpr OpStatic kOps[kOpCount] = {
#define OP(e, mnemonic, arity, attrs, traits) {mnemonic, arity, traits},
#include "hlo/ops.def"
#undef OP
};
}  // namespace detail

inline std::string_view Mnemonic(Op op) {
  return detail::kOps[static_cast<int>(op)].mnemonic;
}
inline int Arity(Op op) {
  return detail::kOps[static_cast<int>(op)].arity;
}
inline bool HasTrait(Op op, uint32_t traits) {
  return (detail::kOps[static_cast<int>(op)].traits & traits) != 0;
}
inline bool IsElementwise(Op op) {
  return HasTrait(op, kElementwise);
}
inline bool IsCollective(Op op) {
  return HasTrait(op, kCollective);
}
inline bool HasSideEffect(Op op) {
  return HasTrait(op, kSideEffect);
}

}  // namespace weft::hlo
