// How a call of attention is cut: tasks, panels of queries, blocks of keys. It depends on the sizes
// alone, never on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "program/library.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {

// Where something begins in each operand, in elements.
struct AttentionPlaces {
  int64_t q = 0, k = 0, v = 0, bias = 0, mask = 0, out = 0;
  int64_t position = 0;  // of the query, along the axis that bounds are about
  int64_t row = 0;       // its number
  int64_t dout = 0, dq = 0, dk = 0, dv = 0;

  AttentionPlaces operator+(const AttentionPlaces& o) const {
    return {q + o.q,
            k + o.k,
            v + o.v,
            bias + o.bias,
            mask + o.mask,
            out + o.out,
            position + o.position,
            row + o.row,
            dout + o.dout,
            dq + o.dq,
            dk + o.dk,
            dv + o.dv};
  }
};

struct AttentionPlan {
  static constexpr int64_t kMostChunk = 16 * program::SumOrder::kBlock;  // keys added up in f32
  // Enough for the threads of most machines.
  static constexpr int64_t kManyTasks = 8 * program::TargetFacts::kUsualThreads;

  program::AttentionForm form;
  DType q = DType::kF32, k = DType::kF32, v = DType::kF32, bias = DType::kF32, out = DType::kF32;

  // Axes along which keys or values differ; queries along the others meet the same ones, and are
  // the columns of a product.
  std::vector<size_t> outer_axes, column_axes;
  int64_t outers = 1, columns = 1;

  bool few = false;     // columns: keys and values are read where they lie, once
  int64_t width = 0;    // columns of a panel
  int64_t panels = 0;   // of each outer
  int64_t at_once = 1;  // panels that go through the keys together
  int64_t rows = 0;     // keys, or values, of a tile
  int64_t key_block = 0;
  int64_t chunk = 0, chunks = 1;  // of keys: what a task goes through; several are combined

  int64_t value_rows() const { return (form.values + rows - 1) / rows * rows; }
  int64_t key_groups() const { return (form.keys + rows - 1) / rows; }
  int64_t groups() const { return (panels + at_once - 1) / at_once; }  // of panels, of each outer
  bool has_bounds() const { return form.bounds_first() || form.bounds_last(); }

  AttentionPlaces Outer(int64_t index) const { return PlacesAt(outer_axes, index); }
  AttentionPlaces Column(int64_t index) const { return PlacesAt(column_axes, index); }

 private:
  AttentionPlaces PlacesAt(const std::vector<size_t>& axes, int64_t index) const;
};

// Statistics and gradients are of panels alone.
AttentionPlan PlanAttention(const program::AttentionForm& form, bool may_be_few);

}  // namespace weft::cpu
