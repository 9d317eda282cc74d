// Layout of loop state: an array that a loop reads and writes by columns, one element along its
// last dimensions and all of the first ones, is carried transposed. Batched tables (vmap of a loop
// that sets elements) are such arrays: a row of the transposed one is all of the batch.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/queries.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/loops/transpose_columns.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

bool IsBareArray(const Instruction& i) {
  return IsStaticallyShaped(i) && i.sharding() == nullptr && !HasControlDependencies(i);
}

// What a scatter at one place leaves of the array's dimensions, which must be the first ones.
std::optional<int64_t> LeadingOfScatter(const Instruction& i) {
  const auto& attrs = i.attrs<hlo::ScatterAttrs>();
  if (i.operand_count() != 3 || i.operand(1)->shape().rank() != 1) return std::nullopt;
  if (attrs.index_vector_dim != 0 || !attrs.input_batching_dims.empty()) return std::nullopt;
  const Shape &array = i.shape(), &update = i.operand(2)->shape();
  const int64_t leading = update.rank();
  if (std::ssize(attrs.update_window_dims) != leading) return std::nullopt;
  for (int64_t d = 0; d < leading; ++d) {
    if (update.dim(d) != array.dim(d)) return std::nullopt;
  }
  for (const Ints* dims : {&attrs.inserted_window_dims, &attrs.scatter_dims_to_operand_dims}) {
    if (std::ssize(*dims) != array.rank() - leading) return std::nullopt;
    if (std::ranges::any_of(*dims, [&](int64_t d) { return d < leading; })) return std::nullopt;
  }
  return leading;
}

class CarriedColumns {
 public:
  CarriedColumns(const Loop& loop, int64_t k)
      : loop_(loop), k_(k), shape_(loop.op->shape().tuple_element(k)) {}

  bool Collect();
  bool Pays(int64_t trips, const program::TargetInfo& target) const;
  Result<Loop> Transpose();

 private:
  bool Access(std::optional<int64_t> leading);
  bool CollectUser(const Instruction& value, Instruction* user);
  int64_t ElementsOf(int64_t begin, int64_t end) const;
  Ints ToRows() const;
  Result<Instruction*> WriteRow(Instruction* write, Instruction* rows) const;
  Status MoveAccesses();
  Status MoveUsersBehind();

  Loop loop_;
  const int64_t k_;
  const Shape shape_;
  int64_t leading_ = 0, accesses_ = 0;
  std::vector<Instruction*> values_;  // the array, before and after each write
};

// All accesses leave the same dimensions whole.
bool CarriedColumns::Access(std::optional<int64_t> leading) {
  ++accesses_;
  if (!leading || *leading < 1 || *leading >= shape_.rank()) return false;
  if (leading_ == 0) leading_ = *leading;
  return leading_ == *leading;
}

bool CarriedColumns::CollectUser(const Instruction& value, Instruction* user) {
  if (user == loop_.body->root()) {
    return loop_.Next(k_) == &value && std::ranges::count(user->operands(), &value) == 1;
  }
  if (!IsBareArray(*user) || user->operand(0) != &value ||
      std::ranges::count(user->operands(), &value) != 1) {
    return false;
  }
  if (user->op() == Op::kDynamicSlice) return Access(LeadingOfColumn(user->shape(), shape_));
  std::optional<int64_t> leading;
  if (user->op() == Op::kDynamicUpdateSlice) {
    leading = LeadingOfColumn(user->operand(1)->shape(), shape_);
  } else if (user->op() == Op::kScatter) {
    leading = LeadingOfScatter(*user);
  }
  values_.push_back(user);
  return Access(leading);
}

bool CarriedColumns::Collect() {
  if (!shape_.IsArray() || !shape_.IsStatic() || shape_.rank() < 2) return false;
  if (BitWidth(shape_.dtype()) < 8 || loop_.IsInvariant(k_)) return false;
  for (const Instruction* i : loop_.condition_state->users()) {
    if (i->tuple_index() == k_ && (i->IsRoot() || !i->users().empty())) return false;
  }
  for (Instruction* i : loop_.body_state->users()) {
    if (i->tuple_index() == k_) values_.push_back(i);
  }
  for (size_t n = 0; n < values_.size(); ++n) {
    if (!IsBareArray(*values_[n]) || values_[n]->IsRoot()) return false;
    for (Instruction* user : values_[n]->users()) {
      if (!CollectUser(*values_[n], user)) return false;
    }
  }
  return std::ranges::count(values_, loop_.Next(k_)) == 1;
}

int64_t CarriedColumns::ElementsOf(int64_t begin, int64_t end) const {
  int64_t elements = 1;
  for (int64_t d = begin; d < end; ++d) elements *= shape_.dim(d);
  return elements;
}

// More is read and written than transposing the array before and behind the loop takes.
bool CarriedColumns::Pays(int64_t trips, const program::TargetInfo& target) const {
  const int64_t columns = ElementsOf(leading_, shape_.rank());
  return columns >= program::TargetFacts::kUsualLanes && trips * accesses_ >= 2 * columns &&
         ElementsOf(0, leading_) >= kLongColumn &&
         shape_.ByteSize() <= target.memory_bytes / kHoistedPartOfMemory;
}

Ints CarriedColumns::ToRows() const {
  Ints order;
  for (int64_t d = leading_; d < shape_.rank(); ++d) order.push_back(d);
  for (int64_t d = 0; d < leading_; ++d) order.push_back(d);
  return order;
}

Result<Instruction*> CarriedColumns::WriteRow(Instruction* write, Instruction* rows) const {
  Builder b(*write->parent(), write, write);
  std::vector<Instruction*> operands(write->operands().begin(), write->operands().end());
  operands[0] = rows;
  if (write->op() == Op::kScatter) {
    hlo::ScatterAttrs attrs = write->attrs<hlo::ScatterAttrs>();
    for (Ints* dims : {&attrs.inserted_window_dims, &attrs.scatter_dims_to_operand_dims}) {
      for (int64_t& d : *dims) d -= leading_;
    }
    return b.Add(Op::kScatter, operands, std::move(attrs));
  }
  Ints order = ToRows(), sizes;
  for (size_t n = 0; n < order.size(); ++n) {
    sizes.push_back(write->operand(1)->shape().dim(order[n]));
    operands[2 + n] = write->operand(2 + order[n]);
  }
  operands[1] = TRY(b.Reshape(write->operand(1), sizes));
  return b.Add(Op::kDynamicUpdateSlice, operands, write->attrs());
}

// In the order of the body: each value is made of one before.
Status CarriedColumns::MoveAccesses() {
  std::map<const Instruction*, Instruction*> moved;
  std::vector<Instruction*> ordered;
  for (Instruction* i : *loop_.body) {
    if (std::ranges::count(values_, i) > 0) ordered.push_back(i);
  }
  for (Instruction* value : ordered) {
    Instruction*& rows = moved[value];
    if (value->op() == Op::kGetTupleElement) {
      Builder b(*loop_.body, value->next(), value);
      rows = TRY(b.GetTupleElement(loop_.body_state, loop_.size() - 1));
    } else {
      rows = TRY(WriteRow(value, moved.at(value->operand(0))));
    }
    for (Instruction* user : std::vector(value->users())) {
      if (user->op() == Op::kDynamicSlice) TRY(ReadColumnAsRow(user, rows, leading_));
    }
  }
  Instruction* root = loop_.body->root();
  root->ReplaceOperand(loop_.size() - 1, moved.at(loop_.Next(k_)));
  Builder b(*loop_.body, root, root);
  root->ReplaceOperand(k_, TRY(b.Fill(shape_, 0)));
  for (size_t n = ordered.size(); n-- > 0;) loop_.body->Remove(ordered[n]);
  for (Instruction* unused : std::vector(loop_.condition_state->users())) {
    if (unused->tuple_index() == k_) loop_.condition->Remove(unused);
  }
  return {};
}

Status CarriedColumns::MoveUsersBehind() {
  std::vector<Instruction*> users;
  for (Instruction* user : loop_.op->users()) {
    if (user->tuple_index() == k_) users.push_back(user);
  }
  if (users.empty()) return {};
  Builder b(*loop_.op->parent(), loop_.op->next(), loop_.op);
  Instruction* rows = TRY(b.GetTupleElement(loop_.op, loop_.size() - 1));
  Ints order = ToRows(), back(order.size());
  for (size_t n = 0; n < order.size(); ++n) {
    back[static_cast<size_t>(order[n])] = static_cast<int64_t>(n);
  }
  Instruction* columns = TRY(b.Transpose(rows, back));
  for (Instruction* user : users) {
    user->ReplaceAllUsesWith(columns);
    user->parent()->Remove(user);
  }
  return {};
}

Result<Loop> CarriedColumns::Transpose() {
  Builder before(*loop_.op->parent(), loop_.op, loop_.op);
  Instruction* rows = TRY(before.Transpose(TRY(ReadInit(loop_, k_)), ToRows()));
  Ints all, kept;
  for (int64_t n = 0; n < loop_.size(); ++n) all.push_back(n);
  for (int64_t n = 0; n <= loop_.size(); ++n) {
    if (n != k_) kept.push_back(n);
  }
  loop_ = TRY(RebuildLoop(loop_, all, std::span(&rows, 1)));
  TRY(MoveAccesses());
  TRY(MoveUsersBehind());
  return RebuildLoop(loop_, kept, {});
}

}  // namespace

std::optional<int64_t> LeadingOfColumn(const Shape& part, const Shape& whole) {
  int64_t leading = whole.rank();
  while (leading > 0 && part.dim(leading - 1) == 1) --leading;
  for (int64_t d = 0; d < leading; ++d) {
    if (part.dim(d) != whole.dim(d)) return std::nullopt;
  }
  return leading;
}

Status ReadColumnAsRow(Instruction* column, Instruction* rows, int64_t leading) {
  Builder b(*column->parent(), column, column);
  const int64_t rank = column->shape().rank();
  std::vector<Instruction*> operands = {rows};
  hlo::DynamicSliceAttrs attrs;
  for (int64_t n = 0; n < rank; ++n) {
    const int64_t d = (leading + n) % rank;
    operands.push_back(column->operand(1 + d));
    attrs.dynamic_slice_sizes.push_back(column->shape().dim(d));
  }
  Instruction* row = TRY(b.Add(Op::kDynamicSlice, operands, std::move(attrs)));
  hlo::ReplaceInstruction(column, TRY(b.Reshape(row, column->shape().dims())));
  return {};
}

Result<std::optional<Loop>> TransposeCarried(const Loop& loop, int64_t k, int64_t trips,
                                             const program::TargetInfo& target) {
  CarriedColumns columns(loop, k);
  if (!columns.Collect() || !columns.Pays(trips, target)) return std::optional<Loop>();
  return TRY(columns.Transpose());
}

}  // namespace weft::compiler
