// Affine index constants: a vector of integers in arithmetic progression becomes an iota, scaled
// and shifted, so that loops know the stride of the places which it names.
#include <algorithm>
#include <optional>

#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

constexpr int64_t kExact = int64_t{1} << 31;  // integers that stay exact as doubles, and apart

struct Progression {
  int64_t along, start, stride;
};

std::optional<Progression> ProgressionOf(const Instruction& i) {
  if (!i.IsConstant() || i.attrs<hlo::ConstantAttrs>().elided || !IsStaticArray(i) ||
      HasControlDependencies(i) || i.sharding() != nullptr) {
    return std::nullopt;
  }
  DType dtype = i.shape().dtype();
  if (dtype != DType::kS32 && dtype != DType::kS64) return std::nullopt;
  const Literal& literal = i.literal();
  const int64_t size = i.shape().elements();
  int64_t along = 0;  // the one dimension of more than one element
  while (along < i.shape().rank() && i.shape().dim(along) == 1) ++along;
  if (size < program::TargetFacts::kUsualLanes || i.shape().dim(along) != size) return std::nullopt;
  for (int64_t k = 0; k < size; ++k) {
    if (literal.GetInt(k) < -kExact || literal.GetInt(k) > kExact) return std::nullopt;
  }
  const int64_t start = literal.GetInt(0), stride = literal.GetInt(1) - start;
  for (int64_t k = 1; k < size; ++k) {
    if (literal.GetInt(k) - literal.GetInt(k - 1) != stride) return std::nullopt;
  }
  if (stride == 0) return std::nullopt;
  return Progression{along, start, stride};
}

// Whether it says where elements of a gather or scatter lie, by itself or put together with others.
bool NamesPlaces(const Instruction& i, int64_t depth = 0) {
  return std::ranges::any_of(i.users(), [&](const Instruction* user) {
    switch (user->op()) {
      case Op::kGather: return user->operand(1) == &i;
      case Op::kScatter: return user->operand(user->operand_count() / 2) == &i;
      case Op::kBroadcast:
      case Op::kReshape:
      case Op::kConcatenate:
        return depth < program::WorkBounds::kTree && NamesPlaces(*user, depth + 1);
      default: return false;
    }
  });
}

Result<bool> CountProgression(Instruction* i) {
  std::optional<Progression> p = ProgressionOf(*i);
  if (!p || !NamesPlaces(*i)) return false;
  Builder b(*i->parent(), i, i);
  Shape shape = WithoutLayoutOf(i->shape());
  auto all = [&](int64_t value) {
    return b.Broadcast(b.ScalarConstant(shape.dtype(), static_cast<double>(value)), shape, {});
  };
  Instruction* x = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = p->along}, &shape));
  if (p->stride != 1) x = TRY(b.Add(Op::kMultiply, {x, TRY(all(p->stride))}));
  if (p->start != 0) x = TRY(b.Add(Op::kAdd, {x, TRY(all(p->start))}));
  hlo::ReplaceInstruction(i, x);
  return true;
}

}  // namespace

Result<bool> RecognizeProgressions(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  return RewriteEach(module, CountProgression);
}

}  // namespace weft::compiler
