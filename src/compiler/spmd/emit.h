// Instructions of one device's program: the collectives and local cuts that reshardings are made
// of.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/passes/rewrite.h"
#include "compiler/spmd/form.h"
#include "hlo/builder.h"

namespace weft::compiler::spmd {

// What is one for the program: its mesh, its channels, its scalar functions.
struct ProgramState {
  hlo::Module& module;
  const DeviceMesh& mesh;
  int64_t replicas = 1;
  int64_t next_channel = 1;
  ScalarFunctions functions{module};
};

// Whether a Literal's zero adds nothing: of f8e8m0fnu it is the least number that there is.
inline bool HasZero(DType dtype) {
  return dtype != DType::kF8E8M0FNU;
}
// What puts elements together of which one device has each, and the others zeroes.
inline hlo::ReductionKind WithZeroes(DType dtype) {
  return HasZero(dtype) ? hlo::ReductionKind::kSum : hlo::ReductionKind::kMax;
}

// Adds instructions to the end of one computation.
class Emitter {
 public:
  Emitter(ProgramState& state, hlo::Computation& into) : state_(state), into_(into) {}

  const DeviceMesh& mesh() const { return state_.mesh; }
  ProgramState& state() { return state_; }
  hlo::Computation& into() { return into_; }
  hlo::Builder builder() { return hlo::Builder(into_, nullptr, like_); }
  // Instructions get this one's metadata; null: none.
  void SetLike(const hlo::Instruction* like) { like_ = like; }

  // This device's number along axes, s32[].
  Result<hlo::Instruction*> IndexAlong(AxisSpan axes);
  // The value at this device's number along axes, s32[].
  Result<hlo::Instruction*> LookUp(AxisSpan axes, std::span<const int64_t> values);
  // This device's part of dimension `dim` when it is cut by axes; filled up with zeroes where the
  // size does not divide.
  Result<hlo::Instruction*> Cut(hlo::Instruction* x, int64_t dim, AxisSpan axes);
  Result<hlo::Instruction*> PadTo(hlo::Instruction* x, int64_t dim, int64_t size);
  // The part at its place of a whole of `size`, zeroes elsewhere: what Cut undoes.
  Result<hlo::Instruction*> Place(hlo::Instruction* x, int64_t dim, int64_t size, AxisSpan axes);
  Result<hlo::Instruction*> SliceAlong(hlo::Instruction* x, int64_t dim, int64_t begin,
                                       int64_t end);
  Result<hlo::Instruction*> TrimTo(hlo::Instruction* x, int64_t dim, int64_t size);
  // Elements of the part that are beyond the whole's `size` become `fill`, a scalar.
  Result<hlo::Instruction*> MaskPadding(hlo::Instruction* x, int64_t dim, int64_t size,
                                        AxisSpan axes, hlo::Instruction* fill);

  Result<hlo::Instruction*> AllGather(hlo::Instruction* x, int64_t dim, AxisSpan axes);
  Result<hlo::Instruction*> AllReduce(hlo::Instruction* x, AxisSpan axes,
                                      hlo::Computation* function);
  Result<hlo::Instruction*> ReduceScatter(hlo::Instruction* x, int64_t dim, AxisSpan axes,
                                          hlo::Computation* function);
  // Parts along `cut` go to the devices, those that come are joined along `join`.
  Result<hlo::Instruction*> AllToAll(hlo::Instruction* x, int64_t cut, int64_t join, AxisSpan axes);
  Result<hlo::Instruction*> Permute(hlo::Instruction* x, hlo::IntPairs pairs);
  // The value that one device has, on all.
  Result<hlo::Instruction*> Broadcast(hlo::Instruction* x, int64_t device);

 private:
  hlo::ReplicaGroups GroupsOf(AxisSpan axes, bool all_replicas) const;
  Result<hlo::Instruction*> ByDevice(Literal table);
  void Fill(hlo::CollectiveAttrs& attrs, AxisSpan axes, bool global);

  ProgramState& state_;
  hlo::Computation& into_;
  const hlo::Instruction* like_ = nullptr;
  hlo::Instruction* device_ = nullptr;  // partition-id
  std::vector<std::pair<AxisList, hlo::Instruction*>> indices_;
};

}  // namespace weft::compiler::spmd
