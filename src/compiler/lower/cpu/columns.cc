// Column reductions, that keep the minor dimension: rows are read as they lie in memory and
// combined into an array of accumulators, one for each column of a block. Few columns: rows are cut
// in pieces (how many depends on the shapes only), whose results a second kernel combines. Sums of
// f32 over many rows are moved to accumulators of f64 every so often (sums.h).
#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "compiler/lower/cpu/column_emitter.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Accumulators of one block.
constexpr int64_t kColumnBlock = program::TargetFacts::kLeastPageBytes / sizeof(float);
constexpr int64_t kMinPieceRows = program::SumOrder::kRun;  // rows of a piece

ColumnDims SplitColumns(const Dims& full, const ReduceDims& dims) {
  ColumnDims split;
  size_t last = 0;
  for (int64_t d : dims.reduced) {
    if (full[static_cast<size_t>(d)] > 1) last = static_cast<size_t>(d);
  }
  for (int64_t d : dims.kept) {
    size_t k = static_cast<size_t>(d);
    (k < last ? split.outer : split.inner).push_back(k);
    (k < last ? split.outer_sizes : split.inner_sizes).push_back(full[k]);
    if (k > last) split.count *= full[k];
  }
  split.lane_sizes = split.inner_sizes;
  for (size_t k = split.inner_sizes.size(); k-- > 0;) {
    int64_t minor = split.inner_sizes[k];
    if (minor == 1) continue;
    if (minor <= kLeastRowElements && minor < split.count) {
      split.minor = minor;
      split.count /= minor;
      split.lane_sizes[k] = 1;
    }
    break;
  }
  return split;
}

Decision MatchColumnReduce(Subject& subject) {
  if (Decision reduces = TakesReduces(subject); !reduces.taken) return reduces;
  if (subject.reduces()->dims.minor) return Refuse("the minor dimension is reduced");
  return Take("the minor dimension is kept");
}

// Results, in the order of the reduces' operands, at a place of [outer, columns].
void StoreColumnResults(Subject& subject, KernelDraft& draft, const Coord& place,
                        std::span<const Element> values) {
  const KernelBody& body = subject.body();
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    MemValue out = body.outputs[k].value;
    StoreAt(draft.elements(), draft.MemoryOf(out), subject.cx.memory.shape(out).dtype(), place,
            values[subject.reduces()->wanted[k]]);
  }
}

// The sums of the pieces of all columns together.
Status JoinColumnPieces(Subject& subject, int64_t pieces,
                        std::span<const program::BufferId> partial) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const ReduceGroup& group = *subject.reduces();
  const ReduceDims& dims = group.dims;
  KernelDraft last(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  last.Declare(body.inputs, body.outputs);
  std::vector<KernelBuilder::MemoryId> from;
  for (program::BufferId p : partial) from.push_back(last.DeclareBuffer(p, program::Access::kRead));
  RowReducer join(last, group.reduces, group.shape.width);
  ElementContext& e = last.elements();
  LoopShape loop;
  loop.dims = {dims.rows};
  loop.flat = true;
  loop.width = group.shape.width;
  loop.cost = static_cast<double>(pieces);
  TRY(last.ForEach(loop, [&](const Index& at) -> Status {
    std::vector<Element> acc = TRY(join.Pieces(pieces, [&](const Coord& p, size_t i) {
      return LoadAt(e, from[i], join.type(i), AddCoords(e, at.linear, ScaleCoord(e, p, dims.rows)));
    }));
    StoreColumnResults(subject, last, at.linear, acc);
    return {};
  }));
  Finish(cx, last, body, subject.steps);
  return {};
}

// How columns and rows are cut for threads and caches.
struct ColumnCut {
  int lanes = 1;
  int64_t all_columns = 0, outer = 0;  // columns, and kept rows of them
  int64_t blocks = 1, block = 0;       // of columns
  int64_t pieces = 1, piece = 0;       // of the rows that are reduced
};

// Lanes stay within the minor dimension.
int LanesOfColumns(KernelDraft& draft, const ColumnDims& columns, int64_t width) {
  int lanes = draft.LanesFor(width, columns.count);
  int64_t minor = columns.count;
  for (int64_t s : columns.lane_sizes) {
    if (s > 1) minor = s;
  }
  while (minor != columns.count && minor % lanes != 0) lanes /= 2;
  return lanes;
}

ColumnCut CutColumns(const LowerContext& cx, const ReduceDims& dims, const ColumnDims& columns,
                     int lanes, double work, bool any_order) {
  ColumnCut cut;
  cut.lanes = lanes;
  cut.all_columns = columns.count * columns.minor;
  cut.outer = dims.rows / cut.all_columns;
  int64_t blocks = (columns.count + kColumnBlock - 1) / kColumnBlock;
  cut.block = ((columns.count + blocks - 1) / blocks + lanes - 1) / lanes * lanes;
  cut.blocks = (columns.count + cut.block - 1) / cut.block;
  int64_t pieces = 1;
  if (!cx.serial && any_order) {
    pieces = std::min({program::TargetFacts::kJoinedArrays / (cut.blocks * cut.outer),
                       dims.length / kMinPieceRows,
                       static_cast<int64_t>(work / cx.target.WorkOfPiece())});
    pieces = std::max<int64_t>(pieces, 1);
  }
  cut.piece = (dims.length + pieces - 1) / pieces;
  cut.pieces = (dims.length + cut.piece - 1) / cut.piece;
  return cut;
}

// One piece of the rows of one block of columns.
class ColumnTask {
 public:
  ColumnTask(Subject& subject, KernelDraft& draft, const ColumnDims& columns, const ColumnCut& cut,
             int64_t width, std::span<const KernelBuilder::MemoryId> partial)
      : subject_(subject),
        draft_(draft),
        b_(draft.builder()),
        e_(draft.elements()),
        dims_(subject.reduces()->dims),
        columns_(columns),
        cut_(cut),
        emitter_(draft, subject.body(), subject.reduces()->reduces, dims_, columns, width,
                 cut.lanes),
        partial_(partial) {}

  Status Emit(const Index& at) {
    Index outer = at;
    number_ = at.coords[at.coords.size() - 2].base;
    ValueId nth_block = at.coords.back().base;
    outer.coords.pop_back();
    outer.coords.pop_back();
    begin_ = b_.Mul(nth_block, b_.Int(cut_.block));
    ValueId first = b_.Mul(number_, b_.Int(cut_.piece));
    end_ = b_.Add(begin_, b_.Int(cut_.block));
    ValueId last = b_.Add(first, b_.Int(cut_.piece));
    if (columns_.count % cut_.block != 0) end_ = b_.Min(end_, b_.Int(columns_.count));
    if (dims_.length % cut_.piece != 0) last = b_.Min(last, b_.Int(dims_.length));
    DeclareAccumulators();
    TRY(Start());
    int64_t divisor = std::gcd(cut_.piece, dims_.length);
    TRY(emitter_.IsLongSum(cut_.piece)
            ? emitter_.LongRows(outer, first, last, divisor, begin_, end_, acc_, wide_)
            : emitter_.Rows(outer, first, last, divisor, begin_, end_, acc_));
    return StoreResults(
        ScaleCoord(e_, LinearCoord(e_, columns_.outer_sizes, outer), cut_.all_columns));
  }

 private:
  Coord InBlock(const Coord& j) {
    return AddCoords(e_, j, ScaleCoord(e_, {begin_, 0, cut_.lanes}, -1));
  }

  void DeclareAccumulators() {
    acc_.clear();
    wide_.clear();
    size_t operands = emitter_.reducer.operand_count();
    for (size_t i = 0; i < operands * static_cast<size_t>(columns_.minor); ++i) {
      DType type = emitter_.reducer.type(i % operands);
      bool complex = IsComplex(type);
      acc_.push_back(complex ? b_.Array(StrCat("acc", i), RealType(type), 2 * cut_.block)
                             : b_.Array(StrCat("acc", i), program::ComputeType(type), cut_.block));
      bool is_long = emitter_.IsLongSum(cut_.piece) && emitter_.IsSum(i % operands);
      int64_t parts = complex ? 2 : 1;
      wide_.push_back(is_long ? b_.Array(StrCat("wide", i), DType::kF64, parts * cut_.block) : -1);
    }
  }

  Status Start() {
    std::vector<Element> starts =
        cut_.pieces > 1 ? TRY(emitter_.reducer.Starts()) : TRY(emitter_.reducer.Inits());
    return emitter_.OverColumns(begin_, end_, [&](Coord j) -> Status {
      for (size_t i = 0; i < acc_.size(); ++i) {
        DType type = emitter_.reducer.type(i % starts.size());
        Element start = starts[i % starts.size()];
        if (wide_[i] >= 0) {
          emitter_.StoreWide(wide_[i], type, InBlock(j), emitter_.Widen(start));
          start = emitter_.Nothing(type);
        }
        StoreAt(e_, acc_[i], type, InBlock(j), start);
      }
      return {};
    });
  }

  Status StoreResults(const Coord& above) {
    return emitter_.OverColumns(begin_, end_, [&](Coord j) -> Status {
      size_t operands = emitter_.reducer.operand_count();
      for (int64_t c = 0; c < columns_.minor; ++c) {
        std::vector<Element> values = emitter_.Load(emitter_.Minor(acc_, c), InBlock(j));
        for (size_t i = 0; i < operands; ++i) {
          KernelBuilder::MemoryId from = wide_[static_cast<size_t>(c) * operands + i];
          if (from < 0) continue;
          Element sum = emitter_.LoadWide(from, emitter_.reducer.type(i), InBlock(j));
          values[i] = emitter_.Recast(sum, DType::kF32);
        }
        Coord place = AddConstant(e_, AddCoords(e_, above, ScaleCoord(e_, j, columns_.minor)), c);
        if (cut_.pieces == 1) {
          StoreColumnResults(subject_, draft_, place, values);
          continue;
        }
        Coord piece = ScaleCoord(e_, {number_, 0, 1}, cut_.outer * cut_.all_columns);
        emitter_.Store(partial_, AddCoords(e_, place, piece), values);
      }
      return {};
    });
  }

  Subject& subject_;
  KernelDraft& draft_;
  KernelBuilder& b_;
  ElementContext& e_;
  const ReduceDims& dims_;
  const ColumnDims& columns_;
  const ColumnCut& cut_;
  ColumnEmitter emitter_;
  std::span<const KernelBuilder::MemoryId> partial_;
  std::vector<KernelBuilder::MemoryId> acc_, wide_;  // by coordinate of a short minor, and operand
  ValueId number_ = -1, begin_ = -1, end_ = -1;      // of the piece; columns
};

Status LowerColumnReduce(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const ReduceGroup& group = *subject.reduces();
  const ReduceDims& dims = group.dims;
  const Dims& full = group.reduces[0]->operand(0)->shape().dims();
  ColumnDims columns = SplitColumns(full, dims);
  LoopShape shape = ShapeOf(cx, body, full);
  KernelDraft draft = NewDraft(cx, body);
  RowReducer types(draft, group.reduces, shape.width);
  double work = shape.cost * static_cast<double>(dims.rows) * static_cast<double>(dims.length);
  ColumnCut cut = CutColumns(cx, dims, columns, LanesOfColumns(draft, columns, shape.width), work,
                             types.CanUseLanes());
  std::vector<program::BufferId> partial;
  for (size_t i = 0; cut.pieces > 1 && i < types.operand_count(); ++i) {
    Shape of_pieces(types.type(i), {cut.pieces, cut.outer, cut.all_columns});
    partial.push_back(cx.Scratch(of_pieces, "partial"));
  }
  draft.Declare(body.inputs, cut.pieces > 1 ? std::span<const KernelOutput>() : body.outputs);
  std::vector<KernelBuilder::MemoryId> to;
  for (program::BufferId p : partial) to.push_back(draft.DeclareBuffer(p, program::Access::kWrite));
  ColumnTask task(subject, draft, columns, cut, shape.width, to);
  Dims grid = columns.outer_sizes;
  grid.push_back(cut.pieces);
  grid.push_back(cut.blocks);
  double cost = shape.cost * static_cast<double>(cut.piece) * static_cast<double>(cut.block);
  TRY(draft.ForEachRow(grid, cost, cx.serial, [&](const Index& at) { return task.Emit(at); }));
  Finish(cx, draft, body, subject.steps);
  return cut.pieces == 1 ? Status() : JoinColumnPieces(subject, cut.pieces, partial);
}

}  // namespace

extern constinit const LoweringRow kColumnReduce = {
    "column reduction", {HloOp::kReduce}, MatchColumnReduce, LowerColumnReduce};

}  // namespace weft::compiler
