// Short forms that the table of mlir_text_pretty.cc cannot say.
#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {

Result<bool> TextReader::ReadSpecial(Operation& op, std::string_view name) {
  if (name == "constant") {
    TRY(ReadConstant(op));
  } else if (name == "reduce") {
    TRY(ReadReduce(op));
  } else if (name == "while") {
    TRY(ReadWhile(op));
  } else if (name == "composite") {
    TRY(ReadComposite(op));
  } else {
    return false;
  }
  return true;
}

// {attributes} dense<...> : t
Status TextReader::ReadConstant(Operation& op) {
  TRY(ReadOptionalDict(op.attrs));
  const Attr* value = TRY(ReadAttr());
  if (value->kind != Attr::Kind::kDense) return Fail("expected dense<...>");
  Add(op, "value", value);
  return AddResults(op, {&value->type, 1});
}

// (%a init: %b), (%c init: %d) applies stablehlo.add across dimensions = [1] : type
// and the same without `applies`, with `reducer(%e: t, %f: t) (...) {...}` at the end.
Status TextReader::ReadReduce(Operation& op) {
  std::vector<Value*> inits;
  do {
    TRY(Expect('('));
    op.operands.push_back(TRY(ReadOperand()));
    TRY(ExpectName("init"));
    TRY(Expect(':'));
    inits.push_back(TRY(ReadOperand()));
    TRY(Expect(')'));
  } while (Take(','));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  std::string_view inner;
  if (TakeName("applies")) inner = TRY(ExpectAnyName("an operation"));
  TRY(ExpectName("across"));
  TRY(ExpectName("dimensions"));
  TRY(Expect('='));
  std::vector<int64_t> dimensions = TRY(ReadInts());
  Add(op, "dimensions", Ints(dimensions));
  TRY(ReadOptionalDict(op.attrs));
  TRY(Expect(':'));
  TRY(ReadSameTypes(op));
  TRY(ReadOptionalLocation(&op));
  if (!inner.empty()) return MakeReducer(op, inner, *op.operands[0]->type);
  TRY(ExpectName("reducer"));
  std::vector<Argument> firsts, seconds;
  auto argument = [&](std::vector<Argument>& to) -> Status {
    if (token().kind != Tok::kValue) return FailExpected("an argument of the reducer");
    Argument& added = to.emplace_back(Argument{.name = token().text});
    lexer_.Advance();
    TRY(Expect(':'));
    added.type = TRY(ReadType());
    return ReadOptionalLocation(nullptr);
  };
  while (Take('(')) {
    TRY(argument(firsts));
    TRY(Expect(','));
    TRY(argument(seconds));
    TRY(Expect(')'));
  }
  firsts.insert(firsts.end(), seconds.begin(), seconds.end());
  op.regions.push_back(TRY(ReadRegion(firsts)));
  return {};
}

// The region that `applies stablehlo.add` stands for.
Status TextReader::MakeReducer(Operation& op, std::string_view inner, const Type& operand) {
  if (!inner.starts_with("stablehlo.")) return Fail("a reduction by ", inner);
  if (operand.kind != Type::Kind::kTensor) return Fail("a reduction of what is no tensor");
  const Type* scalar = TensorOf(operand.dtype, {});
  Block& block = op.regions.emplace_back().blocks.emplace_back();
  auto operation = [&]() -> Operation& {
    Operation* made = tree_.NewOperation();
    made->location = op.location;
    made->line = op.line;
    made->column = op.column;
    block.operations.push_back(made);
    return *made;
  };
  for (int32_t i = 0; i < 2; ++i) {
    Value* value = tree_.NewValue();
    value->type = scalar;
    value->index = i;
    value->block = &block;
    block.arguments.push_back(value);
  }
  Operation& applied = operation();
  applied.operands = block.arguments;
  TRY(AddResults(applied, {&scalar, 1}));
  TRY(Finish(applied, inner));
  Operation& terminator = operation();
  terminator.operands = applied.results;
  return Finish(terminator, "stablehlo.return");
}

// (%a = %0, %b = %1) : t, t attributes {...} cond {...} do {...}
Status TextReader::ReadWhile(Operation& op) {
  std::vector<Argument> arguments;
  TRY(List('(', ')', [&]() -> Status {
    if (token().kind != Tok::kValue) return FailExpected("a name for a loop value");
    arguments.push_back({.name = token().text});
    lexer_.Advance();
    TRY(Expect('='));
    op.operands.push_back(TRY(ReadOperand()));
    return {};
  }));
  Types types;
  if (!arguments.empty()) {
    TRY(Expect(':'));
    TRY(ReadTypeList(types));
  }
  TRY(CheckOperands(op, types));
  for (size_t i = 0; i < types.size(); ++i) arguments[i].type = types[i];
  if (TakeName("attributes")) TRY(ReadDictEntries(op.attrs));
  TRY(ExpectName("cond"));
  op.regions.push_back(TRY(ReadRegion(arguments)));
  TRY(ExpectName("do"));
  op.regions.push_back(TRY(ReadRegion(arguments)));
  return AddResults(op, types);
}

// @callee(%0) {...} : (t) -> t
Status TextReader::ReadCall(Operation& op) {
  Add(op, "callee", Text(Attr::Kind::kSymbol, TRY(ExpectSymbol())));
  return ReadForm(op, "( %* ) {} :same");
}

// "name" %0, %1 ({...}) {...} : (t, t) -> t
Status TextReader::ReadComposite(Operation& op) {
  Add(op, "name", Text(Attr::Kind::kString, TRY(ExpectString("the name of a composite"))));
  TRY(ReadOperands(op));
  if (At('(')) {
    TRY(List('(', ')', [&]() -> Status {
      op.regions.push_back(TRY(ReadRegion({})));
      return {};
    }));
  }
  return ReadForm(op, "{} :same");
}

// (%0, k = 2, is_stable = true) {...} : t -> (t, t)
Status TextReader::ReadTopK(Operation& op) {
  return ReadForm(op, "( % , k = $k/i64 ?, is_stable = $is_stable/bool /? ) {} :arrow");
}

// (%0) in_shardings=[...] out_shardings=[...] manual_axes={...} (%1: t) {...} {...} : (t) -> t
Status TextReader::ReadManualComputation(Operation& op) {
  TRY(ReadForm(op, "( %* ) in_shardings ="));
  Add(op, "in_shardings", TRY(ReadShardings()));
  TRY(ReadForm(op, "out_shardings ="));
  Add(op, "out_shardings", TRY(ReadShardings()));
  TRY(ReadForm(op, "manual_axes ="));
  Add(op, "manual_axes", TRY(ReadManualAxes()));
  std::vector<Argument> arguments;
  Types types;
  std::vector<const Attr*> attrs;
  TRY(ReadFuncArguments(arguments, types, attrs));
  if (arguments.size() != types.size()) return Fail("an argument without a name");
  op.regions.push_back(TRY(ReadRegion(arguments)));
  return ReadForm(op, "{} :same");
}

// <"name">(%0) in_shardings=[...] out_shardings=[...] (%1: t) {...} : (t) -> t
Status TextReader::ReadNamedComputation(Operation& op) {
  TRY(ReadForm(op, "< $name/string > ( %* )"));
  if (TakeName("in_shardings")) {
    TRY(Expect('='));
    Add(op, "in_shardings", TRY(ReadShardings()));
  }
  if (TakeName("out_shardings")) {
    TRY(Expect('='));
    Add(op, "out_shardings", TRY(ReadShardings()));
  }
  std::vector<Argument> arguments;
  Types types;
  std::vector<const Attr*> attrs;
  TRY(ReadFuncArguments(arguments, types, attrs));
  if (arguments.size() != types.size()) return Fail("an argument without a name");
  op.regions.push_back(TRY(ReadRegion(arguments)));
  return ReadForm(op, "{} :same");
}

// --- Attributes in forms of their own

// [0:4, 2:8:3]
Status TextReader::ReadSliceRanges(Operation& op) {
  std::vector<int64_t> starts, limits, strides;
  TRY(List('[', ']', [&]() -> Status {
    starts.push_back(TRY(ExpectInt("where a slice starts")));
    TRY(Expect(':'));
    limits.push_back(TRY(ExpectInt("where a slice ends")));
    strides.push_back(Take(':') ? TRY(ExpectInt("the stride of a slice")) : 1);
    return {};
  }));
  Add(op, "limit_indices", Ints(limits));
  Add(op, "start_indices", Ints(starts));
  Add(op, "strides", Ints(strides));
  return {};
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [...], algorithm = <...>
Status TextReader::ReadDotDims(Operation& op) {
  std::vector<int64_t> batch[2], contract[2];
  auto pair = [&](std::vector<int64_t>* sides) -> Status {
    TRY(Expect('='));
    sides[0] = TRY(ReadInts());
    TRY(ExpectName("x"));
    sides[1] = TRY(ReadInts());
    return {};
  };
  if (TakeName("batching_dims")) {
    TRY(pair(batch));
    TRY(Expect(','));
  }
  TRY(ExpectName("contracting_dims"));
  TRY(pair(contract));
  Add(op, "lhs_batching_dimensions", Ints(batch[0]));
  Add(op, "rhs_batching_dimensions", Ints(batch[1]));
  Add(op, "lhs_contracting_dimensions", Ints(contract[0]));
  Add(op, "rhs_contracting_dimensions", Ints(contract[1]));
  return ReadPrecision(op);
}

Status TextReader::ReadPrecision(Operation& op) {
  while (Take(',')) {
    if (TakeName("algorithm")) {
      TRY(Expect('='));
      Add(op, "algorithm", TRY(ReadStruct("dot_algorithm")));
      continue;
    }
    TRY(ExpectName("precision"));
    TRY(Expect('='));
    std::vector<const Attr*> precisions;
    TRY(List('[', ']', [&]() -> Status {
      precisions.push_back(Text(Attr::Kind::kEnum, TRY(ExpectAnyName("DEFAULT, HIGH or HIGHEST"))));
      return {};
    }));
    Add(op, "precision_config", Array(std::move(precisions)));
  }
  return {};
}

// {stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = ..., rhs_dilate = ..., reverse = [false]}
Status TextReader::ReadWindow(Operation& op) {
  return List('{', '}', [&]() -> Status {
    std::string_view key = TRY(ExpectAnyName("stride, pad, lhs_dilate, rhs_dilate or reverse"));
    TRY(Expect('='));
    if (key == "pad") {
      std::vector<int64_t> values;
      TRY(List('[', ']', [&]() -> Status {
        std::vector<int64_t> pair = TRY(ReadInts());
        if (pair.size() != 2) return Fail("expected low and high padding");
        values.insert(values.end(), pair.begin(), pair.end());
        return {};
      }));
      auto rows = static_cast<int64_t>(values.size() / 2);
      Add(op, "padding", DenseInts(values, {rows, 2}));
      return {};
    }
    std::vector<int64_t> values = TRY(ReadInts());
    if (key == "stride") {
      Add(op, "window_strides", Ints(values));
    } else if (key == "lhs_dilate") {
      Add(op, "lhs_dilation", Ints(values));
    } else if (key == "rhs_dilate") {
      Add(op, "rhs_dilation", Ints(values));
    } else if (key == "reverse") {
      for (int64_t& value : values) value = value != 0;
      Add(op, "window_reversal", Ints(values, DType::kPred));
    } else {
      return Fail("unknown part of a window: ", key);
    }
    return {};
  });
}

// e5m10
Status TextReader::ReadExponentMantissa(Operation& op) {
  std::string_view text = token().kind == Tok::kName ? token().text : std::string_view();
  size_t m = text.find('m');
  std::optional<int64_t> exponent, mantissa;
  if (text.starts_with('e') && m != std::string_view::npos) {
    exponent = ParseInt(text.substr(1, m - 1));
    mantissa = ParseInt(text.substr(m + 1));
  }
  if (!exponent || !mantissa) return FailExpected("a format such as e5m10");
  lexer_.Advance();
  Add(op, "exponent_bits", Int(*exponent, DType::kS32));
  Add(op, "mantissa_bits", Int(*mantissa, DType::kS32));
  return {};
}

}  // namespace weft::hlo::mlir
