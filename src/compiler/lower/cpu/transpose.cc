// Loop tiling. Loops with a transpose that changes the minor dimension, by tiles of a cache line in
// either direction: the operand's elements are computed along its own minor dimension, turned in
// registers, kept in a small array, and used along the result's minor dimension; or stored at once
// where that is all there is to do and the tile is narrow.
#include <algorithm>
#include <bit>

#include "compiler/analysis/tiles.h"
#include "compiler/lower/table.h"
#include "compiler/lower/tiled_transpose.h"

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
  constexpr int64_t kMaxBand = 8;  // tiles of a band
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

Status LowerTiles(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  Steps& steps = subject.steps;
  const Instruction& transpose = *TiledTranspose(body);
  const Instruction& operand = *transpose.operand(0);
  const Dims& dims = transpose.shape().dims();
  const auto& from = transpose.attrs<hlo::DimensionsAttrs>().dimensions;
  TileDims tile = *TiledDims(transpose);
  DType type = transpose.shape().dtype(), compute = program::ComputeType(RealType(type));
  int64_t rows = tile.rows, columns = tile.columns;
  int64_t turned = TurnedOf(rows, columns, ByteWidth(compute), operand);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  ElementEmitter& e = draft.elements();
  LoopShape shape = ShapeOf(cx, body, dims);
  // All dimensions but those two, then the tiles.
  Dims grid;
  std::vector<size_t> outer;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == tile.across || d == tile.along) continue;
    outer.push_back(d);
    grid.push_back(dims[d]);
  }
  // What is left at an end is one more tile, which overlaps the last whole one: whoever stores that
  // one stores it, too, so that no two threads store the same element.
  int64_t tiles = dims[tile.across] / rows;
  int64_t band = BandOf(tiles, dims[tile.across] * ByteWidth(type), cx.target.page_bytes);
  grid.push_back(tiles / band);
  grid.push_back(dims[tile.along] / columns);
  grid.push_back(band);
  double cost = shape.cost * static_cast<double>(rows * columns);
  // Few rows, or rows of few elements, are stored as soon as they are there; so are complex
  // numbers.
  bool few = rows < tile.most || columns < tile.most || IsComplex(type);
  bool direct = few && StoresAtOnce(body, transpose);
  KernelBuilder::MemoryId array = -1;
  TRY(draft.ForEachRow(grid, cost, cx.serial, [&](const Index& at) -> Status {
    if (!direct) array = b.Array("tile", compute, rows * columns);
    int open = 0;  // loops over a tile and what is left
    auto start = [&](const Coord& number, int64_t step, int64_t all) -> Coord {
      if (all % step == 0) return {b.Mul(number.base, b.Int(step)), 0, step, 0, all - step};
      ValueId last = b.Emit(program::Op::kEq, {number.base, b.Int(all / step - 1)});
      ValueId end = b.Add(number.base, b.Select(last, b.Int(2), b.Int(1)));
      ValueId n = b.BeginLoop(LoopKind::kSerial, number.base, end, b.Int(1))[0];
      ++open;
      return {b.Min(b.Mul(n, b.Int(step)), b.Int(all - step)), 0, 1, 0, all - step};
    };
    auto close = [&] {
      for (; open > 0; --open) b.End();
      return Status();
    };
    Coord number = e.Add(e.Scale(at.coords[grid.size() - 3], band), at.coords.back());
    Coord i0 = start(number, rows, dims[tile.across]);
    Coord j0 = start(at.coords[grid.size() - 2], columns, dims[tile.along]);
    Index index;
    index.coords.resize(dims.size());
    for (size_t k = 0; k < outer.size(); ++k) index.coords[outer[k]] = at.coords[k];
    // Into the tile, `turned` rows of the operand at a time. The last may overlap those before.
    ValueId j = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(columns), b.Int(turned))[0];
    bool whole = columns % turned == 0;
    if (!whole) j = b.Min(j, b.Int(columns - turned));
    e.set_lanes(static_cast<int>(turned));
    for (int64_t next = 0; next < rows; next += turned) {
      int64_t i = std::min(next, rows - turned);
      std::vector<ValueId> vectors, imaginary;
      auto whole_vector = [&](ValueId v) {
        return b.type(v).lanes == turned ? v : b.Splat(v, static_cast<int>(turned));
      };
      for (int64_t u = 0; u < turned; ++u) {
        Coord along = {j, 0, whole ? turned : 1, 0, columns - turned};
        index.coords[tile.along] = e.AddConstant(e.Add(j0, along), u);
        Coord across = e.AddConstant(i0, i);
        across.step = turned > 1 ? 1 : 0;
        across.high = dims[tile.across] - 1;
        index.coords[tile.across] = across;
        Index moved;
        moved.coords.resize(dims.size());
        for (size_t d = 0; d < dims.size(); ++d) {
          moved.coords[static_cast<size_t>(from[d])] = index.coords[d];
        }
        Element element = TRY(e.Emit(operand, moved));
        vectors.push_back(whole_vector(element.re));
        if (element.im >= 0) imaginary.push_back(whole_vector(element.im));
      }
      if (turned > 1) TurnGroups(b, vectors);
      if (turned > 1 && !imaginary.empty()) TurnGroups(b, imaginary);
      for (int64_t u = 0; u < turned; ++u) {
        ValueId vector = vectors[static_cast<size_t>(u)];
        if (!direct) {
          b.Store(array, b.Add(j, b.Int((i + u) * columns)), vector);
          continue;
        }
        index.coords[tile.across] = e.AddConstant(i0, i + u);
        index.coords[tile.along] = e.Add(j0, {j, turned > 1 ? 1 : 0, 1, 0, columns - turned});
        MemValue to = body.outputs[0].value;
        ValueId im = imaginary.empty() ? -1 : imaginary[static_cast<size_t>(u)];
        e.StoreAt(draft.MemoryOf(to), type, e.Linear(dims, index), {vector, im});
      }
    }
    e.set_lanes(1);
    b.End();
    if (direct) return close();
    // Out of it, row by row.
    ValueId i = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(rows), b.Int(1))[0];
    index.coords[tile.across] = e.Add(i0, {i, 0, 1, 0, rows - 1});
    int lanes = draft.LanesFor(shape.width, columns);
    TRY(draft.OverLanes(columns, lanes, shape.in_place, [&](Coord c) -> Status {
      index.coords[tile.along] = e.Add(j0, c);
      e.BindAt(transpose, array,
               [&](const Index&) { return e.Add(e.Scale({i, 0, 1, 0, rows - 1}, columns), c); });
      std::vector<Element> values;
      for (const KernelOutput& output : body.outputs) {
        values.push_back(TRY(e.Emit(*output.inside, index)));
      }
      for (size_t k = 0; k < body.outputs.size(); ++k) {
        MemValue to = body.outputs[k].value;
        e.StoreAt(draft.MemoryOf(to), cx.memory.shape(to).dtype(), e.Linear(dims, index),
                  values[k]);
      }
      return {};
    }));
    b.End();
    return close();
  }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kTiles = {"transpose by tiles", {}, MatchTiles, LowerTiles};

}  // namespace weft::compiler
