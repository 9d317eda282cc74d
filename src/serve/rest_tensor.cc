#include "serve/rest_tensor.h"

#include <charconv>
#include <cstring>
#include <limits>

namespace weft::serve {
namespace {

void AppendJsonElement(std::string& out, const Literal& value, int64_t i) {
  switch (value.dtype()) {
    case DType::kF32: return AppendJsonNumber(out, value.values<float>()[static_cast<size_t>(i)]);
    case DType::kPred: return StrAppend(out, value.GetInt(i) != 0);
    case DType::kU64: return StrAppend(out, static_cast<uint64_t>(value.GetInt(i)));
    default: break;
  }
  if (IsInteger(value.dtype())) return StrAppend(out, value.GetInt(i));
  AppendJsonNumber(out, value.GetDouble(i));
}

void AppendNested(std::string& out, const Literal& value, int64_t dim, int64_t& next) {
  if (dim == value.shape().rank()) return AppendJsonElement(out, value, next++);
  out += '[';
  for (int64_t i = 0; i < value.shape().dim(dim); ++i) {
    if (i > 0) out += ',';
    AppendNested(out, value, dim + 1, next);
  }
  out += ']';
}

template <class To, class From>
void Fill(Literal& to, const std::vector<From>& from) {
  std::span<To> values = to.values<To>();
  for (size_t i = 0; i < from.size(); ++i) values[i] = static_cast<To>(from[i]);
}

// Whether an integer type holds the value.
bool Holds(DType type, int64_t value) {
  int bits = BitWidth(type);
  if (IsUnsigned(type)) return value >= 0 && (bits >= 63 || value < (int64_t{1} << bits));
  return bits >= 64 || (value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1)));
}

}  // namespace

Status TensorReader::Ended(JsonReader& json, size_t depth, int64_t count) {
  if (dims_[depth] < 0) dims_[depth] = count;
  if (dims_[depth] == count) return {};
  return json.Fail("lists of ", dims_[depth], " and of ", count, " elements in one tensor");
}

Status TensorReader::Leaf(JsonReader& json, size_t depth) {
  if (!rank_known_ && depth == dims_.size()) rank_known_ = true;
  if (depth == dims_.size()) return {};
  return json.Fail("a number where a list was before");
}

Status TensorReader::ReadElement(JsonReader& json) {
  if (IsFloat(type_)) {
    floats_.push_back(TRY(json.Number()));
    return {};
  }
  if (type_ == DType::kPred) {
    bool word = json.Peek() == JsonReader::Kind::kBool;
    int64_t value = word ? TRY(json.Bool()) : TRY(json.Int());
    if (value != 0 && value != 1) return json.Fail("expected true or false, found ", value);
    ints_.push_back(value);
    return {};
  }
  if (!IsInteger(type_)) return json.Fail("JSON has no numbers of type ", Name(type_));
  if (type_ == DType::kU64) {
    std::string_view text = TRY(json.NumberText());
    uint64_t value = 0;
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || end != text.data() + text.size())
      return json.Fail("not a u64: ", text);
    ints_.push_back(static_cast<int64_t>(value));
    return {};
  }
  int64_t value = TRY(json.Int());
  if (!Holds(type_, value)) return json.Fail(value, " is no ", Name(type_));
  ints_.push_back(value);
  return {};
}

Status TensorReader::ReadBytes(JsonReader& json, size_t depth) {
  std::string key;
  TRY(json.BeginObject());
  if (!TRY(json.NextKey(key)) || key != "b64") return json.Fail("expected {\"b64\": \"...\"}");
  std::string bytes = TRY(DecodeBase64(TRY(json.String())));
  if (TRY(json.NextKey(key))) return json.Fail("expected {\"b64\": \"...\"}");
  if (type_ != DType::kU8 && type_ != DType::kS8)
    return json.Fail("bytes for a tensor of ", Name(type_));
  if (depth == dims_.size() && !rank_known_) dims_.push_back(-1);
  TRY(Leaf(json, depth + 1));
  for (char c : bytes) {
    ints_.push_back(type_ == DType::kU8 ? static_cast<uint8_t>(c) : static_cast<int8_t>(c));
  }
  return Ended(json, depth, static_cast<int64_t>(bytes.size()));
}

Status TensorReader::ReadAt(JsonReader& json, size_t depth) {
  JsonReader::Kind kind = json.Peek();
  if (kind == JsonReader::Kind::kObject) return ReadBytes(json, depth);
  if (kind != JsonReader::Kind::kArray) {
    TRY(Leaf(json, depth));
    return ReadElement(json);
  }
  if (depth == dims_.size()) {
    if (rank_known_) return json.Fail("a list where a number was before");
    dims_.push_back(-1);
  }
  int64_t count = 0;
  TRY(json.BeginArray());
  while (TRY(json.NextElement())) {
    TRY(ReadAt(json, depth + 1));
    ++count;
  }
  return Ended(json, depth, count);
}

Status TensorReader::Read(JsonReader& json) {
  ++values_;
  return ReadAt(json, 0);
}

Result<Literal> TensorReader::Take(bool rows) const {
  Shape shape(type_, {});
  if (rows) shape.AppendDim(values_);
  for (int64_t dim : dims_) shape.AppendDim(std::max<int64_t>(dim, 0));
  return TakeAs(shape);
}

Result<Literal> TensorReader::TakeAs(const Shape& shape) const {
  std::optional<int64_t> wanted = shape.CheckedElements();
  if (!wanted || *wanted != static_cast<int64_t>(elements())) {
    return InvalidArgument(elements(), " elements for ", shape.ToStringWithoutLayout());
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  switch (type_) {
    case DType::kF32: Fill<float>(value, floats_); return value;
    case DType::kF64: Fill<double>(value, floats_); return value;
    case DType::kS32: Fill<int32_t>(value, ints_); return value;
    case DType::kS64: Fill<int64_t>(value, ints_); return value;
    case DType::kU8: Fill<uint8_t>(value, ints_); return value;
    default: break;
  }
  for (size_t i = 0; i < floats_.size(); ++i) value.SetDouble(static_cast<int64_t>(i), floats_[i]);
  for (size_t i = 0; i < ints_.size(); ++i) value.SetInt(static_cast<int64_t>(i), ints_[i]);
  return value;
}

void AppendTensor(std::string& out, const Literal& value, bool flat) {
  int64_t next = 0;
  if (!flat) return AppendNested(out, value, 0, next);
  out += '[';
  for (; next < value.size(); ++next) {
    if (next > 0) out += ',';
    AppendJsonElement(out, value, next);
  }
  out += ']';
}

void AppendRow(std::string& out, const Literal& value, int64_t row) {
  int64_t next = row * (value.size() / std::max<int64_t>(value.shape().dim(0), 1));
  AppendNested(out, value, 1, next);
}

}  // namespace weft::serve
