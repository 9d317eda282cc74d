#include "hlo/op.h"

#include <algorithm>
#include <array>

#include "hlo/attrs.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

template <Op op>
OpDef MakeDef(const AttrsType* attrs) {
  OpDef def{Define<op>(), op, Mnemonic(op), Arity(op), detail::kOps[static_cast<int>(op)].traits,
            attrs};
  return def;
}

}  // namespace

const OpDef& GetOp(Op op) {
  static const std::array<OpDef, kOpCount> table = {
#define OP(e, mnemonic, arity, attrs, traits) MakeDef<Op::e>(&kAttrsType<attrs>),
#include "hlo/ops.def"
#undef OP
  };
  return table[static_cast<size_t>(op)];
}

std::optional<Op> FindOp(std::string_view mnemonic) {
  static_assert(std::ranges::is_sorted(detail::kOps, {}, &detail::OpStatic::mnemonic),
                "ops.def is alphabetical by mnemonic");
  auto* begin = detail::kOps;
  auto* end = detail::kOps + kOpCount;
  auto* it = std::lower_bound(
      begin, end, mnemonic,
      [](const detail::OpStatic& a, std::string_view b) { return a.mnemonic < b; });
  if (it == end || it->mnemonic != mnemonic) return std::nullopt;
  return static_cast<Op>(it - begin);
}

Result<Shape> InferShape(Op op, std::span<const Shape* const> operands, const Attrs& attrs,
                         const Shape* declared) {
  const OpDef& def = GetOp(op);
  if (def.arity >= 0 && static_cast<int>(operands.size()) != def.arity) {
    return InvalidArgument(def.mnemonic, ": takes ", def.arity, " operand",
                           def.arity == 1 ? "" : "s", ", got ", operands.size());
  }
  CHECK(def.infer != nullptr) << def.mnemonic;
  return def.infer(InferArgs{op, operands, attrs, declared});
}

}  // namespace weft::hlo
