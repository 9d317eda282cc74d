// Data layout transformation of loop state: an array that a loop reads and writes by columns, one
// element along its last dimensions and all of the first ones, is carried transposed. Batched
// tables (vmap of a loop that sets elements) are such arrays: a row of the transposed one is all of
// the batch.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/queries.h"
#include "compiler/analysis/trip_count.h"
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

// The permutation that puts the leading dimensions behind the others.
Ints RowOrder(int64_t rank, int64_t leading) {
  Ints order;
  for (int64_t n = 0; n < rank; ++n) order.push_back((leading + n) % rank);
  return order;
}

// The leading dimensions of the array that a transpose makes rows of.
std::optional<int64_t> LeadingOfTranspose(const Instruction& i) {
  const Ints& order = i.attrs<hlo::DimensionsAttrs>().dimensions;
  const int64_t leading = order.empty() ? 0 : order[0];
  return order == RowOrder(std::ssize(order), leading) ? std::optional(leading) : std::nullopt;
}

class CarriedColumns {
 public:
  CarriedColumns(const Loop& loop, int64_t k)
      : loop_(loop), k_(k), shape_(loop.op->shape().tuple_element(k)) {}

  bool Collect();
  // Likewise, where element `k` of the loop `inner` in the body is this array, and is columns too.
  bool CollectAround(const Loop& inner, int64_t k, int64_t leading);
  bool Pays(int64_t trips, const program::TargetInfo& target) const;
  Result<Loop> Transpose();
  int64_t leading() const { return leading_; }

 private:
  struct Inner {
    const Instruction* op = nullptr;
    int64_t k = 0, leading = 0;
  };
  bool Access(std::optional<int64_t> leading);
  bool AccessAll(std::optional<int64_t> leading);
  bool CollectInner(const Instruction& value);
  bool CollectMade();
  bool CollectUser(const Instruction& value, Instruction* user);
  int64_t ElementsOf(int64_t begin, int64_t end) const;
  Ints ToRows() const { return RowOrder(shape_.rank(), leading_); }
  Result<Instruction*> WriteRow(Instruction* write, Instruction* rows) const;
  Status MoveAccesses();
  Status MoveUsersBehind();

  Loop loop_;
  const int64_t k_;
  const Shape shape_;
  Inner inner_;
  int64_t leading_ = 0, accesses_ = 0;  // of columns
  std::vector<Instruction*> values_;    // the array, before and after each write
};

// All accesses leave the same dimensions whole.
bool CarriedColumns::Access(std::optional<int64_t> leading) {
  ++accesses_;
  if (!leading || *leading < 1 || *leading >= shape_.rank()) return false;
  if (leading_ == 0) leading_ = *leading;
  return leading_ == *leading;
}

// A transpose reads or writes all columns.
bool CarriedColumns::AccessAll(std::optional<int64_t> leading) {
  if (!Access(leading)) return false;
  accesses_ += ElementsOf(leading_, shape_.rank());
  return true;
}

// The loop's result goes on as the array.
bool CarriedColumns::CollectInner(const Instruction& value) {
  const Instruction& init = *inner_.op->operand(0);
  if (init.operand(inner_.k) != &value || std::ranges::count(init.operands(), &value) != 1) {
    return false;
  }
  if (inner_.op->IsRoot() || !Access(inner_.leading)) return false;
  for (Instruction* user : inner_.op->users()) {
    if (user->op() != Op::kGetTupleElement) return false;
    if (user->tuple_index() == inner_.k) values_.push_back(user);
  }
  return true;
}

bool CarriedColumns::CollectUser(const Instruction& value, Instruction* user) {
  if (user == loop_.body->root()) {
    return loop_.Next(k_) == &value && std::ranges::count(user->operands(), &value) == 1;
  }
  if (inner_.op != nullptr && user == inner_.op->operand(0)) return CollectInner(value);
  if (!IsBareArray(*user) || user->operand(0) != &value ||
      std::ranges::count(user->operands(), &value) != 1) {
    return false;
  }
  if (user->op() == Op::kDynamicSlice) return Access(LeadingOfColumn(user->shape(), shape_));
  if (user->op() == Op::kTranspose) return AccessAll(LeadingOfTranspose(*user));
  std::optional<int64_t> leading;
  if (user->op() == Op::kDynamicUpdateSlice) {
    leading = LeadingOfColumn(user->operand(1)->shape(), shape_);
  } else if (user->op() == Op::kScatter) {
    leading = LeadingOfScatter(*user);
  }
  values_.push_back(user);
  return Access(leading);
}

// What rows are turned back to, behind a loop that carries them, is the array as well.
bool CarriedColumns::CollectMade() {
  Instruction* made = loop_.Next(k_);
  while (made->op() == Op::kDynamicUpdateSlice || made->op() == Op::kScatter) {
    made = made->operand(0);
  }
  if (made->op() != Op::kTranspose) return true;
  std::optional<int64_t> others = LeadingOfTranspose(*made);
  values_.push_back(made);
  return others && AccessAll(shape_.rank() - *others);
}

bool CarriedColumns::CollectAround(const Loop& inner, int64_t k, int64_t leading) {
  inner_ = {inner.op, k, leading};
  return Collect() && leading_ == leading;
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
  if (!CollectMade()) return false;
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

// An element of a column takes a line of the cache, which is as much as what transposing it before
// and behind the loop takes, by tiles.
bool CarriedColumns::Pays(int64_t trips, const program::TargetInfo& target) const {
  const int64_t columns = ElementsOf(leading_, shape_.rank());
  return columns >= program::TargetFacts::kUsualLanes && trips * accesses_ >= columns &&
         ElementsOf(0, leading_) >= kLongColumn &&
         shape_.ByteSize() <= target.memory_bytes / kHoistedPartOfMemory;
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
    } else if (value->op() == Op::kTranspose) {
      rows = value->operand(0);
    } else {
      rows = TRY(WriteRow(value, moved.at(value->operand(0))));
    }
    for (Instruction* user : std::vector(value->users())) {
      if (user->op() == Op::kDynamicSlice) {
        TRY(ReadColumnAsRow(user, rows, leading_));
      } else if (user->op() == Op::kTranspose) {
        hlo::ReplaceInstruction(user, rows);
      }
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
  Ints back = RowOrder(shape_.rank(), shape_.rank() - leading_);
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

// How often the loop runs in all loops around it which carry the array through.
int64_t TripsOfNest(Loop loop, int64_t k, int64_t leading, std::span<Instruction* const> around) {
  int64_t trips = 1;
  for (Instruction* op : around) {
    if (op->attrs<hlo::WhileAttrs>().body != loop.op->parent()) continue;
    std::optional<Loop> outer = FindLoop(op);
    std::optional<int64_t> outer_trips = TripCount(*op);
    const Instruction* init = loop.Init(k);
    if (!outer || !outer_trips || init == nullptr || !outer->ReadsElement(*init)) break;
    CarriedColumns columns(*outer, init->tuple_index());
    if (!columns.CollectAround(loop, k, leading)) break;
    trips *= *outer_trips;
    k = init->tuple_index();
    loop = *outer;
  }
  return trips;
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
                                             std::span<Instruction* const> around,
                                             const program::TargetInfo& target) {
  CarriedColumns columns(loop, k);
  if (!columns.Collect()) return std::optional<Loop>();
  if (!columns.Pays(trips, target) &&
      !columns.Pays(trips * TripsOfNest(loop, k, columns.leading(), around), target)) {
    return std::optional<Loop>();
  }
  return TRY(columns.Transpose());
}

}  // namespace weft::compiler
