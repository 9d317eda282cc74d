// Loop nests: rows by vectors, cut where the body changes; the dimensions outside in chunks for
// threads.
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "compiler/lower/draft.h"
#include "program/target_facts.h"

namespace weft::compiler {

using program::LoopKind;
using program::Op;

namespace {

// Elements of a row between two cuts, at most.
int64_t LongestStretch(std::span<const int64_t> cuts, int64_t row) {
  int64_t longest = 0, begin = 0;
  for (int64_t cut : cuts) {
    longest = std::max(longest, cut - begin);
    begin = cut;
  }
  return std::max(longest, row - begin);
}

}  // namespace

// Rows are of the innermost dimension of more than one element.
struct KernelDraft::Nest {
  const LoopShape& shape;
  const Body& body;
  size_t minor;
  int64_t row, elements;
  int lanes;
  std::optional<RowPart> part;  // of every row
};

// Loops over dimensions [d, end) and the body inside.
Status KernelDraft::NestFrom(const LoopShape& shape, size_t d, size_t end, Index& index,
                             const Body& body) {
  if (d == end) return body(index);
  int64_t size = shape.dims[d];
  if (size == 1) {
    index.coords[d] = ConstantCoord(elements_, 0);
    return NestFrom(shape, d + 1, end, index, body);
  }
  ValueId i = builder_.BeginLoop(LoopKind::kSerial, builder_.Int(0), builder_.Int(size),
                                 builder_.Int(1))[0];
  index.coords[d] = {i, 0, 1, 0, size - 1};
  TRY(NestFrom(shape, d + 1, end, index, body));
  builder_.End();
  return {};
}

// Where a coordinate lies in a piece, the body knows so.
Status KernelDraft::OverPieces(const LoopShape& shape, size_t next, const Index& index,
                               const Body& body) {
  if (next == shape.outer.size()) return body(index);
  const IndexSet& piece = shape.outer[next];
  const Coord& c = index.coords[piece.dim];
  KernelBuilder& b = builder_;
  if (c.low >= piece.begin && c.high < piece.end) return OverPieces(shape, next + 1, index, body);
  if (c.high < piece.begin || c.low >= piece.end) return OverPieces(shape, next + 1, index, body);
  ValueId inside = -1;
  if (c.low < piece.begin) inside = b.Emit(Op::kGe, {c.base, b.Int(piece.begin)});
  if (c.high >= piece.end) {
    ValueId below = b.Emit(Op::kLt, {c.base, b.Int(piece.end)});
    inside = inside < 0 ? below : b.Emit(Op::kAnd, {inside, below});
  }
  Index known = index;
  known.coords[piece.dim].low = std::max(c.low, piece.begin);
  known.coords[piece.dim].high = std::min(c.high, piece.end - 1);
  b.BeginIf(inside, program::Branch::kLikely);
  TRY(OverPieces(shape, next + 1, known, body));
  b.BeginElse({});
  TRY(OverPieces(shape, next + 1, index, body));
  b.End();
  return {};
}

Status KernelDraft::OverRow(const Nest& nest, const Index& outer) {
  const LoopShape& shape = nest.shape;
  int64_t row = nest.row;
  Index index = outer;
  for (size_t d = nest.minor + 1; d < shape.dims.size(); ++d) {
    index.coords[d] = ConstantCoord(elements_, 0);
  }
  auto at = [&](Coord c) {
    index.coords[nest.minor] = c;
    return nest.body(index);
  };
  if (row < kLeastRowElements) {
    for (int64_t i = 0; i < row; ++i) TRY(at(ConstantCoord(elements_, i)));
    return {};
  }
  if (nest.part) return OverPart(*nest.part, row, nest.lanes, shape.in_place, at);
  bool gathers = shape.cuts_gather && LongestStretch(shape.cuts, row) >= nest.lanes;
  if (shape.serial && row <= target_.VectorsAtOnce() * nest.lanes && !gathers) {
    return StraightLanes(row, nest.lanes, at);
  }
  bool cheap = shape.cost < kStraightCost && !shape.in_place;
  int64_t begin = 0;
  for (size_t k = 0; k <= shape.cuts.size(); ++k) {
    int64_t end = k < shape.cuts.size() ? shape.cuts[k] : row;
    int own = shape.scalar ? 1 : std::min(LanesFor(shape.width, end - begin), nest.lanes);
    bool two = own > 1 && end - begin > own && end - begin <= 2 * own;
    TRY(two && cheap ? OverTwo(begin, end, own, at)
                     : OverLanes(begin, end, own, shape.in_place, at));
    begin = end;
  }
  return {};
}

Status KernelDraft::OverRows(const Nest& nest, size_t from, Index& index) {
  return NestFrom(nest.shape, from, nest.minor, index, [&](const Index& outer) {
    return OverPieces(nest.shape, 0, outer,
                      [&](const Index& known) { return OverRow(nest, known); });
  });
}

// Few long rows are done side by side, a part of all at a time: threads have the same to do, and
// rows that read the same memory, as those of a transpose do, find it in the caches. 0: not these.
int64_t KernelDraft::PartOfRows(const Nest& nest, int64_t chunks) const {
  constexpr int64_t kFewRows = 2 * program::TargetFacts::kUsualThreads;
  constexpr int64_t kPartBytes = program::TargetFacts::kSecondLevelBytes / 8;
  constexpr int64_t kLeastPart = program::TargetFacts::kLeastPageBytes / sizeof(float);
  int64_t rows = nest.elements / nest.row, unit = std::max<int64_t>(nest.lanes, 64);
  int64_t size = std::max(kPartBytes / (rows * nest.shape.width) / unit * unit, kLeastPart);
  bool few = rows > 1 && rows <= kFewRows && nest.row >= 2 * chunks * size;
  return few && nest.shape.cuts.empty() && !nest.shape.by_rows ? size : 0;
}

Status KernelDraft::ForNest(const LoopShape& shape, const Body& body) {
  const Dims& dims = shape.dims;
  size_t minor = dims.size() - 1;
  while (minor > 0 && dims[minor] == 1) --minor;
  int64_t n = 1, row = dims[minor];
  for (int64_t d : dims) n *= d;
  CHECK(shape.cuts.empty() || (shape.cuts.front() > 0 && shape.cuts.back() < row));
  int lanes = shape.scalar || row < kLeastRowElements ? 1 : LanesFor(shape.width, row);
  Nest nest{shape, body, minor, row, n, lanes, {}};
  Index index;
  index.coords.resize(dims.size());
  int64_t chunks = shape.by_rows ? n / row : ChunksOf(static_cast<double>(n) * shape.cost);
  if (shape.serial || chunks <= 1) return OverRows(nest, 0, index);
  if (int64_t size = PartOfRows(nest, chunks); size > 0) {
    int64_t parts = row / size;
    return OverChunks(parts, (parts + chunks - 1) / chunks, [&](ValueId p) {
      nest.part = PartOf(p, parts, size, row);
      return OverRows(nest, 0, index);
    });
  }
  // The outermost dimensions, as many as give enough chunks, make the grid.
  size_t split = 0;
  int64_t grid = 1;
  while (split < minor && grid < chunks) grid *= dims[split++];
  if (grid == 1) {
    // One long row: by its number.
    return ForFlat(shape,
                   [&](const Index& linear) { return body(Coordinates(elements_, dims, linear)); });
  }
  chunks = std::min(chunks, grid);
  return OverChunks(grid, (grid + chunks - 1) / chunks, [&](ValueId g) {
    Index linear;
    linear.is_linear = true;
    linear.linear = {g, 0, 1, 0, grid - 1};
    Index outer = Coordinates(elements_, std::span(dims.data(), split), linear);
    for (size_t d = 0; d < split; ++d) index.coords[d] = outer.coords[d];
    return OverRows(nest, split, index);
  });
}

}  // namespace weft::compiler
