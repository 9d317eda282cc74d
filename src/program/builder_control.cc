// Blocks of a kernel in the making: loops, branches, combines.
#include <algorithm>

#include "base/check.h"
#include "program/builder.h"

namespace weft::program {

std::vector<ValueId> KernelBuilder::BeginLoop(LoopKind kind, ValueId begin, ValueId end,
                                              ValueId step, std::span<const ValueId> init) {
  Instr instr;
  instr.op = Op::kLoop;
  instr.loop = kind;
  instr.type = type(begin);
  instr.args = {begin, end, step};
  std::vector<ValueId> inside = {NewValue(instr.type)};
  for (ValueId id : init) {
    instr.args.push_back(id);
    inside.push_back(NewValue(type(id)));
  }
  instr.results = inside;
  open_.push_back(kernel_.code.size());
  OpenBlock();
  kernel_.code.push_back(std::move(instr));
  return inside;
}

void KernelBuilder::BeginIf(ValueId condition, Branch branch) {
  Instr instr;
  instr.op = Op::kIf;
  instr.branch = branch;
  instr.args = {condition};
  open_.push_back(kernel_.code.size());
  OpenBlock();
  kernel_.code.push_back(std::move(instr));
}

void KernelBuilder::BeginElse(std::span<const ValueId> yield) {
  CHECK(!open_.empty());
  Instr instr;
  instr.op = Op::kElse;
  instr.args = yield;
  blocks_.pop_back();
  OpenBlock();
  kernel_.code.push_back(std::move(instr));
}

std::vector<ValueId> KernelBuilder::BeginCombine(std::span<const ValueId> yield) {
  CHECK(!open_.empty());
  Instr instr;
  instr.op = Op::kCombine;
  instr.args = yield;
  std::vector<ValueId> both;
  for (int side = 0; side < 2; ++side) {
    for (ValueId id : yield) both.push_back(NewValue(type(id)));
  }
  instr.results = both;
  blocks_.pop_back();
  OpenBlock();
  kernel_.code.push_back(std::move(instr));
  return both;
}

std::optional<size_t> KernelBuilder::FindSameIf(size_t begin,
                                                std::span<const ValueId> yield) const {
  std::span<const Instr> code = std::span(kernel_.code).subspan(begin);
  for (const KnownIf& known : known_ifs_) {
    std::span<const Instr> other = std::span(kernel_.code).subspan(known.begin, code.size());
    if (!IsOpen(known.block) || known.end - known.begin != code.size()) continue;
    std::map<ValueId, ValueId> names;  // of the other's values
    auto same_args = [&](std::span<const ValueId> a, std::span<const ValueId> b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](ValueId x, ValueId y) {
        auto found = names.find(y);
        return x == (found == names.end() ? y : found->second);
      });
    };
    bool same = true;
    for (size_t i = 0; i < code.size() && same; ++i) {
      const Instr &a = code[i], &b = other[i];
      same = a.op == b.op && a.format == b.format && a.type == b.type && a.memory == b.memory &&
             a.lanes == b.lanes && same_args(a.args, b.args);
      for (size_t k = 0; same && k < a.results.size(); ++k) names[b.results[k]] = a.results[k];
    }
    if (same && same_args(yield, kernel_.code[known.end].args)) return known.end;
  }
  return std::nullopt;
}

std::vector<ValueId> KernelBuilder::End(std::span<const ValueId> yield) {
  CHECK(!open_.empty());
  size_t begin = open_.back();
  open_.pop_back();
  blocks_.pop_back();
  if (reuse_ && !yield.empty() && kernel_.code[begin].op == Op::kIf) {
    bool computes =
        std::all_of(kernel_.code.begin() + static_cast<int64_t>(begin) + 1, kernel_.code.end(),
                    [](const Instr& instr) {
                      return instr.op == Op::kElse || Info(instr.op).cls < OpClass::kMemory;
                    });
    if (computes) {
      if (std::optional<size_t> known = FindSameIf(begin, yield)) {
        kernel_.code.resize(begin);
        const auto& results = kernel_.code[*known].results;
        return {results.begin(), results.end()};
      }
      known_ifs_.push_back({begin, kernel_.code.size(), block()});
    }
  }
  Instr instr;
  instr.op = Op::kEnd;
  instr.args = yield;
  std::vector<ValueId> after;
  for (ValueId id : yield) after.push_back(NewValue(type(id)));
  instr.results = after;
  kernel_.code.push_back(std::move(instr));
  return after;
}

void KernelBuilder::For(LoopKind kind, int64_t begin, int64_t end,
                        const std::function<void(ValueId)>& body, int64_t step) {
  body(BeginLoop(kind, Int(begin), Int(end), Int(step))[0]);
  End();
}

KernelBuilder::Carry KernelBuilder::Reduce(int64_t begin, int64_t end, const Carry& init,
                                           const std::function<Carry(ValueId, const Carry&)>& body,
                                           int64_t step, LoopKind kind) {
  std::vector<ValueId> inside = BeginLoop(kind, Int(begin), Int(end), Int(step), init);
  return End(body(inside[0], Carry(inside.begin() + 1, inside.end())));
}

void KernelBuilder::If(ValueId condition, const std::function<void()>& body) {
  BeginIf(condition);
  body();
  End();
}

}  // namespace weft::program
