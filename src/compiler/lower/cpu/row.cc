// Multi-pass row fusion (softmax, normalisation). Fusions of reductions along the minor dimensions
// with what is computed from their results and from the same rows (softmax, normalisation): one row
// at a time, in stages. A stage is one pass over the row; it ends with the results of reductions,
// which the next one uses as scalars.
#include <algorithm>
#include <map>

#include "base/str.h"
#include "compiler/analysis/row_space.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

constexpr double kWorthKeeping = 6;           // cost of an element that is not computed twice
constexpr int64_t kMaxKeptBytes = 96 * 1024;  // of one row

// What is computed when. Members are in topological order.
class RowPlan {
 public:
  RowPlan(const KernelBody& body, const RowSpace& space, bool outputs_last) : space_(space) {
    for (size_t k = body.members.size(); k-- > 0;) {
      if (IsReadByRows(*body.members[k], body)) by_rows_.insert(body.members[k]);
    }
    for (const Instruction* m : body.members) {
      member_.insert(m);
      int ready = 0;
      for (const Instruction* operand : m->operands()) ready = std::max(ready, ReadyOf(*operand));
      if (IsRowReduce(*m, space)) {
        reduces_[ready].push_back(m);
        ready_[m] = ready + 1;
      } else {
        ready_[m] = ready;
        if (space.IsNarrow(m->shape()) && !m->IsConstant() && by_rows_.contains(m)) {
          narrow_[ready].push_back(m);
        }
      }
    }
    for (auto& [stage, list] : reduces_) last_ = std::max(last_, stage + 1);
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      const Instruction& root = *body.outputs[k].inside;
      if (!space.IsWide(root.shape())) continue;
      outputs_[outputs_last ? last_ : ReadyOf(root)].push_back(k);
      output_roots_[outputs_last ? last_ : ReadyOf(root)].push_back(&root);
    }
    ChooseKept(body);
  }

  int last() const { return last_; }
  int ReadyOf(const Instruction& i) const {
    auto it = ready_.find(&i);
    return it == ready_.end() ? 0 : it->second;
  }
  std::span<const Instruction* const> Reduces(int stage) const { return At(reduces_, stage); }
  std::span<const Instruction* const> Narrow(int stage) const { return At(narrow_, stage); }
  std::span<const size_t> Outputs(int stage) const { return At(outputs_, stage); }
  // Values that this stage computes and later ones read from an array.
  std::span<const Instruction* const> Kept(int stage) const { return At(kept_, stage); }

 private:
  template <class T>
  static std::span<const T> At(const std::map<int, std::vector<T>>& map, int stage) {
    auto it = map.find(stage);
    return it == map.end() ? std::span<const T>() : std::span<const T>(it->second);
  }

  // All uses in the kernel are in the row that is being computed, and so are those of values of one
  // element a row that are made of it. Users come first.
  bool IsReadByRows(const Instruction& m, const KernelBody& body) const {
    return std::all_of(m.users().begin(), m.users().end(), [&](const Instruction* user) {
      if (user->op() == HloOp::kTuple && user->IsRoot()) return true;
      bool inside = std::find(body.members.begin(), body.members.end(), user) != body.members.end();
      if (!inside) return true;
      bool narrow = space_.IsNarrow(user->shape());
      return KeepsRows(*user, m, space_) && (!narrow || by_rows_.contains(user));
    });
  }

  // The stages in which wide members are computed, given what is kept.
  using Uses = std::unordered_map<const Instruction*, std::vector<int>>;
  Uses FindUses(const std::unordered_set<const Instruction*>& kept) const {
    Uses uses;
    for (int stage = 0; stage <= last_; ++stage) {
      std::vector<const Instruction*> work(At(output_roots_, stage).begin(),
                                           At(output_roots_, stage).end());
      for (const Instruction* reduce : Reduces(stage)) {
        for (int64_t k = 0; k < reduce->operand_count() / 2; ++k)
          work.push_back(reduce->operand(k));
      }
      std::unordered_set<const Instruction*> seen;
      while (!work.empty()) {
        const Instruction* i = work.back();
        work.pop_back();
        if (!member_.contains(i) || !space_.IsWide(i->shape()) || !seen.insert(i).second) continue;
        std::vector<int>& list = uses[i];
        list.push_back(stage);
        if (kept.contains(i) && list.size() > 1) continue;  // read from its array
        for (const Instruction* operand : i->operands()) work.push_back(operand);
      }
    }
    return uses;
  }

  double CostOfCone(const Instruction& root,
                    const std::unordered_set<const Instruction*>& kept) const {
    double cost = 0;
    std::vector<const Instruction*> work = {&root};
    std::unordered_set<const Instruction*> seen = {&root};
    while (!work.empty()) {
      const Instruction* i = work.back();
      work.pop_back();
      cost += ElementCost(*i);
      for (const Instruction* operand : i->operands()) {
        if (!member_.contains(operand) || space_.IsNarrow(operand->shape())) continue;
        if (kept.contains(operand) || !seen.insert(operand).second) continue;
        work.push_back(operand);
      }
    }
    return cost;
  }

  void ChooseKept(const KernelBody& body) {
    std::unordered_set<const Instruction*> kept;
    int64_t bytes = 0;
    Uses uses = FindUses(kept);
    for (size_t k = body.members.size(); k-- > 0;) {
      const Instruction* m = body.members[k];
      if (!m->shape().IsArray() || !space_.IsWide(m->shape())) continue;
      auto it = uses.find(m);
      if (it == uses.end() || it->second.size() < 2 || !IsReadByRows(*m, body)) continue;
      if (CostOfCone(*m, kept) < kWorthKeeping) continue;
      int64_t size = space_.length * ByteWidth(RealType(m->shape().dtype())) * 2;
      if (bytes + size > kMaxKeptBytes) continue;
      bytes += size;
      kept.insert(m);
      kept_[it->second[0]].push_back(m);
      uses = FindUses(kept);
    }
  }

  const RowSpace& space_;
  std::unordered_set<const Instruction*> member_, by_rows_;
  std::unordered_map<const Instruction*, int> ready_;
  std::map<int, std::vector<const Instruction*>> reduces_, narrow_, kept_, output_roots_;
  std::map<int, std::vector<size_t>> outputs_;
  int last_ = 0;
};

}  // namespace

Index NarrowIndex(ElementEmitter& e, const RowSpace& space, const Shape& shape, const Index& row) {
  Index index;
  size_t next = 0;
  for (int64_t size : shape.dims()) {
    if (size == 1) {
      index.coords.push_back(e.Constant(0));
      continue;
    }
    while (space.wide[next] == 1) ++next;
    index.coords.push_back(row.coords[next++]);
  }
  return index;
}

namespace {

Decision MatchRows(Subject& subject) {
  if (!subject.row_space()) return Refuse("no reduction's rows are used again");
  return Take("what is made of a row's reductions is made while the row is in cache");
}

Status LowerRows(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const RowSpace& space = *subject.row_space();
  Steps& steps = subject.steps;
  LoopShape shape = ShapeOf(cx, body, space.wide);
  RowPlan plan(body, space, shape.in_place);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  Dims rows(std::span(space.wide.data(), space.kept));
  Dims columns(std::span(space.wide.data() + space.kept, space.wide.size() - space.kept));
  auto column_of = [&](const Index& index) {
    Index part;
    for (size_t d = space.kept; d < space.wide.size(); ++d) part.coords.push_back(index.coords[d]);
    return e.Linear(columns, part);
  };
  double cost = shape.cost * static_cast<double>(space.length);
  TRY(draft.ForEachRow(rows, cost, cx.serial, [&](const Index& row) -> Status {
    for (const Instruction* m : body.members) {
      if (m->shape().IsScalar() && !m->IsConstant() && !space.IsNarrow(m->shape())) {
        TRY(e.Emit(*m, Index()));
      }
    }
    for (int stage = 0; stage <= plan.last(); ++stage) {
      for (const Instruction* m : plan.Narrow(stage)) {
        e.SetValue(*m, TRY(e.Emit(*m, NarrowIndex(e, space, m->shape(), row))));
      }
      std::vector<KernelBuilder::MemoryId> arrays;
      for (const Instruction* m : plan.Kept(stage)) {
        DType type = m->shape().dtype();
        std::string name = StrCat("row", stage, "_", arrays.size());
        arrays.push_back(IsComplex(type) ? b.Array(name, RealType(type), 2 * space.length)
                                         : b.Array(name, program::ComputeType(type), space.length));
      }
      auto store = [&](const Index& index) -> Status {
        for (size_t k = 0; k < arrays.size(); ++k) {
          const Instruction& m = *plan.Kept(stage)[k];
          e.StoreAt(arrays[k], m.shape().dtype(), column_of(index), TRY(e.Emit(m, index)));
        }
        std::vector<Element> values;
        for (size_t k : plan.Outputs(stage)) {
          values.push_back(TRY(e.Emit(*body.outputs[k].inside, index)));
        }
        for (size_t k = 0; k < values.size(); ++k) {
          MemValue to = body.outputs[plan.Outputs(stage)[k]].value;
          e.StoreAt(draft.MemoryOf(to), cx.memory.shape(to).dtype(), e.Linear(space.wide, index),
                    values[k]);
        }
        return {};
      };
      auto reduces = plan.Reduces(stage);
      if (!reduces.empty()) {
        RowReducer reducer(draft, reduces, shape.width);
        reducer.set_also(store);
        std::vector<Element> results = TRY(reducer.Row(row, b.Int(0), space.length, false));
        for (size_t k = 0; k < reduces.size(); ++k) e.SetValue(*reduces[k], results[k]);
      } else if (!plan.Outputs(stage).empty()) {
        int64_t minor = columns.back();
        int lanes = draft.LanesFor(shape.width, minor);
        if (minor != space.length && minor % lanes != 0) lanes = 1;
        auto at = [&](Coord j) -> Status {
          Index linear, index = row;
          linear.is_linear = true;
          linear.linear = j;
          Index inner = e.Coordinates(columns, linear);
          for (const Coord& c : inner.coords) index.coords.push_back(c);
          return store(index);
        };
        // Short rows by the vectors that wrote what is kept of them.
        bool straight = columns.size() == 1 && space.length < 2 * lanes;
        TRY(straight ? draft.StraightLanes(space.length, lanes, at)
                     : draft.OverLanes(space.length, lanes, shape.in_place, at));
      }
      for (size_t k = 0; k < arrays.size(); ++k) {
        e.BindAt(*plan.Kept(stage)[k], arrays[k], column_of);
      }
    }
    for (const KernelOutput& output : body.outputs) {
      const Instruction& root = *output.inside;
      if (space.IsWide(root.shape())) continue;
      Index index = NarrowIndex(e, space, root.shape(), row);
      Element value = TRY(e.Emit(root, index));
      e.StoreAt(draft.MemoryOf(output.value), root.shape().dtype(),
                e.Linear(root.shape().dims(), index), value);
    }
    return {};
  }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kRows = {"rows in stages", {}, MatchRows, LowerRows};

}  // namespace weft::compiler
