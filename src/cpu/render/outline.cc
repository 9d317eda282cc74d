#include "cpu/render/outline.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "program/target.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::Instr;
using program::Kernel;
using program::OpClass;
using program::ValueId;

// In machine instructions, about. A call costs a few of them and keeps values in memory that would
// have stayed in registers: that has to be little beside the function, and code that is not long
// compiles fast enough without.
constexpr int64_t kLongKernel = program::TargetFacts::kDecodedOps / 4;
// Weight of what is outlined, in instructions.
constexpr int64_t kLongFunction = program::CodeBounds::kLongBody;
constexpr size_t kFewestTimes = program::CodeBounds::kCopies;  // equal stretches
// Instructions by which equal stretches are found.
constexpr size_t kWindow = program::WorkBounds::kTree;
constexpr size_t kLongestFunction = program::CodeBounds::kMembers;  // instructions
// Vector registers for arguments and results (x86-64 and arm64 calls).
constexpr int64_t kArgumentRegisters = program::TargetFacts::kArgumentRegisters;
// Stretches looked at to choose how long they are.
constexpr size_t kSample = program::WorkBounds::kAlternatives;

int64_t Registers(program::Type type) {
  return std::max<int64_t>(
      1, type.lanes * ByteWidth(type.dtype) / program::TargetInfo::kNarrowVectorBytes);
}

bool Computes(const Instr& instr) {
  OpClass cls = Info(instr.op).cls;
  return cls != OpClass::kMemory && cls != OpClass::kControl && instr.results.size() == 1;
}

class OutlineFinder {
 public:
  explicit OutlineFinder(const Kernel& kernel) : kernel_(kernel), size_(kernel.code.size()) {}

  std::vector<OutlineCandidate> Find() {
    if (!IsLong()) return {};
    NoteUses();
    NoteWindows();
    taken_.resize(size_);
    for (size_t at = 0; at < size_; ++at) {
      if (!taken_[at] && window_[at] != 0) TryAt(at);
    }
    std::sort(
        found_.begin(), found_.end(),
        [](const OutlineCandidate& a, const OutlineCandidate& b) { return a.begin < b.begin; });
    return std::move(found_);
  }

 private:
  bool IsLong() const {
    int64_t weight = 0;
    for (const Instr& instr : kernel_.code) weight += Computes(instr) ? Registers(instr.type) : 1;
    return weight >= kLongKernel;
  }

  void NoteUses() {
    defined_.resize(kernel_.values.size(), size_);
    last_use_.resize(kernel_.values.size(), 0);
    for (size_t pc = 0; pc < size_; ++pc) {
      for (ValueId id : kernel_.code[pc].results) defined_[id] = pc;
      for (ValueId id : kernel_.code[pc].args) last_use_[id] = pc;
    }
  }

  // Hashes of what is done in the next few instructions, whatever they do it to.
  void NoteWindows() {
    window_.resize(size_, 0);
    size_t computing = 0;
    for (size_t end = 0; end < size_; ++end) {
      computing = Computes(kernel_.code[end]) ? computing + 1 : 0;
      if (computing < kWindow) continue;
      size_t begin = end + 1 - kWindow;
      window_[begin] = HashOf(begin) | 1;
      starts_[window_[begin]].push_back(begin);
    }
  }

  size_t HashOf(size_t begin) const {
    size_t hash = 0;
    for (size_t pc = begin; pc < begin + kWindow; ++pc) {
      const Instr& instr = kernel_.code[pc];
      hash = MixHash(hash, static_cast<size_t>(instr.op) * 256 +
                               static_cast<size_t>(instr.type.dtype) * 8 +
                               static_cast<size_t>(instr.type.lanes));
      for (ValueId id : instr.args) {
        const program::Value& value = kernel_.value(id);
        bool inside = !value.is_constant && defined_[id] >= begin && defined_[id] < size_;
        hash = MixHash(hash, value.is_constant ? value.bits : inside ? defined_[id] - begin : ~0ul);
      }
    }
    return hash;
  }

  bool SameInstr(size_t a, size_t b) const {
    const Instr &x = kernel_.code[a], &y = kernel_.code[b];
    return x.op == y.op && x.type == y.type && x.format == y.format && x.lanes == y.lanes &&
           x.nowrap == y.nowrap && x.rounded == y.rounded && x.args.size() == y.args.size();
  }

  // How many instructions from `a` and `b` on do the same, `limit` at most.
  size_t LengthAlike(size_t a, size_t b, size_t limit) const {
    std::vector<std::pair<ValueId, ValueId>> inputs;
    for (size_t k = 0; k < limit; ++k) {
      if (b + k >= size_ || taken_[b + k] || !Computes(kernel_.code[a + k]) ||
          !SameInstr(a + k, b + k)) {
        return k;
      }
      const Instr &x = kernel_.code[a + k], &y = kernel_.code[b + k];
      for (size_t i = 0; i < x.args.size(); ++i) {
        if (!SameArgument(x.args[i], a, y.args[i], b, inputs)) return k;
      }
    }
    return limit;
  }

  bool SameArgument(ValueId x, size_t a, ValueId y, size_t b,
                    std::vector<std::pair<ValueId, ValueId>>& inputs) const {
    const program::Value &u = kernel_.value(x), &v = kernel_.value(y);
    if (u.type != v.type || u.is_constant != v.is_constant) return false;
    if (u.is_constant) return u.bits == v.bits;
    if (IsInside(x, a) || IsInside(y, b)) {
      return IsInside(x, a) && IsInside(y, b) && defined_[x] - a == defined_[y] - b;
    }
    for (const auto& [first, second] : inputs) {
      if (first == x || second == y) return first == x && second == y;
    }
    inputs.emplace_back(x, y);
    return true;
  }

  // Defined behind `begin`. What a stretch uses is defined before its end.
  bool IsInside(ValueId id, size_t begin) const {
    return defined_[id] >= begin && defined_[id] < size_;
  }

  void TryAt(size_t at) {
    std::vector<size_t> starts;
    size_t limit = kLongestFunction;
    for (size_t s : starts_.at(window_[at])) {
      if (s < at || taken_[s]) continue;
      if (!starts.empty()) {
        if (s - starts.back() < kWindow) continue;
        limit = std::min(limit, s - starts.back());
      }
      starts.push_back(s);
    }
    if (starts.size() < kFewestTimes) return;
    size_t length = BestLength(starts, limit);
    while (length >= kWindow && !IsFunction(at, length)) --length;
    if (length < kWindow || Weight(at, length) < kLongFunction) return;
    Take(starts, length);
  }

  // The length that leaves the fewest instructions, of what the first few stretches share.
  size_t BestLength(const std::vector<size_t>& starts, size_t limit) const {
    std::vector<size_t> lengths;
    size_t count = std::min(starts.size(), kSample);
    for (size_t i = 1; i < count; ++i) {
      lengths.push_back(LengthAlike(starts[0], starts[i], limit));
    }
    std::sort(lengths.rbegin(), lengths.rend());
    size_t best = 0, best_saved = 0;
    for (size_t n = kFewestTimes - 2; n < lengths.size(); ++n) {
      size_t saved = lengths[n] * (n + 1);
      if (saved > best_saved) best = lengths[n], best_saved = saved;
    }
    return best;
  }

  int64_t Weight(size_t begin, size_t length) const {
    int64_t weight = 0;
    for (size_t pc = begin; pc < begin + length; ++pc) weight += Registers(kernel_.code[pc].type);
    return weight;
  }

  // Whether arguments and results fit in registers.
  bool IsFunction(size_t begin, size_t length) const {
    int64_t in = 0, out = 0;
    for (ValueId id : InputsOf(begin, length)) in += Registers(kernel_.type(id));
    for (size_t k : OutputsOf(begin, length)) {
      out += Registers(kernel_.type(kernel_.code[begin + k].results[0]));
    }
    return in > 0 && out > 0 && in <= kArgumentRegisters && out <= kArgumentRegisters;
  }

  std::vector<ValueId> InputsOf(size_t begin, size_t length) const {
    std::vector<ValueId> inputs;
    for (size_t pc = begin; pc < begin + length; ++pc) {
      for (ValueId id : kernel_.code[pc].args) {
        if (kernel_.value(id).is_constant || IsInside(id, begin)) continue;
        if (std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
      }
    }
    return inputs;
  }

  // By their distance from `begin`.
  std::vector<size_t> OutputsOf(size_t begin, size_t length) const {
    std::vector<size_t> outputs;
    for (size_t k = 0; k < length; ++k) {
      if (last_use_[kernel_.code[begin + k].results[0]] >= begin + length) outputs.push_back(k);
    }
    return outputs;
  }

  void Take(const std::vector<size_t>& starts, size_t length) {
    std::vector<size_t> alike, outputs = OutputsOf(starts[0], length);
    for (size_t s : starts) {
      if (LengthAlike(starts[0], s, length) == length && OutputsOf(s, length) == outputs) {
        alike.push_back(s);
      }
    }
    if (alike.size() < kFewestTimes) return;
    for (size_t s : alike) {
      OutlineCandidate candidate{s, s + length, starts[0], InputsOf(s, length), {}};
      for (size_t k : outputs) candidate.outputs.push_back(kernel_.code[s + k].results[0]);
      found_.push_back(std::move(candidate));
      std::fill(taken_.begin() + static_cast<ptrdiff_t>(s),
                taken_.begin() + static_cast<ptrdiff_t>(s + length), true);
    }
  }

  const Kernel& kernel_;
  size_t size_;
  std::vector<size_t> defined_, last_use_;  // by value: instructions
  std::vector<size_t> window_;              // hashes, 0 where none begins
  std::unordered_map<size_t, std::vector<size_t>> starts_;
  std::vector<bool> taken_;
  std::vector<OutlineCandidate> found_;
};

}  // namespace

std::vector<OutlineCandidate> FindOutlineCandidates(const Kernel& kernel) {
  return OutlineFinder(kernel).Find();
}

}  // namespace weft::cpu
