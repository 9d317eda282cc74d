// Multi-pass row fusion: the stages in which a row's reductions and what is made of them are
// computed, and what later stages read from an array.
#pragma once

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/analysis/row_space.h"
#include "compiler/lower/lowering.h"
#include "program/target_facts.h"

namespace weft::compiler {

// What is computed when. Members are in topological order.
class RowPlan {
 public:
  // What costs less than `worth` an element is computed again; no more is kept than `most_bytes`.
  // `in_registers`: what a thread keeps can be read by it alone, at the same place.
  RowPlan(const KernelBody& body, const RowSpace& space, bool outputs_last,
          double worth = kCheapElement, int64_t most_bytes = kMaxKeptBytes,
          bool in_registers = false)
      : space_(space), worth_(worth), most_bytes_(most_bytes), in_registers_(in_registers) {
    member_.insert(body.members.begin(), body.members.end());
    for (size_t k = body.members.size(); k-- > 0;) {
      if (IsReadByRows(*body.members[k], body)) by_rows_.insert(body.members[k]);
      if (IsReadAtOwnPlace(*body.members[k])) at_own_place_.insert(body.members[k]);
    }
    for (const hlo::Instruction* m : body.members) {
      int ready = 0;
      for (const hlo::Instruction* operand : m->operands())
        ready = std::max(ready, ReadyOf(*operand));
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
      const hlo::Instruction& root = *body.outputs[k].inside;
      if (!space.IsWide(root.shape())) continue;
      outputs_[outputs_last ? last_ : ReadyOf(root)].push_back(k);
      output_roots_[outputs_last ? last_ : ReadyOf(root)].push_back(&root);
    }
    ChooseKept(body);
  }

  int last() const { return last_; }
  int ReadyOf(const hlo::Instruction& i) const {
    auto it = ready_.find(&i);
    return it == ready_.end() ? 0 : it->second;
  }
  std::span<const hlo::Instruction* const> Reduces(int stage) const { return At(reduces_, stage); }
  std::span<const hlo::Instruction* const> Narrow(int stage) const { return At(narrow_, stage); }
  std::span<const size_t> Outputs(int stage) const { return At(outputs_, stage); }
  // Values that this stage computes and later ones read from an array.
  std::span<const hlo::Instruction* const> Kept(int stage) const { return At(kept_, stage); }

 private:
  // Of one row.
  static constexpr int64_t kMaxKeptBytes = 3 * program::TargetFacts::kFirstLevelBytes;

  template <class T>
  static std::span<const T> At(const std::map<int, std::vector<T>>& map, int stage) {
    auto it = map.find(stage);
    return it == map.end() ? std::span<const T>() : std::span<const T>(it->second);
  }

  // All uses in the kernel are in the row that is being computed, and so are those of values of one
  // element a row that are made of it. Users come first.
  bool IsReadByRows(const hlo::Instruction& m, const KernelBody& body) const {
    return std::all_of(m.users().begin(), m.users().end(), [&](const hlo::Instruction* user) {
      if (user->op() == hlo::Op::kTuple && user->IsRoot()) return true;
      bool inside = std::find(body.members.begin(), body.members.end(), user) != body.members.end();
      if (!inside) return true;
      bool narrow = space_.IsNarrow(user->shape());
      return KeepsRows(*user, m, space_) && (!narrow || by_rows_.contains(user));
    });
  }

  // All uses of a wide value in the kernel, and of wide values that are made of it, are at its own
  // place: none is by a reduction that is written out, say, which reads its neighbours. Users come
  // first.
  bool IsReadAtOwnPlace(const hlo::Instruction& m) const {
    return std::all_of(m.users().begin(), m.users().end(), [&](const hlo::Instruction* user) {
      if ((user->op() == hlo::Op::kTuple && user->IsRoot()) || !member_.contains(user)) return true;
      if (!KeepsRows(*user, m, space_)) return false;
      return !space_.IsWide(user->shape()) || at_own_place_.contains(user);
    });
  }

  // The stages in which wide members are computed, given what is kept.
  using Uses = std::unordered_map<const hlo::Instruction*, std::vector<int>>;
  Uses FindUses(const std::unordered_set<const hlo::Instruction*>& kept) const {
    Uses uses;
    for (int stage = 0; stage <= last_; ++stage) {
      std::vector<const hlo::Instruction*> work(At(output_roots_, stage).begin(),
                                                At(output_roots_, stage).end());
      for (const hlo::Instruction* reduce : Reduces(stage)) {
        for (int64_t k = 0; k < reduce->operand_count() / 2; ++k)
          work.push_back(reduce->operand(k));
      }
      std::unordered_set<const hlo::Instruction*> seen;
      while (!work.empty()) {
        const hlo::Instruction* i = work.back();
        work.pop_back();
        if (!member_.contains(i) || !space_.IsWide(i->shape()) || !seen.insert(i).second) continue;
        std::vector<int>& list = uses[i];
        list.push_back(stage);
        if (kept.contains(i) && list.size() > 1) continue;  // read from its array
        for (const hlo::Instruction* operand : i->operands()) work.push_back(operand);
      }
    }
    return uses;
  }

  double CostOfCone(const hlo::Instruction& root,
                    const std::unordered_set<const hlo::Instruction*>& kept) const {
    double cost = 0;
    std::vector<const hlo::Instruction*> work = {&root};
    std::unordered_set<const hlo::Instruction*> seen = {&root};
    while (!work.empty()) {
      const hlo::Instruction* i = work.back();
      work.pop_back();
      cost += ElementCost(*i);
      for (const hlo::Instruction* operand : i->operands()) {
        if (!member_.contains(operand) || space_.IsNarrow(operand->shape())) continue;
        if (kept.contains(operand) || !seen.insert(operand).second) continue;
        work.push_back(operand);
      }
    }
    return cost;
  }

  void ChooseKept(const KernelBody& body) {
    std::unordered_set<const hlo::Instruction*> kept;
    int64_t bytes = 0;
    Uses uses = FindUses(kept);
    for (size_t k = body.members.size(); k-- > 0;) {
      const hlo::Instruction* m = body.members[k];
      if (!m->shape().IsArray() || !space_.IsWide(m->shape())) continue;
      auto it = uses.find(m);
      if (it == uses.end() || it->second.size() < 2 || !IsReadByRows(*m, body)) continue;
      if (in_registers_ && !at_own_place_.contains(m)) continue;
      if (CostOfCone(*m, kept) < worth_) continue;
      int64_t size = space_.length * ByteWidth(RealType(m->shape().dtype())) * 2;
      if (bytes + size > most_bytes_) continue;
      bytes += size;
      kept.insert(m);
      kept_[it->second[0]].push_back(m);
      uses = FindUses(kept);
    }
  }

  const RowSpace& space_;
  double worth_;
  int64_t most_bytes_;
  bool in_registers_;
  std::unordered_set<const hlo::Instruction*> member_, by_rows_, at_own_place_;
  std::unordered_map<const hlo::Instruction*, int> ready_;
  std::map<int, std::vector<const hlo::Instruction*>> reduces_, narrow_, kept_, output_roots_;
  std::map<int, std::vector<size_t>> outputs_;
  int last_ = 0;
};

// Computes these outputs of the kernel at one element of the row, all of them before any is stored.
inline Status StoreOutputs(LowerContext& cx, KernelDraft& draft, const KernelBody& body,
                           std::span<const size_t> outputs, const RowSpace& space,
                           const Index& index) {
  ElementContext& e = draft.elements();
  std::vector<Element> values;
  for (size_t k : outputs) {
    values.push_back(TRY(EmitElement(e, *body.outputs[k].inside, index)));
  }
  for (size_t k = 0; k < values.size(); ++k) {
    MemValue to = body.outputs[outputs[k]].value;
    StoreAt(e, draft.MemoryOf(to), cx.memory.shape(to).dtype(), LinearCoord(e, space.wide, index),
            values[k]);
  }
  return {};
}

}  // namespace weft::compiler
