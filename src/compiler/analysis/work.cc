#include "compiler/analysis/work.h"

#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/in_place.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

double WorkOfInstruction(const Instruction& instruction) {
  double cost = 0;
  switch (instruction.op()) {
    case Op::kWhile: {
      const auto& attrs = instruction.attrs<hlo::WhileAttrs>();
      return kLikelyTrips * (WorkOfComputation(*attrs.body) + WorkOfComputation(*attrs.condition));
    }
    case Op::kConditional:
      for (const hlo::Computation* c : instruction.called_computations()) {
        cost = std::max(cost, WorkOfComputation(*c));
      }
      return cost;
    case Op::kFusion: return WorkOfComputation(*instruction.attrs<hlo::FusionAttrs>().calls);
    case Op::kDot:
    case Op::kScaledDot: {
      const auto& attrs = instruction.attrs<hlo::DotAttrs>();
      double work = static_cast<double>(instruction.shape().elements());
      for (int64_t d : attrs.lhs_contracting_dims) {
        work *= static_cast<double>(instruction.operand(0)->shape().dim(d));
      }
      return work;
    }
    case Op::kConvolution:
      return static_cast<double>(instruction.shape().elements()) *
             static_cast<double>(instruction.operand(1)->shape().elements());
    case Op::kReduce: {
      cost = static_cast<double>(instruction.operand(0)->shape().elements());
      return cost;
    }
    case Op::kDynamicUpdateSlice:
      return static_cast<double>(instruction.operand(1)->shape().elements());
    case Op::kCholesky:
    case Op::kTriangularSolve: {
      const Shape& a = instruction.operand(0)->shape();
      return static_cast<double>(instruction.shape().elements()) *
             static_cast<double>(a.dim(a.rank() - 1));
    }
    case Op::kCustomCall: {
      // Factors of n x n matrices; of other calls nothing is known.
      if (instruction.operand_count() == 0 || !instruction.operand(0)->shape().IsArray()) break;
      const Shape& a = instruction.operand(0)->shape();
      double longest = 1;
      for (int64_t d : a.dims()) longest = std::max(longest, static_cast<double>(d));
      return static_cast<double>(a.elements()) * longest;
    }
    case Op::kSort: return 30 * static_cast<double>(instruction.operand(0)->shape().elements());
    default: break;
  }
  double elements = 0;
  ForEachLeaf(instruction.shape(), [&](const Shape& s) {
    if (!s.IsArray()) return;
    // Of narrow numbers more are computed at once.
    double width = std::clamp<double>(ByteWidth(RealType(s.dtype())), 1, 4);
    elements += static_cast<double>(s.elements()) * width / 4;
  });
  return elements * ElementCost(instruction);
}

double WorkOfComputation(const hlo::Computation& computation) {
  double cost = 0;
  for (const Instruction* i : computation) {
    if (!IsForwarding(*i) && !i->IsParameter() && !i->IsConstant()) cost += WorkOfInstruction(*i);
  }
  return cost;
}

double WorkOfReading(int64_t bytes, const program::TargetInfo& target) {
  // A vector of a cache in the time of an operation; memory's bandwidth is that of all cores.
  double in_cache = kWorkOfValue / static_cast<double>(sizeof(float));
  if (bytes <= target.l2_bytes) return in_cache * static_cast<double>(bytes);
  return static_cast<double>(bytes) * kWorkPerSecond / target.bytes_per_second;
}

}  // namespace weft::compiler
