// Loop tiling. Loops with a transpose that changes the minor dimension, by tiles of a cache line in
// either direction: the operand's elements are computed along its own minor dimension, turned in
// registers, kept in a small array, and used along the result's minor dimension; or stored at once
// where that is all there is to do and the tile is narrow.
#include <algorithm>
#include <bit>

#include "compiler/analysis/tiles.h"
#include "compiler/lower/table.h"
#include "compiler/lower/tiled_transpose.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;
using HloOp = hlo::Op;

namespace {

// What comes out of the transpose is the result.
bool StoresAtOnce(const KernelBody& body, const Instruction& transpose) {
  return body.outputs.size() == 1 && body.outputs[0].inside == &transpose;
}

}  // namespace

const Instruction* TiledTranspose(const KernelBody& body) {
  const Instruction* found = nullptr;
  for (const Instruction* m : body.members) {
    if (m->op() != HloOp::kTranspose || !TiledDims(*m)) continue;
    if (found != nullptr) return nullptr;
    found = m;
  }
  if (found == nullptr) return nullptr;
  if (IsComplex(found->shape().dtype()) && !StoresAtOnce(body, *found)) return nullptr;
  const Dims& dims = found->shape().dims();
  for (const KernelOutput& output : body.outputs) {
    if (!output.inside->shape().IsArray() || output.inside->shape().dims() != dims) return nullptr;
  }
  std::vector<const Instruction*> work = {found};
  for (size_t at = 0; at < work.size(); ++at) {
    if (work[at] != found && !hlo::IsElementwise(work[at]->op())) return nullptr;
    if (work[at]->shape().dims() != dims || work.size() > 500) return nullptr;
    for (const Instruction* user : work[at]->users()) {
      bool member = std::find(body.members.begin(), body.members.end(), user) != body.members.end();
      if (!member || (user->op() == HloOp::kTuple && user->IsRoot())) continue;
      if (std::find(work.begin(), work.end(), user) == work.end()) work.push_back(user);
    }
  }
  return found;
}

namespace {

// How many tiles that lie side by side in the operand are turned one after the other. Where its
// rows are on other pages, more than a tile is read of each; a divisor of the number of all tiles.
int64_t BandOf(int64_t tiles, int64_t row_bytes, int64_t page_bytes) {
  constexpr int64_t kMaxBand = program::TargetFacts::kFirstLevelWays;  // tiles of a band
  int64_t band = row_bytes < page_bytes ? 1 : std::min(kMaxBand, tiles);
  while (tiles % band != 0) --band;
  return band;
}

// Rows and columns that are turned at once: what fills a register, where that does not compute much
// twice.
int64_t TurnedOf(int64_t rows, int64_t columns, int64_t width, const Instruction& operand) {
  double most = operand.IsParameter() ? 1.7 : 1;  // times the elements of a tile
  int64_t turned = std::clamp<int64_t>(program::TargetInfo::kNarrowVectorBytes / width, 1, 8);
  auto whole = [&](int64_t n) { return (n + turned - 1) / turned * turned; };
  while (turned > std::min(rows, columns) || static_cast<double>(whole(rows) * whole(columns)) >
                                                 most * static_cast<double>(rows * columns)) {
    turned /= 2;
  }
  return turned;
}

Decision MatchTiles(Subject& subject) {
  const KernelBody& body = subject.body();
  HloOp made = subject.producer().op();
  bool update = made == HloOp::kDynamicUpdateSlice && body.outputs.size() == 1;
  if (made == HloOp::kReduce || update) return Refuse("the result is a reduction or an update");
  const Instruction* transpose = TiledTranspose(body);
  if (transpose == nullptr)
    return Refuse("there is no one transpose whose results are used as they lie");
  // Where tiles at the end overlap others, no element may be computed twice in place.
  bool once =
      TilesEvenly(*transpose) || !ShapeOf(subject.cx, body, transpose->shape().dims()).in_place;
  if (!once) return Refuse("tiles would overlap in place");
  return Take("a transpose changes the minor dimension");
}

// Tiles that are read by rows of the operand, some of which are turned in registers at a time, and
// stored by rows of the result, through an array unless rows are few.
class TransposeByTiles {
 public:
  explicit TransposeByTiles(Subject& subject)
      : cx_(subject.cx),
        body_(subject.body()),
        transpose_(*TiledTranspose(body_)),
        dims_(transpose_.shape().dims()),
        type_(transpose_.shape().dtype()),
        compute_(program::ComputeType(RealType(type_))),
        tile_(*TiledDims(transpose_)),
        turned_(TurnedOf(tile_.rows, tile_.columns, ByteWidth(compute_), *transpose_.operand(0))),
        draft_(NewDraft(cx_, body_)),
        b_(draft_.builder()),
        e_(draft_.elements()) {
    draft_.Declare(body_.inputs, body_.outputs);
    shape_ = ShapeOf(cx_, body_, dims_);
    // Few rows, or rows of few elements, are stored as soon as they are there; so are complex
    // numbers.
    bool few = tile_.rows < tile_.most || tile_.columns < tile_.most || IsComplex(type_);
    direct_ = few && StoresAtOnce(body_, transpose_);
  }

  Status Lower(Steps& steps) {
    Dims grid = Grid();
    double cost = shape_.cost * static_cast<double>(tile_.rows * tile_.columns);
    TRY(draft_.ForEachRow(grid, cost, cx_.serial,
                          [&](const Index& at) { return EmitTile(at, grid.back()); }));
    Finish(cx_, draft_, body_, steps);
    return {};
  }

 private:
  // All dimensions but those two, then the tiles. What is left at an end is one more tile, which
  // overlaps the last whole one: whoever stores that one stores it, too, so that no two threads
  // store the same element.
  Dims Grid() {
    Dims grid;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (d == tile_.across || d == tile_.along) continue;
      outer_.push_back(d);
      grid.push_back(dims_[d]);
    }
    int64_t tiles = dims_[tile_.across] / tile_.rows;
    int64_t band = BandOf(tiles, dims_[tile_.across] * ByteWidth(type_), cx_.target.page_bytes);
    grid.push_back(tiles / band);
    grid.push_back(dims_[tile_.along] / tile_.columns);
    grid.push_back(band);
    return grid;
  }

  // Where tile number `number` begins; the last may be two of them, by a loop that stays open.
  Coord Start(const Coord& number, int64_t step, int64_t all) {
    if (all % step == 0) return {b_.Mul(number.base, b_.Int(step)), 0, step, 0, all - step};
    ValueId last = b_.Emit(program::Op::kEq, {number.base, b_.Int(all / step - 1)});
    ValueId end = b_.Add(number.base, b_.Select(last, b_.Int(2), b_.Int(1)));
    ValueId n = b_.BeginLoop(LoopKind::kSerial, number.base, end, b_.Int(1))[0];
    ++open_;
    return {b_.Min(b_.Mul(n, b_.Int(step)), b_.Int(all - step)), 0, 1, 0, all - step};
  }

  Status EmitTile(const Index& at, int64_t band) {
    if (!direct_) array_ = b_.Array("tile", compute_, tile_.rows * tile_.columns);
    open_ = 0;
    size_t tiles = at.coords.size() - 3;  // the first coordinate of tiles
    Coord number = AddCoords(e_, ScaleCoord(e_, at.coords[tiles], band), at.coords.back());
    i0_ = Start(number, tile_.rows, dims_[tile_.across]);
    j0_ = Start(at.coords[tiles + 1], tile_.columns, dims_[tile_.along]);
    Index index;
    index.coords.resize(dims_.size());
    for (size_t k = 0; k < outer_.size(); ++k) index.coords[outer_[k]] = at.coords[k];
    TRY(Fill(index));
    if (!direct_) TRY(Drain(index));
    for (; open_ > 0; --open_) b_.End();
    return {};
  }

  // Into the tile, `turned_` rows of the operand at a time. The last may overlap those before.
  Status Fill(Index index) {
    int64_t columns = tile_.columns;
    ValueId j = b_.BeginLoop(LoopKind::kSerial, b_.Int(0), b_.Int(columns), b_.Int(turned_))[0];
    bool whole = columns % turned_ == 0;
    if (!whole) j = b_.Min(j, b_.Int(columns - turned_));
    e_.lanes = static_cast<int>(turned_);
    for (int64_t next = 0; next < tile_.rows; next += turned_) {
      int64_t i = std::min(next, tile_.rows - turned_);
      TRY(FillSquare(index, i, {j, 0, whole ? turned_ : 1, 0, columns - turned_}));
    }
    e_.lanes = 1;
    b_.End();
    return {};
  }

  // Rows [i, i + turned_) of the tile, at the columns from `along` on.
  Status FillSquare(Index& index, int64_t i, const Coord& along) {
    std::vector<ValueId> vectors, imaginary;
    auto whole_vector = [&](ValueId v) {
      return b_.type(v).lanes == turned_ ? v : b_.Splat(v, static_cast<int>(turned_));
    };
    for (int64_t u = 0; u < turned_; ++u) {
      index.coords[tile_.along] = AddConstant(e_, AddCoords(e_, j0_, along), u);
      Coord across = AddConstant(e_, i0_, i);
      across.step = turned_ > 1 ? 1 : 0;
      across.high = dims_[tile_.across] - 1;
      index.coords[tile_.across] = across;
      Element element = TRY(EmitElement(e_, *transpose_.operand(0), InOperand(index)));
      vectors.push_back(whole_vector(element.re));
      if (element.im >= 0) imaginary.push_back(whole_vector(element.im));
    }
    if (turned_ > 1) TurnGroups(b_, vectors);
    if (turned_ > 1 && !imaginary.empty()) TurnGroups(b_, imaginary);
    for (int64_t u = 0; u < turned_; ++u) {
      ValueId vector = vectors[static_cast<size_t>(u)];
      if (!direct_) {
        b_.Store(array_, b_.Add(along.base, b_.Int((i + u) * tile_.columns)), vector);
        continue;
      }
      index.coords[tile_.across] = AddConstant(e_, i0_, i + u);
      index.coords[tile_.along] =
          AddCoords(e_, j0_, {along.base, turned_ > 1 ? 1 : 0, 1, 0, tile_.columns - turned_});
      ValueId im = imaginary.empty() ? -1 : imaginary[static_cast<size_t>(u)];
      StoreAt(e_, draft_.MemoryOf(body_.outputs[0].value), type_, LinearCoord(e_, dims_, index),
              {vector, im});
    }
    return {};
  }

  Index InOperand(const Index& index) const {
    const auto& from = transpose_.attrs<hlo::DimensionsAttrs>().dimensions;
    Index moved;
    moved.coords.resize(dims_.size());
    for (size_t d = 0; d < dims_.size(); ++d) {
      moved.coords[static_cast<size_t>(from[d])] = index.coords[d];
    }
    return moved;
  }

  // Out of the tile, row by row.
  Status Drain(Index index) {
    int64_t rows = tile_.rows, columns = tile_.columns;
    ValueId i = b_.BeginLoop(LoopKind::kSerial, b_.Int(0), b_.Int(rows), b_.Int(1))[0];
    index.coords[tile_.across] = AddCoords(e_, i0_, {i, 0, 1, 0, rows - 1});
    int lanes = draft_.LanesFor(shape_.width, columns);
    TRY(draft_.OverLanes(columns, lanes, shape_.in_place, [&](Coord c) -> Status {
      index.coords[tile_.along] = AddCoords(e_, j0_, c);
      e_.BindAt(transpose_, array_, [&](const Index&) {
        return AddCoords(e_, ScaleCoord(e_, {i, 0, 1, 0, rows - 1}, columns), c);
      });
      std::vector<Element> values;
      for (const KernelOutput& output : body_.outputs) {
        values.push_back(TRY(EmitElement(e_, *output.inside, index)));
      }
      for (size_t k = 0; k < body_.outputs.size(); ++k) {
        MemValue to = body_.outputs[k].value;
        StoreAt(e_, draft_.MemoryOf(to), cx_.memory.shape(to).dtype(),
                LinearCoord(e_, dims_, index), values[k]);
      }
      return {};
    }));
    b_.End();
    return {};
  }

  LowerContext& cx_;
  const KernelBody& body_;
  const Instruction& transpose_;
  const Dims& dims_;
  DType type_, compute_;
  TileDims tile_;
  int64_t turned_;
  KernelDraft draft_;
  KernelBuilder& b_;
  ElementContext& e_;
  LoopShape shape_;
  bool direct_ = false;
  std::vector<size_t> outer_;
  KernelBuilder::MemoryId array_ = -1;
  Coord i0_, j0_;  // where the tile begins, in the result
  int open_ = 0;   // loops over a tile and what is left
};

Status LowerTiles(Subject& subject) {
  return TransposeByTiles(subject).Lower(subject.steps);
}

}  // namespace

extern constinit const LoweringRow kTiles = {"transpose by tiles", {}, MatchTiles, LowerTiles};

}  // namespace weft::compiler
