// From one sharding to another by the cheapest sequence of local cuts and collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "compiler/spmd/emit.h"
#include "compiler/spmd/form.h"
#include "program/target.h"

namespace weft::compiler::spmd {

// What it costs to move bytes between devices.
struct LinkModel {
  double bytes_per_second = 10e9;  // of one device, in or out
  double seconds = 5e-6;           // of any collective, before its first byte
  static LinkModel Of(const program::TargetInfo& target);
};

struct ReshardStep {
  enum class Kind : uint8_t { kCut, kAllGather, kAllToAll, kPermute, kAllReduce, kReduceScatter };
  Kind kind = Kind::kCut;
  int64_t dim = 0;     // that is cut, gathered or (all-to-all) joined
  int64_t to_dim = 0;  // all-to-all: that is cut
  AxisList axes;       // that take part
  Form after;
  std::string ToString(const DeviceMesh& mesh) const;  // "all-to-all {x} 0 -> 1"
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  double seconds = 0;
};

// The cheapest plan: a search over the forms in between. An array of this (whole) shape.
ReshardPlan PlanReshard(const Shape& shape, const Form& from, const Form& to,
                        const DeviceMesh& mesh, const LinkModel& link);
// Does it to the local part `x` of an array of shape `whole`.
Result<hlo::Instruction*> EmitReshard(Emitter& emitter, hlo::Instruction* x, const Shape& whole,
                                      const Form& from, const ReshardPlan& plan);
// Between orders of devices: who sends to whom. Orders are those of forms (empty: the mesh's).
hlo::IntPairs OrderPairs(const Form& from, const Form& to, const DeviceMesh& mesh);

}  // namespace weft::compiler::spmd
