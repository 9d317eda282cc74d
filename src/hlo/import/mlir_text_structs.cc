// Attributes of the dialects stablehlo, mhlo, chlo and sdy.
#include <algorithm>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {

// #alias, #stablehlo.gather<...>, #stablehlo<precision DEFAULT>.
Result<const Attr*> TextReader::ReadHashAttr() {
  std::string_view name = token().text;
  bool body_follows = lexer_.source().substr(lexer_.position(), 1) == "<";
  size_t dot = name.find('.');
  if (dot == std::string_view::npos && !body_follows) {
    Alias* alias = TRY(FindAlias('#', name));
    if (alias->attr == nullptr) {
      if (!alias->is_place) return Fail("#", name, " is not an attribute");
      lexer_.Advance();
      return tree_.NewAttr(Attr::Kind::kUnit);
    }
    lexer_.Advance();
    return alias->attr;
  }
  lexer_.Advance();
  std::string_view dialect = name.substr(0, dot);
  if (dot != std::string_view::npos) {
    if (!At('<')) return FailExpected("'<'");
    return ReadDialectAttr(name.substr(dot + 1), dialect == "sdy");
  }
  TRY(Expect('<'));
  std::string_view mnemonic = TRY(ExpectAnyName("the name of an attribute"));
  const Attr* attr = nullptr;
  if (token().kind == Tok::kName) {  // #stablehlo<precision DEFAULT>
    attr = Text(Attr::Kind::kEnum, token().text);
    lexer_.Advance();
  } else {
    attr = TRY(ReadDialectAttr(mnemonic, dialect == "sdy"));
  }
  TRY(Expect('>'));
  return attr;
}

Result<const Attr*> TextReader::ReadDialectAttr(std::string_view mnemonic, bool sdy) {
  if (sdy) return ReadSdyAttr(mnemonic);
  if (mnemonic == "conv") {
    TRY(Expect('<'));
    const Attr* attr = At('[') ? TRY(ReadConvDims(mnemonic)) : nullptr;
    if (attr == nullptr) return Fail("expected [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]");
    TRY(Expect('>'));
    return attr;
  }
  if (mnemonic == "bounds") return Fail("bounds belong in the type of a tensor");
  return ReadStruct(mnemonic);
}

// <a = 1, b = [2, 3]>; <HIGHEST>.
Result<const Attr*> TextReader::ReadStruct(std::string_view mnemonic) {
  TRY(Expect('<'));
  if (token().kind == Tok::kName && lexer_.source().substr(lexer_.position(), 1) == ">") {
    const Attr* attr = Text(Attr::Kind::kEnum, token().text);
    lexer_.Advance();
    lexer_.Advance();
    return attr;
  }
  Attr* dict = NewDict(mnemonic);
  if (mnemonic == "result_accuracy") {
    Attr* zero = tree_.NewAttr(Attr::Kind::kFloat);
    zero->type = Element(DType::kF64);
    dict->names = {"atol", "rtol", "ulps", "mode"};
    dict->elements = {zero, zero, Int(0), Text(Attr::Kind::kEnum, "DEFAULT")};
  }
  while (!Take('>')) {
    std::string_view key = TRY(ExpectAnyName("the name of a field"));
    TRY(Expect('='));
    const Attr* value = TRY(ReadStructValue(key));
    size_t i = 0;
    while (i < dict->names.size() && dict->names[i] != key) ++i;
    if (i < dict->names.size()) {
      dict->elements[i] = value;
    } else {
      AddField(dict, key, value);
    }
    if (!Take(',') && !At('>')) return FailExpected("',' or '>'");
  }
  return dict;
}

Result<const Attr*> TextReader::ReadStructValue(std::string_view key) {
  if (At('(')) return ReadSubAxis();
  if (At('[') && key != "axes") return Ints(TRY(ReadInts()));
  return ReadAttr();
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
Result<const Attr*> TextReader::ReadConvDims(std::string_view mnemonic) {
  Attr* dict = NewDict(mnemonic);
  TRY(ReadConvSide("input", 'b', 'f', dict));
  TRY(ExpectName("x"));
  TRY(ReadConvSide("kernel", 'i', 'o', dict));
  TRY(ExpectArrow());
  TRY(ReadConvSide("output", 'b', 'f', dict));
  return dict;
}

// Letters name the two special dimensions, numbers the spatial ones; `?` stands for one that is
// none of them.
Status TextReader::ReadConvSide(std::string_view side, char first, char second, Attr* dict) {
  int64_t at = 0, first_dim = -1, second_dim = -1;
  std::vector<int64_t> spatial;
  TRY(List('[', ']', [&]() -> Status {
    if (token().kind == Tok::kName && token().text.size() == 1 &&
        (token().text[0] == first || token().text[0] == second)) {
      (token().text[0] == first ? first_dim : second_dim) = at;
      lexer_.Advance();
    } else if (!Take('?')) {
      int64_t index = TRY(ExpectInt("b, f, i, o or the number of a spatial dimension"));
      if (index < 0 || index >= kMaxRank) return Fail("spatial dimension ", index);
      if (spatial.size() <= static_cast<size_t>(index)) spatial.resize(index + 1, -1);
      spatial[index] = at;
    }
    ++at;
    return {};
  }));
  bool kernel = side == "kernel";
  if (first_dim < 0 || second_dim < 0)
    return Fail("a letter of the ", side, " dimensions is missing");
  for (int64_t dim : spatial) {
    if (dim < 0) return Fail("a spatial dimension of the ", side, " is missing");
  }
  auto name = [&](std::string_view what) { return tree_.Keep(StrCat(side, what)); };
  AddField(dict, name(kernel ? "_input_feature_dimension" : "_batch_dimension"), Int(first_dim));
  AddField(dict, name(kernel ? "_output_feature_dimension" : "_feature_dimension"),
           Int(second_dim));
  AddField(dict, name("_spatial_dimensions"), Ints(spatial));
  return {};
}

// --- sdy

Result<const Attr*> TextReader::ReadSdyAttr(std::string_view mnemonic) {
  if (mnemonic == "sharding") return ReadSharding();
  if (mnemonic == "mesh") return ReadMesh();
  if (mnemonic == "manual_axes") return ReadManualAxes();
  if (mnemonic == "sharding_per_value") {
    TRY(Expect('<'));
    const Attr* attr = TRY(ReadShardings());
    TRY(Expect('>'));
    return attr;
  }
  Attr* dict = NewDict(mnemonic);
  AddField(dict, "value", Text(Attr::Kind::kString, TRY(SkipBalanced())));
  return dict;
}

Result<const Attr*> TextReader::ReadMesh() {
  Attr* mesh = NewDict("mesh");
  std::vector<const Attr*> axes;
  std::vector<int64_t> device_ids;
  TRY(Expect('<'));
  TRY(List('[', ']', [&]() -> Status {
    Attr* axis = NewDict("mesh_axis");
    AddField(axis, "name", Text(Attr::Kind::kString, TRY(ExpectString("the name of an axis"))));
    TRY(Expect('='));
    AddField(axis, "size", Int(TRY(ExpectInt("the size of an axis"))));
    axes.push_back(axis);
    return {};
  }));
  if (Take(',')) {
    TRY(ExpectName("device_ids"));
    TRY(Expect('='));
    device_ids = TRY(ReadInts());
  }
  TRY(Expect('>'));
  AddField(mesh, "axes", Array(std::move(axes)));
  AddField(mesh, "device_ids", Ints(device_ids));
  return mesh;
}

Result<const Attr*> TextReader::ReadSharding() {
  Attr* sharding = NewDict("sharding");
  std::vector<const Attr*> dims;
  const Attr* replicated = nullptr;
  const Attr* unreduced = nullptr;
  TRY(Expect('<'));
  if (TakeName("mesh")) {
    AddField(sharding, "mesh_or_ref", TRY(ReadMesh()));
  } else {
    AddField(sharding, "mesh_or_ref", Text(Attr::Kind::kSymbol, TRY(ExpectSymbol())));
  }
  TRY(Expect(','));
  TRY(List('[', ']', [&]() -> Status {
    dims.push_back(TRY(ReadDimSharding()));
    return {};
  }));
  while (Take(',')) {
    std::string_view key = TRY(ExpectAnyName("replicated or unreduced"));
    if (key != "replicated" && key != "unreduced") return Fail("unknown part of a sharding: ", key);
    Take('=');
    if (token().kind == Tok::kName) {
      constexpr std::string_view kReductions[] = {"sum", "max", "min"};
      const auto* known = std::ranges::find(kReductions, token().text);
      if (known == std::end(kReductions)) {
        return Fail("unreduced axes whose reduction is ", token().text);
      }
      AddField(sharding, "reduction_op", Int(known - kReductions));
      lexer_.Advance();
    }
    (key == "replicated" ? replicated : unreduced) = TRY(ReadAxes());
  }
  TRY(Expect('>'));
  AddField(sharding, "dim_shardings", Array(std::move(dims)));
  AddField(sharding, "replicated_axes", replicated != nullptr ? replicated : Array({}));
  AddField(sharding, "unreduced_axes", unreduced != nullptr ? unreduced : Array({}));
  return sharding;
}

Result<const Attr*> TextReader::ReadShardings() {
  std::vector<const Attr*> shardings;
  TRY(List('[', ']', [&]() -> Status {
    shardings.push_back(TRY(ReadSharding()));
    return {};
  }));
  Attr* dict = NewDict("sharding_per_value");
  AddField(dict, "shardings", Array(std::move(shardings)));
  return dict;
}

// {"x", "y":(1)2, ?}p0
Result<const Attr*> TextReader::ReadDimSharding() {
  std::vector<const Attr*> axes;
  bool closed = true;
  TRY(List('{', '}', [&]() -> Status {
    if (Take('?')) {
      closed = false;
      return {};
    }
    axes.push_back(TRY(ReadAxisRef()));
    return {};
  }));
  Attr* dict = NewDict("dim_sharding");
  AddField(dict, "axes", Array(std::move(axes)));
  AddField(dict, "is_closed", Bool(closed));
  if (token().kind == Tok::kName && token().text.starts_with('p')) {
    std::optional<int64_t> priority = ParseInt(token().text.substr(1));
    if (!priority) return FailExpected("a priority such as p0");
    AddField(dict, "priority", Int(*priority));
    lexer_.Advance();
  }
  return dict;
}

Result<const Attr*> TextReader::ReadAxes() {
  std::vector<const Attr*> axes;
  TRY(List('{', '}', [&]() -> Status {
    axes.push_back(TRY(ReadAxisRef()));
    return {};
  }));
  return Array(std::move(axes));
}

Result<const Attr*> TextReader::ReadAxisRef() {
  Attr* axis = NewDict("axis_ref");
  AddField(axis, "name", Text(Attr::Kind::kString, TRY(ExpectString("the name of an axis"))));
  if (Take(':')) AddField(axis, "sub_axis_info", TRY(ReadSubAxis()));
  return axis;
}

Result<const Attr*> TextReader::ReadSubAxis() {
  Attr* info = NewDict("sub_axis_info");
  TRY(Expect('('));
  AddField(info, "pre_size", Int(TRY(ExpectInt("the size before a sub-axis"))));
  TRY(Expect(')'));
  AddField(info, "size", Int(TRY(ExpectInt("the size of a sub-axis"))));
  return info;
}

Result<const Attr*> TextReader::ReadManualAxes() {
  std::vector<const Attr*> axes;
  TRY(List('{', '}', [&]() -> Status {
    axes.push_back(Text(Attr::Kind::kString, TRY(ExpectString("the name of an axis"))));
    return {};
  }));
  Attr* dict = NewDict("manual_axes");
  AddField(dict, "value", Array(std::move(axes)));
  return dict;
}

}  // namespace weft::hlo::mlir
