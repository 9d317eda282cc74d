// Library routines: what `call "name"(...)` means for the names known here. Backends may know more;
// a routine that is not listed verifies, and runs where somebody implements it.
//
// gemm       (read a, read b, write|update c) {m, n, k [, batch = 1] [, trans_a = false]
//            [, trans_b = false] [, alpha = 1.0] [, beta = 0.0]}
//            c = alpha * op(a) op(b) + beta * c for each of the batch, row-major: op(a) is m x k,
//            op(b) is k x n, c is m x n. Any floats, any integers, or one complex type (nothing
//            is conjugated). Sums are in f64 for f64 and c128, wrap for integers, else in f32.
// device_id  (write u32 or s32 scalar): the number of the device that runs the step.
// sort       (read x0, x1, ..., write y0, y1, ...) {n [, outer = 1] [, inner = 1] [, order = "asc"]
//            [, keys = 1] [, zeros_equal = false] [, nans_equal = false] [, comparator = "kernel"]}
//            Operands are [outer, n, inner]; sorts the tuples of all operands along n, stably. By
//            the first `keys` operands, the earlier ones first: integers and pred by value, floats
//            in total order (-NaN, -inf, ..., -0, 0, ..., inf, NaN), where zeros_equal makes -0 and
//            0 one value and nans_equal makes all NaN one value above the others (JAX sorts with
//            both); "desc" is the opposite order. Or by a kernel (read a0, b0, a1, b1, ..., write
//            pred) of one element each (complex: two reals) that says whether tuple a goes before
//            tuple b; the order is open where that is not a strict weak order.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "program/program.h"

namespace weft::program {

struct Routine {
  std::string_view name;
  Status (*verify)(const Program& program, const Step& step);
  int64_t (*cost)(const Program& program, const Step& step);  // in interpreter instructions
  // One span for each use, in order.
  Status (*interpret)(const Program& program, const Step& step, int64_t device,
                      std::span<const std::span<std::byte>> memory);
};
const Routine* FindRoutine(std::string_view name);  // null if not known here

// An attribute by name; the default if it is absent or of another kind.
int64_t IntAttr(const LibraryStep& call, std::string_view name, int64_t otherwise);
double DoubleAttr(const LibraryStep& call, std::string_view name, double otherwise);
bool BoolAttr(const LibraryStep& call, std::string_view name, bool otherwise);
std::string_view StringAttr(const LibraryStep& call, std::string_view name,
                            std::string_view otherwise);
const std::vector<int64_t>* IntsAttr(const LibraryStep& call, std::string_view name);  // or null

}  // namespace weft::program
