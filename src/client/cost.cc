#include "client/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "hlo/computation.h"
#include "hlo/instruction.h"

namespace weft::client {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

double Elements(const Shape& shape) {
  if (shape.IsTuple()) {
    double sum = 0;
    for (const Shape& element : shape.elements_of_tuple()) sum += Elements(element);
    return sum;
  }
  return shape.IsArray() ? static_cast<double>(shape.elements()) : 0;
}

double Bytes(const Shape& shape) {
  return static_cast<double>(shape.ByteSize());
}

bool IsTranscendental(const Instruction& instruction) {
  return instruction.def().attrs == &hlo::kAttrsType<hlo::UnaryMathAttrs> ||
         instruction.op() == Op::kPower || instruction.op() == Op::kAtan2;
}

// Ops that only name or rearrange what is there.
bool IsFree(Op op) {
  switch (op) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kBitcast:
    case Op::kAfterAll:
    case Op::kOptBarrier: return true;
    default: return false;
  }
}

bool MovesOnly(Op op) {
  return op == Op::kCopy || op == Op::kConvert;
}

double DotFlops(const Instruction& dot) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  double depth = 1;
  for (int64_t d : attrs.lhs_contracting_dims) {
    depth *= static_cast<double>(dot.operand(0)->shape().dim(d));
  }
  return 2 * Elements(dot.shape()) * depth;
}

double ConvolutionFlops(const Instruction& conv) {
  const auto& attrs = conv.attrs<hlo::ConvolutionAttrs>();
  const Shape& kernel = conv.operand(1)->shape();
  double taps = static_cast<double>(kernel.dim(attrs.dim_labels.kernel_input));
  for (int64_t d : attrs.dim_labels.kernel_spatial) taps *= static_cast<double>(kernel.dim(d));
  return 2 * Elements(conv.shape()) * taps / static_cast<double>(attrs.batch_group_count);
}

// Ops that may write into their first operands.
bool UpdatesInPlace(Op op) {
  return op == Op::kScatter || op == Op::kDynamicUpdateSlice;
}
int64_t UpdatedOperands(const Instruction& update) {
  return update.op() == Op::kScatter ? update.operand_count() / 2 : 1;
}

// What an update in place reads and writes: the elements named, the updates, the indices.
double TouchedBytes(const Instruction& update) {
  double bytes = 0, updates = 0;
  int64_t first = UpdatedOperands(update);
  for (int64_t i = first; i < update.operand_count(); ++i)
    bytes += Bytes(update.operand(i)->shape());
  if (update.op() == Op::kScatter) ++first;  // the indices
  for (int64_t i = first; i < update.operand_count(); ++i) {
    if (update.op() == Op::kScatter || i == 1) updates += Bytes(update.operand(i)->shape());
  }
  return bytes + 2 * updates;
}

// Bytes that are copied because something else may hold what an update would write to.
double CopiedBytes(const Instruction& update) {
  const hlo::Module& module = *update.parent()->module();
  double bytes = 0;
  for (int64_t i = 0; i < UpdatedOperands(update); ++i) {
    const Instruction& value = *update.operand(i);
    bool donated = false;
    if (value.IsParameter() && update.parent() == module.entry()) {
      for (const auto& alias : module.config().input_output_alias) {
        donated |= alias.parameter == value.parameter_number();
      }
      for (const auto& donor : module.config().buffer_donors) {
        donated |= donor.parameter == value.parameter_number();
      }
    }
    bool own = donated || !(value.IsParameter() || value.IsConstant());
    if (!own || value.users().size() > 1) bytes += 2 * Bytes(value.shape());
  }
  return bytes;
}

double WindowElements(const Instruction& reduce) {
  double window = 1;
  for (const auto& dim : reduce.attrs<hlo::ReduceWindowAttrs>().window.dims) {
    window *= static_cast<double>(dim.size);
  }
  return window;
}

double LastDim(const Shape& shape) {
  return static_cast<double>(shape.dim(shape.rank() - 1));
}

class CostWalk {
 public:
  const CostAnalysis& Of(const Computation& computation) {
    auto [it, fresh] = known_.try_emplace(&computation);
    if (!fresh) return it->second;
    CostAnalysis sum;
    for (const Instruction* instruction : computation) Add(sum, Of(*instruction));
    return known_[&computation] = sum;
  }

 private:
  static void Add(CostAnalysis& to, const CostAnalysis& more, double times = 1) {
    to.flops += times * more.flops;
    to.dot_flops += times * more.dot_flops;
    to.transcendentals += times * more.transcendentals;
    to.bytes_accessed += times * more.bytes_accessed;
  }

  // Computations applied to elements: their operations, once for each.
  void AddApplied(CostAnalysis& cost, const Instruction& instruction, double times) {
    for (const Computation* called : instruction.called_computations()) {
      CostAnalysis one = Of(*called);
      one.bytes_accessed = 0;
      Add(cost, one, times);
    }
  }

  CostAnalysis OfDearestBranch(const Instruction& conditional) {
    CostAnalysis most;
    for (const Computation* called : conditional.called_computations()) {
      const CostAnalysis& one = Of(*called);
      if (one.flops + one.bytes_accessed > most.flops + most.bytes_accessed) most = one;
    }
    return most;
  }

  CostAnalysis Of(const Instruction& instruction) {
    CostAnalysis cost;
    Op op = instruction.op();
    if (IsFree(op)) return cost;
    double out = Elements(instruction.shape());
    double in = instruction.operand_count() > 0 ? Elements(instruction.operand(0)->shape()) : 0;
    cost.bytes_accessed = Bytes(instruction.shape());
    for (const Instruction* operand : instruction.operands()) {
      cost.bytes_accessed += Bytes(operand->shape());
    }
    switch (op) {
      case Op::kDot: cost.flops = cost.dot_flops = DotFlops(instruction); break;
      case Op::kConvolution: cost.flops = ConvolutionFlops(instruction); break;
      case Op::kReduce: AddApplied(cost, instruction, std::max(0.0, in - out)); break;
      case Op::kReduceWindow:
        AddApplied(cost, instruction, out * (WindowElements(instruction) - 1));
        break;
      case Op::kMap: AddApplied(cost, instruction, out); break;
      case Op::kScatter:
        cost.bytes_accessed = TouchedBytes(instruction);
        AddApplied(cost, instruction, Elements(instruction.operands().back()->shape()));
        break;
      case Op::kDynamicUpdateSlice: cost.bytes_accessed = TouchedBytes(instruction); break;
      case Op::kSelectAndScatter: AddApplied(cost, instruction, in); break;
      case Op::kSort: cost.flops = in * std::ceil(std::log2(std::max(in, 2.0))); break;
      case Op::kCholesky: cost.flops = out * LastDim(instruction.shape()) / 3; break;
      case Op::kTriangularSolve: cost.flops = out * LastDim(instruction.operand(0)->shape()); break;
      case Op::kFft: cost.flops = 4 * out * std::log2(std::max(out, 2.0)); break;
      case Op::kCall:
      case Op::kFusion:
      case Op::kWhile:
      case Op::kAsyncStart:
        if (op != Op::kFusion) cost.bytes_accessed = 0;
        for (const Computation* called : instruction.called_computations()) {
          CostAnalysis one = Of(*called);
          if (op == Op::kFusion) one.bytes_accessed = 0;
          Add(cost, one);
        }
        break;
      case Op::kConditional: cost = OfDearestBranch(instruction); break;
      default:
        if (IsTranscendental(instruction)) {
          cost.transcendentals = out;
        } else if (hlo::IsElementwise(op) && !MovesOnly(op)) {
          cost.flops = out;
        }
    }
    return cost;
  }

  std::unordered_map<const Computation*, CostAnalysis> known_;
};

// The most bytes alive at one time in a computation beyond its arguments and its result.
class LivenessWalk {
 public:
  double Of(const Computation& computation) {
    auto [it, fresh] = known_.try_emplace(&computation, 0);
    if (!fresh) return it->second;
    std::unordered_map<const Instruction*, int64_t> uses;  // not yet run
    for (const Instruction* instruction : computation) {
      uses[instruction] = static_cast<int64_t>(instruction->users().size());
    }
    if (computation.root() != nullptr) MarkResult(computation.root(), uses);
    double live = 0, most = 0;
    for (const Instruction* instruction : computation) {
      double inside = 0;
      for (const Computation* called : instruction->called_computations()) {
        inside = std::max(inside, Of(*called));
      }
      double own =
          Counts(*instruction) && uses[instruction] < kForever ? Bytes(instruction->shape()) : 0;
      live += own;
      most = std::max(most, live + inside);
      if (uses[instruction] == 0) live -= own;
      for (const Instruction* operand : Distinct(*instruction)) {
        int64_t& left = uses[operand];
        if (--left == 0 && Counts(*operand)) live -= Bytes(operand->shape());
      }
    }
    return known_[&computation] = most;
  }

 private:
  static constexpr int64_t kForever = int64_t{1} << 40;  // part of the result

  static bool Counts(const Instruction& instruction) {
    return !IsFree(instruction.op()) && !instruction.shape().IsTuple();
  }
  static void MarkResult(const Instruction* root,
                         std::unordered_map<const Instruction*, int64_t>& uses) {
    uses[root] = 2 * kForever;
    if (root->op() != Op::kTuple) return;
    for (const Instruction* operand : root->operands()) uses[operand] = 2 * kForever;
  }
  static std::vector<const Instruction*> Distinct(const Instruction& instruction) {
    std::vector<const Instruction*> out(instruction.operands().begin(),
                                        instruction.operands().end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  std::unordered_map<const Computation*, double> known_;
};

}  // namespace

CostAnalysis AnalyseCost(const hlo::Module& module) {
  CostWalk walk;
  // Callees stand first, so that no call goes deep.
  for (const auto& computation : module.computations()) walk.Of(*computation);
  return walk.Of(*module.entry());
}

double EstimateWork(const hlo::Module& module) {
  double instructions = 0, copied = 0;
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      if (instruction->op() == Op::kWhile) return 1e18;
      ++instructions;
      if (UpdatesInPlace(instruction->op())) copied += CopiedBytes(*instruction);
    }
  }
  if (instructions * 100 > 1e7) return 1e18;
  CostAnalysis cost = AnalyseCost(module);
  return 100 * instructions + 2 * cost.flops + 20 * cost.transcendentals +
         (cost.bytes_accessed + copied) / 4;
}

int64_t TemporaryBytes(const hlo::Module& module) {
  LivenessWalk walk;
  for (const auto& computation : module.computations()) walk.Of(*computation);
  double bytes = walk.Of(*module.entry());
  return bytes < 9e18 ? static_cast<int64_t>(bytes) : std::numeric_limits<int64_t>::max();
}

}  // namespace weft::client
