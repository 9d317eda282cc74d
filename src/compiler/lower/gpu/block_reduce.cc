// Reductions by blocks of threads that share an array: of rows, of columns, or of pieces of them
// that a second kernel joins.
#include "compiler/lower/gpu/block_reduce.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/str.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

// Elements of a row worth another thread.
constexpr int64_t kPerThread = program::TargetFacts::kAccessBytes / sizeof(float);
constexpr int64_t kPerThreadOfMany = program::CodeBounds::kTerms;
constexpr int64_t kThreadRow = program::CodeBounds::kShortLoop;  // rows that one thread reduces
// Elements of each thread that are worth another block.
constexpr int64_t kPieceElements = program::CodeBounds::kWrittenOut;

int64_t RoundUp(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// How a reduction is spread over the machine.
struct GpuReduceShape {
  bool columns = false;  // the minor dimension is kept: threads side by side take columns
  int64_t threads = 1;   // of a row, or that share a column
  int64_t pieces = 1;    // of each row, in blocks of their own; joined by a second kernel
  int lanes = 1;         // elements of a row that a thread takes at once
  int64_t length = 0;    // of a row: so many times as many elements as there are lanes
  int64_t piece = 0;     // likewise
  bool even = false;     // all threads of all blocks take as many
};

// Elements of one access, where rows consist of whole ones and all threads get some.
int RowLanes(Subject& subject, const RowReducer& reducer, int64_t threads) {
  const ReduceDims& dims = subject.reduces()->dims;
  for (size_t i = 0; i < reducer.operand_count(); ++i) {
    if (IsComplex(reducer.type(i))) return 1;
  }
  // The narrowest array that is read whole: wider ones take several accesses.
  int64_t width = subject.reduces()->shape.width;
  for (const KernelInput& input : subject.body().inputs) {
    const Shape& shape = subject.cx.memory.shape(input.value);
    if (shape.elements() == dims.rows * dims.length) {
      width = std::min<int64_t>(width, ByteWidth(shape.dtype()));
    }
  }
  int64_t lanes = std::min<int64_t>(subject.cx.target.AccessBytes() / width, 8);
  while (lanes > 1 && (reducer.unit() % lanes != 0 || dims.length / lanes < 2 * threads)) {
    lanes /= 2;
  }
  return static_cast<int>(std::max<int64_t>(lanes, 1));
}

// As many pieces as asked for or somewhat fewer, so that all have whole rounds of all threads.
void ChoosePieces(GpuReduceShape& s) {
  int64_t rounds = s.length / s.threads;
  if (s.length % s.threads == 0) {
    for (int64_t pieces = s.pieces; 2 * pieces > s.pieces; --pieces) {
      if (rounds % pieces != 0) continue;
      s.pieces = pieces;
      s.piece = rounds / pieces * s.threads;
      s.even = true;
      return;
    }
  }
  s.piece = RoundUp(s.length, s.pieces);
  s.pieces = RoundUp(s.length, s.piece);
}

GpuReduceShape ChooseReduce(Subject& subject, const RowReducer& reducer) {
  const ReduceDims& dims = subject.reduces()->dims;
  const program::TargetInfo& target = subject.cx.target;
  GpuReduceShape s;
  s.columns = !dims.minor;
  int64_t blocks = dims.rows;
  if (s.columns) {
    s.threads = kColumnSlices;
    blocks = RoundUp(dims.rows, target.warp);
  } else {
    // Rows that keep the machine busy with a warp each need no more.
    bool many = dims.rows * target.warp >= target.cores * target.threads_per_core;
    int64_t each = many ? kPerThreadOfMany : kPerThread;
    int64_t wanted =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(RoundUp(dims.length, each))));
    s.threads = std::clamp(wanted, target.warp, kRowThreads);
    s.lanes = RowLanes(subject, reducer, s.threads);
  }
  // As many blocks as are resident at once.
  int64_t resident = target.cores * (target.threads_per_core / kRowThreads);
  int64_t most = resident / std::max<int64_t>(blocks, 1);
  s.pieces = std::clamp(dims.length / (s.threads * kPieceElements), int64_t{1},
                        std::max<int64_t>(most, 1));
  s.length = dims.length / s.lanes;
  ChoosePieces(s);
  return s;
}

// Worth a block a row; shorter ones, or more columns than the machine has threads, are one
// thread's.
bool ReducesByBlocks(const ReduceDims& dims, const program::TargetInfo& target) {
  if (dims.length < kThreadRow) return false;
  if (dims.minor) return true;
  return dims.rows < target.cores * target.threads_per_core / 2;
}

Decision MatchBlockReduce(Subject& subject) {
  if (!subject.reduces()) return Refuse("not all results are reductions");
  const ReduceGroup& group = *subject.reduces();
  if (!group.same_dims) return Refuse("the reductions are along different dimensions");
  if (!ReducesByBlocks(group.dims, subject.cx.target)) {
    return Refuse("a thread for each result keeps the machine busy");
  }
  KernelDraft draft = NewDraft(subject.cx, subject.body());
  if (!RowReducer(draft, group.reduces, group.shape.width).CanUseLanes()) {
    return Refuse("parts of a sum cannot be put together without its initial value");
  }
  return Take("the threads of a block share each result");
}

// A row's result, with the initial values, to where the kernel's outputs are.
Status StoreReduced(Subject& subject, KernelDraft& draft, RowReducer& reducer, const Index& row,
                    std::vector<Element> values) {
  const KernelBody& body = subject.body();
  const ReduceGroup& group = *subject.reduces();
  values = TRY(reducer.Combine(TRY(reducer.Inits()), values));
  ElementContext& e = draft.elements();
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    MemValue out = body.outputs[k].value;
    StoreAt(e, draft.MemoryOf(out), subject.cx.memory.shape(out).dtype(),
            LinearCoord(e, group.dims.kept_sizes, row), values[group.wanted[k]]);
  }
  return {};
}

// The pieces of each row together: by a thread each, or by blocks where rows are few.
Status JoinPieces(Subject& subject, const GpuReduceShape& how,
                  std::span<const program::BufferId> partial) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const ReduceDims& dims = subject.reduces()->dims;
  KernelDraft last(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  last.Declare(body.inputs, body.outputs);
  std::vector<KernelBuilder::MemoryId> memory;
  for (program::BufferId id : partial) memory.push_back(last.DeclareBuffer(id, Access::kRead));
  RowReducer join(last, subject.reduces()->reduces, subject.reduces()->shape.width);
  KernelBuilder& b = last.builder();
  ElementContext& e = last.elements();
  bool by_block = dims.rows < kThreadRow;
  TRY(last.ForEachOnGrid(dims.kept_sizes, false, [&](const Index& row) -> Status {
    Accumulate accumulate = [&](const Coord& j, std::vector<Element> acc) {
      Coord at = AddCoords(e, ScaleCoord(e, j, dims.rows), LinearCoord(e, dims.kept_sizes, row));
      std::vector<Element> value;
      for (size_t i = 0; i < memory.size(); ++i) {
        value.push_back(LoadAt(e, memory[i], join.type(i), at));
      }
      return join.Combine(std::move(acc), value);
    };
    if (!by_block) {
      Places all{b.Int(0), b.Int(how.pieces), 1, how.pieces};
      return StoreReduced(subject, last, join, row,
                          TRY(AccumulateStrided(last, join, all, accumulate)));
    }
    int64_t threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(how.pieces)));
    threads = std::min(threads, kRowThreads);
    Places all{b.Int(0), b.Int(how.pieces), threads, RoundUp(how.pieces, threads)};
    return StoreReduced(subject, last, join, row, TRY(ReduceByBlock(last, join, all, accumulate)));
  }));
  Finish(cx, last, body, subject.steps);
  return {};
}

// The grid: pieces, then the kept dimensions, the minor one by warps where it gives the columns.
struct ReduceGrid {
  ReduceGrid(const GpuReduceShape& how, const ReduceDims& kept, int64_t warp) {
    dims.push_back(how.pieces);
    for (int64_t size : kept.kept_sizes) dims.push_back(size);
    minor = kept.kept_sizes.size();
    while (how.columns && dims[minor] == 1) --minor;
    columns = dims[minor];
    if (how.columns) dims[minor] = RoundUp(columns, warp);
  }
  Dims dims;
  size_t minor;  // in dims
  int64_t columns;
};

// One kernel: rows or columns, whole or by pieces whose results go to arrays of their own.
class BlockReduce {
 public:
  BlockReduce(Subject& subject, KernelDraft& draft, const GpuReduceShape& how,
              std::span<const program::BufferId> partial)
      : subject_(subject),
        draft_(draft),
        b_(draft.builder()),
        dims_(subject.reduces()->dims),
        how_(how),
        grid_(how, dims_, subject.cx.target.warp) {
    draft.Declare(subject.body().inputs, partial.empty()
                                             ? std::span<const KernelOutput>(subject.body().outputs)
                                             : std::span<const KernelOutput>());
    for (program::BufferId id : partial) memory_.push_back(draft.DeclareBuffer(id, Access::kWrite));
    reducer_.emplace(draft, subject.reduces()->reduces, subject.reduces()->shape.width);
  }

  Status Emit() {
    return draft_.ForEachOnGrid(grid_.dims, false, [&](const Index& at) { return EmitAt(at); });
  }

 private:
  Status EmitAt(const Index& at) {
    ValueId piece = at.coords[0].base;
    Index row;
    for (size_t d = 1; d < grid_.dims.size(); ++d) row.coords.push_back(at.coords[d]);
    Places places = PlacesOf(piece);
    if (!how_.columns) {
      return Store(row, piece, TRY(ReduceByBlock(draft_, *reducer_, places, Along(row))));
    }
    auto of_column = [&](ValueId column) {
      Index r = row;
      r.coords[grid_.minor - 1] = {column, 0, 1};
      return r;
    };
    return ReduceColumns(
        draft_, *reducer_, grid_.columns, at.coords[grid_.minor].base, places,
        [&](ValueId column) { return Along(of_column(column)); },
        [&](ValueId column, std::vector<Element> values) {
          return Store(of_column(column), piece, std::move(values));
        });
  }

  Places PlacesOf(ValueId piece) {
    Places places{b_.Mul(piece, b_.Int(how_.piece)),
                  b_.Int(how_.length),
                  how_.threads,
                  RoundUp(how_.piece, how_.threads),
                  how_.even,
                  how_.lanes,
                  dims_.length};
    if (!memory_.empty()) places.end = b_.Min(b_.Add(places.first, b_.Int(how_.piece)), places.end);
    return places;
  }

  Accumulate Along(const Index& r) {
    return [this, r](const Coord& j, std::vector<Element> acc) {
      return reducer_->Accumulate(r, j, std::move(acc));
    };
  }

  // A row's result: to the outputs, or to the partial ones.
  Status Store(const Index& row, ValueId piece, std::vector<Element> values) {
    if (memory_.empty()) return StoreReduced(subject_, draft_, *reducer_, row, std::move(values));
    ElementContext& e = draft_.elements();
    Coord at = AddCoords(e, ScaleCoord(e, {piece, 0, 1}, dims_.rows),
                         LinearCoord(e, dims_.kept_sizes, row));
    for (size_t i = 0; i < values.size(); ++i) {
      StoreAt(e, memory_[i], reducer_->type(i), at, values[i]);
    }
    return {};
  }

  Subject& subject_;
  KernelDraft& draft_;
  KernelBuilder& b_;
  const ReduceDims& dims_;
  const GpuReduceShape& how_;
  ReduceGrid grid_;
  std::vector<KernelBuilder::MemoryId> memory_;
  std::optional<RowReducer> reducer_;
};

Status LowerBlockReduce(Subject& subject) {
  LowerContext& cx = subject.cx;
  const ReduceGroup& group = *subject.reduces();
  KernelDraft draft = NewDraft(cx, subject.body());
  GpuReduceShape how = ChooseReduce(subject, RowReducer(draft, group.reduces, group.shape.width));
  std::vector<program::BufferId> partial;
  if (how.pieces > 1) {
    RowReducer types(draft, group.reduces, group.shape.width);
    for (size_t i = 0; i < types.operand_count(); ++i) {
      partial.push_back(cx.Scratch(Shape(types.type(i), {how.pieces, group.dims.rows}), "partial"));
    }
  }
  TRY(BlockReduce(subject, draft, how, partial).Emit());
  Finish(cx, draft, subject.body(), subject.steps);
  return partial.empty() ? Status() : JoinPieces(subject, how, partial);
}

}  // namespace

extern constinit const LoweringRow kBlockReduce = {
    "reduction by blocks", {HloOp::kReduce}, MatchBlockReduce, LowerBlockReduce};

}  // namespace weft::compiler
