#include "cpu/render/critical_path.h"

#include <algorithm>

#include "program/critical_path.h"

namespace weft::cpu {
namespace {

using program::Instr;
using program::Kernel;
using program::Op;
using program::ValueId;

// Whether the sum becomes what it was added to, always in the same place: a reduction in a
// register, of which an FMA takes the addend late (accumulator forwarding), so that contracting it
// is free.
bool IsRunningSum(const Kernel& kernel, const Instr& sum, const Instr& load) {
  if (!kernel.value(load.args[0]).is_constant) return false;
  return std::ranges::any_of(kernel.code, [&](const Instr& store) {
    return store.op == Op::kStore && store.memory == load.memory && store.args[1] == sum.results[0];
  });
}

}  // namespace

std::vector<bool> UncontractedProducts(const Kernel& kernel, std::span<const int64_t> memories,
                                       const program::OpLatency& latency,
                                       bool add_faster_than_fma) {
  std::vector<int64_t> held(memories.begin(), memories.end());
  std::vector<int64_t> depth = program::ValueDepths(kernel, held, latency);
  std::vector<int> uses(kernel.values.size());
  std::vector<bool> product(kernel.values.size()), uncontracted(kernel.values.size());
  std::vector<const Instr*> loads(kernel.values.size());
  for (const Instr& instr : kernel.code) {
    for (ValueId id : instr.args) ++uses[static_cast<size_t>(id)];
    if (instr.op == Op::kLoad) loads[static_cast<size_t>(instr.results[0])] = &instr;
    if (instr.op == Op::kMul && IsFloat(instr.type.dtype)) {
      product[static_cast<size_t>(instr.results[0])] = true;
    }
  }
  for (const Instr& instr : kernel.code) {
    if (instr.op != Op::kAdd && instr.op != Op::kSub) continue;
    size_t a = static_cast<size_t>(instr.args[0]), b = static_cast<size_t>(instr.args[1]);
    if (add_faster_than_fma && instr.type.lanes == 1 && product[a] != product[b]) {
      size_t one = product[a] ? a : b, other = product[a] ? b : a;
      bool apart = uses[one] == 1 && loads[other] != nullptr && depth[one] < depth[other] &&
                   !IsRunningSum(kernel, instr, *loads[other]);
      if (apart) uncontracted[one] = uncontracted[static_cast<size_t>(instr.results[0])] = true;
    }
    if (!product[a] || !product[b] || uses[a] != 1 || uses[b] != 1 || depth[a] == depth[b])
      continue;
    uncontracted[depth[a] < depth[b] ? a : b] = true;
  }
  return uncontracted;
}

namespace {

// Where values come from, in a kernel.
class Definitions {
 public:
  explicit Definitions(const Kernel& kernel)
      : kernel_(kernel), uses_(kernel.values.size()), at_(kernel.values.size(), -1) {
    for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
      const Instr& instr = kernel.code[pc];
      for (ValueId id : instr.args) ++uses_[static_cast<size_t>(id)];
      bool computes = Info(instr.op).cls != program::OpClass::kControl && instr.results.size() == 1;
      if (computes) at_[static_cast<size_t>(instr.results[0])] = static_cast<int64_t>(pc);
    }
  }
  // The instruction of that operation whose only use this is, or null.
  const Instr* Only(ValueId id, Op op) const {
    int64_t pc = at_[static_cast<size_t>(id)];
    if (pc < 0 || uses_[static_cast<size_t>(id)] != 1) return nullptr;
    const Instr& instr = kernel_.code[static_cast<size_t>(pc)];
    return instr.op == op ? &instr : nullptr;
  }

 private:
  const Kernel& kernel_;
  std::vector<int> uses_;
  std::vector<int64_t> at_;
};

bool IsAssociative(const Instr& instr) {
  bool integer = !IsFloat(instr.type.dtype);
  switch (instr.op) {
    case Op::kMin:
    case Op::kMax: return true;
    case Op::kAdd:
    case Op::kMul: return integer;
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: return true;
    default: return false;
  }
}

}  // namespace

std::map<size_t, Reassociation> Reassociations(const Kernel& kernel,
                                               std::span<const int64_t> memories,
                                               const program::OpLatency& latency) {
  std::map<size_t, Reassociation> forms;
  std::vector<int64_t> held(memories.begin(), memories.end());
  std::vector<int64_t> depth = program::ValueDepths(kernel, held, latency);
  Definitions definitions(kernel);
  auto deeper = [&](ValueId a, ValueId b) {
    return depth[static_cast<size_t>(a)] > depth[static_cast<size_t>(b)];
  };
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    const Instr& instr = kernel.code[pc];
    if (instr.type.lanes != 1 || !IsAssociative(instr)) continue;
    for (size_t k = 0; k < 2; ++k) {
      const Instr* inner = definitions.Only(instr.args[k], instr.op);
      if (inner == nullptr) continue;
      ValueId a = inner->args[0], b = inner->args[1], second = instr.args[1 - k];
      if (deeper(b, a)) std::swap(a, b);
      if (!deeper(a, b) || !deeper(a, second)) continue;
      // Constants are best left to LLVM.
      if (kernel.value(b).is_constant || kernel.value(second).is_constant) continue;
      forms.insert({pc, {a, b, second}});
      break;
    }
  }
  return forms;
}

}  // namespace weft::cpu
