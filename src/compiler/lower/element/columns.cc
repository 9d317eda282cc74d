// Lanes that go down the columns of an array of short rows: whole rows are read (or written), and
// turned between rows and columns in registers. What all columns have in common is read once.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/lower/element/memory.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

namespace {

constexpr int64_t kLongestRow = program::CodeBounds::kShortLoop;  // elements

// Lanes 0, 1, .. of every group of `size` lanes of a and b in turn: from its first half or second.
ValueId Zip(KernelBuilder& b, ValueId x, ValueId y, int size, bool second) {
  int lanes = b.type(x).lanes;
  std::vector<int32_t> from;
  for (int group = 0; group < lanes; group += size) {
    for (int k = 0; k < size / 2; ++k) {
      int32_t lane = group + k + (second ? size / 2 : 0);
      from.insert(from.end(), {lane, lanes + lane});
    }
  }
  return b.Shuffle(x, y, from);
}

// The lanes of both, one after the other.
ValueId Join(KernelBuilder& b, ValueId x, ValueId y) {
  std::vector<int32_t> from(static_cast<size_t>(2 * b.type(x).lanes));
  std::iota(from.begin(), from.end(), 0);
  return b.Shuffle(x, y, from);
}

ValueId JoinAll(KernelBuilder& b, std::vector<ValueId> parts) {
  while (parts.size() > 1) {
    std::vector<ValueId> next;
    for (size_t k = 0; k < parts.size(); k += 2) next.push_back(Join(b, parts[k], parts[k + 1]));
    parts = std::move(next);
  }
  return parts[0];
}

bool LieTogether(int64_t length, int lanes) {
  return (length == 2 || length == 4) && length * lanes <= program::kMaxLanes;
}

int TurnedAtOnce(int64_t length, int lanes) {
  return length >= program::TargetFacts::kNarrowLanes &&
                 lanes % program::TargetFacts::kNarrowLanes == 0
             ? program::TargetFacts::kNarrowLanes
             : 2;
}

// `size` elements of a row, from column `first` on, of rows `begin`, `begin` + size, ..
ValueId PiecesOfRows(ElementContext& e, KernelBuilder::MemoryId memory, ValueId begin,
                     int64_t length, int64_t first, int size) {
  std::vector<ValueId> pieces;
  for (int64_t row = 0; row < e.lanes; row += size) {
    pieces.push_back(e.b.Load(memory, e.b.Add(begin, e.b.Int(row * length + first)), size));
  }
  return JoinAll(e.b, std::move(pieces));
}

}  // namespace

void TurnGroups(KernelBuilder& b, std::span<ValueId> v) {
  int size = static_cast<int>(v.size());
  for (int round = 1; round < size; round *= 2) {
    std::vector<ValueId> next;
    for (size_t k = 0; k < v.size() / 2; ++k) {
      for (bool second : {false, true}) {
        next.push_back(Zip(b, v[k], v[k + v.size() / 2], size, second));
      }
    }
    std::copy(next.begin(), next.end(), v.begin());
  }
}

ValueId LoadColumn(ElementContext& e, KernelBuilder::MemoryId memory, const Coord& at) {
  int64_t length = at.step;
  if (e.lanes < 2 || at.each != 1 || e.b.type(at.base).lanes > 1) return -1;
  if (length < 2 || length == 3 || length > kLongestRow) return -1;
  int64_t modulus = std::max(at.modulus, at.multiple);
  int64_t column = at.modulus >= at.multiple ? at.residue % length : 0;
  // All of the rows must lie in memory.
  if (modulus % length != 0 || at.low < column) return -1;
  if (at.high - column + length - 1 >= e.b.count(memory)) return -1;
  ValueId origin = at.origin >= 0 ? at.origin : at.base;
  ValueId begin = e.b.Add(origin, e.b.Int(at.offset - column));
  // The whole of a square array was likely stored row by row, and no wider load finds that in the
  // store buffer.
  bool square = e.lanes == length && e.b.IntConstant(begin);
  if (LieTogether(length, e.lanes) && !square) {
    ValueId rows = e.b.Load(memory, begin, static_cast<int>(length) * e.lanes);
    std::vector<int32_t> from;
    for (int64_t lane = 0; lane < e.lanes; ++lane) {
      from.push_back(static_cast<int32_t>(lane * length + column));
    }
    return e.b.Shuffle(rows, rows, from);
  }
  int size = TurnedAtOnce(length, e.lanes);
  int64_t first = std::min<int64_t>(column - column % size, length - size);
  std::array<ValueId, program::TargetFacts::kNarrowLanes> turned = {};
  for (int row = 0; row < size; ++row) {
    ValueId from = e.b.Add(begin, e.b.Int(row * length));
    turned[static_cast<size_t>(row)] = PiecesOfRows(e, memory, from, length, first, size);
  }
  TurnGroups(e.b, std::span(turned.data(), static_cast<size_t>(size)));
  return turned[static_cast<size_t>(column - first)];
}

void StoreColumns(ElementContext& e, KernelBuilder::MemoryId memory, ValueId begin,
                  std::span<const ValueId> columns) {
  int64_t length = static_cast<int64_t>(columns.size());
  if (LieTogether(length, e.lanes)) {
    std::vector<int32_t> from;
    for (int64_t place = 0; place < length * e.lanes; ++place) {
      from.push_back(static_cast<int32_t>(place % length * e.lanes + place / length));
    }
    size_t half = columns.size() / 2;
    ValueId x = JoinAll(e.b, {columns.begin(), columns.begin() + static_cast<int64_t>(half)});
    ValueId y = JoinAll(e.b, {columns.begin() + static_cast<int64_t>(half), columns.end()});
    e.b.Store(memory, begin, e.b.Shuffle(x, y, from));
    return;
  }
  int size = TurnedAtOnce(length, e.lanes);
  for (int64_t first = 0; first < length; first += size) {
    first = std::min<int64_t>(first, length - size);
    std::vector<ValueId> turned(columns.begin() + first, columns.begin() + first + size);
    TurnGroups(e.b, turned);
    for (int64_t row = 0; row < e.lanes; ++row) {
      ValueId piece = turned[static_cast<size_t>(row % size)];
      if (e.lanes > size) {
        std::vector<int32_t> from(static_cast<size_t>(size));
        std::iota(from.begin(), from.end(), static_cast<int32_t>(row - row % size));
        piece = e.b.Shuffle(piece, piece, from);
      }
      e.b.Store(memory, e.b.Add(begin, e.b.Int(row * length + first)), piece);
    }
  }
}

}  // namespace weft::compiler
