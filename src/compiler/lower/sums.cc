// Blocked (pairwise-like) summation: runs in f32, runs of runs in f64.
#include "compiler/lower/sums.h"

#include <algorithm>
#include <optional>

#include "hlo/instruction.h"

namespace weft::compiler {

using hlo::Instruction;
using program::KernelBuilder;
using program::LoopKind;
using program::ValueId;
using Carry = KernelBuilder::Carry;

namespace {

class SumLoops {
 public:
  SumLoops(KernelBuilder& b, const std::vector<bool>& sums, const SumBody& body)
      : b_(b), sums_(sums), body_(body), origin_(b.Int(0)) {}

  // One accumulator for all rounds.
  Result<Carry> Plain(const SumRange& range, const Carry& init) {
    std::vector<ValueId> inside =
        b_.BeginLoop(LoopKind::kSerial, range.begin, range.end, b_.Int(range.step), init);
    return b_.End(TRY(Body(inside[0], Carry(inside.begin() + 1, inside.end()))));
  }
  Result<Carry> Body(ValueId at, const Carry& so_far) { return body_(b_.Add(origin_, at), so_far); }

  // `rounds` at a time by `inner` from nothing on, whose sums are added in f64 if `wide`.
  Result<Carry> Cut(const SumRange& range, int64_t rounds, bool wide, const Carry& init,
                    const std::function<Result<Carry>(const SumRange&, const Carry&)>& inner) {
    Carry start = init;
    for (size_t i = 0; wide && i < start.size(); ++i) {
      if (sums_[i]) start[i] = b_.Cast(start[i], DType::kF64);
    }
    int64_t size = rounds * range.step;
    std::vector<ValueId> inside =
        b_.BeginLoop(LoopKind::kSerial, range.begin, range.end, b_.Int(size), start);
    Carry from(inside.begin() + 1, inside.end()), next = from;
    for (size_t i = 0; i < from.size(); ++i) {
      if (sums_[i]) from[i] = b_.Number(-0.0, {DType::kF32, b_.type(init[i]).lanes});
    }
    // Bounds that are known, where all parts are as long.
    bool even = IsEven(range, size);
    SumRange part{even ? b_.Int(0) : inside[0], b_.Int(size), range.step, rounds};
    if (!even) part.end = b_.Min(b_.Add(inside[0], part.end), range.end);
    ValueId before = origin_;
    if (even) origin_ = b_.Add(origin_, inside[0]);
    Carry made = TRY(inner(part, from));
    origin_ = before;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!sums_[i]) next[i] = made[i];
      if (sums_[i]) next[i] = b_.Add(next[i], wide ? b_.Cast(made[i], DType::kF64) : made[i]);
    }
    Carry after = b_.End(next);
    for (size_t i = 0; wide && i < after.size(); ++i) {
      if (sums_[i]) after[i] = b_.Cast(after[i], DType::kF32);
    }
    return after;
  }

  Result<Carry> Emit(const SumRange& range, const Carry& init) {
    bool cuts = std::find(sums_.begin(), sums_.end(), true) != sums_.end();
    auto plain = [&](const SumRange& part, const Carry& from) { return Plain(part, from); };
    auto runs = [&](const SumRange& part, const Carry& from) {
      return Cut(part, kSumRun, false, from, plain);
    };
    if (!cuts || range.trips <= kSumRun) return Plain(range, init);
    if (range.trips <= kSumRun * kSumRuns) return runs(range, init);
    return Cut(range, kSumRun * kSumRuns, true, init, runs);
  }

 private:
  bool IsEven(const SumRange& range, int64_t size) const {
    std::optional<int64_t> begin = b_.IntConstant(range.begin), end = b_.IntConstant(range.end);
    return begin && end && (*end - *begin) % size == 0;
  }

  KernelBuilder& b_;
  const std::vector<bool>& sums_;
  const SumBody& body_;
  ValueId origin_;  // what the counters of the open loops begin at
};

}  // namespace

bool SumsF32(const hlo::Computation& computation, DType dtype, int64_t leaf) {
  const Instruction* root = computation.root();
  int64_t count = 1;
  if (root->op() == hlo::Op::kTuple) {
    count = root->operand_count();
    root = root->operand(leaf);
  }
  if (dtype != DType::kF32 && dtype != DType::kC64) return false;
  if (root->op() != hlo::Op::kAdd || root->shape().dtype() != dtype ||
      static_cast<int64_t>(computation.parameters().size()) != 2 * count) {
    return false;
  }
  const Instruction *x = root->operand(0), *y = root->operand(1);
  return x->IsParameter() && y->IsParameter() &&
         std::min(x->parameter_number(), y->parameter_number()) == leaf &&
         std::max(x->parameter_number(), y->parameter_number()) == leaf + count;
}

Result<Carry> EmitSumLoop(KernelBuilder& b, const SumRange& range, const Carry& init,
                          const std::vector<bool>& sums, const SumBody& body) {
  return SumLoops(b, sums, body).Emit(range, init);
}

Result<Carry> EmitWideSumLoop(KernelBuilder& b, const SumRange& range, const Carry& init,
                              const std::vector<bool>& sums, const SumBody& body) {
  SumLoops loops(b, sums, body);
  return loops.Cut(range, 1, true, init, [&](const SumRange& part, const Carry& from) {
    return loops.Body(part.begin, from);
  });
}

Carry EmitSums(KernelBuilder& b, const SumRange& range, const Carry& init,
               const std::function<Carry(ValueId at, const Carry&)>& body) {
  std::vector<bool> sums;
  for (ValueId v : init) sums.push_back(b.type(v).dtype == DType::kF32);
  return *EmitSumLoop(b, range, init, sums, [&](ValueId at, const Carry& so_far) -> Result<Carry> {
    return body(at, so_far);
  });
}

}  // namespace weft::compiler
