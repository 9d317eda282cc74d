// The shapes of loops for GPUs: as many iterations of the grid as there are elements, one thread
// each.
#include <algorithm>

#include "compiler/lower/draft.h"
#include "program/target_gpu.h"

namespace weft::compiler {

using program::LoopKind;

// One iteration of a parallel nest for each index. Coordinates are the counters themselves, which
// cost a GPU less than dividing 64-bit numbers.
Status KernelDraft::ForEachOnGrid(const Dims& dims, bool flat, const Body& body, int lanes) {
  KernelBuilder& b = builder_;
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Index index;
  int open = 0;
  auto loop = [&](int64_t size) -> Coord {
    if (size == 1) return ConstantCoord(elements_, 0);
    ++open;
    return {b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(size), b.Int(1))[0], 0, 1};
  };
  if (flat) {
    index.is_linear = true;
    index.linear = loop(n / lanes);
    if (lanes > 1) {
      index.linear = {b.Mul(index.linear.base, b.Int(lanes)), 1, lanes, 0, n - 1};
      elements_.lanes = lanes;
    }
  } else {
    for (size_t d = 0; d < dims.size(); ++d) {
      bool by_lanes = lanes > 1 && d + 1 == dims.size();
      index.coords.push_back(loop(by_lanes ? dims[d] / lanes : dims[d]));
      if (!by_lanes) continue;
      Coord& minor = index.coords.back();
      minor = {b.Mul(minor.base, b.Int(lanes)), 1, lanes, 0, dims[d] - 1};
      elements_.lanes = lanes;
    }
  }
  TRY(body(index));
  elements_.lanes = 1;
  for (; open > 0; --open) b.End();
  return {};
}

// Elements that a thread takes at once: those of one access, where enough threads are left and
// little is computed. By rows, where they consist of whole ones and have no parts of their own.
int KernelDraft::GridLanes(const LoopShape& shape) const {
  constexpr double kCheap = 64;  // of an element, where four of them are computed at once
  int64_t n = 1;
  for (int64_t d : shape.dims) n *= d;
  if (shape.scalar || shape.dims.empty()) return 1;
  const int64_t minor = shape.dims[shape.dims.size() - 1];
  auto pays = [&](int64_t lanes) {
    bool whole = shape.flat ? n % lanes == 0
                            : minor % lanes == 0 && shape.cuts.empty() && shape.outer.empty();
    double cheap = lanes > 4 && shape.width > 2 ? kCheap / 2 : kCheap;
    const int64_t all = target_.cores * target_.threads_per_core;
    return whole && shape.cost <= cheap && n / lanes >= all / program::GpuFigures::kWideThreads;
  };
  int64_t computed = target_.AccessBytes() / std::max<int64_t>(shape.width, 1);
  // Arrays of 16 bits that are computed in f32: one access has twice as many of them.
  int64_t stored = target_.AccessBytes() / std::min(shape.width, WidestOf(n));
  for (int64_t lanes : {stored, computed}) {
    lanes = std::min<int64_t>(lanes, 8);
    if (lanes > 1 && pays(lanes)) return static_cast<int>(lanes);
  }
  return 1;
}

// Bytes of an element, in memory, of the widest array with n of them or more.
int64_t KernelDraft::WidestOf(int64_t n) const {
  int64_t widest = 0;
  for (const Parameter& p : parameters_) {
    const Shape& shape = program_.buffers[p.buffer].shape;
    if (shape.elements() >= n) widest = std::max<int64_t>(widest, ByteWidth(shape.dtype()));
  }
  // Those narrower than 16 bits are widened by several steps.
  return widest == 0 ? INT64_MAX : std::max<int64_t>(widest, 2);
}

}  // namespace weft::compiler
