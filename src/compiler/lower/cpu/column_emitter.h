// Emits loops over the columns of a reduction that keeps the minor dimension, and over its rows.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "compiler/lower/cpu/reduce_ways.h"

namespace weft::compiler {

// The operand's dimensions: outer ones that are kept, reduced ones, and the columns.
struct ColumnDims {
  std::vector<size_t> outer, inner;
  Dims outer_sizes, inner_sizes;
  Dims lane_sizes;    // inner_sizes with 1 for a short minor dimension
  int64_t count = 1;  // of columns
  int64_t minor = 1;  // a minor dimension too short for lanes: one set of accumulators for each
};

class ColumnEmitter {
 public:
  ColumnEmitter(KernelDraft& draft, const KernelBody& body,
                std::span<const hlo::Instruction* const> reduces, const ReduceDims& dims,
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
  int64_t RowsOfRun() const { return kSumRun * (ByPairs() ? kAddedByPairs : 1); }
  // Whether accumulators of f64 are needed for so many.
  bool IsLongSum(int64_t rows) const { return rows > RowsOfRun() && HasSums(); }
  bool IsSum(size_t i) const { return sums_[i]; }

  // Calls body for columns [begin, end), lanes set.
  Status OverColumns(ValueId begin, ValueId end, const std::function<Status(Coord)>& body) {
    int64_t high = columns_.count - 1;
    if (lanes_ > 1) {
      ValueId j = b_.BeginLoop(program::LoopKind::kSerial, begin, b_.Sub(end, b_.Int(lanes_ - 1)),
                               b_.Int(lanes_))[0];
      e_.lanes = lanes_;
      TRY(body({j, 1, lanes_, 0, high}));
      e_.lanes = 1;
      b_.End();
    }
    if (lanes_ > 1 && columns_.count % lanes_ == 0) return {};
    ValueId size = b_.Sub(end, begin);
    ValueId rest = lanes_ == 1 ? begin : b_.Add(begin, b_.Sub(size, b_.Rem(size, b_.Int(lanes_))));
    ValueId j = b_.BeginLoop(program::LoopKind::kSerial, rest, end, b_.Int(1))[0];
    TRY(body({j, 0, 1, 0, high}));
    b_.End();
    return {};
  }

  // Rows [first, last), whose number divides by `divisor`, of the columns into the accumulators.
  Status Rows(const Index& outer, ValueId first, ValueId last, int64_t divisor, ValueId begin,
              ValueId end, std::span<const KernelBuilder::MemoryId> acc) {
    bool no_rest = divisor % kAddedByPairs == 0;
    ValueId size = b_.Sub(last, first);
    ValueId rest =
        no_rest ? last : b_.Add(first, b_.Sub(size, b_.Rem(size, b_.Int(kAddedByPairs))));
    for (int64_t count : {kAddedByPairs, int64_t{1}}) {
      if (count == 1 && no_rest) break;
      ValueId r = b_.BeginLoop(program::LoopKind::kSerial, count == 1 ? rest : first,
                               count == 1 ? last : rest, b_.Int(count))[0];
      std::vector<Index> rows;
      for (int64_t u = 0; u < count; ++u) {
        rows.push_back(RowIndex(outer, {b_.Add(r, b_.Int(u)), 0, 1, 0, dims_.length - 1}));
        TRY(EmitBroadcasts(rows.back()));
      }
      TRY(OverColumns(begin, end, [&](Coord j) -> Status {
        Coord at = AddCoords(e_, j, ScaleCoord(e_, {begin, 0, lanes_}, -1));
        for (int64_t c = 0; c < columns_.minor; ++c) {
          std::vector<Element> values = Load(Minor(acc, c), at);
          std::vector<std::vector<Element>> terms;
          for (Index& row : rows) {
            SetColumns(row, j, c);
            std::vector<Element>& next = terms.emplace_back();
            for (const hlo::Instruction* reduce : reduces_) {
              for (int64_t i = 0; i < reduce->operand_count() / 2; ++i) {
                next.push_back(TRY(EmitElement(e_, *reduce->operand(i), row)));
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
    ValueId r = b_.BeginLoop(program::LoopKind::kSerial, first, last, b_.Int(run))[0];
    ValueId to = b_.Add(r, b_.Int(run));
    if (divisor % run != 0) to = b_.Min(to, last);
    TRY(Rows(outer, r, to, std::gcd(divisor, run), begin, end, acc));
    TRY(OverColumns(begin, end, [&](Coord j) -> Status {
      Coord at = AddCoords(e_, j, ScaleCoord(e_, {begin, 0, lanes_}, -1));
      for (size_t i = 0; i < acc.size(); ++i) {
        size_t operand = i % reducer.operand_count();
        if (!sums_[operand]) continue;
        DType type = reducer.type(operand);
        Element sum = Widen(LoadAt(e_, acc[i], type, at)), all = LoadWide(wide[i], type, at);
        all.re = b_.Add(all.re, sum.re);
        if (sum.im >= 0) all.im = b_.Add(all.im, sum.im);
        StoreWide(wide[i], type, at, all);
        StoreAt(e_, acc[i], type, at, Nothing(type));
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
    return LoadAt(e_, wide, IsComplex(type) ? DType::kC128 : DType::kF64, at);
  }
  void StoreWide(KernelBuilder::MemoryId wide, DType type, const Coord& at, const Element& x) {
    StoreAt(e_, wide, IsComplex(type) ? DType::kC128 : DType::kF64, at, x);
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
      values.push_back(LoadAt(e_, memory[i], reducer.type(i), at));
    }
    return values;
  }
  void Store(std::span<const KernelBuilder::MemoryId> memory, const Coord& at,
             std::span<const Element> values) {
    for (size_t i = 0; i < memory.size(); ++i) {
      StoreAt(e_, memory[i], reducer.type(i), at, values[i]);
    }
  }

 private:
  Index RowIndex(const Index& outer, const Coord& r) {
    Index linear, index;
    linear.is_linear = true;
    linear.linear = r;
    Index reduced = Coordinates(e_, dims_.reduced_sizes, linear);
    index.coords.resize(full_.size(), ConstantCoord(e_, 0));
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
    Index inner = Coordinates(e_, columns_.lane_sizes, linear);
    for (size_t k = 0; k < columns_.inner.size(); ++k) {
      bool short_minor = columns_.lane_sizes[k] != columns_.inner_sizes[k];
      index.coords[columns_.inner[k]] = short_minor ? ConstantCoord(e_, c) : inner.coords[k];
    }
  }

  // What is the same in all columns is computed before the loop over them.
  Status EmitBroadcasts(const Index& row) {
    for (const hlo::Instruction* m : body_.members) {
      if (m->op() != hlo::Op::kBroadcast || m->shape().dims() != full_) continue;
      bool varies = false;
      const Dims& from = m->operand(0)->shape().dims();
      const auto& dims = m->attrs<hlo::BroadcastAttrs>().dimensions;
      for (size_t k = 0; k < from.size(); ++k) {
        varies |= from[k] > 1 && std::find(columns_.inner.begin(), columns_.inner.end(),
                                           static_cast<size_t>(dims[k])) != columns_.inner.end();
      }
      if (!varies) TRY(EmitElement(e_, *m, row));
    }
    return {};
  }

  ElementContext& e_;
  KernelBuilder& b_;
  const KernelBody& body_;
  std::span<const hlo::Instruction* const> reduces_;
  const ReduceDims& dims_;
  const ColumnDims& columns_;
  const Dims full_;
  int lanes_;
  std::vector<bool> sums_;  // for each operand
};

}  // namespace weft::compiler
