#include "base/str.h"
#include "program/verify.h"

namespace weft::program {

std::optional<AccessChecker::Form> AccessChecker::FormOf(ValueId id) const {
  const Value& value = kernel_.value(id);
  if (!value.is_constant) return forms_[id];
  if (value.type.lanes != 1 || !IsSigned(value.type.dtype)) return std::nullopt;
  return Form{value.AsInt(), {}};
}

std::optional<AccessChecker::Form> AccessChecker::Scale(const Form& a, int64_t factor) const {
  Form out;
  if (__builtin_mul_overflow(a.constant, factor, &out.constant)) return std::nullopt;
  for (Term term : a.terms) {
    if (__builtin_mul_overflow(term.factor, factor, &term.factor)) return std::nullopt;
    if (term.factor != 0) out.terms.push_back(term);
  }
  return out;
}

// a + sign * b
std::optional<AccessChecker::Form> AccessChecker::Combine(const Form& a, const Form& b,
                                                          int sign) const {
  std::optional<Form> scaled = Scale(b, sign);
  if (!scaled) return std::nullopt;
  Form out;
  if (__builtin_add_overflow(a.constant, scaled->constant, &out.constant)) return std::nullopt;
  size_t i = 0, j = 0;  // both sorted by loop
  while (i < a.terms.size() || j < scaled->terms.size()) {
    bool left = j >= scaled->terms.size() ||
                (i < a.terms.size() && a.terms[i].loop <= scaled->terms[j].loop);
    bool right = i >= a.terms.size() ||
                 (j < scaled->terms.size() && scaled->terms[j].loop <= a.terms[i].loop);
    Term term = left ? a.terms[i] : scaled->terms[j];
    if (left && right &&
        __builtin_add_overflow(term.factor, scaled->terms[j].factor, &term.factor)) {
      return std::nullopt;
    }
    if (term.factor != 0) out.terms.push_back(term);
    i += left;
    j += right;
  }
  return out;
}

void AccessChecker::Compute(const Instr& instr) {
  if (instr.results.size() != 1) return;
  // 32-bit sums may wrap; only 64-bit ones are followed, and casts to them.
  if (instr.type != Type{DType::kS64, 1}) return;
  std::optional<Form>& out = forms_[instr.results[0]];
  if (instr.op == Op::kCast && kernel_.type(instr.args[0]).dtype == DType::kS32) {
    out = FormOf(instr.args[0]);
    return;
  }
  if (instr.op != Op::kAdd && instr.op != Op::kSub && instr.op != Op::kMul) return;
  std::optional<Form> a = FormOf(instr.args[0]), b = FormOf(instr.args[1]);
  if (!a || !b) return;
  if (instr.op == Op::kAdd) out = Combine(*a, *b, 1);
  if (instr.op == Op::kSub) out = Combine(*a, *b, -1);
  if (instr.op == Op::kMul && a->terms.empty()) out = Scale(*b, a->constant);
  if (instr.op == Op::kMul && b->terms.empty()) out = Scale(*a, b->constant);
}

std::optional<std::string> AccessChecker::CheckBounds(const Instr& instr, const Form& form) const {
  // Only where the access surely happens, for every combination of the counters.
  for (const Loop& loop : open_) {
    if (!loop.is_loop || loop.trips.value_or(0) == 0) return std::nullopt;
  }
  int64_t low = form.constant, high = form.constant;
  for (const Term& term : form.terms) {
    const Loop& loop = open_[term.loop];
    int64_t first, last;
    if (__builtin_mul_overflow(*loop.trips - 1, loop.step, &last) ||
        __builtin_add_overflow(last, loop.begin, &last) ||
        __builtin_mul_overflow(loop.begin, term.factor, &first) ||
        __builtin_mul_overflow(last, term.factor, &last) ||
        __builtin_add_overflow(low, std::min(first, last), &low) ||
        __builtin_add_overflow(high, std::max(first, last), &high)) {
      return std::nullopt;
    }
  }
  if (__builtin_add_overflow(high, instr.type.lanes - 1, &high)) return std::nullopt;
  const Memory& memory = kernel_.memories[instr.memory];
  if (low >= 0 && high < memory.count) return std::nullopt;
  std::string range = low == high ? StrCat("element ", low) : StrCat("elements ", low, "..", high);
  return StrCat(Name(instr.op), " of ", range, " of '", memory.name, "', which has ", memory.count);
}

std::optional<std::string> AccessChecker::CheckCollision(const Instr& instr,
                                                         const Form& form) const {
  for (size_t i = open_.size(); i-- > home_[instr.memory];) {
    const Loop& loop = open_[i];
    if (!loop.is_loop || loop.trips.value_or(0) == 0) return std::nullopt;
    if (!IsConcurrent(loop.kind) || *loop.trips < 2) continue;
    if (loop.kind == LoopKind::kThread && kernel_.memories[instr.memory].per_thread) continue;
    bool moves = false;
    for (const Term& term : form.terms) moves |= term.loop == i;
    if (!moves) {
      return StrCat("all iterations of a ", Name(loop.kind), " loop store to the same element of '",
                    kernel_.memories[instr.memory].name, "'");
    }
  }
  return std::nullopt;
}

std::optional<std::string> AccessChecker::Visit(const Instr& instr) {
  switch (instr.op) {
    case Op::kLoop: {
      Loop loop{true, instr.loop, instr.results[0], TripCount(kernel_, instr), 0, 1};
      if (loop.trips) {
        loop.begin = kernel_.value(instr.args[0]).AsInt();
        loop.step = kernel_.value(instr.args[2]).AsInt();
        forms_[loop.counter] = Form{0, {{open_.size(), 1}}};
      }
      open_.push_back(loop);
      return std::nullopt;
    }
    case Op::kIf: open_.push_back({}); return std::nullopt;
    case Op::kEnd: open_.pop_back(); return std::nullopt;
    case Op::kArray: home_[instr.memory] = open_.size(); return std::nullopt;
    case Op::kLoad:
    case Op::kAtomic:
    case Op::kStore: break;
    default: Compute(instr); return std::nullopt;
  }
  bool masked = instr.args.size() > (instr.op == Op::kLoad ? 1u : 2u);
  std::optional<Form> form = FormOf(instr.args[0]);
  if (masked || !form) return std::nullopt;
  if (auto message = CheckBounds(instr, *form)) return message;
  return instr.op == Op::kStore ? CheckCollision(instr, *form) : std::nullopt;
}

}  // namespace weft::program
