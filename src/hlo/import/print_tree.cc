// A Tree as MLIR text, generic form. Numbers keep every bit: floats that are not finite are written
// as their bits.
#include <cctype>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/float_formats.h"
#include "base/str.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {
namespace {

constexpr int64_t kMaxListed = 64;  // elements of a dense attribute before it becomes hex

void AppendHex(std::string& out, uint64_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789ABCDEF"[(value >> (4 * i)) & 15];
}

void AppendFloatBits(std::string& out, DType dtype, uint64_t bits) {
  double value = DecodeBits(dtype, bits);
  if (!std::isfinite(value)) {
    out += "0x";
    AppendHex(out, bits, static_cast<int>(ByteWidth(dtype)) * 2);
    return;
  }
  size_t begin = out.size();
  if (dtype == DType::kF32) {
    AppendFloat(out, static_cast<float>(value));
  } else {
    AppendDouble(out, value);
  }
  // MLIR's lexer wants a point.
  if (out.find('.', begin) != std::string::npos) return;
  size_t exponent = out.find('e', begin);
  out.insert(exponent == std::string::npos ? out.size() : exponent, ".0");
}

void AppendNumber(std::string& out, const Attr& attr) {
  DType dtype =
      attr.type && attr.type->kind == Type::Kind::kElement ? attr.type->dtype : DType::kF64;
  if (!IsFloat(dtype)) dtype = DType::kF64;
  AppendFloatBits(out, dtype, EncodeBits(dtype, attr.number));
}

void AppendInteger(std::string& out, const Type* type, int64_t value) {
  if (type && type->dtype == DType::kPred) {
    out += value ? "true" : "false";
  } else if (type && IsUnsigned(type->dtype)) {
    StrAppend(out, static_cast<uint64_t>(value));
  } else {
    StrAppend(out, value);
  }
}

void AppendMlirString(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    uint8_t byte = static_cast<uint8_t>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' || byte < 0x20 || byte >= 0x7f) {
      out += '\\';
      AppendHex(out, byte, 2);
    } else {
      out += c;
    }
  }
  out += '"';
}

bool IsBareName(std::string_view name) {
  if (name.empty() || !(std::isalpha(static_cast<uint8_t>(name[0])) || name[0] == '_')) {
    return false;
  }
  for (char c : name) {
    if (!std::isalnum(static_cast<uint8_t>(c)) && c != '_' && c != '$' && c != '.') return false;
  }
  return true;
}

void AppendName(std::string& out, std::string_view name) {
  if (IsBareName(name)) {
    out += name;
  } else {
    AppendMlirString(out, name);
  }
}

void AppendSymbol(std::string& out, std::string_view text) {
  while (true) {
    size_t colons = text.find("::");
    out += '@';
    AppendName(out, text.substr(0, colons));
    if (colons == std::string_view::npos) return;
    out += "::";
    text.remove_prefix(colons + 2);
  }
}

template <class Range, class Each>
void AppendList(std::string& out, const Range& range, Each each) {
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += ", ";
    first = false;
    each(item);
  }
}

void AppendNamed(std::string& out, std::string_view name, const Attr& value) {
  AppendName(out, name);
  if (value.kind == Attr::Kind::kUnit) return;
  out += " = ";
  AppendAttr(out, value);
}

void AppendDict(std::string& out, const Attr& attr) {
  if (!attr.text.empty()) StrAppend(out, "#", attr.text, "<");
  out += '{';
  for (size_t i = 0; i < attr.names.size(); ++i) {
    if (i > 0) out += ", ";
    AppendNamed(out, attr.names[i], *attr.elements[i]);
  }
  out += '}';
  if (!attr.text.empty()) out += '>';
}

void AppendElement(std::string& out, DType dtype, const std::byte* at) {
  uint64_t bits = 0;
  if (IsComplex(dtype)) {
    DType part = RealType(dtype);
    size_t width = static_cast<size_t>(ByteWidth(part));
    out += '(';
    AppendElement(out, part, at);
    out += ", ";
    AppendElement(out, part, at + width);
    out += ')';
    return;
  }
  size_t width = static_cast<size_t>(ByteWidth(dtype));
  std::memcpy(&bits, at, width);
  if (IsFloat(dtype)) return AppendFloatBits(out, dtype, bits);
  if (dtype == DType::kPred) {
    out += bits ? "true" : "false";
  } else if (IsUnsigned(dtype)) {
    StrAppend(out, bits);
  } else {
    int shift = 64 - static_cast<int>(width) * 8;
    StrAppend(out, static_cast<int64_t>(bits << shift) >> shift);
  }
}

// The elements from `at` of dimension `dim` on, in nested brackets.
const std::byte* AppendNested(std::string& out, const Type& type, size_t dim, const std::byte* at) {
  if (dim == type.dims.size()) {
    AppendElement(out, type.dtype, at);
    return at + ByteWidth(type.dtype);
  }
  out += '[';
  for (int64_t i = 0; i < type.dims[dim]; ++i) {
    if (i > 0) out += ", ";
    at = AppendNested(out, type, dim + 1, at);
  }
  out += ']';
  return at;
}

void AppendDense(std::string& out, const Attr& attr) {
  const Type& type = *attr.type;
  int64_t width = ByteWidth(type.dtype);
  int64_t count = width > 0 ? static_cast<int64_t>(attr.bytes.size()) / width : 0;
  out += "dense<";
  if (attr.splat && count > 0) {
    AppendElement(out, type.dtype, attr.bytes.data());
  } else if (count > kMaxListed && type.dtype != DType::kPred) {
    out += "\"0x";
    for (std::byte b : attr.bytes) AppendHex(out, static_cast<uint8_t>(b), 2);
    out += '"';
  } else if (count > 0) {
    AppendNested(out, type, 0, attr.bytes.data());
  }
  out += "> : ";
  AppendType(out, type);
}

// Values are numbered as they are met.
class TreePrinter {
 public:
  explicit TreePrinter(std::string& out) : out_(out) {}

  void PrintOp(const Operation& op, int indent) {
    out_.append(static_cast<size_t>(indent), ' ');
    AppendList(out_, op.results, [&](const Value* value) { PrintValue(value); });
    if (!op.results.empty()) out_ += " = ";
    StrAppend(out_, "\"", op.name, "\"(");
    AppendList(out_, op.operands, [&](const Value* value) { PrintValue(value); });
    out_ += ')';
    if (!op.regions.empty()) {
      out_ += " (";
      AppendList(out_, op.regions, [&](const Region& region) { PrintRegion(region, indent); });
      out_ += ')';
    }
    if (!op.attrs.empty()) {
      out_ += " {";
      AppendList(out_, op.attrs,
                 [&](const NamedAttr& attr) { AppendNamed(out_, attr.name, *attr.value); });
      out_ += '}';
    }
    out_ += " : (";
    AppendList(out_, op.operands, [&](const Value* value) { AppendType(out_, *value->type); });
    out_ += ") -> (";
    AppendList(out_, op.results, [&](const Value* value) { AppendType(out_, *value->type); });
    out_ += ')';
    if (op.location) PrintLocation(*op.location);
    out_ += '\n';
  }

 private:
  void PrintValue(const Value* value) {
    auto [it, fresh] = numbers_.try_emplace(value, numbers_.size());
    StrAppend(out_, "%", it->second);
  }

  void PrintRegion(const Region& region, int indent) {
    out_ += "{\n";
    for (size_t i = 0; i < region.blocks.size(); ++i) {
      const Block& block = region.blocks[i];
      if (i > 0 || !block.arguments.empty()) {
        out_.append(static_cast<size_t>(indent), ' ');
        StrAppend(out_, "^bb", i, "(");
        AppendList(out_, block.arguments, [&](const Value* value) {
          PrintValue(value);
          out_ += ": ";
          AppendType(out_, *value->type);
        });
        out_ += "):\n";
      }
      for (const Operation* op : block.operations) PrintOp(*op, indent + 2);
    }
    out_.append(static_cast<size_t>(indent), ' ');
    out_ += '}';
  }

  // The innermost frame alone.
  void PrintLocation(const Location& location) {
    if (location.name.empty() && !location.frame) return;
    out_ += " loc(";
    if (!location.name.empty()) AppendMlirString(out_, location.name);
    if (const Frame* frame = location.frame) {
      if (!location.name.empty()) out_ += '(';
      if (!frame->function.empty()) {
        AppendMlirString(out_, frame->function);
        out_ += '(';
      }
      AppendMlirString(out_, frame->file);
      StrAppend(out_, ":", frame->line, ":", frame->column);
      if (!frame->function.empty()) out_ += ')';
      if (!location.name.empty()) out_ += ')';
    }
    out_ += ')';
  }

  std::string& out_;
  std::unordered_map<const Value*, size_t> numbers_;
};

}  // namespace

void AppendType(std::string& out, const Type& type) {
  auto types = [&](const std::vector<const Type*>& list) {
    AppendList(out, list, [&](const Type* element) { AppendType(out, *element); });
  };
  switch (type.kind) {
    case Type::Kind::kNone: out += "none"; break;
    case Type::Kind::kIndex: out += "index"; break;
    case Type::Kind::kToken: out += "!stablehlo.token"; break;
    case Type::Kind::kElement: AppendElementType(out, type.dtype); break;
    case Type::Kind::kTensor:
      out += "tensor<";
      for (int64_t dim : type.dims) {
        if (dim == Type::kDynamic) {
          out += "?x";
        } else {
          StrAppend(out, dim, "x");
        }
      }
      if (type.index_element) {
        out += "index";
      } else {
        AppendElementType(out, type.dtype);
      }
      if (!type.bounds.empty()) {
        out += ", #stablehlo.bounds<";
        AppendList(out, type.bounds, [&](int64_t bound) {
          if (bound == Type::kDynamic) {
            out += '?';
          } else {
            StrAppend(out, bound);
          }
        });
        out += '>';
      }
      out += '>';
      break;
    case Type::Kind::kTuple:
    case Type::Kind::kFuture:
      out += type.kind == Type::Kind::kTuple ? "tuple<" : "!stablehlo.future<";
      types(type.elements);
      out += '>';
      break;
    case Type::Kind::kFunction:
      out += '(';
      types(type.elements);
      out += ") -> (";
      types(type.results);
      out += ')';
      break;
  }
}

void AppendAttr(std::string& out, const Attr& attr) {
  auto typed = [&] {
    if (!attr.type) return;
    out += " : ";
    AppendType(out, *attr.type);
  };
  auto array_of = [&](bool empty) {
    out += "array<";
    if (attr.type) {
      AppendType(out, *attr.type);
    } else {
      out += attr.kind == Attr::Kind::kFloats ? "f64" : "i64";
    }
    if (!empty) out += ": ";
  };
  switch (attr.kind) {
    case Attr::Kind::kUnit: out += "unit"; break;
    case Attr::Kind::kNone: out += "none"; break;
    case Attr::Kind::kBool: out += attr.boolean ? "true" : "false"; break;
    case Attr::Kind::kInt:
      AppendInteger(out, attr.type, attr.integer);
      typed();
      break;
    case Attr::Kind::kFloat:
      AppendNumber(out, attr);
      typed();
      break;
    case Attr::Kind::kString: AppendMlirString(out, attr.text); break;
    case Attr::Kind::kSymbol: AppendSymbol(out, attr.text); break;
    case Attr::Kind::kEnum: StrAppend(out, "#stablehlo<", attr.text, ">"); break;
    case Attr::Kind::kType: AppendType(out, *attr.type); break;
    case Attr::Kind::kArray:
      out += '[';
      AppendList(out, attr.elements, [&](const Attr* element) { AppendAttr(out, *element); });
      out += ']';
      break;
    case Attr::Kind::kDict: AppendDict(out, attr); break;
    case Attr::Kind::kInts:
      array_of(attr.ints.empty());
      AppendList(out, attr.ints, [&](int64_t value) { AppendInteger(out, attr.type, value); });
      out += '>';
      break;
    case Attr::Kind::kFloats: {
      array_of(attr.floats.empty());
      DType dtype = attr.type && IsFloat(attr.type->dtype) ? attr.type->dtype : DType::kF64;
      AppendList(out, attr.floats,
                 [&](double value) { AppendFloatBits(out, dtype, EncodeBits(dtype, value)); });
      out += '>';
      break;
    }
    case Attr::Kind::kDense: AppendDense(out, attr); break;
  }
}

std::string PrintTree(const Tree& tree) {
  std::string out;
  if (tree.module) TreePrinter(out).PrintOp(*tree.module, 0);
  return out;
}

}  // namespace weft::hlo::mlir
