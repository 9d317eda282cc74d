// Regions become computations. HLO's computations see nothing of the computation around them, so
// constants that a region uses are made again inside; other values are handed in.
#include <algorithm>
#include <unordered_set>

#include "base/stack.h"
#include "hlo/evaluate.h"
#include "hlo/import/to_hlo.h"
#include "hlo/verify.h"

namespace weft::hlo::mlir {
namespace {

constexpr int kMaxConstantDepth = 6;
constexpr int kMaxRegionDepth = kMaxProgramNesting;

bool IsCheapOfConstants(Op op) {
  switch (op) {
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kConvert:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kNegate:
    case Op::kMaximum:
    case Op::kMinimum: return true;
    default: return false;
  }
}

bool IsFoldable(const Instruction& i) {
  switch (i.op()) {
    case Op::kConstant:
    case Op::kIota:
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kConcatenate:
    case Op::kSlice:
    case Op::kGetDimensionSize:
    case Op::kCompare: return true;
    default: return IsElementwise(i.op()) && i.attrs().Is<NoAttrs>();
  }
}

// Collects what `region` uses and does not define, in order of first use.
struct CaptureWalk {
  std::unordered_set<const Value*> defined, seen;
  std::vector<const Value*> free;

  Status Walk(const Region& region, int depth) {
    if (depth > kMaxRegionDepth || IsStackShort()) {
      return ResourceExhausted("regions are nested deeper than ", depth);
    }
    for (const Block& block : region.blocks) {
      defined.insert(block.arguments.begin(), block.arguments.end());
      for (const Operation* op : block.operations) {
        for (const Value* operand : op->operands) {
          if (!defined.contains(operand) && seen.insert(operand).second) free.push_back(operand);
        }
        for (const Region& inner : op->regions) TRY(Walk(inner, depth + 1));
        defined.insert(op->results.begin(), op->results.end());
      }
    }
    return {};
  }
};

}  // namespace

bool Converter::IsConstantExpression(const Instruction* value, int depth) const {
  if (value->op() == Op::kConstant || value->op() == Op::kIota) return true;
  if (depth >= kMaxConstantDepth || !IsCheapOfConstants(value->op())) return false;
  if (value->op() != Op::kBroadcast && value->shape().rank() != 0) return false;
  for (const Instruction* operand : value->operands()) {
    if (!IsConstantExpression(operand, depth + 1)) return false;
  }
  return true;
}

Instruction* Converter::CloneConstant(Instruction* value, int depth) {
  if (depth == 0 && !IsConstantExpression(value, 0)) return nullptr;
  auto& known = cloned_[&computation()];
  if (auto it = known.find(value); it != known.end()) return it->second;
  std::vector<Instruction*> operands;
  for (Instruction* operand : value->operands()) {
    operands.push_back(CloneConstant(operand, depth + 1));
  }
  Instruction* clone = computation().Add(value->op(), NextName(Mnemonic(value->op())),
                                         value->shape(), operands, value->attrs());
  if (value->metadata() != nullptr) clone->mutable_metadata() = *value->metadata();
  cloned_[&computation()].emplace(value, clone);
  return clone;
}

Result<std::vector<const Value*>> Converter::Captures(std::span<const Region* const> regions) {
  CaptureWalk walk;
  for (const Region* region : regions) TRY(walk.Walk(*region, 0));
  std::vector<const Value*> captures;
  for (const Value* value : walk.free) {
    // Looked up here, so that it is in the current scope when the operand is made.
    Instruction* instruction = TRY(Lookup(*value));
    if (!IsConstantExpression(instruction, 0)) captures.push_back(value);
  }
  return captures;
}

Result<Computation*> Converter::RegionFunction(const Operation& op, size_t region,
                                               std::string_view name) {
  const Block* block = TRY(OnlyBlock(op, region));
  Computation* to = module_.AddComputation(NextName(name), &computation());
  TRY(ConvertBody(*block, to, scope_, false, {}));
  return to;
}

Result<Computation*> Converter::RegionOfState(const Operation& op, size_t region,
                                              std::string_view name,
                                              std::span<const Value* const> captures) {
  const Block* block = TRY(OnlyBlock(op, region));
  Computation* to = module_.AddComputation(NextName(name), &computation());
  TRY(ConvertBody(*block, to, scope_, true, captures));
  return to;
}

Result<std::vector<Instruction*>> Converter::InlineBlock(const Operation& op, size_t region,
                                                         std::span<Instruction* const> arguments) {
  const Block* block = TRY(OnlyBlock(op, region));
  if (block->arguments.size() != arguments.size()) {
    return InvalidArgument("the region takes ", block->arguments.size(), " arguments, got ",
                           arguments.size());
  }
  if (++depth_ > kMaxRegionDepth || IsStackShort()) {
    return ResourceExhausted("regions are nested deeper than ", depth_ - 1);
  }
  for (size_t i = 0; i < arguments.size(); ++i) scope_->values[block->arguments[i]] = arguments[i];
  TRY(ConvertOperations(*block));
  --depth_;
  return Operands(*block->operations.back());
}

Result<std::optional<Ints>> Converter::ConstantInts(Instruction* value) {
  constexpr int64_t kMaxElements = 4096;
  constexpr size_t kMaxInstructions = 200;
  // Operands before users: a walk backwards over at most kMaxInstructions, each checked before it
  // is evaluated, since nothing has been verified yet.
  std::vector<Instruction*> order, stack = {value};
  std::unordered_set<const Instruction*> seen = {value};
  while (!stack.empty()) {
    Instruction* at = stack.back();
    stack.pop_back();
    order.push_back(at);
    bool foldable = IsFoldable(*at);
    const Shape& shape = at->shape();
    if (!foldable || !shape.IsArray() || !shape.IsStatic() || order.size() > kMaxInstructions ||
        shape.elements() > kMaxElements) {
      return std::nullopt;
    }
    if (at->op() == Op::kGetDimensionSize) continue;  // of the type alone
    for (Instruction* operand : at->operands()) {
      if (seen.insert(operand).second) stack.push_back(operand);
    }
  }
  std::sort(order.begin(), order.end(),
            [](const Instruction* a, const Instruction* b) { return a->id() < b->id(); });
  std::unordered_map<const Instruction*, Literal> values;
  for (Instruction* at : order) {
    std::vector<const Shape*> shapes;
    for (const Instruction* operand : at->operands()) shapes.push_back(&operand->shape());
    Shape inferred = TRY(InferShape(at->op(), shapes, at->attrs(), &at->shape()));
    if (!Shape::Compatible(inferred, at->shape())) return std::nullopt;
    if (at->op() == Op::kGetDimensionSize) {
      const Shape& of = at->operand(0)->shape();
      int64_t dim = at->attrs<DimensionsAttrs>().dimensions[0];
      if (of.is_dynamic(dim)) return std::nullopt;
      Literal size(at->shape());
      size.SetInt(0, of.dim(dim));
      values.emplace(at, std::move(size));
      continue;
    }
    std::vector<Literal> operands;
    for (const Instruction* operand : at->operands()) operands.push_back(values[operand]);
    values[at] = at->IsConstant() ? at->literal() : TRY(EvaluateInstruction(*at, operands));
  }
  const Literal& result = values[value];
  if (!IsInteger(result.dtype()) && result.dtype() != DType::kPred) return std::nullopt;
  Ints ints;
  for (int64_t i = 0; i < result.size(); ++i) ints.push_back(result.GetInt(i));
  return ints;
}

}  // namespace weft::hlo::mlir
