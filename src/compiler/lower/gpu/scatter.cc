// scatter by threads that may meet, with the same bits in every run: updates that do not meet, or
// of integers, which atomics add up exactly, are a thread's each; of those that only replace, the
// last one to each place is found first; all others are sorted by place and put together there in
// their order (sort-then-segment).
#include <bit>

#include "base/str.h"
#include "compiler/lower/gpu/scatter_way.h"
#include "compiler/lower/scatter_loops.h"
#include "compiler/lower/sums.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

class ParallelScatter {
 public:
  explicit ParallelScatter(Subject& subject)
      : subject_(subject),
        cx_(subject.cx),
        scatter_(ScatterOf(subject.instruction)),
        dims_(scatter_),
        body_(ScatterBody(cx_, subject.instruction, scatter_)),
        indexed_(IndexedDims(scatter_)) {
    for (int64_t d : indexed_) places_.push_back(scatter_.operand(0)->shape().dim(d));
  }

  Status Lower() {
    CopyScattered(cx_, subject_.instruction, scatter_, body_, subject_.steps);
    if (!HasUpdates(scatter_)) return {};
    switch (ScatterWayOf(scatter_, dims_)) {
      case ScatterWay::kAtomic: return Atomics();
      case ScatterWay::kLast: return LastOfEach();
      case ScatterWay::kSegments: return Segments();
      default: return Apart();
    }
  }

 private:
  using Body = std::function<Status(KernelDraft&, ScatterLoops&, const Index& at, ValueId number,
                                    const Index& start, const Index& w)>;
  // A kernel: `between` is declared before the arrays that are scattered into.
  struct Between {
    program::BufferId buffer;
    Access access;
  };
  Status Kernel(std::string_view suffix, std::span<const Between> between, bool stores,
                const std::function<Status(KernelDraft&, ScatterLoops&)>& emit) {
    KernelDraft draft(StrCat(body_.instruction->name(), suffix), cx_.program, cx_.memory,
                      cx_.target, &cx_.value_ranges);
    draft.Declare(body_.inputs, {});
    memory_.clear();
    for (const Between& b : between) memory_.push_back(draft.DeclareBuffer(b.buffer, b.access));
    std::vector<KernelBuilder::MemoryId> arrays;
    for (const KernelOutput& out : body_.outputs) {
      if (stores) {
        arrays.push_back(draft.DeclareBuffer(cx_.Buffer(out.value), Access::kReadWrite));
      }
    }
    arrays.resize(static_cast<size_t>((scatter_.operand_count() - 1) / 2), -1);
    ScatterLoops loops(draft, scatter_, dims_, std::move(arrays));
    TRY(emit(draft, loops));
    Finish(cx_, draft, body_, subject_.steps);
    return {};
  }

  Status ForEachUpdate(KernelDraft& draft, ScatterLoops& loops, bool elements, const Body& body) {
    Dims grid;
    grid.push_back(dims_.updates);
    for (int64_t d : dims_.window_sizes) {
      if (elements) grid.push_back(d);
    }
    return draft.ForEachOnGrid(grid, false, [&](const Index& thread) -> Status {
      Index w;
      for (size_t d = 1; d < grid.size(); ++d) w.coords.push_back(thread.coords[d]);
      return Inside(draft, loops, thread.coords[0].base, [&](const Index& at, const Index& start) {
        return body(draft, loops, at, thread.coords[0].base, start, w);
      });
    });
  }
  // An update by its number, if its window lies inside.
  Status Inside(KernelDraft& draft, ScatterLoops& loops, ValueId number,
                const std::function<Status(const Index& at, const Index& start)>& body) {
    Index linear, start;
    linear.is_linear = true;
    linear.linear = {number, 0, 1, 0, dims_.updates - 1};
    Index at = Coordinates(draft.elements(), dims_.scatter_sizes, linear);
    ValueId inside = TRY(loops.Start(at, start));
    if (inside >= 0) draft.builder().BeginIf(inside);
    TRY(body(at, start));
    if (inside >= 0) draft.builder().End();
    return {};
  }
  // Also the number of those that go nowhere: behind all places, and of as few bits as can be.
  int64_t PlaceCount() const {
    int64_t places = 1;
    for (int64_t d : places_) places *= d;
    return places;
  }
  // The number of the place where a window begins.
  ValueId PlaceNumber(KernelDraft& draft, const Index& start) const {
    Index index;
    for (int64_t d : indexed_) index.coords.push_back(start.coords[static_cast<size_t>(d)]);
    return LinearCoord(draft.elements(), places_, index).base;
  }

  Status Apart() {
    return Kernel("", {}, true, [&](KernelDraft& draft, ScatterLoops& loops) {
      return ForEachUpdate(
          draft, loops, true,
          [](KernelDraft&, ScatterLoops& l, const Index& at, ValueId, const Index& start,
             const Index& w) { return l.Elements(at, start, w); });
    });
  }

  Status Atomics() {
    return Kernel("", {}, true, [&](KernelDraft& draft, ScatterLoops& loops) {
      return ForEachUpdate(draft, loops, true,
                           [&](KernelDraft& d, ScatterLoops& l, const Index& at, ValueId,
                               const Index& start, const Index& w) -> Status {
                             ElementContext& e = d.elements();
                             Element term =
                                 TRY(EmitElement(e, *scatter_.operand(2), l.UpdateIndex(at, w)));
                             d.builder().Atomic(*ScatterAtomicOf(scatter_), l.memory(0),
                                                l.PlaceOf(start, w).base, term.re);
                             return {};
                           });
    });
  }

  Status LastOfEach() {
    program::BufferId last = cx_.Scratch(Shape(DType::kS32, {PlaceCount()}), "last");
    program::Step none;
    none.op = program::FillStep{std::vector<std::byte>(1, std::byte{0xff})};
    none.uses = {Out(cx_.program, last)};
    none.name = StrCat(body_.instruction->name(), ".none");
    subject_.steps.push_back(std::move(none));
    Between found[] = {{last, Access::kReadWrite}}, read[] = {{last, Access::kRead}};
    TRY(Kernel(".last", found, false, [&](KernelDraft& draft, ScatterLoops& loops) {
      return ForEachUpdate(draft, loops, false,
                           [&](KernelDraft& d, ScatterLoops&, const Index&, ValueId number,
                               const Index& start, const Index&) -> Status {
                             KernelBuilder& b = d.builder();
                             b.Atomic(Op::kMax, memory_[0], PlaceNumber(d, start),
                                      b.Cast(number, DType::kS32));
                             return {};
                           });
    }));
    return Kernel("", read, true, [&](KernelDraft& draft, ScatterLoops& loops) {
      return ForEachUpdate(draft, loops, true,
                           [&](KernelDraft& d, ScatterLoops& l, const Index& at, ValueId number,
                               const Index& start, const Index& w) -> Status {
                             KernelBuilder& b = d.builder();
                             ValueId winner = b.Load(memory_[0], PlaceNumber(d, start));
                             b.BeginIf(b.Emit(Op::kEq, {winner, b.Cast(number, DType::kS32)}));
                             TRY(l.Elements(at, start, w));
                             b.End();
                             return {};
                           });
    });
  }

  // Numbers of updates by the place that they go to; those that go nowhere come last.
  Status Segments() {
    Shape numbers(DType::kS32, {dims_.updates});
    program::BufferId keys = cx_.Scratch(numbers, "places"), order = cx_.Scratch(numbers, "order");
    program::BufferId sorted = cx_.Scratch(numbers, "places.sorted");
    program::BufferId ordered = cx_.Scratch(numbers, "order.sorted");
    Between made[] = {{keys, Access::kWrite}, {order, Access::kWrite}};
    TRY(Kernel(".places", made, false,
               [&](KernelDraft& draft, ScatterLoops& loops) { return Places(draft, loops); }));
    program::Step sort;
    program::LibraryStep call;
    call.routine = "sort";
    const int64_t bits = std::bit_width(static_cast<uint64_t>(PlaceCount()));
    call.attrs = {
        {"n", dims_.updates}, {"outer", int64_t{1}}, {"inner", int64_t{1}}, {"bits", bits}};
    sort.op = std::move(call);
    sort.uses = {In(cx_.program, keys), In(cx_.program, order), Out(cx_.program, sorted),
                 Out(cx_.program, ordered)};
    sort.name = StrCat(body_.instruction->name(), ".sort");
    sort.source = body_.instruction->SourceLocation();
    subject_.steps.push_back(std::move(sort));
    // Where the segment that begins at each ends, found once for all elements of a window.
    program::BufferId ends = cx_.Scratch(numbers, "ends");
    Between found[] = {{sorted, Access::kRead}, {ends, Access::kWrite}};
    TRY(Kernel(".ends", found, false,
               [&](KernelDraft& draft, ScatterLoops&) { return EndsOfSegments(draft); }));
    Between read[] = {{ends, Access::kRead}, {ordered, Access::kRead}};
    return Kernel("", read, true, [&](KernelDraft& draft, ScatterLoops& loops) {
      return WalkSegments(draft, loops);
    });
  }

  Status Places(KernelDraft& draft, ScatterLoops& loops) {
    KernelBuilder& b = draft.builder();
    return draft.ForEachOnGrid({dims_.updates}, false, [&](const Index& thread) -> Status {
      ValueId number = thread.coords[0].base;
      Index linear, start;
      linear.is_linear = true;
      linear.linear = {number, 0, 1, 0, dims_.updates - 1};
      Index at = Coordinates(draft.elements(), dims_.scatter_sizes, linear);
      ValueId inside = TRY(loops.Start(at, start));
      ValueId key = b.Cast(PlaceNumber(draft, start), DType::kS32);
      if (inside >= 0) key = b.Select(inside, key, b.Int(PlaceCount(), {DType::kS32, 1}));
      b.Store(memory_[0], number, key);
      b.Store(memory_[1], number, b.Cast(number, DType::kS32));
      return {};
    });
  }

  // 0 for all but the first of each place.
  Status EndsOfSegments(KernelDraft& draft) {
    KernelBuilder& b = draft.builder();
    return draft.ForEachOnGrid({dims_.updates}, false, [&](const Index& thread) -> Status {
      ValueId i = thread.coords[0].base;
      ValueId key = b.Load(memory_[0], i);
      ValueId before = b.Load(memory_[0], b.Max(b.Sub(i, b.Int(1)), b.Int(0)));
      ValueId first =
          b.Emit(Op::kOr, {b.Emit(Op::kEq, {i, b.Int(0)}), b.Emit(Op::kNe, {key, before})});
      ValueId somewhere = b.Emit(Op::kNe, {key, b.Int(PlaceCount(), {DType::kS32, 1})});
      ValueId end =
          b.Select(b.Emit(Op::kAnd, {first, somewhere}), EndOfSegment(b, i, key), b.Int(0));
      b.Store(memory_[1], i, b.Cast(end, DType::kS32));
      return {};
    });
  }

  // The first of each place puts all of them together, in their order.
  Status WalkSegments(KernelDraft& draft, ScatterLoops& loops) {
    KernelBuilder& b = draft.builder();
    Dims grid;
    grid.push_back(dims_.updates);
    for (int64_t d : dims_.window_sizes) grid.push_back(d);
    return draft.ForEachOnGrid(grid, false, [&](const Index& thread) -> Status {
      ValueId i = thread.coords[0].base;
      Index w;
      for (size_t d = 1; d < grid.size(); ++d) w.coords.push_back(thread.coords[d]);
      ValueId end = b.Load(memory_[0], i);
      b.BeginIf(b.Emit(Op::kNe, {end, b.Int(0, {DType::kS32, 1})}));
      TRY(WalkSegment(draft, loops, i, b.Cast(end, DType::kS64), w));
      b.End();
      return {};
    });
  }

  // Where a greater key begins, by bisection.
  ValueId EndOfSegment(KernelBuilder& b, ValueId i, ValueId key) {
    int rounds = std::bit_width(static_cast<uint64_t>(dims_.updates));
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(rounds), b.Int(1),
                    std::vector<ValueId>{b.Add(i, b.Int(1)), b.Int(dims_.updates)});
    ValueId low = inside[1], high = inside[2];
    ValueId middle = b.Div(b.Add(low, high), b.Int(2));
    ValueId at = b.Min(middle, b.Int(dims_.updates - 1));
    ValueId open = b.Emit(Op::kLt, {low, high});
    ValueId same = b.Emit(Op::kAnd, {open, b.Emit(Op::kEq, {b.Load(memory_[0], at), key})});
    ValueId other = b.Emit(Op::kAnd, {open, b.Emit(Op::kNe, {b.Load(memory_[0], at), key})});
    return b.End(std::vector<ValueId>{b.Select(same, b.Add(middle, b.Int(1)), low),
                                      b.Select(other, middle, high)})[0];
  }

  Status WalkSegment(KernelDraft& draft, ScatterLoops& loops, ValueId begin, ValueId end,
                     const Index& w) {
    KernelBuilder& b = draft.builder();
    // All of them go to the place of the first.
    Coord place;
    Index first_at, first_start;
    TRY(IndexOf(draft, loops, b.Load(memory_[1], begin), first_at, first_start));
    place = loops.PlaceOf(first_start, w);
    std::vector<Element> there = loops.Load(place);
    DType type = scatter_.operand(0)->shape().dtype();
    bool wide = there.size() == 1 && type == DType::kF32 &&
                SumsF32(*scatter_.attrs<hlo::ScatterAttrs>().to_apply, type);
    KernelBuilder::Carry start;
    for (const Element& x : there) {
      start.push_back(wide ? b.Cast(x.re, DType::kF64) : x.re);
      if (x.im >= 0) start.push_back(x.im);
    }
    std::vector<ValueId> inside = b.BeginLoop(LoopKind::kSerial, begin, end, b.Int(1), start);
    Index at, from_start;
    TRY(IndexOf(draft, loops, b.Load(memory_[1], inside[0]), at, from_start));
    Index from = loops.UpdateIndex(at, w);
    KernelBuilder::Carry next;
    if (wide) {
      Element term = TRY(EmitElement(draft.elements(), *scatter_.operand(2), from));
      next.push_back(b.Add(inside[1], b.Cast(term.re, DType::kF64)));
    } else {
      std::vector<Element> so_far = Unpack(there, std::span(inside).subspan(1));
      for (const Element& x : TRY(loops.Apply(so_far, from))) {
        next.push_back(x.re);
        if (x.im >= 0) next.push_back(x.im);
      }
    }
    std::vector<ValueId> after = b.End(next);
    if (wide) after[0] = b.Cast(after[0], DType::kF32);
    loops.Store(place, Unpack(there, after));
    return {};
  }
  static std::vector<Element> Unpack(std::span<const Element> like,
                                     std::span<const ValueId> values) {
    std::vector<Element> elements;
    size_t k = 0;
    for (const Element& x : like) {
      Element& element = elements.emplace_back();
      element.re = values[k++];
      if (x.im >= 0) element.im = values[k++];
    }
    return elements;
  }
  // Of the update with that number, which lies inside.
  Status IndexOf(KernelDraft& draft, ScatterLoops& loops, ValueId number, Index& at, Index& start) {
    Index linear;
    linear.is_linear = true;
    linear.linear = {draft.builder().Cast(number, DType::kS64), 0, 1, 0, dims_.updates - 1};
    at = Coordinates(draft.elements(), dims_.scatter_sizes, linear);
    TRY(loops.Start(at, start));
    return {};
  }

  Subject& subject_;
  LowerContext& cx_;
  const Instruction& scatter_;
  ScatterDims dims_;
  KernelBody body_;
  Dims indexed_, places_;
  std::vector<KernelBuilder::MemoryId> memory_;  // buffers between kernels
};

Decision MatchParallelScatter(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  if (subject.cx.serial) return Refuse("part of a loop that one thread runs");
  switch (ScatterWayOf(scatter, ScatterDims(scatter))) {
    case ScatterWay::kApart: return Take("no two updates meet");
    case ScatterWay::kAtomic: return Take("atomics of integers are exact in any order");
    case ScatterWay::kLast: return Take("of updates that replace the last to each place is found");
    case ScatterWay::kSegments: return Take("updates are sorted by place, in their order");
    default: return Refuse("windows overlap in part");
  }
}

Status LowerParallelScatter(Subject& subject) {
  return ParallelScatter(subject).Lower();
}

}  // namespace

extern constinit const LoweringRow kParallelScatter = {
    "parallel scatter", {HloOp::kScatter}, MatchParallelScatter, LowerParallelScatter};

}  // namespace weft::compiler
