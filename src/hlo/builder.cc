#include "hlo/builder.h"

#include "hlo/verify.h"

namespace weft::hlo {

Result<Instruction*> Builder::Add(Op op, std::span<Instruction* const> operands, Attrs attrs,
                                  const Shape* shape, std::string_view name) {
  std::vector<const Shape*> shapes;
  for (const Instruction* operand : operands) {
    CHECK(operand->parent() == &computation_) << operand->name();
    shapes.push_back(&operand->shape());
  }
  if (attrs.type() != GetOp(op).attrs) {
    return InvalidArgument(Mnemonic(op), ": attributes are of another op family");
  }
  if (shape == nullptr && HasTrait(op, kShapeWritten)) {
    return InvalidArgument(Mnemonic(op), ": the result shape must be given");
  }
  Shape inferred = TRY(InferShape(op, shapes, attrs, shape));
  if (shape != nullptr && !Shape::Compatible(*shape, inferred)) {
    return InvalidArgument(Mnemonic(op), ": the result is ", inferred.ToStringWithoutLayout(),
                           ", not ", shape->ToStringWithoutLayout());
  }
  std::string unique = computation_.module()->UniqueName(name.empty() ? Mnemonic(op) : name);
  Instruction* added = computation_.Add(op, std::move(unique), shape ? *shape : inferred, operands,
                                        std::move(attrs), before_);
  if (like_ != nullptr && like_->metadata() != nullptr) {
    added->mutable_metadata() = *like_->metadata();
  }
  return added;
}

Result<Instruction*> Builder::Parameter(int64_t number, const Shape& shape, std::string_view name) {
  if (number < 0 || number > 1'000'000) {
    return InvalidArgument("parameter: number out of range: ", number);
  }
  return Add(Op::kParameter, {}, ParameterAttrs{.number = number}, &shape, name);
}

Instruction* Builder::Constant(Literal value, std::string_view name) {
  Shape shape = value.shape();
  std::string unique = computation_.module()->UniqueName(name.empty() ? "constant" : name);
  Instruction* added = computation_.Add(Op::kConstant, std::move(unique), std::move(shape), {},
                                        ConstantAttrs{.literal = std::move(value)}, before_);
  if (like_ != nullptr && like_->metadata() != nullptr) {
    added->mutable_metadata() = *like_->metadata();
  }
  return added;
}

Instruction* Builder::ScalarConstant(DType dtype, double value) {
  Literal literal{Shape::Scalar(dtype)};
  if (IsComplex(dtype)) {
    literal.SetComplex(0, value);
  } else {
    literal.SetDouble(0, value);
  }
  return Constant(std::move(literal));
}

Result<Instruction*> Builder::Broadcast(Instruction* operand, const Shape& shape, Ints dimensions) {
  return Add(Op::kBroadcast, std::span(&operand, 1),
             BroadcastAttrs{.dimensions = std::move(dimensions)}, &shape);
}

Result<Instruction*> Builder::Fill(const Shape& shape, double value) {
  Instruction* scalar = ScalarConstant(shape.dtype(), value);
  if (shape.IsScalar()) return scalar;
  return Broadcast(scalar, shape, {});
}

Result<Instruction*> Builder::Reshape(Instruction* operand, std::span<const int64_t> dims) {
  Shape shape(operand->shape().dtype(), dims);
  return Add(Op::kReshape, std::span(&operand, 1), ReshapeAttrs{}, &shape);
}

Result<Instruction*> Builder::Transpose(Instruction* operand, Ints permutation) {
  return Add(Op::kTranspose, {operand}, DimensionsAttrs{.dimensions = std::move(permutation)});
}

Result<Instruction*> Builder::Convert(Instruction* operand, DType dtype) {
  if (operand->shape().dtype() == dtype) return operand;
  Shape shape = operand->shape();
  shape.ClearLayout();
  shape.set_dtype(dtype);
  return Add(Op::kConvert, std::span(&operand, 1), NoAttrs{}, &shape);
}

Result<Instruction*> Builder::Compare(Instruction* a, Instruction* b, Direction direction) {
  return Add(Op::kCompare, {a, b}, CompareAttrs{.direction = direction});
}

Result<Instruction*> Builder::Reduce(Instruction* operand, Instruction* init, Ints dimensions,
                                     Computation* to_apply) {
  return Add(Op::kReduce, {operand, init},
             ReduceAttrs{.dimensions = std::move(dimensions), .to_apply = to_apply});
}

Result<Instruction*> Builder::Tuple(std::span<Instruction* const> elements) {
  return Add(Op::kTuple, elements, NoAttrs{});
}

Result<Instruction*> Builder::GetTupleElement(Instruction* tuple, int64_t index) {
  return Add(Op::kGetTupleElement, {tuple}, GetTupleElementAttrs{.index = index});
}

Result<Instruction*> Builder::Call(Computation* to_apply, std::span<Instruction* const> operands) {
  return Add(Op::kCall, operands, CallAttrs{.to_apply = to_apply});
}

Result<Computation*> AddScalarBinary(Module& module, Op op, DType dtype, Computation* before) {
  if (before == nullptr && !module.computations().empty()) {
    before = module.computations().front().get();
  }
  Computation* c = module.AddComputation(module.UniqueName(Mnemonic(op)), before);
  Builder b(*c);
  Shape scalar = Shape::Scalar(dtype);
  Instruction* x = TRY(b.Parameter(0, scalar, "x"));
  Instruction* y = TRY(b.Parameter(1, scalar, "y"));
  c->set_root(TRY(b.Add(op, {x, y})));
  return c;
}

}  // namespace weft::hlo
