// An element read at one of two places that are both read anyway: a[p ? i : j], where a[i] and a[j]
// are there. What was read is chosen from instead, so that nothing waits for a place to be known
// and read from.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

constexpr size_t kMostReads = program::WorkBounds::kPath;  // of an array, that are looked through

// Those of one computation, from its beginning on.
class Reads {
 public:
  // What a dynamic-slice of one element reads, as a scalar, where that is there; else null, and
  // from now on it is.
  Result<Instruction*> Find(Instruction& slice) {
    Places places = PlacesOf(slice);
    std::vector<Read>& known = known_[slice.operand(0)];
    Instruction* element = nullptr;
    if (Read* same = Known(known, places)) element = TRY(ElementOf(*same));
    for (size_t d = 0; element == nullptr && d < places.size(); ++d) {
      Instruction* choice = places[d];
      if (choice->op() != Op::kSelect) continue;
      Read* either[2];
      for (int64_t k = 0; k < 2; ++k) {
        Places one = places;
        one[d] = Inside(choice->operand(k + 1), LastStart(slice, d));
        either[k] = Known(known, one);
      }
      if (either[0] == nullptr || either[1] == nullptr) continue;
      Instruction *x = TRY(ElementOf(*either[0])), *y = TRY(ElementOf(*either[1]));
      Builder b(*slice.parent(), &slice, &slice);
      element = TRY(b.Add(Op::kSelect, {choice->operand(0), x, y}));
    }
    if (known.size() < kMostReads) {
      known.push_back({std::move(places), element == nullptr ? &slice : nullptr, element});
    }
    return element;
  }

 private:
  using Places = std::vector<Instruction*>;
  struct Read {
    Places places;
    Instruction *slice, *element;  // either may be null
  };

  static Result<Instruction*> ElementOf(Read& read) {
    if (read.element != nullptr) return read.element;
    Instruction* next = read.slice->next();
    bool is_scalar = next != nullptr && next->op() == Op::kReshape && next->shape().IsScalar() &&
                     next->operand(0) == read.slice;
    Builder b(*read.slice->parent(), next, read.slice);
    return read.element = is_scalar ? next : TRY(b.Reshape(read.slice, {}));
  }

  static int64_t LastStart(const Instruction& slice, size_t d) {
    return slice.operand(0)->shape().dim(static_cast<int64_t>(d)) - 1;
  }

  // A start without what dynamic-slice does to it anyway: no start is less than 0 or beyond the
  // last one.
  static Instruction* Inside(Instruction* start, int64_t last) {
    while (start->op() == Op::kMinimum || start->op() == Op::kMaximum) {
      bool least = start->op() == Op::kMinimum;
      std::optional<int64_t> x = IntegerValue(*start->operand(0)),
                             y = IntegerValue(*start->operand(1));
      if (!x && !y) break;
      int64_t limit = x ? *x : *y;
      if (limit < 0 && start->shape().dtype() == DType::kU64) break;
      if (least ? limit < last : limit > 0) break;
      start = start->operand(x ? 1 : 0);
    }
    return start;
  }

  static Places PlacesOf(const Instruction& slice) {
    Places places;
    for (size_t d = 0; d + 1 < slice.operands().size(); ++d) {
      places.push_back(Inside(slice.operands()[d + 1], LastStart(slice, d)));
    }
    return places;
  }

  static bool IsSame(const Instruction* a, const Instruction* b) {
    std::optional<int64_t> x = IntegerValue(*a);
    return a == b || (x && x == IntegerValue(*b));
  }

  static Read* Known(std::vector<Read>& known, const Places& places) {
    auto same = [&](const Read& read) { return std::ranges::equal(read.places, places, IsSame); };
    auto found = std::ranges::find_if(known, same);
    return found == known.end() ? nullptr : &*found;
  }

  std::unordered_map<const Instruction*, std::vector<Read>> known_;  // by array
};

bool ReadsOneElement(const Instruction& i) {
  if (i.op() != Op::kDynamicSlice || !IsStaticArray(i) || i.shape().elements() != 1 ||
      HasControlDependencies(i)) {
    return false;
  }
  auto starts = i.operands().subspan(1);
  return IsStaticallyShaped(i) && std::ssize(starts) == i.operand(0)->shape().rank() &&
         std::ranges::all_of(starts, [](const Instruction* s) { return s->shape().IsScalar(); });
}

// Users that take the read as a scalar take the element itself.
Status Replace(Instruction* slice, Instruction* element) {
  std::vector<Instruction*> users = slice->users();
  for (Instruction* user : users) {
    if (user->op() == Op::kReshape && user->shape().IsScalar()) ReplaceWithValue(user, element);
  }
  Builder b(*slice->parent(), slice, slice);
  hlo::ReplaceInstruction(slice, TRY(b.Reshape(element, slice->shape().dims())));
  return {};
}

}  // namespace

Result<bool> ChooseReads(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    std::vector<Instruction*> candidates;
    bool chooses = false;
    for (Instruction* i : *computation) {
      if (!ReadsOneElement(*i)) continue;
      candidates.push_back(i);
      auto starts = i->operands().subspan(1);
      chooses |= std::ranges::any_of(
          starts, [](const Instruction* start) { return start->op() == Op::kSelect; });
    }
    if (!chooses) continue;
    Reads reads;
    for (Instruction* slice : candidates) {
      Instruction* element = TRY(reads.Find(*slice));
      if (element == nullptr) continue;
      TRY(Replace(slice, element));
      changed = true;
    }
  }
  return changed;
}

}  // namespace weft::compiler
