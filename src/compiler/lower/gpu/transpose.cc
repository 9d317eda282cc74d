// Transposes through tiles of shared memory: read along the operand's minor dimension, written
// along the result's, so that neighbouring threads access neighbouring elements both times.
#include <algorithm>

#include "compiler/analysis/tiles.h"
#include "compiler/lower/table.h"
#include "compiler/lower/tiled_transpose.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;
using program::Op;

namespace {

// Of a tile that threads take at once.
constexpr int64_t kTurnedRows =
    program::TargetFacts::kBlockThreads / 4 / program::TargetFacts::kWarpThreads;
// Elements of either dimension: fewer leave threads idle.
constexpr int64_t kLeastTurned = program::TargetFacts::kWarpThreads / 2;

Decision MatchSharedTiles(Subject& subject) {
  const KernelBody& body = subject.body();
  hlo::Op made = subject.producer().op();
  bool update = made == hlo::Op::kDynamicUpdateSlice && body.outputs.size() == 1;
  if (made == hlo::Op::kReduce || update) return Refuse("the result is a reduction or an update");
  if (subject.cx.serial) return Refuse("part of a loop that one thread runs");
  const Instruction* transpose = TiledTranspose(body);
  if (transpose == nullptr) {
    return Refuse("there is no one transpose whose results are used as they lie");
  }
  if (IsComplex(transpose->shape().dtype())) return Refuse("complex numbers");
  TileDims tile = *TiledDims(*transpose);
  const Dims& dims = transpose->shape().dims();
  if (std::min(dims[tile.across], dims[tile.along]) < kLeastTurned) {
    return Refuse("one of the dimensions is short");
  }
  return Take("a transpose changes the minor dimension");
}

class SharedTiles {
 public:
  SharedTiles(Subject& subject, KernelDraft& draft, const Instruction& transpose)
      : cx_(subject.cx),
        body_(subject.body()),
        draft_(draft),
        e_(draft.elements()),
        b_(draft.builder()),
        transpose_(transpose),
        dims_(transpose.shape().dims()),
        tile_(*TiledDims(transpose)),
        side_(cx_.target.warp) {}

  Status Emit() {
    // All dimensions but those two, then the tiles.
    Dims grid;
    std::vector<size_t> outer;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (d == tile_.across || d == tile_.along) continue;
      outer.push_back(d);
      grid.push_back(dims_[d]);
    }
    grid.push_back((dims_[tile_.across] + side_ - 1) / side_);
    grid.push_back((dims_[tile_.along] + side_ - 1) / side_);
    return draft_.ForEachOnGrid(grid, false, [&](const Index& at) -> Status {
      Index index;
      index.coords.resize(dims_.size());
      for (size_t k = 0; k < outer.size(); ++k) index.coords[outer[k]] = at.coords[k];
      across_ = b_.Mul(at.coords[outer.size()].base, b_.Int(side_));
      along_ = b_.Mul(at.coords[outer.size() + 1].base, b_.Int(side_));
      DType type = program::ComputeType(transpose_.shape().dtype());
      // One more column: threads that go down one find their elements in banks of their own.
      array_ = b_.Array("tile", type, side_ * (side_ + 1));
      TRY(Fill(index));
      return Drain(index);
    });
  }

 private:
  // For each element of the tile: threads side by side along one dimension, rows of the other.
  Status ForEachElement(Index index, bool along,
                        const std::function<Status(const Index&, ValueId place)>& body) {
    ValueId y = b_.BeginLoop(LoopKind::kThread, b_.Int(0), b_.Int(kTurnedRows), b_.Int(1))[0];
    ValueId x = b_.BeginLoop(LoopKind::kThread, b_.Int(0), b_.Int(side_), b_.Int(1))[0];
    ValueId i = b_.BeginLoop(LoopKind::kUnroll, b_.Int(0), b_.Int(side_), b_.Int(kTurnedRows))[0];
    ValueId row = b_.Add(i, y), l = along ? x : row, a = along ? row : x;
    ValueId inside = -1;
    auto coordinate = [&](size_t d, ValueId first, ValueId within) {
      ValueId c = b_.Add(first, within);
      index.coords[d] = {c, 0, 1, 0, dims_[d] - 1};
      if (dims_[d] % side_ == 0) return;
      ValueId below = b_.Emit(Op::kLt, {c, b_.Int(dims_[d])});
      inside = inside < 0 ? below : b_.Emit(Op::kAnd, {inside, below});
    };
    coordinate(tile_.across, across_, a);
    coordinate(tile_.along, along_, l);
    if (inside >= 0) b_.BeginIf(inside);
    TRY(body(index, b_.Add(b_.Mul(l, b_.Int(side_ + 1)), a)));
    if (inside >= 0) b_.End();
    for (int loops = 0; loops < 3; ++loops) b_.End();
    return {};
  }

  Status Fill(const Index& tile) {
    const auto& from = transpose_.attrs<hlo::DimensionsAttrs>().dimensions;
    return ForEachElement(tile, false, [&](const Index& index, ValueId place) -> Status {
      Index moved;
      moved.coords.resize(dims_.size());
      for (size_t d = 0; d < dims_.size(); ++d) {
        moved.coords[static_cast<size_t>(from[d])] = index.coords[d];
      }
      b_.Store(array_, place, TRY(EmitElement(e_, *transpose_.operand(0), moved)).re);
      return {};
    });
  }

  Status Drain(const Index& tile) {
    return ForEachElement(tile, true, [&](const Index& index, ValueId place) -> Status {
      int64_t places = side_ * (side_ + 1);
      e_.BindAt(transpose_, array_,
                [=](const Index&) { return Coord{place, 0, 1, 0, places - 1}; });
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
    });
  }

  LowerContext& cx_;
  const KernelBody& body_;
  KernelDraft& draft_;
  ElementContext& e_;
  KernelBuilder& b_;
  const Instruction& transpose_;
  const Dims& dims_;
  TileDims tile_;
  int64_t side_;
  ValueId across_ = -1, along_ = -1;
  KernelBuilder::MemoryId array_ = -1;
};

Status LowerSharedTiles(Subject& subject) {
  KernelDraft draft = NewDraft(subject.cx, subject.body());
  draft.Declare(subject.body().inputs, subject.body().outputs);
  TRY(SharedTiles(subject, draft, *TiledTranspose(subject.body())).Emit());
  Finish(subject.cx, draft, subject.body(), subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kSharedTiles = {
    "transpose by shared tiles", {}, MatchSharedTiles, LowerSharedTiles};

}  // namespace weft::compiler
