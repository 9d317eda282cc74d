#include "cpu/render/strength_reduction.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace weft::cpu {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Op;
using program::ValueId;

namespace {

// As LLVM reads it.
std::string Signed(uint64_t number) {
  return StrCat(static_cast<int64_t>(number));
}

bool IsAccess(const Instr& instr) {
  return instr.op == Op::kLoad || instr.op == Op::kStore;
}

}  // namespace

AddressStrengthReduction::AddressStrengthReduction(const Kernel& kernel)
    : kernel_(&kernel),
      named_(kernel.values.size(), false),
      depth_(kernel.values.size(), 0),
      sums_(kernel.values.size()),
      summed_(kernel.values.size(), false) {
  int depth = 0;
  std::vector<int> outside;  // of blocks that are open
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kLoop || instr.op == Op::kIf) outside.push_back(depth);
    if (instr.op == Op::kLoop && instr.loop != LoopKind::kUnroll) ++depth;
    if (instr.op == Op::kEnd) {
      depth = outside.back();
      outside.pop_back();
    }
    for (ValueId id : instr.results) depth_[static_cast<size_t>(id)] = depth;
    bool takes = Takes(instr);
    if (takes) summed_[static_cast<size_t>(instr.results[0])] = true;
    for (size_t i = takes               ? instr.args.size()
                    : HasAddress(instr) ? 1
                                        : 0;
         i < instr.args.size(); ++i) {
      named_[static_cast<size_t>(instr.args[i])] = true;
    }
  }
}

bool AddressStrengthReduction::Takes(const Instr& instr) const {
  if (kernel_ == nullptr || instr.results.size() != 1 || !IsIndex(instr.type)) return false;
  switch (instr.op) {
    case Op::kAdd: return true;
    case Op::kSub: return IsNumber(instr.args[1]);
    case Op::kMul: return IsNumber(instr.args[0]) || IsNumber(instr.args[1]);
    default: return false;
  }
}

bool AddressStrengthReduction::HasAddress(const Instr& access) const {
  return kernel_ != nullptr && IsAccess(access) && IsIndex(kernel_->type(access.args[0])) &&
         !kernel_->memories[access.memory].per_thread;
}

AddressStrengthReduction::Sum AddressStrengthReduction::SumOf(
    ValueId id, const std::vector<std::string>& names) const {
  size_t i = static_cast<size_t>(id);
  if (summed_[i]) return sums_[i];
  const std::string& name = names[i];
  if (name.starts_with('%')) return {{{name, depth_[i]}}, 0};
  // A number, perhaps the counter of a loop that is written out.
  return {{}, static_cast<uint64_t>(std::strtoll(name.c_str(), nullptr, 10))};
}

AddressStrengthReduction::Sum AddressStrengthReduction::Added(const Sum& a, const Sum& b,
                                                              IrBody& ir) {
  Sum sum{a.terms, a.number + b.number};
  for (const Term& term : b.terms) {
    auto at = std::lower_bound(sum.terms.begin(), sum.terms.end(), term,
                               [](const Term& x, const Term& y) { return x.depth < y.depth; });
    if (at != sum.terms.end() && at->depth == term.depth) {
      at->text = Once(StrCat("add i64 ", at->text, ", ", term.text), ir);
    } else {
      sum.terms.insert(at, term);
    }
  }
  return sum;
}

AddressStrengthReduction::Sum AddressStrengthReduction::Multiplied(const Sum& a, uint64_t factor,
                                                                   IrBody& ir) {
  if (factor == 0) return {};
  Sum sum{a.terms, a.number * factor};
  for (Term& term : sum.terms) {
    if (factor != 1) term.text = Once(StrCat("mul i64 ", term.text, ", ", Signed(factor)), ir);
  }
  return sum;
}

void AddressStrengthReduction::Add(const Instr& instr, IrBody& ir,
                                   std::vector<std::string>& names) {
  Sum a = SumOf(instr.args[0], names), b = SumOf(instr.args[1], names), sum;
  switch (instr.op) {
    case Op::kAdd: sum = Added(a, b, ir); break;
    case Op::kSub: sum = {std::move(a.terms), a.number - b.number}; break;
    default:
      sum = IsNumber(instr.args[1]) ? Multiplied(a, b.number, ir) : Multiplied(b, a.number, ir);
  }
  size_t i = static_cast<size_t>(instr.results[0]);
  if (named_[i]) names[i] = Whole(sum, ir);
  sums_[i] = std::move(sum);
}

std::string AddressStrengthReduction::Whole(const Sum& sum, IrBody& ir) {
  if (sum.terms.empty()) return Signed(sum.number);
  std::string text = sum.terms[0].text;
  for (size_t i = 1; i < sum.terms.size(); ++i) {
    text = Once(StrCat("add i64 ", text, ", ", sum.terms[i].text), ir);
  }
  if (sum.number != 0) text = Once(StrCat("add i64 ", text, ", ", Signed(sum.number)), ir);
  return text;
}

// What lies between the base and the address may be outside of the memory: nothing is promised.
std::string AddressStrengthReduction::Address(const Instr& access, std::string base, IrBody& ir,
                                              const std::vector<std::string>& names) {
  Sum sum = SumOf(access.args[0], names);
  std::string_view type = StorageType(kernel_->memories[access.memory].dtype);
  auto move = [&](std::string_view by) {
    base = Once(StrCat("getelementptr ", type, ", ptr ", base, ", i64 ", by), ir);
  };
  for (const Term& term : sum.terms) move(term.text);
  if (sum.number != 0) move(Signed(sum.number));
  return base;
}

std::string AddressStrengthReduction::Once(std::string text, IrBody& ir) {
  if (block_ != ir.block()) once_.clear();
  block_ = ir.block();
  auto [found, is_new] = once_.try_emplace(std::move(text));
  if (is_new) found->second = ir.Def(found->first);
  return found->second;
}

}  // namespace weft::cpu
