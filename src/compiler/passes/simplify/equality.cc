#include "compiler/passes/simplify/equality.h"

#include <unordered_map>

#include "base/hash.h"
#include "compiler/analysis/search.h"
#include "hlo/call_graph.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::FieldRef;
using hlo::FieldType;
using hlo::Instruction;

// A computation with its instructions numbered.
struct Numbered {
  const Computation* computation;
  std::unordered_map<const Instruction*, int64_t> numbers;

  explicit Numbered(const Computation& c) : computation(&c) {
    for (const Instruction* i : c) numbers.emplace(i, static_cast<int64_t>(numbers.size()));
  }
};

size_t HashComputation(const Numbered& c, const ComputationClasses& classes) {
  size_t hash = static_cast<size_t>(c.computation->size());
  for (const Instruction* i : *c.computation) {
    hash = MixHash(hash, classes.HashButOperands(*i));
    for (const Instruction* o : i->operands()) hash = MixHash(hash, size_t(c.numbers.at(o)));
  }
  return hash;
}

bool SameList(std::span<Instruction* const> a, const Numbered& ca, std::span<Instruction* const> b,
              const Numbered& cb) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (ca.numbers.at(a[k]) != cb.numbers.at(b[k])) return false;
  }
  return true;
}

bool SameComputation(const Numbered& a, const Numbered& b, const ComputationClasses& classes) {
  const Computation &ca = *a.computation, &cb = *b.computation;
  if (ca.size() != cb.size() || ca.execution_thread() != cb.execution_thread()) return false;
  if (ca.root() == nullptr || cb.root() == nullptr) return false;
  if (a.numbers.at(ca.root()) != b.numbers.at(cb.root())) return false;
  const Instruction* y = cb.first();
  for (const Instruction* x : ca) {
    if (!classes.SameButOperands(*x, *y) || !SameList(x->operands(), a, y->operands(), b) ||
        !SameList(x->control_predecessors(), a, y->control_predecessors(), b)) {
      return false;
    }
    y = y->next();
  }
  return true;
}

}  // namespace

ComputationClasses::ComputationClasses(const hlo::Module& module) {
  for (int64_t id = 0; id < module.id_limit(); ++id) classes_.push_back(id);
  // Callees first: their classes are known when callers are compared.
  hlo::CallGraph graph(module);
  std::unordered_multimap<size_t, Numbered> seen;
  for (const Computation* c : graph.PostOrder()) {
    if (c->IsEntry()) continue;
    Numbered numbered(*c);
    size_t hash = HashComputation(numbered, *this);
    auto [begin, end] = seen.equal_range(hash);
    int candidates = 0;
    bool found = false;
    for (auto it = begin; it != end && !found; ++it, ++candidates) {
      found = SameComputation(it->second, numbered, *this);
      if (found) classes_[static_cast<size_t>(c->id())] = Of(it->second.computation);
    }
    if (!found && candidates < kMaxBucket) seen.emplace(hash, std::move(numbered));
  }
}

bool ComputationClasses::SameAttrs(const Instruction& a, const Instruction& b) const {
  if (!HasTrait(a.op(), hlo::kCalls)) return a.attrs() == b.attrs();
  hlo::FieldList fa = a.attrs().Fields(), fb = b.attrs().Fields();
  for (int k = 0; k < fa.size(); ++k) {
    if (fa[k].type == FieldType::kComputation) {
      if (Of(fa[k].As<Computation*>()) != Of(fb[k].As<Computation*>())) return false;
    } else if (fa[k].type == FieldType::kComputationList) {
      const auto& la = fa[k].As<std::vector<Computation*>>();
      const auto& lb = fb[k].As<std::vector<Computation*>>();
      if (la.size() != lb.size()) return false;
      for (size_t n = 0; n < la.size(); ++n) {
        if (Of(la[n]) != Of(lb[n])) return false;
      }
    } else if (!FieldsEqual(fa[k], fb[k])) {
      return false;
    }
  }
  return true;
}

bool ComputationClasses::SameButOperands(const Instruction& a, const Instruction& b) const {
  if (a.op() != b.op() || a.shape() != b.shape() || !SameAttrs(a, b)) return false;
  if (a.IsConstant() &&
      (a.attrs<hlo::ConstantAttrs>().elided || b.attrs<hlo::ConstantAttrs>().elided)) {
    return false;
  }
  static const hlo::InstructionExtras kNoExtras;
  const hlo::InstructionExtras& ea = a.extras() != nullptr ? *a.extras() : kNoExtras;
  const hlo::InstructionExtras& eb = b.extras() != nullptr ? *b.extras() : kNoExtras;
  return ea.sharding == eb.sharding && ea.frontend_attributes == eb.frontend_attributes &&
         ea.backend_config == eb.backend_config;
}

size_t ComputationClasses::HashButOperands(const Instruction& i) const {
  size_t hash = MixHash(static_cast<size_t>(i.op()) + 1, i.shape().Hash());
  hash = MixHash(hash, i.attrs().Hash());
  for (const Computation* called : i.called_computations())
    hash = MixHash(hash, size_t(Of(called)));
  return hash;
}

}  // namespace weft::compiler
