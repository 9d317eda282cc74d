#include "compiler/passes/expand/expand_ops.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::BatchNormAttrs;
using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// The ops that the three have in common, on arrays of one type and vectors of one value per
// feature.
class BatchNormBuilder {
 public:
  BatchNormBuilder(Instruction* norm, ScalarFunctions& functions)
      : b_(*norm->parent(), norm, norm),
        functions_(functions),
        feature_(norm->attrs<BatchNormAttrs>().feature_index),
        epsilon_(norm->attrs<BatchNormAttrs>().epsilon),
        type_(norm->operand(0)->shape().dtype()) {
    const Shape& shape = norm->operand(0)->shape();
    compute_ = type_ == DType::kF64 ? DType::kF64 : DType::kF32;
    array_ = Shape(compute_, shape.dims());
    features_ = Shape(compute_, {shape.dim(feature_)});
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (d == feature_) continue;
      others_.push_back(d);
      count_ *= static_cast<double>(shape.dim(d));
    }
  }

  Builder& builder() { return b_; }
  Result<Instruction*> Load(Instruction* operand) { return b_.Convert(operand, compute_); }
  Result<Instruction*> Store(Instruction* value) { return b_.Convert(value, type_); }
  Result<Instruction*> Wide(Instruction* vector) {
    return b_.Broadcast(vector, array_, {feature_});
  }
  Result<Instruction*> Sum(Instruction* array) {
    return b_.Reduce(array, b_.ScalarConstant(compute_, 0), others_,
                     TRY(functions_.Get(Op::kAdd, compute_)));
  }
  Result<Instruction*> Mean(Instruction* array) {
    return b_.Add(Op::kDivide, {TRY(Sum(array)), TRY(b_.Fill(features_, count_))});
  }
  // 1 / sqrt(variance + epsilon)
  Result<Instruction*> InverseDeviation(Instruction* variance) {
    Instruction* sum = TRY(b_.Add(Op::kAdd, {variance, TRY(b_.Fill(features_, epsilon_))}));
    Instruction* root = TRY(b_.Add(Op::kSqrt, {sum}));
    return b_.Add(Op::kDivide, {TRY(b_.Fill(features_, 1)), root});
  }
  Result<Instruction*> Centered(Instruction* array, Instruction* mean) {
    return b_.Add(Op::kSubtract, {array, TRY(Wide(mean))});
  }
  // (x - mean) * (scale / sqrt(variance + epsilon)) + offset
  Result<Instruction*> Normalized(Instruction* centered, Instruction* scale, Instruction* offset,
                                  Instruction* variance) {
    Instruction* factor = TRY(b_.Add(Op::kMultiply, {TRY(InverseDeviation(variance)), scale}));
    Instruction* scaled = TRY(b_.Add(Op::kMultiply, {centered, TRY(Wide(factor))}));
    return b_.Add(Op::kAdd, {scaled, TRY(Wide(offset))});
  }
  Result<Instruction*> Tuple(Instruction* array, Instruction* first, Instruction* second) {
    Instruction* parts[] = {TRY(Store(array)), TRY(Store(first)), TRY(Store(second))};
    return b_.Tuple(parts);
  }

 private:
  Builder b_;
  ScalarFunctions& functions_;
  int64_t feature_;
  double epsilon_;
  DType type_, compute_ = DType::kF32;
  Shape array_, features_;
  Ints others_;
  double count_ = 1;
};

Result<Instruction*> ExpandTraining(BatchNormBuilder& n, const Instruction& norm) {
  Instruction* x = TRY(n.Load(norm.operand(0)));
  Instruction* mean = TRY(n.Mean(x));
  Instruction* centered = TRY(n.Centered(x, mean));
  Instruction* variance = TRY(n.Mean(TRY(n.builder().Add(Op::kMultiply, {centered, centered}))));
  Instruction* y = TRY(
      n.Normalized(centered, TRY(n.Load(norm.operand(1))), TRY(n.Load(norm.operand(2))), variance));
  return n.Tuple(y, mean, variance);
}

Result<Instruction*> ExpandInference(BatchNormBuilder& n, const Instruction& norm) {
  Instruction* x = TRY(n.Load(norm.operand(0)));
  Instruction* centered = TRY(n.Centered(x, TRY(n.Load(norm.operand(3)))));
  return n.Store(TRY(n.Normalized(centered, TRY(n.Load(norm.operand(1))),
                                  TRY(n.Load(norm.operand(2))), TRY(n.Load(norm.operand(4))))));
}

// With c = x - mean and r = 1 / sqrt(variance + epsilon):
//   dscale = sum(dy c) r, doffset = sum(dy), dx = scale r (dy - mean(dy) - c mean(dy c) r^2)
Result<Instruction*> ExpandGrad(BatchNormBuilder& n, const Instruction& norm) {
  Builder& b = n.builder();
  Instruction* x = TRY(n.Load(norm.operand(0)));
  Instruction* scale = TRY(n.Load(norm.operand(1)));
  Instruction* dy = TRY(n.Load(norm.operand(4)));
  Instruction* centered = TRY(n.Centered(x, TRY(n.Load(norm.operand(2)))));
  Instruction* inverse = TRY(n.InverseDeviation(TRY(n.Load(norm.operand(3)))));
  Instruction* product = TRY(b.Add(Op::kMultiply, {dy, centered}));
  Instruction* dscale = TRY(b.Add(Op::kMultiply, {TRY(n.Sum(product)), inverse}));
  Instruction* slope = TRY(
      b.Add(Op::kMultiply, {TRY(n.Mean(product)), TRY(b.Add(Op::kMultiply, {inverse, inverse}))}));
  Instruction* tilt = TRY(b.Add(Op::kMultiply, {centered, TRY(n.Wide(slope))}));
  Instruction* rest = TRY(b.Add(Op::kSubtract, {TRY(n.Centered(dy, TRY(n.Mean(dy)))), tilt}));
  Instruction* factor = TRY(b.Add(Op::kMultiply, {scale, inverse}));
  Instruction* dx = TRY(b.Add(Op::kMultiply, {rest, TRY(n.Wide(factor))}));
  return n.Tuple(dx, dscale, TRY(n.Sum(dy)));
}

}  // namespace

Result<bool> ExpandBatchNorm(Instruction* i, ScalarFunctions& functions) {
  bool training = i->op() == Op::kBatchNormTraining, grad = i->op() == Op::kBatchNormGrad;
  if (!training && !grad && i->op() != Op::kBatchNormInference) return false;
  if (!IsStaticallyShaped(*i)) return false;
  BatchNormBuilder n(i, functions);
  Instruction* value = training ? TRY(ExpandTraining(n, *i))
                       : grad   ? TRY(ExpandGrad(n, *i))
                                : TRY(ExpandInference(n, *i));
  hlo::ReplaceInstruction(i, value);
  return true;
}

}  // namespace weft::compiler
