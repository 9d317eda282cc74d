// Library routines: what `call "name"(...)` means for the names known here. Backends may know more;
// a routine that is not listed verifies, and runs where somebody implements it.
//
// gemm       (read a, read b, write|update c) {m, n, k [, batch = 1] [, trans_a = false]
//            [, trans_b = false] [, alpha = 1.0] [, beta = 0.0]}
//            c = alpha * op(a) op(b) + beta * c for each of the batch, row-major: op(a) is m x k,
//            op(b) is k x n, c is m x n. Sums are in f64 for f64, wrap for integers, else in f32.
// device_id  (write u32 or s32 scalar): the number of the device that runs the step.
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

}  // namespace weft::program
