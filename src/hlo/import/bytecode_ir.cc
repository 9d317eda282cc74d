#include "hlo/import/bytecode_ir.h"

#include <algorithm>

#include "base/stack.h"

namespace weft::hlo::mlir {
namespace {

constexpr int kMaxBytecodeDepth = kMaxProgramNesting + 2;  // in a function of a module
constexpr uint8_t kIrSection = 4;

enum OpBits : uint8_t {
  kHasAttrs = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 0x10,
  kHasUseLists = 0x20,
  kHasProperties = 0x40,
};

}  // namespace

BytecodeIr::BytecodeIr(EntryTable& entries, std::vector<BytecodeOpName> names,
                       std::vector<Cursor> properties)
    : entries_(entries),
      tree_(entries.tree()),
      names_(std::move(names)),
      kinds_(names_.size()),
      properties_(std::move(properties)) {}

bool BytecodeIr::Fail(std::string message) {
  if (!error_) {
    error_ = Error(Code::kInvalidArgument, std::move(message));
    if (!doing_.empty()) error_->Prefix(StrCat(doing_, ": "));
  }
  return false;
}

bool BytecodeIr::FailEntry() {
  return Fail(entries_.error().message());
}

bool BytecodeIr::Need(const Cursor& c) {
  return c.bad() ? Fail("unexpected end, or a count that is larger than what follows") : true;
}

bool BytecodeIr::Claim(uint64_t n, std::string_view what) {
  if (n > budget_) return Fail(StrCat(n, " ", what, ", more than there are bytes"));
  budget_ -= n;
  return true;
}

Result<Operation*> BytecodeIr::ReadModule(Cursor section) {
  budget_ = section.remaining();
  attr_budget_ = 16 * tree_.source().size() + (1 << 20);
  Block top;
  Scope scope;
  if (!ReadBlock(section, top, scope, 0)) return std::unexpected(*error_);
  if (!section.AtEnd()) return InvalidArgument("bytes left over after the module");
  if (top.operations.size() != 1 || top.operations[0]->name != "builtin.module") {
    return InvalidArgument("not one module at top level");
  }
  return top.operations[0];
}

const Attr* BytecodeIr::Default(std::string_view what) {
  if (what == "array") return tree_.NewAttr(Attr::Kind::kArray);
  if (what == "false") return tree_.NewAttr(Attr::Kind::kBool);
  Type* type = tree_.NewType();
  type->kind = Type::Kind::kTensor;
  type->dtype = DType::kS64;
  type->dims = Dims{0};
  Attr* attr = tree_.NewAttr(Attr::Kind::kDense);
  attr->type = type;
  return attr;
}

// Once for each name of the file that is used.
bool BytecodeIr::Resolve(OpKind& kind, const BytecodeOpName& name) {
  kind.row = FindBytecodeOp(name.dialect, name.name);
  if (!kind.row) {
    Fail(StrCat("operation ", name.dialect, ".", name.name, " is not known",
                tree_.producer.empty() ? ""
                                       : StrCat(" (the file was written by ", tree_.producer,
                                                "; VHLO is known up to 1.20)")));
    if (name.dialect == "stablehlo" || name.dialect == "func") {
      error_->Hint("only portable artifacts are read: stablehlo.serialize_portable_artifact");
    }
    return false;
  }
  kind.resolved = true;
  kind.cast = name.dialect == "builtin" && kind.row->name == "unrealized_conversion_cast";
  kind.name = kind.row->version > 0 ? kind.row->name
                                    : tree_.Keep(StrCat(name.dialect, ".", kind.row->name));
  auto words = [](std::string_view text, auto&& each) {
    while (!text.empty()) {
      size_t space = std::min(text.find(' '), text.size());
      each(text.substr(0, space));
      text.remove_prefix(std::min(space + 1, text.size()));
    }
  };
  words(kind.row->attrs, [&](std::string_view word) {
    Property& property = kind.properties.emplace_back();
    property.optional = word.starts_with('?');
    property.symbol = word.starts_with('@');
    property.name = word.substr(property.optional || property.symbol);
  });
  words(kind.row->upgrade, [&](std::string_view word) {
    size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      kind.added.push_back({word.substr(0, equals), Default(word.substr(equals + 1))});
      return;
    }
    for (Property& property : kind.properties) {
      if (property.name == word.substr(1)) property.dropped = true;
    }
  });
  return true;
}

BytecodeIr::OpKind* BytecodeIr::Kind(uint64_t index) {
  if (index >= kinds_.size()) {
    Fail(StrCat("operation name ", index, " of ", kinds_.size()));
    return nullptr;
  }
  OpKind& kind = kinds_[index];
  if (!kind.resolved && !Resolve(kind, names_[index])) return nullptr;
  return &kind;
}

// Functions are strings in VHLO.
const Attr* BytecodeIr::AsSymbol(const Attr* attr) {
  bool list = attr->kind == Attr::Kind::kArray && !attr->elements.empty();
  if (!list && attr->kind != Attr::Kind::kString) return attr;
  if (auto it = symbols_.find(attr); it != symbols_.end()) return it->second;
  if (!list) {
    Attr* symbol = tree_.NewAttr(Attr::Kind::kSymbol);
    symbol->text = attr->text;
    return symbols_[attr] = symbol;
  }
  Attr* array = tree_.NewAttr(Attr::Kind::kArray);
  for (const Attr* element : attr->elements) {
    bool text = element->kind == Attr::Kind::kString;
    array->elements.push_back(text ? AsSymbol(element) : element);
  }
  return symbols_[attr] = array;
}

bool BytecodeIr::ReadAttributes(Cursor& c, Operation& op) {
  const Attr* dict = entries_.GetAttr(c.VarInt());
  if (!Need(c)) return false;
  if (!dict) return FailEntry();
  if (dict->kind != Attr::Kind::kDict) return Fail("attributes that are not a dictionary");
  if (dict->names.size() > attr_budget_) return Fail("attributes without end");
  attr_budget_ -= dict->names.size();
  op.attrs.reserve(dict->names.size());
  for (size_t i = 0; i < dict->names.size(); ++i) {
    op.attrs.push_back({dict->names[i], dict->elements[i]});
  }
  return true;
}

bool BytecodeIr::ReadProperties(Cursor& c, const OpKind& kind, Operation& op) {
  uint64_t index = c.VarInt();
  if (!Need(c)) return false;
  if (index >= properties_.size()) {
    return Fail(StrCat("properties ", index, " of ", properties_.size()));
  }
  Cursor blob = properties_[index];
  op.attrs.reserve(op.attrs.size() + kind.properties.size() + kind.added.size());
  for (const Property& property : kind.properties) {
    bool present = true;
    uint64_t attr_index = property.optional ? blob.VarIntWithFlag(present) : blob.VarInt();
    if (!Need(blob)) return false;
    if (!present) continue;
    const Attr* attr = entries_.GetAttr(attr_index);
    if (!attr) return FailEntry();
    if (property.dropped) continue;
    op.attrs.push_back({property.name, property.symbol ? AsSymbol(attr) : attr});
  }
  if (!blob.AtEnd()) return Fail("more attributes than this version of the operation has");
  return true;
}

bool BytecodeIr::Define(Value* value, Scope& scope) {
  if (scope.next >= scope.values.size()) return Fail("more values than the region declares");
  scope.values[scope.next++] = value;
  return true;
}

bool BytecodeIr::ReadOperands(Cursor& c, Operation& op, const Scope& scope) {
  op.operands.resize(c.Count());
  for (Value*& operand : op.operands) {
    uint64_t id = c.VarInt();
    if (!Need(c)) return false;
    if (id >= scope.values.size()) {
      return Fail(StrCat("operand is value ", id, " of ", scope.values.size()));
    }
    operand = scope.values[id];
    if (!operand) return Fail(StrCat("value ", id, " is used before it is defined"));
  }
  return Need(c);
}

// The order of uses, which means nothing here.
bool BytecodeIr::SkipUseLists(Cursor& c, size_t values) {
  size_t lists = values > 1 ? c.Count() : 1;
  for (size_t i = 0; i < lists && !c.bad(); ++i) {
    if (values > 1) c.VarInt();
    bool pairs = false;
    uint64_t n = c.VarIntWithFlag(pairs);
    if (n > c.remaining()) return Fail("use list longer than what follows");
    for (uint64_t k = 0; k < n; ++k) c.VarInt();
  }
  return Need(c);
}

bool BytecodeIr::ReadOp(Cursor& c, Block& block, Scope& scope, int depth) {
  OpKind* kind = Kind(c.VarInt());
  if (!Need(c) || !kind) return false;
  doing_ = kind->name;
  Operation* op = tree_.NewOperation();
  op->name = kind->name;
  uint8_t mask = c.Byte();
  uint64_t location = c.VarInt();
  if (!Need(c)) return false;
  op->location = entries_.GetLocation(location);
  if (!op->location) return FailEntry();
  if ((mask & kHasAttrs) && !ReadAttributes(c, *op)) return false;
  if (mask & kHasProperties) {
    if (!ReadProperties(c, *kind, *op)) return false;
  } else if (!kind->properties.empty() && !kind->properties[0].optional) {
    return Fail("attributes are missing: older than VHLO 0.15");
  }
  op->attrs.insert(op->attrs.end(), kind->added.begin(), kind->added.end());

  size_t first_result = scope.next;
  if (mask & kHasResults) {
    op->results.resize(c.Count());
    for (size_t i = 0; i < op->results.size(); ++i) {
      const Type* type = entries_.GetType(c.VarInt());
      if (!Need(c)) return false;
      if (!type) return FailEntry();
      Value* value = op->results[i] = tree_.NewValue();
      value->type = type;
      value->op = op;
      value->index = static_cast<int32_t>(i);
    }
  }
  if ((mask & kHasOperands) && !ReadOperands(c, *op, scope)) return false;
  if (mask & kHasSuccessors) return Fail("branches between blocks are not supported");
  if ((mask & kHasUseLists) && !SkipUseLists(c, op->results.size())) return false;
  for (Value* value : op->results) {
    if (!Define(value, scope)) return false;
  }
  if (kind->cast) {
    if (op->operands.size() != op->results.size()) return Fail("cast of several values into one");
    for (size_t i = 0; i < op->operands.size(); ++i) {
      scope.values[first_result + i] = op->operands[i];
    }
  } else {
    block.operations.push_back(op);
  }
  return (mask & kHasRegions) ? ReadRegions(c, *op, scope, depth) : Need(c);
}

// Regions that use nothing from outside are in a section of their own, and count their values from
// 0.
bool BytecodeIr::ReadRegions(Cursor& c, Operation& op, Scope& scope, int depth) {
  if (depth >= kMaxBytecodeDepth || IsStackShort())
    return Fail(StrCat("regions nested deeper than ", depth));
  bool isolated = false;
  uint64_t count = c.VarIntWithFlag(isolated);
  if (!Need(c) || !Claim(count, "regions")) return false;
  op.regions.resize(count);
  Scope own;
  Cursor inner = c;
  if (isolated) {
    uint8_t id = 0;
    inner = c.Section(id);
    if (!Need(c)) return false;
    if (id != kIrSection) return Fail(StrCat("section ", id, " where regions are expected"));
  }
  for (Region& region : op.regions) {
    if (!ReadRegion(inner, region, isolated ? own : scope, depth + 1)) return false;
  }
  if (!isolated) {
    c = inner;
  } else if (!inner.AtEnd()) {
    return Fail("bytes left over after its regions");
  }
  return Need(inner);
}

bool BytecodeIr::ReadRegion(Cursor& c, Region& region, Scope& scope, int depth) {
  size_t blocks = c.Count();
  if (!Need(c)) return false;
  if (blocks == 0) return true;
  size_t values = c.Count();
  if (!Need(c) || !Claim(blocks, "blocks") || !Claim(values, "values")) return false;
  size_t outer_next = scope.next, outer_size = scope.values.size();
  scope.next = outer_size;
  scope.values.resize(outer_size + values);
  region.blocks.resize(blocks);
  for (Block& block : region.blocks) {
    if (!ReadBlock(c, block, scope, depth)) return false;
  }
  scope.next = outer_next;
  scope.values.resize(outer_size);
  return true;
}

bool BytecodeIr::ReadArguments(Cursor& c, Block& block, Scope& scope) {
  block.arguments.resize(c.Count());
  for (size_t i = 0; i < block.arguments.size(); ++i) {
    bool has_location = false;
    const Type* type = entries_.GetType(c.VarIntWithFlag(has_location));
    if (has_location) c.VarInt();
    if (!Need(c)) return false;
    if (!type) return FailEntry();
    Value* value = block.arguments[i] = tree_.NewValue();
    value->type = type;
    value->block = &block;
    value->index = static_cast<int32_t>(i);
    if (!Define(value, scope)) return false;
  }
  bool use_lists = c.Byte() != 0;
  if (!Need(c)) return false;
  return use_lists ? SkipUseLists(c, block.arguments.size()) : true;
}

bool BytecodeIr::ReadBlock(Cursor& c, Block& block, Scope& scope, int depth) {
  bool has_arguments = false;
  uint64_t count = c.VarIntWithFlag(has_arguments);
  if (!Need(c)) return false;
  if (!Claim(count, "operations")) return false;
  if (has_arguments && !ReadArguments(c, block, scope)) return false;
  block.operations.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (!ReadOp(c, block, scope, depth)) return false;
  }
  return true;
}

}  // namespace weft::hlo::mlir
