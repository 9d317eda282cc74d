// Loop interchange. Loops whose state is arrays that are computed element by element, such as
// iterations over many starting points at once: all rounds of some elements before the next ones,
// the state in registers.
#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/lower/cpu/elementwise_loop.h"
#include "compiler/lower/while.h"
#include "program/cost.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;
using HloOp = hlo::Op;

namespace {

constexpr int64_t kLeastElements = 4 * program::CodeBounds::kShortLoop;  // elements of its arrays
constexpr int64_t kMostRounds = program::CancelPolling::kShortLoop;      // iterations
// A run is cancelled between steps: a long loop is several, of this much work (units of
// ElementCost, some 50 ms on one core), each of enough rounds for loads and stores not to count.
constexpr double kStepCost = program::TargetFacts::kWorkPerSecond / 20;
constexpr int64_t kLeastRounds = 4 * program::CodeBounds::kShortLoop;  // iterations of a step
// Costs that differ by less than this are taken for the same: registers save steps, too.
constexpr double kSameCost = 1 + 1.0 / program::CodeBounds::kMinorPart;

bool IsReadBy(std::span<const Instruction* const> reads, int64_t k) {
  return std::any_of(reads.begin(), reads.end(),
                     [&](const Instruction* read) { return read->tuple_index() == k; });
}

// All rounds of one element, or one for each lane.
Status EmitRounds(LowerContext& cx, KernelDraft& draft, const Instruction& loop,
                  std::span<const Instruction* const> reads, bool arrays, int64_t trips,
                  const Index& index) {
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  const auto& state = cx.memory.State(loop);
  const Instruction& root = *loop.attrs<hlo::WhileAttrs>().body->root();
  std::vector<int64_t> carried;  // scalars are needed beside the arrays
  for (int64_t k = 0; k < root.operand_count(); ++k) {
    bool scalar = root.operand(k)->shape().IsScalar();
    bool read = IsReadBy(reads, k);
    if (state[static_cast<size_t>(k)] >= 0 && (scalar ? read || !arrays : arrays)) {
      carried.push_back(k);
    }
  }
  int lanes = e.lanes;
  auto at = [&](int64_t k) { return root.operand(k)->shape().IsScalar() ? Index() : index; };
  std::vector<ValueId> values;
  auto push = [&](Element element, int64_t k) {
    int wanted = root.operand(k)->shape().IsScalar() ? 1 : lanes;
    for (ValueId v : {element.re, element.im}) {
      if (v >= 0) values.push_back(b.type(v).lanes == wanted ? v : b.Splat(v, wanted));
    }
  };
  for (int64_t k : carried) {
    const Shape& shape = root.operand(k)->shape();
    if (!IsReadBy(reads, k)) {
      push(ZeroElement(e, shape.dtype()), k);
      continue;
    }
    push(LoadAt(e, draft.MemoryOf(state[static_cast<size_t>(k)]), shape.dtype(),
                LinearCoord(e, shape.dims(), at(k))),
         k);
  }
  auto each = [&](std::span<const ValueId> from, const auto& use) {
    size_t next = 0;
    for (int64_t k : carried) {
      Element element{from[next++], -1};
      if (IsComplex(root.operand(k)->shape().dtype())) element.im = from[next++];
      use(k, element);
    }
  };
  std::vector<ValueId> inside =
      b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(trips), b.Int(1), values);
  each(std::span(inside).subspan(1), [&](int64_t k, Element element) {
    for (const Instruction* read : reads) {
      if (read->tuple_index() == k) e.SetValue(*read, element);
    }
  });
  values.clear();
  for (int64_t k : carried) push(TRY(EmitElement(e, *root.operand(k), at(k))), k);
  each(b.End(values), [&](int64_t k, Element element) {
    const Shape& shape = root.operand(k)->shape();
    if (shape.IsScalar() == arrays) return;
    StoreAt(e, draft.MemoryOf(state[static_cast<size_t>(k)]), shape.dtype(),
            LinearCoord(e, shape.dims(), at(k)), element);
  });
  return {};
}

Decision MatchInterchangedLoop(Subject& subject) {
  const Instruction& loop = subject.instruction;
  std::optional<int64_t> trips = TripCount(loop);
  if (!trips) return Refuse("the number of rounds is not known");
  if (*trips < 2 || *trips > kMostRounds) return Refuse("there are too few or too many rounds");
  ElementwiseBody found(loop, subject.cx.memory.State(loop));
  if (!found.Check()) return Refuse("its rounds do not work element by element");
  int64_t elements = 1;
  for (int64_t d : found.dims) elements *= d;
  if (elements < kLeastElements) return Refuse("its arrays are small");
  program::InterchangeCost cost =
      CostOfInterchange(RoundsOf(loop, found, *trips, subject.cx.target), subject.cx.target);
  std::string figures =
      StrCat("cycles of a round of a vector: ", cost.inside, " with ", cost.vectors,
             " vectors at once, ", cost.outermost, " with rounds outermost");
  if (cost.inside > kSameCost * cost.outermost) {
    return Refuse("a round waits for the one before longer than its arrays take to be read",
                  std::move(figures));
  }
  return Take("all rounds of some elements are made before the next ones", std::move(figures));
}

// A kernel that makes some rounds of all elements, and one of the scalars alone as they are after
// the last of them.
Status LowerRounds(LowerContext& cx, const Instruction& loop, const ElementwiseBody& found,
                   KernelBody& body, int64_t rounds, int64_t vectors, Steps& into) {
  const auto& state = cx.memory.State(loop);
  const Instruction& root = *loop.attrs<hlo::WhileAttrs>().body->root();
  for (bool arrays : {true, false}) {
    const std::vector<int64_t>& changed = arrays ? found.arrays : found.scalars;
    if (changed.empty()) continue;
    body.outputs.clear();
    for (int64_t k : changed) {
      body.outputs.push_back({root.operand(k), state[static_cast<size_t>(k)]});
    }
    LoopShape shape = ShapeOf(cx, body, arrays ? found.dims : Dims());
    shape.in_place = true;
    shape.cost *= static_cast<double>(rounds);
    // Lanes of as many vectors as hide the latency: usually they are those of VectorsAtOnce().
    int64_t usual = cx.target.VectorsAtOnce();
    shape.width = std::max<int64_t>(1, shape.width * usual / vectors);
    KernelDraft draft = NewDraft(cx, body);
    draft.Declare(body.inputs, body.outputs);
    TRY(draft.ForEach(shape, [&](const Index& index) {
      return EmitRounds(cx, draft, loop, found.reads, arrays, rounds, index);
    }));
    Finish(cx, draft, body, into);
  }
  return {};
}

// Of one kernel: enough to be worth a step, preferably a divisor of all.
int64_t RoundsOfPiece(double round_cost, int64_t trips) {
  int64_t rounds = std::max(kLeastRounds, static_cast<int64_t>(kStepCost / round_cost));
  if (rounds >= trips) return trips;
  for (int64_t fewer = rounds; fewer > rounds / 2; --fewer) {
    if (trips % fewer == 0) return fewer;
  }
  return rounds;
}

Status LowerInterchangedLoop(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& loop = subject.instruction;
  CopyInitialState(cx, loop, steps);
  int64_t trips = *TripCount(loop);
  const auto& state = cx.memory.State(loop);
  ElementwiseBody found(loop, state);
  CHECK(found.Check());
  int64_t elements = 1;
  for (int64_t d : found.dims) elements *= d;
  KernelBody body;
  body.instruction = &loop;
  body.members = found.members;
  for (const Instruction* read : found.reads) {
    MemValue value = state[static_cast<size_t>(read->tuple_index())];
    body.inputs.push_back({read, value >= 0 ? value : cx.memory.Leaf(*read)});
  }
  double round_cost = static_cast<double>(elements) * ShapeOf(cx, body, found.dims).cost;
  int64_t rounds = RoundsOfPiece(round_cost, trips);
  int64_t vectors = CostOfInterchange(RoundsOf(loop, found, trips, cx.target), cx.target).vectors;
  if (rounds == trips) return LowerRounds(cx, loop, found, body, trips, vectors, steps);
  Steps piece;
  TRY(LowerRounds(cx, loop, found, body, rounds, vectors, piece));
  for (int64_t i = 0; i < trips / rounds; ++i) {
    steps.insert(steps.end(), piece.begin(), piece.end());
  }
  if (trips % rounds == 0) return {};
  return LowerRounds(cx, loop, found, body, trips % rounds, vectors, steps);
}

}  // namespace

extern constinit const LoweringRow kInterchangedLoop = {
    "interchanged loop", {HloOp::kWhile}, MatchInterchangedLoop, LowerInterchangedLoop};

}  // namespace weft::compiler
