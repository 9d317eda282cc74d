// Rows in the order of who reads them: what is computed row by row (softmax, norms) and then
// transposed, rows as a whole, is computed in the order of the transpose's result. Its operands are
// transposed instead, which costs nothing: kernels read rows wherever they lie.

#include <algorithm>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/fuse/fuse.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

class RowPermuter {
 public:
  explicit RowPermuter(Instruction& transpose)
      : transpose_(transpose),
        value_(*transpose.operand(0)),
        order_(transpose.attrs<hlo::DimensionsAttrs>().dimensions),
        rank_(value_.shape().rank()) {}

  // Whether it reduces rows and moves them as a whole.
  bool Matches(const program::TargetInfo& target) {
    if (rank_ < 2 || order_.back() != rank_ - 1 || !IsPlain(transpose_)) return false;
    const Shape& shape = value_.shape();
    // Rows are read as whole lines of the cache.
    if (shape.dim(rank_ - 1) * ByteWidth(shape.dtype()) < target.cache_line / 2) return false;
    FindMembers();
    return std::ranges::any_of(members_,
                               [](const Instruction* i) { return i->op() == Op::kReduce; });
  }

  Status Permute() {
    Builder b(*transpose_.parent(), &transpose_, &transpose_);
    for (Instruction* i : members_ | std::views::reverse) permuted_[i] = TRY(PermuteMember(b, *i));
    hlo::ReplaceInstruction(&transpose_, permuted_.at(&value_));
    return {};
  }

 private:
  static bool IsPlain(const Instruction& i) {
    return i.shape().IsArray() && i.shape().IsStatic() && !HasControlDependencies(i) &&
           i.sharding() == nullptr;
  }
  // All dimensions, or all but the last.
  bool IsWide(const Shape& shape) const { return shape.dims() == value_.shape().dims(); }
  bool IsNarrow(const Shape& shape) const {
    return shape.rank() == rank_ - 1 &&
           std::ranges::equal(shape.dims(), value_.shape().dims() | std::views::take(rank_ - 1));
  }
  bool IsOfRows(const Shape& shape) const { return IsWide(shape) || IsNarrow(shape); }

  bool MayBeMember(const Instruction& i) const {
    if (!IsPlain(i) || !IsOfRows(i.shape()) || i.operand_count() == 0) return false;
    if (i.op() == Op::kReduce) {
      const auto& attrs = i.attrs<hlo::ReduceAttrs>();
      return i.operand_count() == 2 && attrs.dimensions == Ints{rank_ - 1} &&
             IsWide(i.operand(0)->shape());
    }
    if (i.op() == Op::kBroadcast) return SpreadsRows(i);
    return hlo::IsElementwise(i.op()) &&
           std::ranges::all_of(i.operands(), [&](const Instruction* operand) {
             return operand->shape().dims() == i.shape().dims();
           });
  }
  bool SpreadsRows(const Instruction& broadcast) const {
    const auto& dims = broadcast.attrs<hlo::BroadcastAttrs>().dimensions;
    if (!IsWide(broadcast.shape()) || !IsNarrow(broadcast.operand(0)->shape())) return false;
    for (int64_t d = 0; d < std::ssize(dims); ++d) {
      if (dims[static_cast<size_t>(d)] != d) return false;
    }
    return true;
  }

  // Read by the transpose alone, by way of each other: each behind all that read it.
  void FindMembers() {
    std::unordered_set<const Instruction*> inside = {&transpose_};
    auto add = [&](Instruction* i) {
      bool own =
          !i->IsRoot() && !inside.contains(i) && MayBeMember(*i) &&
          std::ranges::all_of(i->users(), [&](Instruction* u) { return inside.contains(u); });
      if (!own) return;
      inside.insert(i);
      members_.push_back(i);
    };
    add(&value_);
    for (size_t k = 0; k < members_.size() && k < kMaxFusionMembers; ++k) {
      for (Instruction* operand : members_[k]->operands()) add(operand);
    }
  }

  // The order of the dimensions of a wide or a narrow value.
  Ints OrderOf(const Shape& shape) const {
    Ints order = order_;
    order.resize(static_cast<size_t>(shape.rank()));
    return order;
  }
  Shape Permuted(const Shape& shape) const {
    Shape result = shape;
    Ints order = OrderOf(shape);
    for (int64_t d = 0; d < shape.rank(); ++d) {
      result.set_dim(d, shape.dim(order[static_cast<size_t>(d)]));
    }
    return result;
  }

  Result<Instruction*> PermuteMember(Builder& b, Instruction& i) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : i.operands()) {
      bool init = i.op() == Op::kReduce && operands.size() == 1;
      operands.push_back(init ? operand : TRY(Operand(b, *operand)));
    }
    Shape shape = Permuted(i.shape());
    return b.Add(i.op(), operands, i.attrs(), &shape);
  }

  Result<Instruction*> Operand(Builder& b, Instruction& i) {
    if (auto found = permuted_.find(&i); found != permuted_.end()) return found->second;
    Instruction*& made = permuted_[&i];
    if (i.op() == Op::kBroadcast) made = TRY(PermuteBroadcast(b, i));
    if (made != nullptr) return made;
    Ints order = OrderOf(i.shape());
    Instruction* from = &i;
    if (i.op() == Op::kTranspose) {
      const Ints& before = i.attrs<hlo::DimensionsAttrs>().dimensions;
      for (int64_t& d : order) d = before[static_cast<size_t>(d)];
      from = i.operand(0);
    }
    return made = TRY(TransposeTo(b, from, order));
  }
  // Null: its dimensions would change their order.
  Result<Instruction*> PermuteBroadcast(Builder& b, Instruction& i) {
    Ints order = OrderOf(i.shape()), dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
    for (int64_t& d : dims) d = std::ranges::find(order, d) - order.begin();
    if (!std::ranges::is_sorted(dims)) return nullptr;
    return b.Broadcast(i.operand(0), Permuted(i.shape()), std::move(dims));
  }

  Instruction& transpose_;
  Instruction& value_;
  const Ints order_;
  const int64_t rank_;
  std::vector<Instruction*> members_;
  std::unordered_map<const Instruction*, Instruction*> permuted_;
};

}  // namespace

Result<bool> PermuteRows(hlo::Module& module, const PassContext& context) {
  if (!context.target.HasThreadGrid() || module.config().is_scheduled) return false;
  return RewriteEach(module, [&](Instruction* i) -> Result<bool> {
    if (i->op() != Op::kTranspose) return false;
    RowPermuter permuter(*i);
    if (!permuter.Matches(context.target)) return false;
    TRY(permuter.Permute());
    return true;
  });
}

}  // namespace weft::compiler
