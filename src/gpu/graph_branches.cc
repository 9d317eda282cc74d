#include "gpu/graph_branches.h"

#include <algorithm>

namespace weft::gpu {

Status GraphBranches::WaitForOther(size_t branch) {
  const size_t other = 1 - branch;
  const CudaCore& core = *streams_[0]->core();
  void* event = TRY(streams_[0]->core()->TakeEvent());
  Status status = core.cuda->Check(core.cuda->EventRecord(event, streams_[other]->handle()),
                                   "a branch of a graph");
  if (status) {
    status = core.cuda->Check(core.cuda->StreamWaitEvent(streams_[branch]->handle(), event, 0),
                              "a branch of a graph");
  }
  streams_[0]->core()->KeepEvent(event);
  pending_[other].clear();
  return status;
}

bool GraphBranches::Conflicts(std::span<const program::Use> uses, size_t other) const {
  return std::ranges::any_of(uses, [&](const program::Use& use) {
    program::Slice slice = Resolve(program_, use.slice);
    return std::ranges::any_of(pending_[other], [&](const program::Use& before) {
      return (Writes(use.access) || Writes(before.access)) && Overlap(slice, before.slice);
    });
  });
}

Result<CudaStream*> GraphBranches::StreamFor(std::span<const program::Use> uses, bool beside) {
  const size_t branch = beside ? 1 : 0;
  bool fork = beside && !forked_;
  if (fork || Conflicts(uses, 1 - branch)) TRY(WaitForOther(branch));
  forked_ |= fork;
  for (program::Use use : uses) {
    use.slice = Resolve(program_, use.slice);
    pending_[branch].push_back(use);
  }
  return streams_[branch];
}

Status GraphBranches::Join() {
  return forked_ ? WaitForOther(0) : Status();
}

}  // namespace weft::gpu
