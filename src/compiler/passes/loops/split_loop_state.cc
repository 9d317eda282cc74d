// Scalar replacement of aggregates (SROA) in loop state: an array of which only parts along one
// dimension are read and made is carried as these parts.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/expand/callers.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// Parts are carried in registers where they are numbers.
constexpr int64_t kMostParts = program::TargetFacts::kGeneralRegisters / 2;
constexpr int64_t kLongRow = 2 * program::TargetFacts::kUsualLanes;  // elements

struct Range {  // along the dimension that is cut
  int64_t begin, end;
};

int64_t Signed(size_t d) {
  return static_cast<int64_t>(d);
}

bool IsPlain(const Instruction& i) {
  return IsStaticArray(i) && i.shape().rank() > 0 && i.sharding() == nullptr &&
         !HasControlDependencies(i);
}

// What a slice reads along the dimension, where that is known.
std::optional<Range> RangeRead(const Instruction& i, size_t d) {
  if (!IsPlain(i)) return std::nullopt;
  if (i.op() == Op::kSlice) {
    const hlo::SliceDim& dim = i.attrs<hlo::SliceAttrs>().slice[d];
    return dim.stride == 1 ? std::optional(Range{dim.start, dim.limit}) : std::nullopt;
  }
  if (i.op() != Op::kDynamicSlice) return std::nullopt;
  std::optional<int64_t> start = IntegerValue(*i.operand(1 + Signed(d)));
  int64_t size = i.shape().dims()[d], room = i.operand(0)->shape().dims()[d] - size;
  if (!start || *start < 0 || *start > room) return std::nullopt;
  return Range{*start, *start + size};
}

// What a dynamic-update-slice writes along the dimension, where that is known.
std::optional<Range> RangeWritten(const Instruction& i, size_t d) {
  std::optional<int64_t> start = IntegerValue(*i.operand(2 + Signed(d)));
  int64_t size = i.operand(1)->shape().dims()[d];
  if (!start || *start < 0 || *start > i.shape().dims()[d] - size) return std::nullopt;
  return Range{*start, *start + size};
}

class StateSplitter {
 public:
  StateSplitter(const Loop& loop, int64_t k, size_t dim) : loop_(loop), k_(k), dim_(dim) {}

  bool CanSplit();
  Result<Loop> Split();

 private:
  bool IsState(const Instruction& i) const {
    return loop_.ReadsElement(i) && i.tuple_index() == k_;
  }
  bool IsCutThrough(const Instruction& i) const;
  bool Collect(Instruction* i, int64_t offset);
  bool Cut(Range range);
  bool IsPart(Range range) const;
  bool ReadsState(const Instruction& i) const;
  bool UsersTakeParts(const Instruction& i, int64_t offset) const;
  bool Pays(const Shape& shape) const;
  int64_t SizeOf(const Shape& shape) const { return shape.dims()[dim_]; }

  Result<Instruction*> Part(Builder& b, Instruction* i, Range range);
  Result<Instruction*> PartOfUpdate(Builder& b, Instruction* i, Range range);
  Result<Instruction*> MakePart(Builder& b, Instruction* i, Range range);
  Status ReadParts(Instruction* i, int64_t offset);
  Status MakeParts(int64_t first);
  Status JoinBehind();

  Loop loop_;
  const int64_t k_;
  const size_t dim_;
  std::unordered_map<const Instruction*, int64_t> web_;  // what is cut, and where it begins
  std::set<int64_t> ends_;                               // of parts
  std::vector<Range> ranges_;
  std::vector<Instruction*> ordered_;
  std::unordered_map<const Instruction*, std::map<int64_t, Instruction*>> parts_;  // by begin
};

// Whether parts of it are made of parts of its operands.
bool StateSplitter::IsCutThrough(const Instruction& i) const {
  if (IsState(i)) return true;
  if (!IsPlain(i)) return false;
  if (i.op() == Op::kConcatenate)
    return i.attrs<hlo::DimensionsAttrs>().dimensions[0] == Signed(dim_);
  if (i.op() == Op::kDynamicUpdateSlice) return RangeWritten(i, dim_).has_value();
  // Vectors of few numbers are better left whole.
  bool elementwise = hlo::IsElementwise(i.op()) && i.operand_count() > 0 &&
                     i.called_computations().empty() && i.op() != Op::kStochasticConvert;
  return elementwise && i.shape().elements() >= kVectorReduce * SizeOf(i.shape()) &&
         std::ranges::all_of(i.operands(),
                             [&](const Instruction* o) { return o->shape().rank() > 0; });
}

bool StateSplitter::Cut(Range range) {
  ends_.insert({range.begin, range.end});
  return std::ssize(ends_) <= kMostParts + 1;
}

// What the next state is made of; false: it cannot be cut.
bool StateSplitter::Collect(Instruction* i, int64_t offset) {
  if (!IsCutThrough(*i)) return true;
  if (auto it = web_.find(i); it != web_.end()) return it->second == offset;
  web_[i] = offset;
  if (IsState(*i)) return offset == 0;
  if (i->op() == Op::kConcatenate) {
    for (Instruction* o : i->operands()) {
      int64_t end = offset + SizeOf(o->shape());
      if (!Cut({offset, end}) || !Collect(o, offset)) return false;
      offset = end;
    }
    return true;
  }
  if (i->op() == Op::kDynamicUpdateSlice) {
    Range range = *RangeWritten(*i, dim_);
    if (!Cut({offset + range.begin, offset + range.end})) return false;
    return Collect(i->operand(0), offset) && Collect(i->operand(1), offset + range.begin);
  }
  return std::ranges::all_of(i->operands(), [&](Instruction* o) { return Collect(o, offset); });
}

bool StateSplitter::IsPart(Range range) const {
  auto it = ends_.find(range.begin);
  return it != ends_.end() && ++it != ends_.end() && *it == range.end;
}

// Reads the state through what is cut: it goes with the state.
bool StateSplitter::ReadsState(const Instruction& i) const {
  if (!web_.contains(&i)) return false;
  return IsState(i) ||
         std::ranges::any_of(i.operands(), [&](const Instruction* o) { return ReadsState(*o); });
}

bool StateSplitter::UsersTakeParts(const Instruction& i, int64_t offset) const {
  return std::ranges::all_of(i.users(), [&](const Instruction* user) {
    if (web_.contains(user)) return true;
    if (user == loop_.body->root()) {
      return loop_.Next(k_) == &i && std::ranges::count(user->operands(), &i) == 1;
    }
    std::optional<Range> range = RangeRead(*user, dim_);
    return range && user->operand(0) == &i && std::ranges::count(user->operands(), &i) == 1 &&
           IsPart({offset + range->begin, offset + range->end});
  });
}

// Numbers come into registers, what was strided lies together, and of fields in one array one can
// be updated while others are read. Short rows fill a vector together, and borders of one cell are
// better left where they are.
bool StateSplitter::Pays(const Shape& shape) const {
  int64_t before = 1;
  for (size_t d = 0; d < dim_; ++d) before *= shape.dims()[d];
  const int64_t parts = std::ssize(ends_) - 1, size = SizeOf(shape) / parts;
  if (before > 1 || parts == shape.elements()) return true;
  bool equal = std::ranges::all_of(ends_, [&](int64_t end) { return end % size == 0; });
  return equal && size * parts == SizeOf(shape) && shape.elements() >= parts * kLongRow;
}

bool StateSplitter::CanSplit() {
  const Shape& shape = loop_.op->shape().tuple_element(k_);
  if (!shape.IsArray() || !shape.IsStatic() || shape.rank() <= Signed(dim_)) return false;
  if (SizeOf(shape) < 2 || loop_.IsInvariant(k_) || !IsCutThrough(*loop_.Next(k_))) return false;
  if (!Cut({0, SizeOf(shape)}) || !Collect(loop_.Next(k_), 0)) return false;
  for (Instruction* state : {loop_.body_state, loop_.condition_state}) {
    for (Instruction* i : state->users()) {
      if (!IsState(*i)) continue;
      if (i->sharding() != nullptr || HasControlDependencies(*i)) return false;
      web_[i] = 0;
    }
  }
  // Slices say where to cut, too.
  for (const auto& [i, offset] : web_) {
    for (const Instruction* user : i->users()) {
      std::optional<Range> range = RangeRead(*user, dim_);
      if (range && !web_.contains(user) && !Cut({offset + range->begin, offset + range->end})) {
        return false;
      }
    }
  }
  return ends_.size() > 2 && Pays(shape) && std::ranges::all_of(web_, [&](const auto& item) {
           const auto& [i, offset] = item;
           bool is_part = IsPart({offset, offset + SizeOf(i->shape())});
           bool stays = !ReadsState(*i) && (is_part || !hlo::IsElementwise(i->op()));
           return stays || UsersTakeParts(*i, offset);
         });
}

Result<Instruction*> StateSplitter::PartOfUpdate(Builder& b, Instruction* i, Range range) {
  Instruction *base = i->operand(0), *update = i->operand(1);
  Range written = *RangeWritten(*i, dim_);
  if (range.end <= written.begin || range.begin >= written.end) return Part(b, base, range);
  Instruction* part =
      TRY(Part(b, update, {range.begin - written.begin, range.end - written.begin}));
  bool whole = true;
  for (size_t d = 0; d < i->shape().dims().size(); ++d)
    whole &= d == dim_ || update->shape().dims()[d] == i->shape().dims()[d];
  if (whole) return part;
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  operands[0] = TRY(Part(b, base, range));
  operands[1] = part;
  operands[2 + dim_] = b.ScalarConstant(operands[2 + dim_]->shape().dtype(), 0);
  return b.Add(Op::kDynamicUpdateSlice, operands, i->attrs());
}

Result<Instruction*> StateSplitter::MakePart(Builder& b, Instruction* i, Range range) {
  if (range.begin == 0 && range.end == SizeOf(i->shape())) return i;
  if (!web_.contains(i)) {
    hlo::SliceAttrs attrs;
    for (int64_t size : i->shape().dims()) attrs.slice.push_back({.start = 0, .limit = size});
    attrs.slice[dim_] = {.start = range.begin, .limit = range.end};
    return b.Add(Op::kSlice, {i}, std::move(attrs));
  }
  if (i->op() == Op::kConcatenate) {
    int64_t offset = 0;
    for (Instruction* o : i->operands()) {
      int64_t end = offset + SizeOf(o->shape());
      if (range.begin < end) return Part(b, o, {range.begin - offset, range.end - offset});
      offset = end;
    }
  }
  if (i->op() == Op::kDynamicUpdateSlice) return PartOfUpdate(b, i, range);
  std::vector<Instruction*> operands;
  for (Instruction* o : i->operands()) operands.push_back(TRY(Part(b, o, range)));
  Shape shape(i->shape().dtype(), operands[0]->shape().dims());
  return b.Add(i->op(), operands, i->attrs(), &shape);
}

Result<Instruction*> StateSplitter::Part(Builder& b, Instruction* i, Range range) {
  auto& parts = parts_[i];
  if (auto it = parts.find(range.begin); it != parts.end()) return it->second;
  return parts[range.begin] = TRY(MakePart(b, i, range));
}

// Slices of it read its part.
Status StateSplitter::ReadParts(Instruction* i, int64_t offset) {
  for (Instruction* user : std::vector(i->users())) {
    std::optional<Range> range = RangeRead(*user, dim_);
    if (!range || web_.contains(user)) continue;
    if (!IsPart({offset + range->begin, offset + range->end})) continue;
    Builder b(*user->parent(), user, user);
    Instruction* part = TRY(Part(b, i, *range));
    if (user->op() == Op::kSlice) {
      hlo::SliceAttrs attrs = user->attrs<hlo::SliceAttrs>();
      attrs.slice[dim_] = {.start = 0, .limit = range->end - range->begin};
      part = TRY(b.Add(Op::kSlice, {part}, std::move(attrs)));
    } else {
      std::vector<Instruction*> operands(user->operands().begin(), user->operands().end());
      operands[0] = part;
      operands[1 + dim_] = b.ScalarConstant(operands[1 + dim_]->shape().dtype(), 0);
      part = TRY(b.Add(Op::kDynamicSlice, operands, user->attrs()));
    }
    hlo::ReplaceInstruction(user, part);
  }
  return {};
}

// Behind the loop the array is put together again.
Status StateSplitter::JoinBehind() {
  const int64_t first = loop_.size() - (std::ssize(ends_) - 1);
  std::vector<Instruction*> users;
  for (Instruction* user : loop_.op->users()) {
    if (user->op() == Op::kGetTupleElement && user->tuple_index() == k_) users.push_back(user);
  }
  if (users.empty()) return {};
  Builder b(*loop_.op->parent(), loop_.op->next(), loop_.op);
  std::vector<Instruction*> parts;
  for (int64_t n = first; n < loop_.size(); ++n) {
    parts.push_back(TRY(b.GetTupleElement(loop_.op, n)));
  }
  Instruction* all =
      TRY(b.Add(Op::kConcatenate, parts, hlo::DimensionsAttrs{.dimensions = {Signed(dim_)}}));
  for (Instruction* user : users) {
    user->ReplaceAllUsesWith(all);
    user->parent()->Remove(user);
  }
  return {};
}

// In the order of the body: parts are made of parts of what comes before.
Status StateSplitter::MakeParts(int64_t first) {
  for (Instruction* i : ordered_) {
    const int64_t offset = web_[i], end = offset + SizeOf(i->shape());
    Builder b(*i->parent(), IsState(*i) ? i->next() : i, i);
    for (size_t n = 0; n < ranges_.size(); ++n) {
      const Range& range = ranges_[n];
      if (range.begin < offset || range.end > end) continue;
      if (IsState(*i)) {
        parts_[i][range.begin] =
            TRY(b.GetTupleElement(i->operand(0), first + static_cast<int64_t>(n)));
      } else {
        TRY(Part(b, i, {range.begin - offset, range.end - offset}));
      }
    }
    TRY(ReadParts(i, offset));
  }
  return {};
}

Result<Loop> StateSplitter::Split() {
  for (auto it = ends_.begin(); std::next(it) != ends_.end(); ++it) {
    ranges_.push_back({*it, *std::next(it)});
  }
  for (hlo::Computation* c : {loop_.condition, loop_.body}) {
    for (Instruction* i : *c) {
      if (web_.contains(i)) ordered_.push_back(i);
    }
  }
  std::vector<int64_t> all, kept;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    all.push_back(k);
    if (k != k_) kept.push_back(k);
  }
  const int64_t first = loop_.size();
  Builder before(*loop_.op->parent(), loop_.op, loop_.op);
  Instruction* init = TRY(ReadInit(loop_, k_));
  std::vector<Instruction*> inits;
  for (const Range& range : ranges_) inits.push_back(TRY(MakePart(before, init, range)));
  for (const Range& range : ranges_) kept.push_back(first + (&range - ranges_.data()));
  loop_ = TRY(RebuildLoop(loop_, all, inits));
  TRY(MakeParts(first));
  Instruction* root = loop_.body->root();
  for (size_t n = 0; n < ranges_.size(); ++n) {
    root->ReplaceOperand(first + static_cast<int64_t>(n),
                         parts_[loop_.Next(k_)].at(ranges_[n].begin));
  }
  TRY(JoinBehind());
  Builder b(*loop_.body, root, root);
  root->ReplaceOperand(k_, TRY(b.Fill(loop_.op->shape().tuple_element(k_), 0)));
  for (size_t n = ordered_.size(); n-- > 0;) {
    if (ordered_[n]->users().empty()) ordered_[n]->parent()->Remove(ordered_[n]);
  }
  return RebuildLoop(loop_, kept, {});
}

// Element k along the first dimension that it can be.
Result<std::optional<Loop>> SplitElement(const Loop& loop, int64_t k) {
  const Shape& shape = loop.op->shape().tuple_element(k);
  for (size_t d = 0; shape.IsArray() && d < shape.dims().size(); ++d) {
    StateSplitter splitter(loop, k, d);
    if (splitter.CanSplit()) return TRY(splitter.Split());
  }
  return std::optional<Loop>();
}

// Of a loop over a tuple the elements that can be.
Result<bool> SplitElements(Instruction* op) {
  bool changed = false;
  std::optional<Loop> loop = FindLoop(op);
  for (int64_t k = 0, end = loop ? loop->size() : 0; k < end; ++k) {
    std::optional<Loop> split = TRY(SplitElement(*loop, k));
    if (!split) continue;
    loop = split;
    changed = true;
    --k, --end;  // the next one has its number, parts are the last
  }
  return changed;
}

}  // namespace

Result<bool> SplitLoopState(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled || !HasOp(module, Op::kWhile)) return false;
  // Where each array that is made is a kernel to launch, one array is better.
  if (context.target.LaneBits() == 0) return false;
  Callers callers(module);
  bool changed = false;
  for (const auto& computation : module.computations()) {  // inner loops first
    for (Instruction* i : computation->Snapshot()) {
      if (i->op() != Op::kWhile) continue;
      const auto& attrs = i->attrs<hlo::WhileAttrs>();
      if (!callers.IsOnly(attrs.body) || !callers.IsOnly(attrs.condition)) continue;
      if (i->shape().IsArray()) {
        i = TRY(MakeStateTuple(i));
        changed |= i != nullptr;
      }
      if (i != nullptr) changed |= TRY(SplitElements(i));
    }
  }
  return changed;
}

}  // namespace weft::compiler
