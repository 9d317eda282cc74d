// Operations, regions and values of MLIR text; modules and functions.
#include <algorithm>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {
namespace {

bool SameType(const Type& a, const Type& b) {
  if (&a == &b) return true;
  auto same = [](const std::vector<const Type*>& x, const std::vector<const Type*>& y) {
    return std::ranges::equal(x, y, [](const Type* p, const Type* q) { return SameType(*p, *q); });
  };
  return a.kind == b.kind && a.dtype == b.dtype && a.index_element == b.index_element &&
         a.dims == b.dims && a.bounds == b.bounds && same(a.elements, b.elements) &&
         same(a.results, b.results);
}

}  // namespace

// --- Values

void TextReader::Define(std::string_view name, Definition definition) {
  auto [it, fresh] = values_.try_emplace(name, definition);
  undo_.emplace_back(name, fresh ? Definition{} : it->second);
  it->second = definition;
}

void TextReader::Leave(size_t mark) {
  while (undo_.size() > mark) {
    auto& [name, before] = undo_.back();
    if (before.value == nullptr && before.values == nullptr) {
      values_.erase(name);
    } else {
      values_[name] = before;
    }
    undo_.pop_back();
  }
}

Status TextReader::DefineResults(const std::vector<Value*>& values,
                                 std::span<const ResultName> names) {
  if (names.empty()) return {};
  int64_t named = 0;
  for (const ResultName& name : names) named += name.count;
  if (named != static_cast<int64_t>(values.size())) {
    return Fail(named, " results are named, but the operation has ", values.size());
  }
  int32_t first = 0;
  for (const ResultName& name : names) {
    Define(name.name, {.value = nullptr, .values = &values, .first = first, .count = name.count});
    first += name.count;
  }
  return {};
}

Result<Value*> TextReader::ReadOperand() {
  if (token().kind != Tok::kValue) return FailExpected("a value such as %0");
  std::string_view name = token().text;
  auto it = values_.find(name);
  if (it == values_.end()) return Fail("%", name, " is not defined here");
  Definition definition = it->second;
  lexer_.Advance();
  int64_t index = 0;
  if (token().kind == Tok::kHash && IsDigit(token().text[0])) {
    index = ParseInt(token().text).value_or(-1);
    if (index < 0 || index >= definition.count) {
      return Fail("%", name, " has ", definition.count, " results");
    }
    lexer_.Advance();
  }
  if (definition.value != nullptr) return definition.value;
  return (*definition.values)[static_cast<size_t>(definition.first + index)];
}

Status TextReader::ReadOperands(Operation& op) {
  if (token().kind != Tok::kValue) return {};
  do {
    op.operands.push_back(TRY(ReadOperand()));
  } while (Take(','));
  return {};
}

Status TextReader::CheckOperands(const Operation& op, std::span<const Type* const> types) {
  if (types.size() != op.operands.size()) {
    return Fail(op.operands.size(), " operands, but types for ", types.size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (!SameType(*types[i], *op.operands[i]->type)) {
      return Fail("operand ", i, " has another type where it is defined");
    }
  }
  return {};
}

Status TextReader::AddResults(Operation& op, std::span<const Type* const> types) {
  for (const Type* type : types) {
    Value* value = tree_.NewValue();
    value->type = type;
    value->op = &op;
    value->index = static_cast<int32_t>(op.results.size());
    op.results.push_back(value);
  }
  return {};
}

// --- Operations

Status TextReader::ReadOperations(Block& block) {
  while (!At('}') && token().kind != Tok::kEof && token().kind != Tok::kBlock) {
    if (token().kind == Tok::kHash || token().kind == Tok::kBang) {
      TRY(ReadAliasDefinition());
    } else {
      TRY(ReadOperation(block));
    }
  }
  return {};
}

Status TextReader::ReadOperation(Block& block) {
  Nested nested(depth_);
  TRY(CheckDepth());
  size_t start = token().offset;
  std::vector<ResultName> names;
  if (token().kind == Tok::kValue) {
    do {
      if (token().kind != Tok::kValue) return FailExpected("the name of a result");
      ResultName& result = names.emplace_back(ResultName{token().text});
      lexer_.Advance();
      if (Take(':')) {
        int64_t count = TRY(ExpectInt("a number of results"));
        if (count < 1 || count > INT32_MAX) return Fail(count, " results");
        result.count = static_cast<int32_t>(count);
      }
    } while (Take(','));
    TRY(Expect('='));
  }
  Operation& op = *tree_.NewOperation();
  auto [line, column] = LineOf(start);
  op.line = line;
  op.column = column;
  std::string_view name;
  if (token().kind == Tok::kString) {
    name = TRY(ExpectString("the name of an operation"));
    TRY(ReadGenericOperation(op));
  } else {
    name = TRY(ExpectAnyName("an operation"));
    if (name == "module") name = "builtin.module";
    if (name == "func" || name == "call" || name == "return") {
      name = tree_.Keep(StrCat("func.", name));
    }
    Status read = ReadPrettyOperation(op, name);
    if (!read) {  // the innermost operation names itself
      Error error = std::move(read).error();
      if (!std::exchange(named_, true)) error.Prefix(StrCat(name, ": "));
      return std::unexpected(std::move(error));
    }
  }
  TRY(ReadOptionalLocation(&op));
  if (name == "builtin.unrealized_conversion_cast") {
    if (op.operands.size() != op.results.size()) {
      return Fail("a conversion cast of ", op.operands.size(), " values to ", op.results.size());
    }
    return DefineResults(op.operands, names);
  }
  TRY(Finish(op, name));
  block.operations.push_back(&op);
  return DefineResults(op.results, names);
}

// (%0, %1) <{properties}> ({regions}) {attributes} : (types) -> types
Status TextReader::ReadGenericOperation(Operation& op) {
  TRY(Expect('('));
  TRY(ReadOperands(op));
  TRY(Expect(')'));
  if (At('[')) return Fail("operations with successors are not supported");
  if (Take('<')) {
    TRY(ReadDictEntries(op.attrs));
    TRY(Expect('>'));
  }
  if (At('(')) {
    TRY(List('(', ')', [&]() -> Status {
      op.regions.push_back(TRY(ReadRegion({})));
      return {};
    }));
  }
  TRY(ReadOptionalDict(op.attrs));
  TRY(Expect(':'));
  const Type* type = TRY(ReadType());
  if (type->kind != Type::Kind::kFunction) return Fail("expected a type such as (t) -> t");
  TRY(CheckOperands(op, type->elements));
  return AddResults(op, type->results);
}

Status TextReader::AddArgument(Block& block, const Argument& argument) {
  Value* value = tree_.NewValue();
  value->type = argument.type;
  value->index = static_cast<int32_t>(block.arguments.size());
  block.arguments.push_back(value);
  Define(argument.name, {.value = value});
  return {};
}

// ^bb0(%arg0: tensor<f32> loc(...)):
Status TextReader::ReadBlockLabel(Block& block) {
  lexer_.Advance();
  if (At('(')) {
    TRY(List('(', ')', [&]() -> Status {
      if (token().kind != Tok::kValue) return FailExpected("a block argument");
      Argument argument{.name = token().text};
      lexer_.Advance();
      TRY(Expect(':'));
      argument.type = TRY(ReadType());
      TRY(ReadOptionalLocation(nullptr));
      return AddArgument(block, argument);
    }));
  }
  return Expect(':');
}

Result<Region> TextReader::ReadRegion(std::span<const Argument> arguments) {
  Nested nested(depth_);
  TRY(CheckDepth());
  TRY(Expect('{'));
  size_t mark = undo_.size();
  Region region;
  Block& entry = region.blocks.emplace_back();
  for (const Argument& argument : arguments) TRY(AddArgument(entry, argument));
  if (token().kind == Tok::kBlock) {
    if (!arguments.empty()) return Fail("a second list of arguments");
    TRY(ReadBlockLabel(entry));
  }
  TRY(ReadOperations(entry));
  if (token().kind == Tok::kBlock) return Fail("regions of several blocks are not supported");
  TRY(Expect('}'));
  Leave(mark);
  for (Value* value : entry.arguments) value->block = &entry;
  return region;
}

// --- Modules and functions

// module @name attributes {...} {...}
Status TextReader::ReadModuleOp(Operation& op) {
  if (token().kind == Tok::kSymbol) {
    Add(op, "sym_name", Text(Attr::Kind::kString, TRY(ExpectSymbol())));
  }
  if (TakeName("attributes")) TRY(ReadDictEntries(op.attrs));
  op.regions.push_back(TRY(ReadRegion({})));
  return {};
}

// func.func public @main(%arg0: t {...}) -> (t {...}) attributes {...} {...}
Status TextReader::ReadFunc(Operation& op) {
  std::string_view visibility;
  for (std::string_view word : {"public", "private", "nested"}) {
    if (TakeName(word)) visibility = word;
  }
  std::string_view name = TRY(ExpectSymbol());
  std::vector<Argument> arguments;
  std::vector<const Attr*> argument_attrs, result_attrs;
  Type* type = tree_.NewType();
  type->kind = Type::Kind::kFunction;
  TRY(ReadFuncArguments(arguments, type->elements, argument_attrs));
  if (TakeArrow()) TRY(ReadFuncResults(type->results, result_attrs));
  if (TakeName("attributes")) TRY(ReadDictEntries(op.attrs));
  Attr* function_type = tree_.NewAttr(Attr::Kind::kType);
  function_type->type = type;
  Add(op, "arg_attrs", Array(std::move(argument_attrs)));
  Add(op, "function_type", function_type);
  Add(op, "res_attrs", Array(std::move(result_attrs)));
  Add(op, "sym_name", Text(Attr::Kind::kString, name));
  Add(op, "sym_visibility", Text(Attr::Kind::kString, visibility));
  if (At('{')) {
    if (arguments.size() != type->elements.size()) return Fail("an argument without a name");
    op.regions.push_back(TRY(ReadRegion(arguments)));
  } else {
    op.regions.emplace_back();
  }
  return {};
}

Status TextReader::ReadFuncArguments(std::vector<Argument>& arguments, Types& types,
                                     std::vector<const Attr*>& attrs) {
  return List('(', ')', [&]() -> Status {
    if (token().kind == Tok::kValue) {
      arguments.push_back({.name = token().text});
      lexer_.Advance();
      TRY(Expect(':'));
    }
    types.push_back(TRY(ReadType()));
    if (!arguments.empty()) arguments.back().type = types.back();
    attrs.push_back(At('{') ? TRY(ReadDict()) : NewDict(""));
    return ReadOptionalLocation(nullptr);
  });
}

Status TextReader::ReadFuncResults(Types& types, std::vector<const Attr*>& attrs) {
  if (!At('(')) {
    types.push_back(TRY(ReadType()));
    attrs.push_back(NewDict(""));
    return {};
  }
  return List('(', ')', [&]() -> Status {
    types.push_back(TRY(ReadType()));
    attrs.push_back(At('{') ? TRY(ReadDict()) : NewDict(""));
    return {};
  });
}

}  // namespace weft::hlo::mlir
