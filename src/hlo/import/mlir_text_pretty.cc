// The short forms of operations, as a table: what stands behind the operation's name.
#include <algorithm>
#include <array>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {
namespace {

// A form is words with spaces between:
//   %      a value                     %*    values with commas between, maybe none
//   %,*    values, each with a comma behind it
//   $n/k   the attribute n of kind k   {}    the other attributes
//   ?x     when x, a sign or a word, comes: all up to /?
//   :k     `:` and types by the rule k
// Anything else stands for itself.
struct PrettyForm {
  std::string_view name, form;
};

constexpr std::string_view kValues = "%* {} :same";

constexpr std::array kForms = {
    PrettyForm{"abs", kValues},
    PrettyForm{"add", kValues},
    PrettyForm{"after_all", kValues},
    PrettyForm{"and", kValues},
    PrettyForm{"atan2", kValues},
    PrettyForm{"bitcast_convert", kValues},
    PrettyForm{"broadcast", "% , sizes = $broadcast_sizes/ints {} :same"},
    PrettyForm{"broadcast_in_dim", "% , dims = $broadcast_dimensions/ints {} :same"},
    PrettyForm{"cbrt", kValues},
    PrettyForm{"ceil", kValues},
    PrettyForm{"cholesky", "% ?, lower = $lower/bool /? {} :same"},
    PrettyForm{"clamp", kValues},
    PrettyForm{"compare", "$comparison_direction/enum , % , % ?, $compare_type/enum /? {} :same"},
    PrettyForm{"complex", "%* {} :complex"},
    PrettyForm{"concatenate", "%,* dim = $dimension/i64 {} :same"},
    PrettyForm{"convert", kValues},
    PrettyForm{"convolution", "( %* ) dim_numbers = $/conv_dims , window = $/window {} :same"},
    PrettyForm{"cosine", kValues},
    PrettyForm{"count_leading_zeros", kValues},
    PrettyForm{"create_token", "{} :results"},
    PrettyForm{"custom_call", "$call_target_name/symbol ( %* ) {} :same"},
    PrettyForm{"divide", kValues},
    PrettyForm{"dot", "% , % $/precision {} :same"},
    PrettyForm{"dot_general", "% , % , $/dot_dims {} :same"},
    PrettyForm{"dynamic_broadcast_in_dim", "% , % , dims = $broadcast_dimensions/ints {} :same"},
    PrettyForm{"dynamic_iota", "% , dim = $iota_dimension/i64 {} :same"},
    PrettyForm{"dynamic_pad", kValues},
    PrettyForm{"dynamic_reshape", kValues},
    PrettyForm{"dynamic_slice", "% , %,* sizes = $slice_sizes/ints {} :same"},
    PrettyForm{"dynamic_update_slice", kValues},
    PrettyForm{"einsum", "% , % , config = $einsum_config/string {} :same"},
    PrettyForm{"exponential", kValues},
    PrettyForm{"exponential_minus_one", kValues},
    PrettyForm{"fft", "% , type = $fft_type/enum , length = $fft_length/ints {} :same"},
    PrettyForm{"floor", kValues},
    PrettyForm{"get_dimension_size", "% , dim = $dimension/i64 {} :same"},
    PrettyForm{"get_tuple_element", "% [ $index/i32 ] {} :same"},
    PrettyForm{"imag", kValues},
    PrettyForm{"iota", "dim = $iota_dimension/i64 {} :results"},
    PrettyForm{"is_finite", kValues},
    PrettyForm{"log", kValues},
    PrettyForm{"log_plus_one", kValues},
    PrettyForm{"logistic", kValues},
    PrettyForm{"maximum", kValues},
    PrettyForm{"minimum", kValues},
    PrettyForm{"multiply", kValues},
    PrettyForm{"negate", kValues},
    PrettyForm{"not", kValues},
    PrettyForm{"optimization_barrier", "{} ?( ) /? %* :pairs"},
    PrettyForm{"or", kValues},
    PrettyForm{"pad",
               "% , % , low = $edge_padding_low/ints , high = $edge_padding_high/ints , "
               "interior = $interior_padding/ints {} :same"},
    PrettyForm{"partition_id", "{} :results"},
    PrettyForm{"popcnt", kValues},
    PrettyForm{"power", kValues},
    PrettyForm{"real", kValues},
    PrettyForm{"real_dynamic_slice", kValues},
    PrettyForm{"reduce_precision", "% , format = $/exponent_mantissa {} :same"},
    PrettyForm{"remainder", kValues},
    PrettyForm{"replica_id", "{} :results"},
    PrettyForm{"reshape", kValues},
    PrettyForm{"return", "%* {} :operands"},
    PrettyForm{"reverse", "% , dims = $dimensions/ints {} :same"},
    PrettyForm{"rng", "% , % , % , distribution = $rng_distribution/enum {} :same"},
    PrettyForm{"rng_bit_generator", "% , algorithm = $rng_algorithm/enum {} :same"},
    PrettyForm{"round_nearest_afz", kValues},
    PrettyForm{"round_nearest_even", kValues},
    PrettyForm{"rsqrt", kValues},
    PrettyForm{"select", "%* {} :select"},
    PrettyForm{"set_dimension_size", "% , % , dim = $dimension/i64 {} :same"},
    PrettyForm{"shift_left", kValues},
    PrettyForm{"shift_right_arithmetic", kValues},
    PrettyForm{"shift_right_logical", kValues},
    PrettyForm{"sign", kValues},
    PrettyForm{"sine", kValues},
    PrettyForm{"slice", "% $/slice_ranges {} :same"},
    PrettyForm{"sqrt", kValues},
    PrettyForm{"subtract", kValues},
    PrettyForm{"tan", kValues},
    PrettyForm{"tanh", kValues},
    PrettyForm{"transpose", "% , dims = $permutation/ints {} :same"},
    PrettyForm{"tuple", "%* {} :tuple"},
    PrettyForm{"unary_einsum", "% , config = $einsum_config/string {} :same"},
    PrettyForm{"uniform_dequantize", kValues},
    PrettyForm{"uniform_quantize", kValues},
    PrettyForm{"xor", kValues},
};
static_assert(std::ranges::is_sorted(kForms, {}, &PrettyForm::name));

constexpr std::array kSdyForms = {
    PrettyForm{"sdy.data_flow_edge", "% ?sharding = $sharding/sharding /? {} :same"},
    PrettyForm{"sdy.mesh", "$sym_name/symbol = $mesh/mesh {}"},
    PrettyForm{"sdy.propagation_barrier", "% allowed_direction = $allowed_direction/enum {} :same"},
    PrettyForm{"sdy.reshard", "% $sharding/sharding {} :same"},
    PrettyForm{"sdy.return", "{} %* :operands"},
    PrettyForm{"sdy.sharding_constraint", "% $sharding/sharding {} :same"},
    PrettyForm{"sdy.sharding_group", "% group_id = $group_id/i64 {} :operands"},
};

std::string_view NextWord(std::string_view& form) {
  size_t end = std::min(form.find(' '), form.size());
  std::string_view word = form.substr(0, end);
  form.remove_prefix(std::min(end + 1, form.size()));
  return word;
}

}  // namespace

Status TextReader::ReadPrettyOperation(Operation& op, std::string_view name) {
  if (name == "builtin.module") return ReadModuleOp(op);
  if (name == "func.func") return ReadFunc(op);
  if (name == "func.call") return ReadCall(op);
  if (name == "func.return") return ReadForm(op, "{} %* :operands");
  if (name == "builtin.unrealized_conversion_cast") {
    TRY(ReadOperands(op));
    Types types;
    TRY(Expect(':'));
    TRY(ReadTypeList(types));
    TRY(CheckOperands(op, types));
    TRY(ExpectName("to"));
    types.clear();
    TRY(ReadTypeList(types));
    return AddResults(op, types);
  }
  std::string_view bare = name;
  if (bare.starts_with("stablehlo.")) {
    bare.remove_prefix(10);
    if (At('(') && lexer_.source().substr(lexer_.position(), 1) == ")" && bare == "constant") {
      return ReadGenericOperation(op);
    }
    if (TRY(ReadSpecial(op, bare))) return {};
    auto it = std::ranges::lower_bound(kForms, bare, {}, &PrettyForm::name);
    if (it != kForms.end() && it->name == bare) return ReadForm(op, it->form);
  } else if (bare.starts_with("chlo.")) {
    if (bare == "chlo.top_k") return ReadTopK(op);
    if (bare == "chlo.constant") return ReadConstant(op);
    return ReadForm(op, "%* {} :arrow");
  } else if (bare.starts_with("sdy.")) {
    if (bare == "sdy.manual_computation") return ReadManualComputation(op);
    if (bare == "sdy.named_computation") return ReadNamedComputation(op);
    if (bare == "sdy.constant") return ReadConstant(op);
    for (const PrettyForm& form : kSdyForms) {
      if (form.name == bare) return ReadForm(op, form.form);
    }
  }
  return FailAt(token().offset,
                Error(Code::kUnimplemented, "unknown operation, or one without a short form"));
}

Status TextReader::ReadForm(Operation& op, std::string_view form) {
  while (!form.empty()) {
    std::string_view word = NextWord(form);
    if (word == "%") {
      op.operands.push_back(TRY(ReadOperand()));
    } else if (word == "%*") {
      TRY(ReadOperands(op));
    } else if (word == "%,*") {
      while (token().kind == Tok::kValue) {
        op.operands.push_back(TRY(ReadOperand()));
        TRY(Expect(','));
      }
    } else if (word == "{}") {
      TRY(ReadOptionalDict(op.attrs));
    } else if (word[0] == '$') {
      size_t slash = word.find('/');
      TRY(ReadFormAttr(op, word.substr(1, slash - 1), word.substr(slash + 1)));
    } else if (word.size() > 1 && word[0] == ':') {
      TRY(ReadFormTypes(op, word.substr(1)));
    } else if (word[0] == '?') {
      if (word.size() == 2 ? Take(word[1]) : TakeName(word.substr(1))) continue;
      while (NextWord(form) != "/?") {
      }
    } else if (word == "/?") {
      continue;
    } else if (word.size() == 1 && !(word[0] >= 'a' && word[0] <= 'z')) {
      TRY(Expect(word[0]));
    } else {
      TRY(ExpectName(word));
    }
  }
  return {};
}

Status TextReader::ReadFormAttr(Operation& op, std::string_view name, std::string_view kind) {
  if (kind == "ints") {
    std::vector<int64_t> values = TRY(ReadInts());
    Add(op, name, Ints(values));
  } else if (kind == "i64") {
    Add(op, name, Int(TRY(ExpectInt("an integer"))));
  } else if (kind == "i32") {
    Add(op, name, Int(TRY(ExpectInt("an integer")), DType::kS32));
  } else if (kind == "bool") {
    Add(op, name, Bool(TRY(ExpectBool())));
  } else if (kind == "enum") {
    Add(op, name, Text(Attr::Kind::kEnum, TRY(ExpectAnyName("a keyword in capitals"))));
  } else if (kind == "string") {
    Add(op, name, Text(Attr::Kind::kString, TRY(ExpectString("a string"))));
  } else if (kind == "symbol") {
    Add(op, name, Text(Attr::Kind::kString, TRY(ExpectSymbol())));
  } else if (kind == "mesh") {
    Add(op, name, TRY(ReadMesh()));
  } else if (kind == "sharding") {
    Add(op, name, TRY(ReadSharding()));
  } else if (kind == "conv_dims") {
    Add(op, "dimension_numbers", TRY(ReadConvDims("conv")));
  } else if (kind == "window") {
    return ReadWindow(op);
  } else if (kind == "precision") {
    return ReadPrecision(op);
  } else if (kind == "dot_dims") {
    return ReadDotDims(op);
  } else if (kind == "exponent_mantissa") {
    return ReadExponentMantissa(op);
  } else if (kind == "slice_ranges") {
    return ReadSliceRanges(op);
  }
  return {};
}

// --- Types at the end of a form

Status TextReader::ReadFormTypes(Operation& op, std::string_view rule) {
  if (rule == "operands" || rule == "pairs") return ReadPairTypes(op, rule == "pairs");
  TRY(Expect(':'));
  if (rule == "same") return ReadSameTypes(op);
  if (rule == "select") return ReadSelectTypes(op);
  if (rule == "complex") return ReadComplexTypes(op);
  if (rule == "tuple") return ReadTupleTypes(op);
  if (rule == "arrow") return ReadArrowTypes(op);
  Types types;
  TRY(ReadTypeList(types));  // "results"
  return AddResults(op, types);
}

// t: of the operands and the one result; or (t, t) -> t.
Status TextReader::ReadSameTypes(Operation& op) {
  const Type* type = TRY(ReadType());
  if (type->kind == Type::Kind::kFunction) {
    TRY(CheckOperands(op, type->elements));
    return AddResults(op, type->results);
  }
  Types types(op.operands.size(), type);
  TRY(CheckOperands(op, types));
  return AddResults(op, {&type, 1});
}

// predicate, t; or (t, t, t) -> t.
Status TextReader::ReadSelectTypes(Operation& op) {
  Types types;
  TRY(ReadTypeList(types));
  if (types.size() == 1 && types[0]->kind == Type::Kind::kFunction) {
    TRY(CheckOperands(op, types[0]->elements));
    return AddResults(op, types[0]->results);
  }
  if (types.size() != 2) return Fail("expected the types of predicate and result");
  types.push_back(types[1]);
  TRY(CheckOperands(op, types));
  return AddResults(op, {&types[1], 1});
}

// The complex result alone; or (t, t) -> t.
Status TextReader::ReadComplexTypes(Operation& op) {
  const Type* type = TRY(ReadType());
  if (type->kind == Type::Kind::kFunction) {
    TRY(CheckOperands(op, type->elements));
    return AddResults(op, type->results);
  }
  return AddResults(op, {&type, 1});
}

Status TextReader::ReadTupleTypes(Operation& op) {
  const Type* type = TRY(ReadType());
  if (type->kind != Type::Kind::kTuple) return Fail("expected the type of a tuple");
  TRY(CheckOperands(op, type->elements));
  return AddResults(op, {&type, 1});
}

// Types of the operands, when there are any; results of the same types.
Status TextReader::ReadPairTypes(Operation& op, bool results) {
  Types types;
  if (!op.operands.empty() || At(':')) {
    TRY(Expect(':'));
    TRY(ReadTypeList(types));
  }
  TRY(CheckOperands(op, types));
  return results ? AddResults(op, types) : Status{};
}

// t, t -> t; or (t, t) -> t.
Status TextReader::ReadArrowTypes(Operation& op) {
  Types types, results;
  TRY(ReadTypeList(types));
  if (types.size() == 1 && types[0]->kind == Type::Kind::kFunction) {
    TRY(CheckOperands(op, types[0]->elements));
    return AddResults(op, types[0]->results);
  }
  TRY(CheckOperands(op, types));
  TRY(ExpectArrow());
  TRY(ReadResultTypes(results));
  return AddResults(op, results);
}

}  // namespace weft::hlo::mlir
