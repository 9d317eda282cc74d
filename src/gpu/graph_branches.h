// Two branches of a graph while it is captured: kernels of one block, such as those that count
// rounds, run beside steps that have nothing to do with them.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "gpu/cuda_stream.h"
#include "program/program.h"

namespace weft::gpu {

class GraphBranches {
 public:
  // `main` is being captured; `side` becomes part of that when it is first used.
  GraphBranches(const program::Program& program, CudaStream& main, CudaStream& side)
      : program_(program), streams_{&main, &side} {}

  // Where a step goes that uses this memory: behind all that it depends on.
  Result<CudaStream*> StreamFor(std::span<const program::Use> uses, bool beside);
  // The main branch goes on behind both.
  Status Join();

 private:
  Status WaitForOther(size_t branch);
  bool Conflicts(std::span<const program::Use> uses, size_t other) const;

  const program::Program& program_;
  CudaStream* const streams_[2];
  // Of a branch, what the other one has not waited for.
  std::vector<program::Use> pending_[2];
  bool forked_ = false;
};

}  // namespace weft::gpu
