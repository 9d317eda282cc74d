// Parallel prefix (cumsum, cummax, ...): reduce-then-scan. A first kernel reduces pieces of the
// scanned dimension, a second one scans what they came to, a third scans within the pieces. The
// cuts depend on shapes and the target alone, never on timing: the same bits in every run.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "compiler/lower/gpu/prefix_form.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

class PrefixScan {
 public:
  PrefixScan(Subject& subject, PrefixForm form, const ScanCuts& cuts)
      : subject_(subject),
        cx_(subject.cx),
        scan_(subject.instruction),
        form_(form),
        cuts_(cuts),
        body_(BodyOf(cx_, scan_)),
        results_(cx_.memory.Leaves(scan_)) {}

  Status Lower() {
    if (cuts_.pieces > 1) {
      Shape sums(form_.carried, {cuts_.lines * cuts_.pieces});
      totals_ = cx_.Scratch(sums, "totals");
      before_ = cx_.Scratch(sums, "before");
      TRY(Kernel(".totals", false, totals_, Access::kWrite, [&] { return ReducePieces(); }));
      TRY(Kernel(".before", false, totals_, Access::kRead, [&] { return ScanTotals(); }));
    }
    return Kernel("", true, cuts_.pieces > 1 ? before_ : -1, Access::kRead,
                  [&] { return ScanPieces(); });
  }

 private:
  // One kernel: its draft, with the buffer between the kernels as `between_`.
  Status Kernel(std::string_view suffix, bool outputs, program::BufferId buffer, Access access,
                const std::function<Status()>& emit) {
    KernelDraft draft(StrCat(scan_.name(), suffix), cx_.program, cx_.memory, cx_.target);
    draft.Declare(body_.inputs, outputs ? std::span<const KernelOutput>(body_.outputs)
                                        : std::span<const KernelOutput>());
    if (buffer >= 0) between_ = draft.DeclareBuffer(buffer, access);
    if (suffix == ".before") to_ = draft.DeclareBuffer(before_, Access::kWrite);
    draft_ = &draft;
    TRY(emit());
    Finish(cx_, draft, body_, subject_.steps);
    return {};
  }
  KernelBuilder& b() { return draft_->builder(); }
  ElementContext& e() { return draft_->elements(); }

  ValueId Join(ValueId a, ValueId b_value) { return b().Emit(form_.op, {a, b_value}); }
  // Element number s in the order of the scan.
  Index At(const Index& line, ValueId s) {
    bool reverse = scan_.attrs<hlo::ScanAttrs>().is_reverse;
    ValueId t = reverse ? b().Sub(b().Int(cuts_.length - 1), s) : s;
    Index full = line;
    full.coords.insert_at(cuts_.dim, Coord{t, 0, 1, 0, cuts_.length - 1});
    return full;
  }
  Result<ValueId> Term(const Index& line, ValueId s) {
    return b().Cast(TRY(EmitElement(e(), *scan_.operand(0), At(line, s))).re, form_.carried);
  }
  // As many as there are lanes, from number s on.
  Result<ValueId> Terms(const Index& line, ValueId s) {
    Index full = line;
    full.coords.insert_at(cuts_.dim, Coord{s, 1, cuts_.lanes, 0, cuts_.length - 1});
    e().lanes = cuts_.lanes;
    ValueId x = b().Cast(TRY(EmitElement(e(), *scan_.operand(0), full)).re, form_.carried);
    e().lanes = 1;
    return b().type(x).lanes == cuts_.lanes ? x : b().Splat(x, cuts_.lanes);
  }
  ValueId LaneOf(ValueId values, int lane) {
    return cuts_.lanes == 1 ? values : b().Extract(values, lane);
  }
  Result<ValueId> Initial(const Index& line) {
    const Instruction& init = *scan_.operand(1);
    return TRY(EmitElement(e(), init, init.shape().IsScalar() ? Index() : line)).re;
  }
  void StoreRunning(const Index& line, ValueId s, ValueId sum) {
    const Shape& to = cx_.memory.shape(results_[0]);
    StoreAt(e(), draft_->MemoryOf(results_[0]), to.dtype(),
            LinearCoord(e(), to.dims(), At(line, s)),
            {b().Cast(sum, program::ComputeType(to.dtype())), -1});
  }
  // Running values of the thread from number k on, as many as there are lanes.
  void StoreSome(const Index& line, ValueId from, int64_t k) {
    const Shape& to = cx_.memory.shape(results_[0]);
    Index full = line;
    full.coords.insert_at(cuts_.dim,
                          Coord{b().Add(from, b().Int(k)), 1, cuts_.lanes, 0, cuts_.length - 1});
    ValueId values = b().Load(mine_, b().Int(k), cuts_.lanes);
    e().lanes = cuts_.lanes;
    StoreAt(e(), draft_->MemoryOf(results_[0]), to.dtype(), LinearCoord(e(), to.dims(), full),
            {b().Cast(values, program::ComputeType(to.dtype())), -1});
    e().lanes = 1;
  }
  void StoreLast(const Index& line, ValueId sum) {
    const Shape& to = cx_.memory.shape(results_[1]);
    StoreAt(e(), draft_->MemoryOf(results_[1]), to.dtype(), LinearCoord(e(), to.dims(), line),
            {sum, -1});
  }
  ValueId Within(ValueId s) { return b().Min(s, b().Int(cuts_.length - 1)); }

  // The pieces of all lines; of columns, neighbouring ones are neighbouring threads.
  Status ForEachPiece(const std::function<Status(const Index& line, ValueId piece)>& body) {
    Dims grid = cuts_.slice;
    grid.insert_at(cuts_.by_columns ? 0 : grid.size(), cuts_.pieces);
    return draft_->ForEachOnGrid(grid, false, [&](const Index& at) {
      Index line = at;
      size_t place = cuts_.by_columns ? 0 : grid.size() - 1;
      line.coords.erase_at(place);
      return body(line, at.coords[place].base);
    });
  }
  // Where the value of a piece lies between the kernels.
  ValueId Place(const Index& line, ValueId piece) {
    ValueId number = LinearCoord(e(), cuts_.slice, line).base;
    if (cuts_.by_columns) return b().Add(b().Mul(piece, b().Int(cuts_.lines)), number);
    return b().Add(b().Mul(number, b().Int(cuts_.pieces)), piece);
  }

  // s, s + step, ... below end, from a value that is there.
  Result<ValueId> ReduceFrom(const Index& line, ValueId first, ValueId begin, ValueId end,
                             int64_t step) {
    std::vector<ValueId> inside =
        b().BeginLoop(LoopKind::kSerial, begin, end, b().Int(step), std::vector<ValueId>{first});
    ValueId next = Join(inside[1], TRY(Term(line, Within(inside[0]))));
    return b().End(std::vector<ValueId>{next})[0];
  }

  // What the elements of a piece that thread t takes come to: rounds of known number.
  Result<ValueId> ReduceEven(const Index& line, ValueId begin, ValueId t) {
    auto place = [&](ValueId round) {
      ValueId at = b().Add(b().Mul(round, b().Int(kScanThreads)), t);
      return b().Add(begin, b().Mul(at, b().Int(cuts_.lanes)));
    };
    ValueId all = TRY(Terms(line, place(b().Int(0))));
    int64_t rounds = cuts_.piece / (kScanThreads * cuts_.lanes);
    if (rounds > 1) {
      std::vector<ValueId> inside = b().BeginLoop(LoopKind::kSerial, b().Int(1), b().Int(rounds),
                                                  b().Int(1), std::vector<ValueId>{all});
      ValueId next = Join(inside[1], TRY(Terms(line, place(inside[0]))));
      all = b().End(std::vector<ValueId>{next})[0];
    }
    ValueId sum = LaneOf(all, 0);
    for (int lane = 1; lane < cuts_.lanes; ++lane) sum = Join(sum, LaneOf(all, lane));
    return sum;
  }

  // Of the last piece nobody asks what it comes to; it may reach beyond the end.
  Status ReducePieces() {
    return ForEachPiece([&](const Index& line, ValueId piece) -> Status {
      ValueId begin = b().Mul(piece, b().Int(cuts_.piece));
      ValueId end = b().Add(begin, b().Int(cuts_.piece));
      if (cuts_.by_columns) {
        ValueId sum = TRY(ReduceFrom(line, TRY(Term(line, begin)), b().Add(begin, b().Int(1)),
                                     b().Min(end, b().Int(cuts_.length)), 1));
        b().Store(between_, Place(line, piece), sum);
        return {};
      }
      ValueId t =
          b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(kScanThreads), b().Int(1))[0];
      ValueId first = b().Add(begin, t);
      ValueId mine =
          cuts_.even ? TRY(ReduceEven(line, begin, t))
                     : TRY(ReduceFrom(line, TRY(Term(line, Within(first))),
                                      b().Add(first, b().Int(kScanThreads)), end, kScanThreads));
      std::vector<ValueId> both = b().BeginCombine(std::vector<ValueId>{mine});
      ValueId all = b().End(std::vector<ValueId>{Join(both[0], both[1])})[0];
      b().Store(between_, Place(line, piece), all);
      return {};
    });
  }

  // What stands before each piece.
  Status ScanTotals() {
    return draft_->ForEachOnGrid(cuts_.slice, false, [&](const Index& line) -> Status {
      ValueId first = TRY(Initial(line));
      if (cuts_.by_columns) {
        std::vector<ValueId> inside =
            b().BeginLoop(LoopKind::kSerial, b().Int(0), b().Int(cuts_.pieces), b().Int(1),
                          std::vector<ValueId>{first});
        ValueId at = Place(line, inside[0]);
        b().Store(to_, at, inside[1]);
        b().End(std::vector<ValueId>{Join(inside[1], b().Load(between_, at))});
        return {};
      }
      int64_t threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(cuts_.pieces)));
      DeclareParts(threads);
      ValueId t = b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(threads), b().Int(1))[0];
      b().Store(parts_[0], t,
                b().Load(between_, Place(line, b().Min(t, b().Int(cuts_.pieces - 1)))));
      b().End();
      KernelBuilder::MemoryId scanned = ScanParts(threads);
      ValueId u =
          b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(cuts_.pieces), b().Int(1))[0];
      b().Store(to_, Place(line, u), Before(first, scanned, u));
      b().End();
      return {};
    });
  }

  Status ScanPieces() {
    return ForEachPiece([&](const Index& line, ValueId piece) -> Status {
      ValueId carry =
          cuts_.pieces > 1 ? b().Load(between_, Place(line, piece)) : TRY(Initial(line));
      ValueId begin = b().Mul(piece, b().Int(cuts_.piece));
      if (cuts_.by_columns) return WalkPiece(line, begin, carry);
      DeclareParts(kScanThreads);
      mine_ = b().Array("mine", form_.carried, kScanEach, true);
      int64_t tiles = cuts_.piece / kScanTile;
      if (tiles == 1) return TRY(Tile(line, begin, carry)), Status();
      std::vector<ValueId> inside = b().BeginLoop(LoopKind::kSerial, b().Int(0), b().Int(tiles),
                                                  b().Int(1), std::vector<ValueId>{carry});
      ValueId first = b().Add(begin, b().Mul(inside[0], b().Int(kScanTile)));
      ValueId next = TRY(Tile(line, first, inside[1]));
      b().End(std::vector<ValueId>{next});
      return {};
    });
  }

  Status WalkPiece(const Index& line, ValueId begin, ValueId carry) {
    ValueId end = b().Min(b().Add(begin, b().Int(cuts_.piece)), b().Int(cuts_.length));
    std::vector<ValueId> inside =
        b().BeginLoop(LoopKind::kSerial, begin, end, b().Int(1), std::vector<ValueId>{carry});
    ValueId next = Join(inside[1], TRY(Term(line, inside[0])));
    StoreRunning(line, inside[0], next);
    ValueId last = b().End(std::vector<ValueId>{next})[0];
    b().BeginIf(b().Emit(Op::kEq, {end, b().Int(cuts_.length)}));
    StoreLast(line, last);
    b().End();
    return {};
  }

  // A tile: what each thread's elements come to, what stands before them, the running values.
  // Returns what is carried to the next tile.
  Result<ValueId> Tile(const Index& line, ValueId begin, ValueId carry) {
    ValueId t = b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(kScanThreads), b().Int(1))[0];
    ValueId first = b().Add(begin, b().Mul(t, b().Int(kScanEach))), sum = -1;
    ValueId some = -1;
    for (int64_t k = 0; k < kScanEach; ++k) {
      int lane = static_cast<int>(k % cuts_.lanes);
      ValueId s = b().Add(first, b().Int(k));
      if (cuts_.even && lane == 0) some = TRY(Terms(line, s));
      ValueId x = cuts_.even ? LaneOf(some, lane) : TRY(Term(line, Within(s)));
      b().Store(mine_, b().Int(k), x);
      sum = k == 0 ? x : Join(sum, x);
    }
    b().Store(parts_[0], t, sum);
    b().End();
    KernelBuilder::MemoryId scanned = ScanParts(kScanThreads);
    ValueId u = b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(kScanThreads), b().Int(1))[0];
    ValueId from = b().Add(begin, b().Mul(u, b().Int(kScanEach)));
    ValueId running = Before(carry, scanned, u);
    for (int64_t k = 0; k < kScanEach; ++k) {
      ValueId s = b().Add(from, b().Int(k));
      running = Join(running, b().Load(mine_, b().Int(k)));
      if (cuts_.even) {
        b().Store(mine_, b().Int(k), running);
        if ((k + 1) % cuts_.lanes == 0) StoreSome(line, from, k + 1 - cuts_.lanes);
        if (k + 1 < kScanEach) continue;
      } else {
        b().BeginIf(b().Emit(Op::kLt, {s, b().Int(cuts_.length)}));
        StoreRunning(line, s, running);
        b().End();
      }
      b().BeginIf(b().Emit(Op::kEq, {s, b().Int(cuts_.length - 1)}), program::Branch::kUnlikely);
      StoreLast(line, running);
      b().End();
    }
    b().End();
    return Join(carry, b().Load(scanned, b().Int(kScanThreads - 1)));
  }

  void DeclareParts(int64_t threads) {
    parts_[0] = b().Array("part", form_.carried, threads);
    parts_[1] = b().Array("part.next", form_.carried, threads);
  }
  // parts[0] with all before: by doubling distances, from one array to the other. Where it lies.
  KernelBuilder::MemoryId ScanParts(int64_t threads) {
    int from = 0;
    for (int64_t distance = 1; distance < threads; distance *= 2, from = 1 - from) {
      ValueId t = b().BeginLoop(LoopKind::kThread, b().Int(0), b().Int(threads), b().Int(1))[0];
      ValueId own = b().Load(parts_[from], t);
      b().BeginIf(b().Emit(Op::kGe, {t, b().Int(distance)}));
      ValueId sum = Join(b().Load(parts_[from], b().Sub(t, b().Int(distance))), own);
      b().BeginElse(std::vector<ValueId>{sum});
      ValueId value = b().End(std::vector<ValueId>{own})[0];
      b().Store(parts_[1 - from], t, value);
      b().End();
    }
    return parts_[from];
  }
  // What stands before thread t.
  ValueId Before(ValueId carry, KernelBuilder::MemoryId scanned, ValueId t) {
    b().BeginIf(b().Emit(Op::kGt, {t, b().Int(0)}));
    ValueId sum = Join(carry, b().Load(scanned, b().Sub(t, b().Int(1))));
    b().BeginElse(std::vector<ValueId>{sum});
    return b().End(std::vector<ValueId>{carry})[0];
  }

  Subject& subject_;
  LowerContext& cx_;
  const Instruction& scan_;
  PrefixForm form_;
  ScanCuts cuts_;
  KernelBody body_;
  const std::vector<MemValue>& results_;
  program::BufferId totals_ = -1, before_ = -1;
  KernelDraft* draft_ = nullptr;
  KernelBuilder::MemoryId between_ = -1, to_ = -1, mine_ = -1, parts_[2] = {-1, -1};
};

Decision MatchPrefixScan(Subject& subject) {
  const Instruction& scan = subject.instruction;
  if (subject.cx.serial) return Refuse("part of a loop that one thread runs");
  if (!PrefixFormOf(scan)) return Refuse("its steps are not one operation of any order");
  ScanCuts cuts = CutScan(scan, subject.cx.target);
  if (cuts.length < kShortScan) return Refuse("one thread walks along few elements");
  if (cuts.by_columns && cuts.pieces == 1) {
    return Refuse("a thread for each column keeps the machine busy");
  }
  return Take("pieces are reduced, what they come to scanned, then their elements");
}

Status LowerPrefixScan(Subject& subject) {
  ScanCuts cuts = CutScan(subject.instruction, subject.cx.target);
  return PrefixScan(subject, *PrefixFormOf(subject.instruction), cuts).Lower();
}

}  // namespace

extern constinit const LoweringRow kPrefixScan = {
    "reduce then scan", {HloOp::kScan}, MatchPrefixScan, LowerPrefixScan};

}  // namespace weft::compiler
