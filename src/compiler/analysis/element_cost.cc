// Cost model: the work of one element.
#include "compiler/analysis/element_cost.h"

namespace weft::compiler {

using hlo::Op;

bool IsFree(const hlo::Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kIota:
    case Op::kCopy: return true;
    case Op::kConstant: return instruction.literal().IsValid() && instruction.literal().size() == 1;
    default: return false;
  }
}

bool TakesElements(const hlo::Instruction& gather) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  for (int64_t d : attrs.offset_dims) {
    if (gather.shape().dim(d) != 1) return false;
  }
  return gather.operand(1)->shape().elements() == gather.shape().elements();
}

namespace {

// Of integers up to 32 bits in vectors, as floats (cpu/render/divide.cc).
double DivisionCost(DType dtype) {
  return IsFloat(dtype) || BitWidth(dtype) <= 32 ? 3 : 8;
}

}  // namespace

double ElementCost(const hlo::Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kCopy:
    case Op::kIota: return kWorkOfValue;
    case Op::kExponential:
    case Op::kLog:
    case Op::kLogistic:
    case Op::kTanh:
    case Op::kExpm1:
    case Op::kLog1p:
    case Op::kErf:
    case Op::kSine:
    case Op::kCosine:
    case Op::kCbrt: return 12;
    case Op::kPower:
    case Op::kAtan2:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kSinh:
    case Op::kCosh:
    case Op::kAsinh:
    case Op::kAcosh:
    case Op::kAtanh: return 30;
    case Op::kRemainder:
      // Of floats by a loop of exact steps.
      return IsInteger(instruction.shape().dtype()) ? DivisionCost(instruction.shape().dtype()) + 1
                                                    : 30;
    case Op::kDivide:
    case Op::kSqrt:
    case Op::kRsqrt: return DivisionCost(instruction.shape().dtype());
    case Op::kGather:
    case Op::kTranspose:
    case Op::kReverse: return 4;
    default: return 1;
  }
}

}  // namespace weft::compiler
