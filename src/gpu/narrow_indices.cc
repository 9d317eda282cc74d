#include "gpu/narrow_indices.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace weft::gpu {

using program::Instr;
using program::Kernel;
using program::Op;
using program::Type;
using program::ValueId;

namespace {

constexpr Type kWide = {DType::kS64, 1}, kNarrow = {DType::kS32, 1};
constexpr int64_t kLowest = std::numeric_limits<int32_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();

struct Range {  // of an integer: low <= value <= high
  int64_t low, high;
};

// Ranges of the scalar integers of a kernel, in the order of its code.
class Ranges {
 public:
  explicit Ranges(const Kernel& kernel) : kernel_(kernel), known_(kernel.values.size()) {
    for (const Instr& instr : kernel.code) {
      if (instr.op == Op::kLoop) known_[At(instr.results[0])] = OfCounter(instr);
      bool scalar = instr.results.size() == 1 && IsInteger(kernel.type(instr.results[0]).dtype) &&
                    kernel.type(instr.results[0]).lanes == 1;
      if (scalar && program::Info(instr.op).cls != program::OpClass::kControl) {
        known_[At(instr.results[0])] = Within(Of(instr), kernel.type(instr.results[0]).dtype);
      }
    }
  }

  // Whether 32 bits hold it.
  bool Fits(ValueId id) const {
    std::optional<Range> r = Of(id);
    return r && r->low >= kLowest && r->high <= kHighest;
  }
  std::optional<Range> Of(ValueId id) const {
    const program::Value& value = kernel_.value(id);
    if (value.is_constant && IsInteger(value.type.dtype) && value.type.lanes == 1) {
      return Range{value.AsInt(), value.AsInt()};
    }
    return known_[At(id)];
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }

  // What the type holds where nothing else is known, or more would not fit it: it wraps around.
  static std::optional<Range> Within(std::optional<Range> r, DType dtype) {
    if (BitWidth(dtype) == 64) return dtype == DType::kS64 ? r : std::nullopt;
    int bits = BitWidth(dtype) - (IsSigned(dtype) ? 1 : 0);
    Range all = {IsSigned(dtype) ? -(int64_t{1} << bits) : 0, (int64_t{1} << bits) - 1};
    return r && r->low >= all.low && r->high <= all.high ? r : all;
  }

  std::optional<Range> OfCounter(const Instr& loop) const {
    std::optional<Range> begin = Of(loop.args[0]), end = Of(loop.args[1]), step = Of(loop.args[2]);
    int64_t next;  // what is counted to before the loop ends
    if (!begin || !end || !step || __builtin_add_overflow(end->high, step->high, &next)) {
      return std::nullopt;
    }
    if (next > kHighest) return std::nullopt;
    return Range{begin->low, std::max(begin->low, end->high - 1)};
  }

  static std::optional<Range> Hull(std::initializer_list<std::optional<int64_t>> ends) {
    Range r = {INT64_MAX, INT64_MIN};
    for (std::optional<int64_t> end : ends) {
      if (!end) return std::nullopt;
      r = {std::min(r.low, *end), std::max(r.high, *end)};
    }
    return r;
  }
  static std::optional<int64_t> Apply(Op op, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = op == Op::kAdd   ? __builtin_add_overflow(a, b, &r)
                : op == Op::kSub ? __builtin_sub_overflow(a, b, &r)
                                 : __builtin_mul_overflow(a, b, &r);
    return over ? std::nullopt : std::optional(r);
  }

  std::optional<Range> Of(const Instr& instr) const {
    if (instr.op == Op::kCast) {
      return IsInteger(kernel_.type(instr.args[0]).dtype) ? Of(instr.args[0]) : std::nullopt;
    }
    if (instr.op == Op::kSelect) return Join(Of(instr.args[1]), Of(instr.args[2]));
    if (instr.args.size() != 2) return std::nullopt;
    std::optional<Range> a = Of(instr.args[0]), b = Of(instr.args[1]);
    if (instr.op == Op::kAnd) return OfAnd(a, b);
    if (instr.op == Op::kMin && (a || b)) return OfMin(a, b);
    if (instr.op == Op::kMax && (a || b)) return OfMax(a, b);
    if (!a || !b) return std::nullopt;
    switch (instr.op) {
      case Op::kAdd:
        return Hull({Apply(Op::kAdd, a->low, b->low), Apply(Op::kAdd, a->high, b->high)});
      case Op::kSub:
        return Hull({Apply(Op::kSub, a->low, b->high), Apply(Op::kSub, a->high, b->low)});
      case Op::kMul:
        return Hull({Apply(Op::kMul, a->low, b->low), Apply(Op::kMul, a->low, b->high),
                     Apply(Op::kMul, a->high, b->low), Apply(Op::kMul, a->high, b->high)});
      case Op::kDiv:
        if (b->low <= 0) return std::nullopt;
        return Range{std::min<int64_t>(a->low, 0), std::max<int64_t>(a->high, 0)};
      case Op::kRem:
        if (b->low <= 0) return std::nullopt;
        return Range{a->low < 0 ? 1 - b->high : 0, a->high > 0 ? b->high - 1 : 0};
      case Op::kShr:
        if (b->low < 0 || a->low < 0) return std::nullopt;
        return Range{0, a->high};
      default: return std::nullopt;
    }
  }
  static std::optional<Range> Join(std::optional<Range> a, std::optional<Range> b) {
    if (!a || !b) return std::nullopt;
    return Range{std::min(a->low, b->low), std::max(a->high, b->high)};
  }
  static std::optional<Range> OfAnd(std::optional<Range> a, std::optional<Range> b) {
    int64_t high = INT64_MAX;
    if (a && a->low >= 0) high = std::min(high, a->high);
    if (b && b->low >= 0) high = std::min(high, b->high);
    return high == INT64_MAX ? std::nullopt : std::optional(Range{0, high});
  }
  static std::optional<Range> OfMin(std::optional<Range> a, std::optional<Range> b) {
    int64_t low = a && b ? std::min(a->low, b->low) : INT64_MIN;
    return Range{low, std::min(a ? a->high : INT64_MAX, b ? b->high : INT64_MAX)};
  }
  static std::optional<Range> OfMax(std::optional<Range> a, std::optional<Range> b) {
    int64_t high = a && b ? std::max(a->high, b->high) : INT64_MAX;
    return Range{std::max(a ? a->low : INT64_MIN, b ? b->low : INT64_MIN), high};
  }

  const Kernel& kernel_;
  std::vector<std::optional<Range>> known_;
};

// The lower bits of what comes out are those of what goes in.
bool IsModular(Op op) {
  return op == Op::kAdd || op == Op::kSub || op == Op::kMul;
}
bool IsExact(Op op) {
  return op == Op::kDiv || op == Op::kRem || op == Op::kMin || op == Op::kMax || op == Op::kAnd ||
         op == Op::kShr || op == Op::kSelect;
}

class Narrower {
 public:
  explicit Narrower(const Kernel& kernel)
      : out_(kernel),
        ranges_(kernel),
        narrow_(kernel.values.size()),
        whole_(kernel.values.size()),
        by_32_(kernel.code.size()) {}

  Kernel Run() {
    Choose();
    if (std::ranges::find(by_32_, true) == by_32_.end()) return std::move(out_);
    std::vector<Instr> code = std::exchange(out_.code, {});
    for (size_t v = 0; v < narrow_.size(); ++v) {
      if (narrow_[v]) out_.values[v].type = kNarrow;
    }
    for (size_t i = 0; i < code.size(); ++i) Write(std::move(code[i]), by_32_[i]);
    return std::move(out_);
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  bool IsWide(ValueId id) const { return out_.type(id) == kWide; }

  bool OperandsFit(const Instr& instr, size_t first) const {
    for (size_t i = first; i < instr.args.size(); ++i) {
      if (IsWide(instr.args[i]) && !ranges_.Fits(instr.args[i])) return false;
    }
    return true;
  }

  // From the last instruction to the first, so that all uses of a value are known at its own.
  void Choose() {
    for (size_t i = out_.code.size(); i-- > 0;) {
      const Instr& instr = out_.code[i];
      by_32_[i] = InThirtyTwo(instr);
      bool made = by_32_[i] && !instr.results.empty() && IsWide(instr.results[0]);
      if (made) narrow_[At(instr.results[0])] = true;
      for (size_t k = 0; k < instr.args.size(); ++k) {
        if (!TakesLowerBits(instr, k, by_32_[i])) whole_[At(instr.args[k])] = true;
      }
    }
  }

  bool InThirtyTwo(const Instr& instr) const {
    if (instr.op == Op::kLoop) {
      // The bounds; values that are carried stay what they are.
      return IsWide(instr.results[0]) && ranges_.Fits(instr.results[0]) &&
             ranges_.Fits(instr.args[0]) && ranges_.Fits(instr.args[1]);
    }
    if (program::Info(instr.op).cls == program::OpClass::kCompare) {
      return instr.type == kWide && OperandsFit(instr, 0);
    }
    if (instr.results.size() != 1 || !IsWide(instr.results[0])) return false;
    ValueId result = instr.results[0];
    if (IsModular(instr.op)) return ranges_.Fits(result) || !whole_[At(result)];
    if (instr.op == Op::kCast) {
      return out_.type(instr.args[0]) == kNarrow && ranges_.Fits(result);
    }
    size_t first = instr.op == Op::kSelect ? 1 : 0;
    return IsExact(instr.op) && ranges_.Fits(result) && OperandsFit(instr, first);
  }

  // Whether of the operand only the lower 32 bits count.
  bool TakesLowerBits(const Instr& instr, size_t k, bool in_32) const {
    ValueId id = instr.args[k];
    if (!IsWide(id)) return true;
    switch (instr.op) {
      case Op::kLoad:
      case Op::kStore:
      case Op::kAtomic: return k == 0 && out_.memories[At(instr.memory)].count <= kHighest;
      case Op::kCast: return IsInteger(instr.type.dtype) && BitWidth(instr.type.dtype) <= 32;
      default: return in_32 && IsModular(instr.op);
    }
  }

  ValueId New(Type type) {
    program::Value value;
    value.type = type;
    out_.values.push_back(value);
    return static_cast<ValueId>(out_.values.size()) - 1;
  }
  // The operand in a type; converted before the instruction where it is in the other one.
  ValueId In(ValueId id, Type type) {
    if (out_.type(id) == type) return id;
    if (out_.value(id).is_constant) {
      int64_t number = out_.value(id).AsInt();
      ValueId constant = New(type);
      out_.values[At(constant)].is_constant = true;
      out_.values[At(constant)].bits =
          static_cast<uint64_t>(type == kNarrow ? static_cast<int32_t>(number) : number);
      return constant;
    }
    Instr cast;
    cast.op = Op::kCast;
    cast.type = type;
    cast.args = {id};
    cast.results = {New(type)};
    out_.code.push_back(cast);
    return cast.results[0];
  }

  void Write(Instr instr, bool in_32) {
    bool accesses = instr.op == Op::kLoad || instr.op == Op::kStore || instr.op == Op::kAtomic;
    if (instr.op == Op::kCast && in_32) return Forward(instr);
    size_t narrowed = !in_32 ? 0 : instr.op == Op::kLoop ? 3 : instr.args.size();
    if (in_32) {
      instr.type.dtype = DType::kS32;
      // The compiler may then move constants into addresses.
      instr.nowrap = IsModular(instr.op) && ranges_.Fits(instr.results[0]);
    }
    for (size_t k = 0; k < instr.args.size(); ++k) {
      ValueId& id = instr.args[k];
      bool was_wide = out_.type(id) == kWide || (At(id) < narrow_.size() && narrow_[At(id)]);
      if (!was_wide) continue;
      if (accesses && k == 0 && out_.type(id) == kNarrow) continue;
      if (instr.op == Op::kCast && BitWidth(instr.type.dtype) <= 32) continue;
      id = In(id, k < narrowed ? kNarrow : kWide);
    }
    out_.code.push_back(std::move(instr));
  }

  // A cast to s64 of what is s32: nothing, in 32 bits.
  void Forward(const Instr& cast) {
    Instr same;
    same.op = Op::kAdd;
    same.type = kNarrow;
    ValueId zero = New(kNarrow);
    out_.values[At(zero)].is_constant = true;
    same.args = {cast.args[0], zero};
    same.results = cast.results;
    out_.code.push_back(same);
  }

  Kernel out_;
  Ranges ranges_;
  std::vector<bool> narrow_;  // by value: computed in s32 now
  std::vector<bool> whole_;   // by value: all of its bits count for somebody
  std::vector<bool> by_32_;   // by instruction
};

}  // namespace

Kernel NarrowIndices(const Kernel& kernel) {
  return Narrower(kernel).Run();
}

}  // namespace weft::gpu
