// Column reductions, that keep the minor dimension: rows are read as they lie in memory and
// combined into an array of accumulators, one for each column of a block. Few columns: rows are cut
// in pieces (how many depends on the shapes only), whose results a second kernel combines. Sums of
// f32 over many rows are moved to accumulators of f64 every so often (sums.h).
#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "compiler/lower/cpu/reduce_ways.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;
using HloOp = hlo::Op;

namespace {

constexpr int64_t kColumnBlock = 1024;  // accumulators of one block
constexpr int64_t kRowsAtOnce = 4;      // read for each load and store of accumulators
constexpr int64_t kColumnTasks = 16;    // aimed at, blocks and pieces together
constexpr int64_t kMinPieceRows = 32;   // rows of a piece
constexpr int64_t kShortMinor = 4;      // elements of the minor dimension

// The operand's dimensions: outer ones that are kept, reduced ones, and the columns.
struct ColumnDims {
  std::vector<size_t> outer, inner;
  Dims outer_sizes, inner_sizes;
  Dims lane_sizes;    // inner_sizes with 1 for a short minor dimension
  int64_t count = 1;  // of columns
  int64_t minor = 1;  // a minor dimension too short for lanes: one set of accumulators for each
};

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
    if (minor <= kShortMinor && minor < split.count) {
      split.minor = minor;
      split.count /= minor;
      split.lane_sizes[k] = 1;
    }
    break;
  }
  return split;
}

class ColumnEmitter {
 public:
  ColumnEmitter(KernelDraft& draft, const KernelBody& body,
                std::span<const Instruction* const> reduces, const ReduceDims& dims,
                const ColumnDims& columns, int64_t width, int lanes)
      : reducer(draft, reduces, width),
        e_(draft.elements()),
        b_(draft.builder()),
        body_(body),
        reduces_(reduces),
        dims_(dims),
        columns_(columns),
        full_(reduces[0]->operand(0)->shape().dims()),
        lanes_(lanes) {
    for (size_t i = 0, k = 0; i < reducer.operand_count(); ++i) {
      sums_.push_back(reducer.sums()[k]);
      k += IsComplex(reducer.type(i)) ? 2 : 1;
    }
  }

  RowReducer reducer;

  bool HasSums() const { return std::find(sums_.begin(), sums_.end(), true) != sums_.end(); }
  // Rows read at once are summed by pairs first, which rounds less often; where the order is ours.
  bool ByPairs() const { return reducer.CanUseLanes() && HasSums(); }
  // Rows that accumulators of f32 take: each is added to by one or all of the rows at once.
  int64_t RowsOfRun() const { return kSumRun * (ByPairs() ? kRowsAtOnce : 1); }
  // Whether accumulators of f64 are needed for so many.
  bool IsLongSum(int64_t rows) const { return rows > RowsOfRun() && HasSums(); }
  bool IsSum(size_t i) const { return sums_[i]; }

  // Calls body for columns [begin, end), lanes set.
  Status OverColumns(ValueId begin, ValueId end, const std::function<Status(Coord)>& body) {
    int64_t high = columns_.count - 1;
    if (lanes_ > 1) {
      ValueId j = b_.BeginLoop(LoopKind::kSerial, begin, b_.Sub(end, b_.Int(lanes_ - 1)),
                               b_.Int(lanes_))[0];
      e_.set_lanes(lanes_);
      TRY(body({j, 1, lanes_, 0, high}));
      e_.set_lanes(1);
      b_.End();
    }
    if (lanes_ > 1 && columns_.count % lanes_ == 0) return {};
    ValueId size = b_.Sub(end, begin);
    ValueId rest = lanes_ == 1 ? begin : b_.Add(begin, b_.Sub(size, b_.Rem(size, b_.Int(lanes_))));
    ValueId j = b_.BeginLoop(LoopKind::kSerial, rest, end, b_.Int(1))[0];
    TRY(body({j, 0, 1, 0, high}));
    b_.End();
    return {};
  }

  // Rows [first, last), whose number divides by `divisor`, of the columns into the accumulators.
  Status Rows(const Index& outer, ValueId first, ValueId last, int64_t divisor, ValueId begin,
              ValueId end, std::span<const KernelBuilder::MemoryId> acc) {
    bool no_rest = divisor % kRowsAtOnce == 0;
    ValueId size = b_.Sub(last, first);
    ValueId rest = no_rest ? last : b_.Add(first, b_.Sub(size, b_.Rem(size, b_.Int(kRowsAtOnce))));
    for (int64_t count : {kRowsAtOnce, int64_t{1}}) {
      if (count == 1 && no_rest) break;
      ValueId r = b_.BeginLoop(LoopKind::kSerial, count == 1 ? rest : first,
                               count == 1 ? last : rest, b_.Int(count))[0];
      std::vector<Index> rows;
      for (int64_t u = 0; u < count; ++u) {
        rows.push_back(RowIndex(outer, {b_.Add(r, b_.Int(u)), 0, 1, 0, dims_.length - 1}));
        TRY(EmitBroadcasts(rows.back()));
      }
      TRY(OverColumns(begin, end, [&](Coord j) -> Status {
        Coord at = e_.Add(j, e_.Scale({begin, 0, lanes_}, -1));
        for (int64_t c = 0; c < columns_.minor; ++c) {
          std::vector<Element> values = Load(Minor(acc, c), at);
          std::vector<std::vector<Element>> terms;
          for (Index& row : rows) {
            SetColumns(row, j, c);
            std::vector<Element>& next = terms.emplace_back();
            for (const Instruction* reduce : reduces_) {
              for (int64_t i = 0; i < reduce->operand_count() / 2; ++i) {
                next.push_back(TRY(e_.Emit(*reduce->operand(i), row)));
              }
            }
          }
          while (ByPairs() && terms.size() > 1) {
            size_t half = terms.size() / 2;
            for (size_t u = 0; u < half; ++u) {
              terms[u] = TRY(reducer.Combine(std::move(terms[2 * u]), terms[2 * u + 1]));
            }
            terms.resize(half);
          }
          for (const auto& term : terms) values = TRY(reducer.Combine(std::move(values), term));
          Store(Minor(acc, c), at, values);
        }
        return {};
      }));
      b_.End();
    }
    return {};
  }

  // The same of many rows: after each run the sums are added to those in `wide`.
  Status LongRows(const Index& outer, ValueId first, ValueId last, int64_t divisor, ValueId begin,
                  ValueId end, std::span<const KernelBuilder::MemoryId> acc,
                  std::span<const KernelBuilder::MemoryId> wide) {
    int64_t run = RowsOfRun();
    ValueId r = b_.BeginLoop(LoopKind::kSerial, first, last, b_.Int(run))[0];
    ValueId to = b_.Add(r, b_.Int(run));
    if (divisor % run != 0) to = b_.Min(to, last);
    TRY(Rows(outer, r, to, std::gcd(divisor, run), begin, end, acc));
    TRY(OverColumns(begin, end, [&](Coord j) -> Status {
      Coord at = e_.Add(j, e_.Scale({begin, 0, lanes_}, -1));
      for (size_t i = 0; i < acc.size(); ++i) {
        size_t operand = i % reducer.operand_count();
        if (!sums_[operand]) continue;
        DType type = reducer.type(operand);
        Element sum = Widen(e_.LoadAt(acc[i], type, at)), all = LoadWide(wide[i], type, at);
        all.re = b_.Add(all.re, sum.re);
        if (sum.im >= 0) all.im = b_.Add(all.im, sum.im);
        StoreWide(wide[i], type, at, all);
        e_.StoreAt(acc[i], type, at, Nothing(type));
      }
      return {};
    }));
    b_.End();
    return {};
  }

  Element Nothing(DType type) {  // a sum of no terms
    ValueId zero = b_.Number(-0.0, {DType::kF32, 1});
    return {zero, IsComplex(type) ? zero : -1};
  }
  Element Widen(Element x) { return Recast(x, DType::kF64); }
  Element LoadWide(KernelBuilder::MemoryId wide, DType type, const Coord& at) {
    return e_.LoadAt(wide, IsComplex(type) ? DType::kC128 : DType::kF64, at);
  }
  void StoreWide(KernelBuilder::MemoryId wide, DType type, const Coord& at, const Element& x) {
    e_.StoreAt(wide, IsComplex(type) ? DType::kC128 : DType::kF64, at, x);
  }
  Element Recast(Element x, DType part) {
    return {b_.Cast(x.re, part), x.im < 0 ? -1 : b_.Cast(x.im, part)};
  }

  // The accumulators of one coordinate of a short minor dimension.
  std::span<const KernelBuilder::MemoryId> Minor(std::span<const KernelBuilder::MemoryId> acc,
                                                 int64_t c) const {
    return acc.subspan(static_cast<size_t>(c) * reducer.operand_count(), reducer.operand_count());
  }

  std::vector<Element> Load(std::span<const KernelBuilder::MemoryId> memory, const Coord& at) {
    std::vector<Element> values;
    for (size_t i = 0; i < memory.size(); ++i) {
      values.push_back(e_.LoadAt(memory[i], reducer.type(i), at));
    }
    return values;
  }
  void Store(std::span<const KernelBuilder::MemoryId> memory, const Coord& at,
             std::span<const Element> values) {
    for (size_t i = 0; i < memory.size(); ++i) {
      e_.StoreAt(memory[i], reducer.type(i), at, values[i]);
    }
  }

 private:
  Index RowIndex(const Index& outer, const Coord& r) {
    Index linear, index;
    linear.is_linear = true;
    linear.linear = r;
    Index reduced = e_.Coordinates(dims_.reduced_sizes, linear);
    index.coords.resize(full_.size(), e_.Constant(0));
    for (size_t k = 0; k < dims_.reduced.size(); ++k) {
      index.coords[static_cast<size_t>(dims_.reduced[k])] = reduced.coords[k];
    }
    for (size_t k = 0; k < columns_.outer.size(); ++k) {
      index.coords[columns_.outer[k]] = outer.coords[k];
    }
    return index;
  }

  // `c`: in the minor dimension, if that is not one of lanes.
  void SetColumns(Index& index, const Coord& j, int64_t c) {
    Index linear;
    linear.is_linear = true;
    linear.linear = j;
    Index inner = e_.Coordinates(columns_.lane_sizes, linear);
    for (size_t k = 0; k < columns_.inner.size(); ++k) {
      bool short_minor = columns_.lane_sizes[k] != columns_.inner_sizes[k];
      index.coords[columns_.inner[k]] = short_minor ? e_.Constant(c) : inner.coords[k];
    }
  }

  // What is the same in all columns is computed before the loop over them.
  Status EmitBroadcasts(const Index& row) {
    for (const Instruction* m : body_.members) {
      if (m->op() != HloOp::kBroadcast || m->shape().dims() != full_) continue;
      bool varies = false;
      const Dims& from = m->operand(0)->shape().dims();
      const auto& dims = m->attrs<hlo::BroadcastAttrs>().dimensions;
      for (size_t k = 0; k < from.size(); ++k) {
        varies |= from[k] > 1 && std::find(columns_.inner.begin(), columns_.inner.end(),
                                           static_cast<size_t>(dims[k])) != columns_.inner.end();
      }
      if (!varies) TRY(e_.Emit(*m, row));
    }
    return {};
  }

  ElementEmitter& e_;
  KernelBuilder& b_;
  const KernelBody& body_;
  std::span<const Instruction* const> reduces_;
  const ReduceDims& dims_;
  const ColumnDims& columns_;
  const Dims full_;
  int lanes_;
  std::vector<bool> sums_;  // for each operand
};

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
    draft.elements().StoreAt(draft.MemoryOf(out), subject.cx.memory.shape(out).dtype(), place,
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
  ElementEmitter& e = last.elements();
  LoopShape loop;
  loop.dims = {dims.rows};
  loop.flat = true;
  loop.width = group.shape.width;
  loop.cost = static_cast<double>(pieces);
  TRY(last.ForEach(loop, [&](const Index& at) -> Status {
    std::vector<Element> acc = TRY(join.Pieces(pieces, [&](const Coord& p, size_t i) {
      return e.LoadAt(from[i], join.type(i), e.Add(at.linear, e.Scale(p, dims.rows)));
    }));
    StoreColumnResults(subject, last, at.linear, acc);
    return {};
  }));
  Finish(cx, last, body, subject.steps);
  return {};
}

Status LowerColumnReduce(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const ReduceGroup& group = *subject.reduces();
  const auto& reduces = group.reduces;
  const ReduceDims& dims = group.dims;
  Steps& steps = subject.steps;
  const Dims& full = reduces[0]->operand(0)->shape().dims();
  ColumnDims columns = SplitColumns(full, dims);
  LoopShape shape = ShapeOf(cx, body, full);
  int64_t all_columns = columns.count * columns.minor, outer = dims.rows / all_columns;
  KernelDraft draft = NewDraft(cx, body);
  // Lanes stay within the minor dimension.
  int lanes = draft.LanesFor(shape.width, columns.count);
  int64_t minor = columns.count;
  for (int64_t s : columns.lane_sizes) {
    if (s > 1) minor = s;
  }
  while (minor != columns.count && minor % lanes != 0) lanes /= 2;
  int64_t blocks = (columns.count + kColumnBlock - 1) / kColumnBlock;
  int64_t block = ((columns.count + blocks - 1) / blocks + lanes - 1) / lanes * lanes;
  blocks = (columns.count + block - 1) / block;
  double work = shape.cost * static_cast<double>(dims.rows) * static_cast<double>(dims.length);
  ColumnEmitter types(draft, body, reduces, dims, columns, shape.width, lanes);
  int64_t pieces = 1;
  if (!cx.serial && types.reducer.CanUseLanes()) {
    pieces = std::min({kColumnTasks / (blocks * outer), dims.length / kMinPieceRows,
                       static_cast<int64_t>(work / cx.target.WorkOfPiece())});
    pieces = std::max<int64_t>(pieces, 1);
  }
  int64_t piece = (dims.length + pieces - 1) / pieces;
  pieces = (dims.length + piece - 1) / piece;
  std::vector<program::BufferId> partial;
  if (pieces > 1) {
    for (size_t i = 0; i < types.reducer.operand_count(); ++i) {
      partial.push_back(
          cx.Scratch(Shape(types.reducer.type(i), {pieces, outer, all_columns}), "partial"));
    }
  }
  draft.Declare(body.inputs, pieces > 1 ? std::span<const KernelOutput>() : body.outputs);
  std::vector<KernelBuilder::MemoryId> to;
  for (program::BufferId p : partial) to.push_back(draft.DeclareBuffer(p, program::Access::kWrite));
  ColumnEmitter columns_of(draft, body, reduces, dims, columns, shape.width, lanes);
  KernelBuilder& b = draft.builder();
  ElementEmitter& e = draft.elements();
  Dims grid = columns.outer_sizes;
  grid.push_back(pieces);
  grid.push_back(blocks);
  double cost = shape.cost * static_cast<double>(piece) * static_cast<double>(block);
  TRY(draft.ForEachRow(grid, cost, cx.serial, [&](const Index& at) -> Status {
    Index o = at;
    ValueId number = at.coords[grid.size() - 2].base, nth_block = at.coords.back().base;
    o.coords.pop_back();
    o.coords.pop_back();
    ValueId begin = b.Mul(nth_block, b.Int(block)), first = b.Mul(number, b.Int(piece));
    ValueId end = b.Add(begin, b.Int(block)), last = b.Add(first, b.Int(piece));
    if (columns.count % block != 0) end = b.Min(end, b.Int(columns.count));
    if (dims.length % piece != 0) last = b.Min(last, b.Int(dims.length));
    std::vector<KernelBuilder::MemoryId> acc, wide;
    size_t operands = columns_of.reducer.operand_count();
    for (size_t i = 0; i < operands * static_cast<size_t>(columns.minor); ++i) {
      DType type = columns_of.reducer.type(i % operands);
      acc.push_back(IsComplex(type) ? b.Array(StrCat("acc", i), RealType(type), 2 * block)
                                    : b.Array(StrCat("acc", i), program::ComputeType(type), block));
      int64_t parts = IsComplex(type) ? 2 : 1;
      bool is_long = columns_of.IsLongSum(piece) && columns_of.IsSum(i % operands);
      wide.push_back(is_long ? b.Array(StrCat("wide", i), DType::kF64, parts * block) : -1);
    }
    std::vector<Element> starts =
        pieces > 1 ? TRY(columns_of.reducer.Starts()) : TRY(columns_of.reducer.Inits());
    auto in_block = [&](const Coord& j) { return e.Add(j, e.Scale({begin, 0, lanes}, -1)); };
    TRY(columns_of.OverColumns(begin, end, [&](Coord j) -> Status {
      for (size_t i = 0; i < acc.size(); ++i) {
        DType type = columns_of.reducer.type(i % operands);
        Element start = starts[i % operands];
        if (wide[i] >= 0) {
          columns_of.StoreWide(wide[i], type, in_block(j), columns_of.Widen(start));
          start = columns_of.Nothing(type);
        }
        e.StoreAt(acc[i], type, in_block(j), start);
      }
      return {};
    }));
    int64_t divisor = std::gcd(piece, dims.length);
    bool is_long = columns_of.IsLongSum(piece);
    TRY(is_long ? columns_of.LongRows(o, first, last, divisor, begin, end, acc, wide)
                : columns_of.Rows(o, first, last, divisor, begin, end, acc));
    Coord above = e.Scale(e.Linear(columns.outer_sizes, o), all_columns);
    return columns_of.OverColumns(begin, end, [&](Coord j) -> Status {
      for (int64_t c = 0; c < columns.minor; ++c) {
        std::vector<Element> values = columns_of.Load(columns_of.Minor(acc, c), in_block(j));
        for (size_t i = 0; i < operands; ++i) {
          KernelBuilder::MemoryId from = wide[static_cast<size_t>(c) * operands + i];
          if (from < 0) continue;
          Element sum = columns_of.LoadWide(from, columns_of.reducer.type(i), in_block(j));
          values[i] = columns_of.Recast(sum, DType::kF32);
        }
        Coord place = e.AddConstant(e.Add(above, e.Scale(j, columns.minor)), c);
        if (pieces == 1) {
          StoreColumnResults(subject, draft, place, values);
        } else {
          columns_of.Store(to, e.Add(place, e.Scale({number, 0, 1}, outer * all_columns)), values);
        }
      }
      return {};
    });
  }));
  Finish(cx, draft, body, steps);
  return pieces == 1 ? Status() : JoinColumnPieces(subject, pieces, partial);
}

}  // namespace

extern constinit const LoweringRow kColumnReduce = {
    "column reduction", {HloOp::kReduce}, MatchColumnReduce, LowerColumnReduce};

}  // namespace weft::compiler
