#include "hlo/import/to_hlo.h"

#include <algorithm>

#include "hlo/import/attr_values.h"
#include "hlo/import/import.h"
#include "hlo/import/readers.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace mlir {
namespace {

constexpr int kMaxTypeDepth = 100;

Result<Shape> ShapeAt(const Type* type, int depth) {
  if (type == nullptr || depth > kMaxTypeDepth) return InvalidArgument("a type is not valid");
  switch (type->kind) {
    case Type::Kind::kElement: return Shape::Scalar(type->dtype);
    case Type::Kind::kIndex: return Shape::Scalar(DType::kS64);
    case Type::Kind::kToken: return Shape::Token();
    case Type::Kind::kTensor: break;
    case Type::Kind::kTuple: {
      std::vector<Shape> elements;
      for (const Type* element : type->elements) {
        elements.push_back(TRY(ShapeAt(element, depth + 1)));
      }
      return Shape::Tuple(std::move(elements));
    }
    default: return InvalidArgument("a value of this type has no shape in HLO");
  }
  if (!IsArrayType(type->dtype)) return InvalidArgument("a tensor has no element type");
  if (type->dims.size() > static_cast<size_t>(kMaxRank)) {
    return InvalidArgument("a tensor has ", type->dims.size(), " dimensions, at most ", kMaxRank);
  }
  Shape shape(type->dtype, type->dims);
  for (int64_t i = 0; i < shape.rank(); ++i) {
    int64_t size = shape.dim(i);
    if (size >= 0) continue;
    if (size != Type::kDynamic) return InvalidArgument("a dimension has size ", size);
    shape.set_dynamic(i, true);
    if (static_cast<size_t>(i) < type->bounds.size() && type->bounds[i] >= 0) {
      shape.set_dim(i, type->bounds[i]);
    }
  }
  return shape;
}

}  // namespace

Handler FindHandler(std::string_view name) {
  static const auto* const kTable = [] {
    auto* table = new std::unordered_map<std::string_view, Handler>();
    for (std::span<const HandlerRow> rows :
         {ElementwiseHandlers(), ShapeHandlers(), DynamicHandlers(), ContractionHandlers(),
          ReductionHandlers(), IndexHandlers(), ControlHandlers(), CollectiveHandlers(),
          CallHandlers(), ShardyHandlers(), SpecialFunctionHandlers()}) {
      for (const HandlerRow& row : rows) table->emplace(row.name, row.handler);
    }
    return table;
  }();
  auto it = kTable->find(name);
  return it == kTable->end() ? nullptr : it->second;
}

Result<Shape> Converter::ShapeOf(const Type* type) {
  return ShapeAt(type, 0);
}

Result<Shape> Converter::ResultShape(const Operation& op) {
  if (op.results.size() == 1) return ShapeOf(op.results[0]->type);
  std::vector<Shape> shapes;
  for (const Value* result : op.results) shapes.push_back(TRY(ShapeOf(result->type)));
  return Shape::Tuple(std::move(shapes));
}

Result<Instruction*> Converter::Lookup(const Value& value) {
  if (auto it = scope_->values.find(&value); it != scope_->values.end()) return it->second;
  for (Scope* scope = scope_->parent; scope != nullptr; scope = scope->parent) {
    auto it = scope->values.find(&value);
    if (it == scope->values.end()) continue;
    if (Instruction* clone = CloneConstant(it->second, 0)) {
      scope_->values.emplace(&value, clone);
      return clone;
    }
    return Unimplemented("the region uses a value of the function around it: ",
                         it->second->ToString());
  }
  return InvalidArgument("an operand is used before it is defined");
}

Result<Instruction*> Converter::Operand(const Operation& op, size_t i) {
  if (i >= op.operands.size()) {
    return InvalidArgument("has ", op.operands.size(), " operands, operand ", i, " is missing");
  }
  return Lookup(*op.operands[i]);
}

Result<std::vector<Instruction*>> Converter::Operands(const Operation& op, size_t from,
                                                      size_t count) {
  if (from > op.operands.size()) return InvalidArgument("has too few operands");
  if (count == SIZE_MAX) count = op.operands.size() - from;
  if (count > op.operands.size() - from) return InvalidArgument("has too few operands");
  std::vector<Instruction*> operands;
  operands.reserve(count);
  for (size_t i = 0; i < count; ++i) operands.push_back(TRY(Lookup(*op.operands[from + i])));
  return operands;
}

Instruction* Converter::Emit(Op hlo_op, std::span<Instruction* const> operands, Attrs attrs,
                             Shape shape) {
  Instruction* added = computation().Add(hlo_op, NextName(Mnemonic(hlo_op)), std::move(shape),
                                         operands, std::move(attrs));
  if (op_ != nullptr) {
    if (const Metadata* metadata = MetadataOf(op_->location)) {
      added->mutable_metadata() = *metadata;
    }
  }
  return added;
}

Instruction* Converter::EmitTuple(std::span<Instruction* const> elements) {
  std::vector<Shape> shapes;
  for (const Instruction* element : elements) shapes.push_back(element->shape());
  return Emit(Op::kTuple, elements, NoAttrs{}, Shape::Tuple(std::move(shapes)));
}

Instruction* Converter::EmitElement(Instruction* tuple, int64_t index) {
  return Emit(Op::kGetTupleElement, {tuple}, GetTupleElementAttrs{.index = index},
              tuple->shape().tuple_element(index));
}

Instruction* Converter::Pack(std::span<Instruction* const> values) {
  return values.size() == 1 ? values[0] : EmitTuple(values);
}

Status Converter::Bind(const Operation& op, Instruction* value) {
  TRY(ApplyDiscardable(op, value));
  if (op.results.size() == 1) {
    scope_->values[op.results[0]] = value;
    return {};
  }
  if (op.results.empty()) return {};
  if (!value->shape().IsTuple() ||
      value->shape().tuple_size() != static_cast<int64_t>(op.results.size())) {
    return InvalidArgument("has ", op.results.size(), " results, the value is ",
                           value->shape().ToStringWithoutLayout());
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    scope_->values[op.results[i]] = EmitElement(value, static_cast<int64_t>(i));
  }
  return {};
}

Status Converter::BindEach(const Operation& op, std::span<Instruction* const> values) {
  if (op.results.size() != values.size()) {
    return InvalidArgument("has ", op.results.size(), " results for ", values.size(), " values");
  }
  for (size_t i = 0; i < values.size(); ++i) scope_->values[op.results[i]] = values[i];
  return {};
}

Status Converter::EmitAndBind(const Operation& op, Op hlo_op, Attrs attrs) {
  Shape shape = TRY(ResultShape(op));
  // Most operations have few operands.
  Instruction* few[4];
  size_t count = op.operands.size();
  if (count <= 4) {
    for (size_t i = 0; i < count; ++i) few[i] = TRY(Lookup(*op.operands[i]));
    return Bind(op, Emit(hlo_op, std::span<Instruction* const>(few, count), std::move(attrs),
                         std::move(shape)));
  }
  std::vector<Instruction*> operands = TRY(Operands(op));
  return Bind(op, Emit(hlo_op, operands, std::move(attrs), std::move(shape)));
}

Status Converter::ConvertOperations(const Block& block) {
  for (const Operation* op : block.operations) {
    if (op->name == "return" || op->name == "sdy.return") break;
    TRY(ConvertOperation(*op));
  }
  return {};
}

Status Converter::ConvertOperation(const Operation& op) {
  const Operation* outer = std::exchange(op_, &op);
  Handler handler = FindHandler(op.name);
  Status status;
  if (handler != nullptr) {
    status = handler(*this, op);
  } else {
    Error error(Code::kUnimplemented, "this operation is not known");
    if (op.name.starts_with("chlo.")) {
      error.Hint("in bytecode as jax.export or PJRT write it, CHLO is spelled out in StableHLO");
    }
    status = std::unexpected(std::move(error));
  }
  op_ = outer;
  if (!status) return std::unexpected(Place(std::move(status).error(), op));
  return {};
}

// "name: message", the types as a note, the source line.
Error Converter::Place(Error error, const Operation& op) {
  if (error.line() > 0 || error.ToString().find("\n  at ") != std::string::npos) return error;
  std::string_view name = op.name;
  if (!error.message().starts_with(name)) error.Prefix(StrCat(name, ": "));
  std::string types = "(";
  for (const Value* operand : op.operands) {
    Result<Shape> shape = ShapeOf(operand->type);
    StrAppend(types, types.size() > 1 ? ", " : "", shape ? shape->ToString() : "?");
  }
  types += ") -> (";
  bool first = true;
  for (const Value* result : op.results) {
    Result<Shape> shape = ShapeOf(result->type);
    StrAppend(types, first ? "" : ", ", shape ? shape->ToString() : "?");
    first = false;
  }
  error.Note(StrCat("in ", name, types, ")"));
  if (op.location != nullptr && op.location->frame != nullptr) {
    const Frame& frame = *op.location->frame;
    std::string where = StrCat(frame.file, ":", frame.line);
    std::string_view function = frame.function.empty() ? op.location->name : frame.function;
    if (!function.empty()) StrAppend(where, " (", function, ")");
    error.Source(std::move(where));
  }
  if (op.line > 0) {
    std::string_view text = tree_.source();
    for (int32_t i = 1; i < op.line; ++i) {
      size_t end = text.find('\n');
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
    error.At(op.line, op.column, text.substr(0, text.find('\n')));
  }
  return error;
}

}  // namespace mlir

Result<std::unique_ptr<Module>> TreeToHlo(const mlir::Tree& tree) {
  auto module = std::make_unique<Module>("module");
  mlir::Converter converter(tree, *module);
  TRY(converter.ConvertModule());
  TRY(Verify(*module));
  return module;
}

Result<std::unique_ptr<Module>> ImportStableHlo(std::string contents) {
  bool bytecode = contents.starts_with(mlir::kBytecodeMagic);
  std::unique_ptr<mlir::Tree> tree =
      TRY(bytecode ? mlir::ReadBytecode(std::move(contents)) : mlir::ReadText(std::move(contents)));
  return TreeToHlo(*tree);
}

}  // namespace weft::hlo
