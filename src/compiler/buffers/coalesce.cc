// Coalescing and interference: which values share a buffer, and why others do not.
#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "base/str.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/buffers/buffers.h"
#include "hlo/computation.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

// Copies of less are not worth twice the code.
constexpr int64_t kDoubleBufferedBytes = 32 * program::TargetFacts::kLineBytes;
// ... and a test between the rounds.
constexpr int64_t kTestedDoubleBufferedBytes = 2 * program::TargetFacts::kFirstLevelBytes;

// Whether testing once more does no harm.
bool MayTestTwice(const Instruction& loop) {
  const hlo::Computation& condition = *loop.attrs<hlo::WhileAttrs>().condition;
  for (const Instruction* i : condition) {
    bool pure = i->IsParameter() || i->IsConstant() || IsForwarding(*i) ||
                hlo::IsElementwise(i->op()) || i->op() == hlo::Op::kFusion ||
                i->op() == hlo::Op::kReduce || i->op() == hlo::Op::kSlice ||
                i->op() == hlo::Op::kDynamicSlice || i->op() == hlo::Op::kBroadcast;
    if (!pure) return false;
  }
  return true;
}

}  // namespace

bool Memory::IsInside(int32_t scope, int32_t of) const {
  while (scope >= 0 && scope != of) scope = scopes_[static_cast<size_t>(scope)].outer;
  return scope == of;
}

// Where a segment ends for those who are not part of the same asynchronous computation.
int32_t Memory::EndBeside(const Segment& segment, const Segment& other) const {
  int32_t end = segment.end;
  const int32_t theirs = values_[static_cast<size_t>(other.value)].scope;
  for (int32_t scope = values_[static_cast<size_t>(segment.value)].scope;
       scope >= 0 && !IsInside(theirs, scope); scope = scopes_[static_cast<size_t>(scope)].outer) {
    end = std::max(end, scopes_[static_cast<size_t>(scope)].done);
  }
  return end;
}

bool Memory::Overlap(const std::vector<Segment>& a, const std::vector<Segment>& b,
                     int32_t unit) const {
  if (!scopes_.empty()) {
    return std::ranges::any_of(a, [&](const Segment& x) {
      return std::ranges::any_of(b, [&](const Segment& y) {
        return EndBeside(x, y) / unit >= y.begin / unit && EndBeside(y, x) / unit >= x.begin / unit;
      });
    });
  }
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end / unit < b[j].begin / unit) {
      ++i;
    } else if (b[j].end / unit < a[i].begin / unit) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

void Memory::TryCoalesce(const CoalescingCandidate& candidate) {
  int32_t a = Find(candidate.a), b = Find(candidate.b);
  if (a == b) return;
  Value &x = values_[static_cast<size_t>(a)], &y = values_[static_cast<size_t>(b)];
  if (x.constant != nullptr || y.constant != nullptr) return;
  if (x.shape.ByteSize() != y.shape.ByteSize()) return;
  if (x.shape.dtype() != y.shape.dtype()) return;  // a kernel sees a buffer as one array
  if (x.parameter >= 0 && y.parameter >= 0) return;
  if (x.result >= 0 && y.result >= 0) return;
  if ((x.parameter >= 0 && !x.donated) || (y.parameter >= 0 && !y.donated)) return;
  if (Overlap(x.live, y.live)) return;
  y.parent = a;
  std::vector<Segment> all;
  std::merge(x.live.begin(), x.live.end(), y.live.begin(), y.live.end(), std::back_inserter(all),
             [](const Segment& s, const Segment& t) { return s.begin < t.begin; });
  x.live = std::move(all);
  y.live.clear();
  x.parameter = std::max(x.parameter, y.parameter);
  x.donated |= y.donated;
  x.result = std::max(x.result, y.result);
  x.in_loop &= y.in_loop;
}

const std::vector<size_t>& Memory::DoubleBuffered(const Instruction& loop) const {
  static const std::vector<size_t> kNone;
  auto it = double_buffered_.find(&loop);
  return it == double_buffered_.end() ? kNone : it->second;
}

// What the body makes must have a temporary of its own, which then belongs to the loop; or lie
// where the part of the state was that becomes its place.
void Memory::FindDoubleBuffered() {
  std::unordered_set<int32_t> taken;
  std::vector<std::pair<int32_t, int32_t>> trading;
  for (const Round& round : rounds_) {
    int32_t next = Find(round.next), state = Find(round.state);
    const Value &x = values_[static_cast<size_t>(next)], &y = values_[static_cast<size_t>(state)];
    if (next == state || x.constant != nullptr) continue;
    if (x.shape.ByteSize() < kDoubleBufferedBytes || x.shape != y.shape) continue;
    // Two parts of the state that change places, or a temporary of the body.
    bool trades = std::any_of(rounds_.begin(), rounds_.end(), [&](const Round& other) {
      return other.loop == round.loop && Find(other.next) == state && Find(other.state) == next;
    });
    if (trades &&
        std::find(trading.begin(), trading.end(), std::pair(state, next)) != trading.end()) {
      double_buffered_[round.loop].push_back(round.leaf);  // the other half
      continue;
    }
    bool is_temporary = x.parameter < 0 && x.result < 0 && x.live.front().begin > round.body &&
                        x.live.back().end <= round.end + 1;
    if (!trades && !is_temporary) continue;
    std::optional<int64_t> trips = TripCount(*round.loop);
    if (trips ? *trips < 2
              : x.shape.ByteSize() < kTestedDoubleBufferedBytes || !MayTestTwice(*round.loop)) {
      continue;
    }
    if (!taken.insert(next).second || !taken.insert(state).second) continue;
    // In every second round each is where the other was: both are taken for the whole loop.
    std::vector<Segment>& made = values_[static_cast<size_t>(next)].live;
    made = {{std::min(made.front().begin, round.start), std::max(made.back().end, round.end + 1),
             round.next}};
    std::vector<Segment>& live = values_[static_cast<size_t>(state)].live;
    live = {{live.front().begin, live.back().end, round.state}};
    if (trades) trading.emplace_back(next, state);
    double_buffered_[round.loop].push_back(round.leaf);
  }
}

// A result that could not take the argument that was given for it may take another one.
void Memory::CoalesceDonated() {
  for (size_t p = 0; p < values_.size(); ++p) {
    if (values_[p].parent >= 0 || values_[p].parameter < 0 || !values_[p].donated ||
        values_[p].result >= 0) {
      continue;
    }
    for (MemValue r : results_) {
      int32_t root = Find(r);
      if (values_[static_cast<size_t>(root)].parameter >= 0) continue;
      TryCoalesce({static_cast<MemValue>(p), root, 0, Why::kMayAlias});
      if (Coalesced(static_cast<MemValue>(p), root)) break;
    }
  }
}

std::string Memory::NameOf(MemValue value) const {
  const Value& v = values_[static_cast<size_t>(value)];
  if (v.parameter >= 0) return StrCat("argument ", v.parameter);
  if (v.result >= 0) return StrCat("result ", v.result);
  return v.def->op() == hlo::Op::kWhile ? StrCat("the state of ", v.def->name()) : v.def->name();
}

// Of the first moment at which both hold something: which one is written, who still reads the
// other.
std::string Memory::OverlapOf(const Value& x, const Value& y) const {
  const Segment *a = nullptr, *b = nullptr;
  for (size_t i = 0, j = 0; i < x.live.size() && j < y.live.size();) {
    if (x.live[i].end < y.live[j].begin) {
      ++i;
    } else if (y.live[j].end < x.live[i].begin) {
      ++j;
    } else {
      a = &x.live[i], b = &y.live[j];
      break;
    }
  }
  if (a == nullptr) return "";
  if (a->begin > b->begin) std::swap(a, b);
  auto at = [&](int32_t position) {
    const Instruction& i = *moments_[static_cast<size_t>(position) / 2];
    std::string source = i.SourceLocation();
    return StrCat(i.name(), source.empty() ? "" : StrCat(" (", source, ")"));
  };
  std::string written = NameOf(b->value);
  if (b->begin / 2 == a->end / 2) {
    return StrCat(NameOf(a->value), " is read while ", written, " is written, at ", at(b->begin));
  }
  return StrCat(NameOf(a->value), " is read by ", at(a->end), " after ", written, " is written at ",
                at(b->begin));
}

std::string Memory::WhyInterfere(MemValue a, MemValue b) const {
  const Value &x = values_[static_cast<size_t>(Group(a))],
              &y = values_[static_cast<size_t>(Group(b))];
  for (const Value* v : {&x, &y}) {
    if (v->constant != nullptr) return StrCat(v->constant->name(), " is a constant");
    if (v->parameter >= 0 && !v->donated) {
      return StrCat("argument ", v->parameter, " is not donated");
    }
  }
  if (x.shape.ByteSize() != y.shape.ByteSize() || x.shape.dtype() != y.shape.dtype()) {
    return StrCat(x.shape.ToStringWithoutLayout(), " and ", y.shape.ToStringWithoutLayout(),
                  " differ");
  }
  if (x.parameter >= 0 && y.parameter >= 0) {
    return StrCat("arguments ", x.parameter, " and ", y.parameter, " are two arrays");
  }
  if (x.result >= 0 && y.result >= 0) {
    return StrCat("results ", x.result, " and ", y.result, " are two arrays");
  }
  std::string overlap = OverlapOf(x, y);
  return overlap.empty() ? "another use of the memory came first" : overlap;
}

}  // namespace weft::compiler
