// One reader per type of attribute value.
#include <algorithm>
#include <charconv>

#include "hlo/text/parser.h"

namespace weft::hlo::text {
namespace {

char LowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return LowerCase(x) == LowerCase(y);
         });
}
// Words that are written in lower case may be spelt in any case.
bool EnumMatches(std::string_view word, std::string_view name) {
  if (word == name) return true;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') return false;
  }
  return EqualIgnoringCase(word, name);
}
// -1: none.
int FindEnum(std::string_view word, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty() && EnumMatches(word, names[i])) return static_cast<int>(i);
  }
  return -1;
}
std::string EnumChoices(std::span<const std::string_view> names) {
  std::vector<std::string_view> shown;
  for (std::string_view name : names) {
    if (!name.empty()) shown.push_back(name);
  }
  return StrCat("one of ", StrJoin(shown, ", "));
}

// "0_1x2_3" split at c.
std::vector<std::string_view> SplitAt(std::string_view text, char c) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    size_t at = text.find(c, start);
    parts.push_back(text.substr(start, at - start));
    if (at == std::string_view::npos) return parts;
    start = at + 1;
  }
}

}  // namespace

Status Parser::ReadField(const FieldRef& f) {
  switch (f.type) {
    case FieldType::kBool: return ReadBool(f.As<bool>());
    case FieldType::kInt: return ReadInt(f.As<int64_t>());
    case FieldType::kOptionalInt: return ReadInt(f.As<std::optional<int64_t>>().emplace());
    case FieldType::kDouble: return ReadDouble(f.As<double>());
    case FieldType::kString: return ReadString(f.As<std::string>());
    case FieldType::kIntList:
      return ReadIntList(Tok::kLeftBrace, Tok::kRightBrace, f.As<std::vector<int64_t>>());
    case FieldType::kIntListList: return ReadIntListList(f.As<std::vector<std::vector<int64_t>>>());
    case FieldType::kIntPairs: return ReadIntPairs(f.As<IntPairs>());
    case FieldType::kEnum: return ReadEnum(f);
    case FieldType::kPrecisionList: return ReadPrecisions(f.As<std::vector<Precision>>());
    case FieldType::kWindow: return ReadWindow(f.As<Window>());
    case FieldType::kConvDims: return ReadConvDims(f.As<ConvDims>());
    case FieldType::kPadding: return ReadPad(f.As<Padding>(), /*interior_allowed=*/true);
    case FieldType::kSliceDims: return ReadSliceDims(f.As<SliceDims>());
    case FieldType::kReplicaGroups: return ReadReplicaGroups(f.As<ReplicaGroups>());
    case FieldType::kSharding: return ReadSharding(f.As<Sharding>());
    case FieldType::kComputation: return ReadComputationRef(f.name, f.As<Computation*>());
    case FieldType::kComputationList:
      return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
        Computation* computation = nullptr;
        TRY(ReadComputationRef(f.name, computation));
        f.As<std::vector<Computation*>>().push_back(computation);
        return {};
      });
    case FieldType::kShape: return ReadShape(f.As<Shape>());
    case FieldType::kShapeList:
      return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
        return ReadShape(f.As<std::vector<Shape>>().emplace_back());
      });
    case FieldType::kLiteral: return ReadTypedLiteral(f.As<Literal>());
    case FieldType::kOperandAliases: return ReadOperandAliases(f.As<OperandAliases>());
    case FieldType::kResultAccuracy: return ReadResultAccuracy(f.As<ResultAccuracy>());
    case FieldType::kSparsity: return ReadSparsity(f.As<SparsityConfig>());
  }
  return {};
}

Status Parser::ReadEnum(const FieldRef& f) {
  int value = kind() == Tok::kIdent ? FindEnum(lexer_.token().text, f.enum_names) : -1;
  if (value < 0) return Expected(EnumChoices(f.enum_names));
  f.As<uint8_t>() = static_cast<uint8_t>(value);
  lexer_.Next();
  return {};
}

Status Parser::ReadPrecisions(std::vector<Precision>& list) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    FieldRef item;
    item.enum_names = Names(Precision());
    item.value = &list.emplace_back();
    return ReadEnum(item);
  });
}

Status Parser::ReadSizes(std::vector<int64_t>& sizes) {
  if (kind() == Tok::kInt) return ReadInt(sizes.emplace_back());
  if (kind() != Tok::kDxD) return Expected("sizes like 3x3");
  for (std::string_view part : SplitAt(lexer_.token().text, 'x')) {
    std::optional<int64_t> size = ParseInt(part);
    if (!size) return Fail(part, " does not fit in 64 bits");
    sizes.push_back(*size);
  }
  lexer_.Next();
  return {};
}

Status Parser::ReadPad(Padding& padding, bool interior_allowed) {
  if (kind() != Tok::kPad) return Expected("padding like 0_0x1_1_2");
  for (std::string_view part : SplitAt(lexer_.token().text, 'x')) {
    std::vector<std::string_view> numbers = SplitAt(part, '_');
    std::optional<int64_t> low = ParseInt(numbers[0]), high = ParseInt(numbers[1]);
    if (numbers.size() > 2 && !interior_allowed) return Fail("a window's pad is like 0_0x1_1");
    std::optional<int64_t> interior = numbers.size() > 2 ? ParseInt(numbers[2]) : 0;
    if (!low || !high || !interior) return Fail("padding ", part, " does not fit in 64 bits");
    padding.push_back({*low, *high, *interior});
  }
  lexer_.Next();
  return {};
}

Status Parser::ReadWindow(Window& window) {
  const char* at = lexer_.token().begin;
  static constexpr std::string_view kParts[] = {"size", "stride", "lhs_dilate", "rhs_dilate",
                                                "rhs_reversal"};
  std::vector<int64_t> values[std::size(kParts)];
  Padding pad;
  TRY(Expect(Tok::kLeftBrace));
  while (!Eat(Tok::kRightBrace)) {
    const char* name_at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    if (name == "pad") {
      if (!pad.empty()) return FailAt(name_at, "window: pad= twice");
      TRY(ReadPad(pad, /*interior_allowed=*/false));
      continue;
    }
    size_t which = static_cast<size_t>(std::find(std::begin(kParts), std::end(kParts), name) -
                                       std::begin(kParts));
    if (which == std::size(kParts)) {
      return FailAt(name_at, "window: unknown ", name,
                    "; allowed: size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal");
    }
    if (!values[which].empty()) return FailAt(name_at, "window: ", name, "= twice");
    TRY(ReadSizes(values[which]));
  }
  size_t rank = values[0].size();
  auto fits = [&](size_t n) { return n == 0 || n == rank; };
  for (size_t i = 1; i < std::size(kParts); ++i) {
    if (!fits(values[i].size())) {
      return FailAt(at, "window: ", kParts[i], " has ", values[i].size(), " dimensions, size has ",
                    rank);
    }
  }
  if (!fits(pad.size())) {
    return FailAt(at, "window: pad has ", pad.size(), " dimensions, size has ", rank);
  }
  for (size_t i = 0; i < rank; ++i) {
    auto value = [&](size_t part) { return values[part].empty() ? 1 : values[part][i]; };
    WindowDim& d = window.dims.emplace_back();
    d.size = values[0][i];
    d.stride = value(1);
    d.base_dilation = value(2);
    d.window_dilation = value(3);
    d.reversal = !values[4].empty() && values[4][i] == 1;
    if (!pad.empty()) {
      d.pad_low = pad[i].low;
      d.pad_high = pad[i].high;
    }
  }
  return {};
}

namespace {

// Reads one group of labels, e.g. b01f: two letters and the spatial digits. False: malformed.
bool ReadLabelGroup(std::string_view labels, char first, char second, int64_t& first_dim,
                    int64_t& second_dim, std::vector<int64_t>& spatial, int64_t& rank) {
  rank = static_cast<int64_t>(labels.size());
  first_dim = second_dim = -1;
  for (char c : labels) {
    if (c >= '0' && c <= '9') spatial.push_back(-1);
  }
  for (int64_t i = 0; i < rank; ++i) {
    char c = labels[static_cast<size_t>(i)];
    if (c == '?') continue;
    int64_t* dim = nullptr;
    if (c == first) {
      dim = &first_dim;
    } else if (c == second) {
      dim = &second_dim;
    } else if (static_cast<size_t>(c - '0') < spatial.size()) {
      dim = &spatial[static_cast<size_t>(c - '0')];
    }
    if (dim == nullptr || *dim != -1) return false;
    *dim = i;
  }
  return first_dim >= 0 && second_dim >= 0;
}

}  // namespace

Status Parser::ReadConvDims(ConvDims& d) {
  if (kind() != Tok::kDimLabels) return Expected("dimension labels like b01f_01io->b01f");
  std::string_view text = lexer_.token().text;
  size_t underscore = text.find('_'), arrow = text.find("->");
  std::string_view in = text.substr(0, underscore);
  std::string_view kernel = text.substr(underscore + 1, arrow - underscore - 1);
  std::string_view out = text.substr(arrow + 2);
  if (!ReadLabelGroup(in, 'b', 'f', d.input_batch, d.input_feature, d.input_spatial,
                      d.input_rank) ||
      !ReadLabelGroup(kernel, 'i', 'o', d.kernel_input, d.kernel_output, d.kernel_spatial,
                      d.kernel_rank) ||
      !ReadLabelGroup(out, 'b', 'f', d.output_batch, d.output_feature, d.output_spatial,
                      d.output_rank)) {
    return Fail("dim_labels: each of ", in, ", ", kernel, ", ", out,
                " needs its two letters and the digits from 0, each once");
  }
  if (d.input_spatial.size() != d.kernel_spatial.size() ||
      d.input_spatial.size() != d.output_spatial.size()) {
    return Fail("dim_labels: ", in, ", ", kernel, " and ", out,
                " differ in number of spatial dimensions");
  }
  lexer_.Next();
  return {};
}

Status Parser::ReadSliceDims(SliceDims& dims) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    SliceDim& d = dims.emplace_back();
    TRY(Expect(Tok::kLeftSquare));
    TRY(ReadInt(d.start));
    TRY(Expect(Tok::kColon));
    TRY(ReadInt(d.limit));
    if (Eat(Tok::kColon)) TRY(ReadInt(d.stride));
    return Expect(Tok::kRightSquare);
  });
}

Status Parser::ReadIntPairs(IntPairs& pairs) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    auto& [first, second] = pairs.emplace_back();
    TRY(Expect(Tok::kLeftBrace));
    TRY(ReadInt(first));
    TRY(Expect(Tok::kComma));
    TRY(ReadInt(second));
    return Expect(Tok::kRightBrace);
  });
}

Status Parser::ReadOperandAliases(OperandAliases& aliases) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    OperandAlias& alias = aliases.emplace_back();
    TRY(ReadIndex(alias.output));
    TRY(Expect(Tok::kColon));
    TRY(Expect(Tok::kLeftParen));
    TRY(ReadInt(alias.operand));
    TRY(Expect(Tok::kComma));
    TRY(ReadIndex(alias.operand_index));
    return Expect(Tok::kRightParen);
  });
}

Status Parser::ReadResultAccuracy(ResultAccuracy& accuracy) {
  static constexpr std::string_view kModes[] = {"default", "highest"};
  TRY(Expect(Tok::kLeftBrace));
  const char* at = lexer_.token().begin;
  std::string_view name;
  TRY(ReadAttrName(name));
  if (name == "mode") {
    int mode = kind() == Tok::kIdent ? FindEnum(lexer_.token().text, kModes) : -1;
    if (mode < 0) return Expected(EnumChoices(kModes));
    accuracy.mode = static_cast<ResultAccuracy::Mode>(mode);
    lexer_.Next();
  } else if (name == "tolerance") {
    accuracy.mode = ResultAccuracy::Mode::kTolerance;
    TRY(ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
      const char* part_at = lexer_.token().begin;
      std::string_view part;
      TRY(ReadAttrName(part));
      if (part == "atol") return ReadDouble(accuracy.atol);
      if (part == "rtol") return ReadDouble(accuracy.rtol);
      if (part != "ulps") return FailAt(part_at, "unknown ", part, "; allowed: atol, rtol, ulps");
      double ulps = 0;
      TRY(ReadDouble(ulps));
      if (!(ulps >= -9e18 && ulps <= 9e18)) return FailAt(part_at, "ulps out of range");
      accuracy.ulps = static_cast<int64_t>(ulps);
      return {};
    }));
  } else {
    return FailAt(at, "unknown ", name, "; allowed: mode, tolerance");
  }
  return Expect(Tok::kRightBrace);
}

Status Parser::ReadSparsity(SparsityConfig& config) {
  TRY(Expect(Tok::kLeftBrace));
  while (!Eat(Tok::kRightBrace)) {
    Eat(Tok::kComma);
    const char* at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    if (name != "lhs" && name != "rhs") return FailAt(at, "unknown ", name, "; allowed: lhs, rhs");
    TRY(ReadTensorSparsity((name == "lhs" ? config.lhs : config.rhs).emplace()));
  }
  return {};
}

Status Parser::ReadTensorSparsity(TensorSparsity& sparsity) {
  TRY(Expect(Tok::kLeftBrace));
  while (!Eat(Tok::kRightBrace)) {
    Eat(Tok::kComma);
    const char* at = lexer_.token().begin;
    std::string_view name;
    TRY(ReadAttrName(name));
    if (name == "sparsity") {
      std::vector<int64_t> pair;
      TRY(ReadSizes(pair));
      if (pair.size() != 2) return FailAt(at, "sparsity is written like 2x4");
      sparsity.num_non_zero = pair[0];
      sparsity.block_size = pair[1];
    } else if (name == "dimension") {
      TRY(ReadInt(sparsity.dimension));
    } else if (name == "stride") {
      TRY(ReadInt(sparsity.stride));
    } else if (name == "idx") {
      TRY(ReadInt(sparsity.index_operand));
    } else {
      return FailAt(at, "unknown ", name, "; allowed: sparsity, dimension, stride, idx");
    }
  }
  return {};
}

Status Parser::ReadComputationRef(std::string_view attribute, Computation*& computation) {
  DepthGuard depth(depth_);
  if (!depth.ok()) return TooDeep();
  if (kind() == Tok::kLeftBrace) {
    return ReadInlineBody(
        current_.empty() ? std::string(attribute) : StrCat(current_, ".", attribute), computation);
  }
  const char* at = lexer_.token().begin;
  std::string_view name;
  TRY(ReadName(name, "a computation"));
  computation = computations_.Find(name);
  if (computation == nullptr) {
    return FailAt(at, "no computation named ", name, " stands before this one");
  }
  return {};
}

}  // namespace weft::hlo::text
