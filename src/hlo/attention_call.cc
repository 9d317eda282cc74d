#include "hlo/attention_call.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/str.h"

namespace weft::hlo {
namespace {

// What follows `"key":` up to a comma or brace; empty: it is not there.
std::string_view ConfigField(std::string_view config, std::string_view key) {
  size_t at = config.find(StrCat("\"", key, "\":"));
  if (at == config.npos) return "";
  std::string_view rest = config.substr(at + key.size() + 3);
  size_t from = rest.find_first_not_of(' ');
  if (from == rest.npos) return "";
  rest = rest.substr(from);
  if (rest.starts_with('"')) return rest.substr(1, rest.find('"', 1) - 1);
  return rest.substr(0, rest.find_first_of(",} "));
}

std::optional<double> ConfigNumber(std::string_view config, std::string_view key) {
  std::string_view text = ConfigField(config, key);
  double x = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return x;
}

// Numbers are f32.
std::string ShortestNumber(float x) {
  char text[32];
  auto result = std::to_chars(text, text + sizeof(text), x);
  return {text, result.ptr};
}

Status CheckLetters(const AttentionCall& call, std::string_view letters, const Shape& shape,
                    const Shape& out, std::string_view needs) {
  if (!shape.IsArray() || shape.rank() != std::ssize(letters)) {
    return InvalidArgument("weft.attention: ", letters, " does not fit ", shape.ToString());
  }
  for (char letter : needs) {
    if (!letters.contains(letter)) {
      return InvalidArgument("weft.attention: ", letters, " has no dimension ",
                             std::string(1, letter));
    }
  }
  for (size_t i = 0; i < letters.size(); ++i) {
    char c = letters[i];
    int64_t size = shape.dim(static_cast<int64_t>(i));
    bool own = c == 's' || c == 'd' || c == 'v';
    bool good = c == '1' ? size == 1
                         : letters.find(c) == i && (own ? needs.contains(c) || c == 's'
                                                        : SizeAlong(call.out, out, c) == size);
    if (!good) {
      return InvalidArgument("weft.attention: dimension ", std::string(1, c), " of ", letters,
                             " does not fit ", shape.ToString());
    }
  }
  return {};
}

Status CheckSizes(const AttentionCall& call, const Instruction& i) {
  const Shape &q = i.operand(0)->shape(), &k = i.operand(1)->shape(), &v = i.operand(2)->shape();
  const Shape& out = AttentionResult(call, i);
  TRY(CheckLetters(call, call.out, out, out, "v"));
  TRY(CheckLetters(call, call.q, q, out, "d"));
  TRY(CheckLetters(call, call.k, k, out, "sd"));
  TRY(CheckLetters(call, call.v, v, out, "sv"));
  int64_t keys = SizeAlong(call.k, k, 's');
  bool same = SizeAlong(call.q, q, 'd') == SizeAlong(call.k, k, 'd') &&
              SizeAlong(call.v, v, 's') == keys &&
              SizeAlong(call.v, v, 'v') == SizeAlong(call.out, out, 'v') && !call.q.contains('s') &&
              !call.out.contains('s') && out.elements() > 0 && keys > 0;
  for (int64_t at = call.bias_operand(); at < call.out_operand(); ++at) {
    const std::string& letters = at == 3 && call.has_bias ? call.bias : call.mask;
    const Shape& shape = i.operand(at)->shape();
    TRY(CheckLetters(call, letters, shape, out, ""));
    same &= !letters.contains('s') || SizeAlong(letters, shape, 's') == keys;
  }
  if (!same) return InvalidArgument("weft.attention: sizes do not fit: ", i.ToString());
  return {};
}

// The same dimensions of the same sizes, in any order.
bool AreOfOneArray(std::string_view a, const Shape& x, std::string_view b, const Shape& y) {
  if (!y.IsArray() || std::ssize(b) != y.rank()) return false;
  auto within = [](std::string_view p, const Shape& s, std::string_view other, const Shape& o) {
    return std::all_of(p.begin(), p.end(), [&](char c) {
      return c == '1' || SizeAlong(p, s, c) == SizeAlong(other, o, c);
    });
  };
  return within(a, x, b, y) && within(b, y, a, x);
}

bool IsStatisticsOf(const AttentionCall& call, const Shape& out, Shape shape) {
  shape.ClearLayout();
  return shape == StatisticsShape(call, out);
}

// Gradients are sums over what queries have and keys have not, alone.
Status CheckGradient(const AttentionCall& call, const Instruction& i) {
  const Shape& out = AttentionResult(call, i);
  int64_t at = call.out_operand(), results = 0;
  bool good = IsStatisticsOf(call, out, i.operand(at + 1)->shape()) &&
              AreOfOneArray(call.out, out, call.dout, i.operand(at + 2)->shape()) &&
              i.shape().IsTuple();
  const std::string* letters[] = {&call.q, &call.k, &call.v};
  const std::string* gradients[] = {&call.dq, &call.dk, &call.dv};
  for (int64_t n = 0; good && n < 3; ++n) {
    if (gradients[n]->empty()) continue;
    good = results < i.shape().tuple_size() &&
           AreOfOneArray(*letters[n], i.operand(n)->shape(), *gradients[n],
                         i.shape().tuple_element(results));
    ++results;
  }
  for (char c : call.axes()) {
    good &= call.q.contains(c) && call.k.contains(c) == call.v.contains(c);
  }
  if (!good || results == 0 || results != i.shape().tuple_size()) {
    return InvalidArgument("weft.attention_gradient: sizes do not fit: ", i.ToString());
  }
  return {};
}

std::vector<std::string> PartsOf(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == list.npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

// Letters of everything, by the operands that there are.
Status ReadSpec(const Instruction& i, std::string_view spec, AttentionCall& call) {
  size_t arrow = spec.find("->");
  if (arrow == spec.npos) return InvalidArgument("weft.attention: needs a spec: ", spec);
  std::vector<std::string> parts = PartsOf(spec.substr(0, arrow));
  std::vector<std::string> results = PartsOf(spec.substr(arrow + 2));
  int64_t behind = call.is_gradient ? 3 : 0, inputs = i.operand_count() - behind;
  if (inputs < 3 || inputs > 5 || std::ssize(parts) != i.operand_count() - call.is_gradient ||
      results.size() != (call.is_gradient ? 3 : 1)) {
    return InvalidArgument("weft.attention: ", spec, " does not fit ", i.operand_count(),
                           " operands");
  }
  call.q = parts[0], call.k = parts[1], call.v = parts[2];
  for (int64_t at = 3; at < inputs; ++at) {
    bool is_mask = i.operand(at)->shape().dtype() == DType::kPred;
    if (is_mask ? call.has_mask : call.has_bias || call.has_mask) {
      return InvalidArgument("weft.attention: takes one bias, then one mask: ", i.ToString());
    }
    (is_mask ? call.mask : call.bias) = parts[static_cast<size_t>(at)];
    (is_mask ? call.has_mask : call.has_bias) = true;
  }
  call.out = call.is_gradient ? parts[parts.size() - 2] : results[0];
  if (call.is_gradient) {
    call.dout = parts.back();
    call.dq = results[0], call.dk = results[1], call.dv = results[2];
  }
  return {};
}

}  // namespace

std::string AttentionCall::axes() const {
  std::string letters;
  for (char c : out) {
    if (c != 'v' && c != '1') letters += c;
  }
  return letters;
}

bool IsAttentionCall(const Instruction& call) {
  if (call.op() != Op::kCustomCall) return false;
  std::string_view target = call.attrs<CustomCallAttrs>().custom_call_target;
  return target == kAttentionTarget || target == kAttentionGradientTarget;
}

const Shape& AttentionResult(const AttentionCall& call, const Instruction& i) {
  if (call.is_gradient) return i.operand(call.out_operand())->shape();
  return call.has_statistics ? i.shape().tuple_element(0) : i.shape();
}

Shape StatisticsShape(const AttentionCall& call, const Shape& out) {
  Shape shape = Shape::Scalar(DType::kF32);
  for (char c : call.axes()) shape.AppendDim(SizeAlong(call.out, out, c));
  shape.AppendDim(2);
  return shape;
}

std::string ConfigOfAttention(const AttentionCall& call) {
  std::string text = StrCat("{\"spec\":\"", call.q, ",", call.k, ",", call.v);
  if (call.has_bias) StrAppend(text, ",", call.bias);
  if (call.has_mask) StrAppend(text, ",", call.mask);
  if (call.is_gradient) {
    StrAppend(text, ",", call.out, ",", call.dout, "->", call.dq, ",", call.dk, ",", call.dv);
  } else {
    StrAppend(text, "->", call.out);
  }
  StrAppend(text, "\",\"scale\":", ShortestNumber(static_cast<float>(call.scale)));
  if (!std::isinf(call.fill))
    StrAppend(text, ",\"fill\":", ShortestNumber(static_cast<float>(call.fill)));
  if (call.first) StrAppend(text, ",\"first\":", *call.first);
  if (call.last) StrAppend(text, ",\"last\":", *call.last);
  return text + "}";
}

Result<AttentionCall> AttentionCallOf(const Instruction& i) {
  std::string_view config;
  if (i.extras() != nullptr) config = i.extras()->backend_config.text;
  AttentionCall call;
  call.is_gradient = i.attrs<CustomCallAttrs>().custom_call_target == kAttentionGradientTarget;
  call.has_statistics = !call.is_gradient && i.shape().IsTuple();
  TRY(ReadSpec(i, ConfigField(config, "spec"), call));
  call.scale = static_cast<float>(ConfigNumber(config, "scale").value_or(1));
  call.fill = static_cast<float>(ConfigNumber(config, "fill").value_or(call.fill));
  call.first = ParseInt(ConfigField(config, "first"));
  call.last = ParseInt(ConfigField(config, "last"));
  if (call.has_statistics && i.shape().tuple_size() != 2) {
    return InvalidArgument("weft.attention: has one result or two: ", i.ToString());
  }
  TRY(CheckSizes(call, i));
  if (call.is_gradient) TRY(CheckGradient(call, i));
  if (call.has_statistics &&
      !IsStatisticsOf(call, i.shape().tuple_element(0), i.shape().tuple_element(1))) {
    return InvalidArgument("weft.attention: the statistics of rows do not fit: ", i.ToString());
  }
  return call;
}

int64_t StrideAlong(std::string_view letters, const Shape& shape, char letter) {
  size_t at = letters.find(letter);
  if (at == letters.npos) return 0;
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(at) + 1; d < shape.rank(); ++d) stride *= shape.dim(d);
  return stride;
}

int64_t SizeAlong(std::string_view letters, const Shape& shape, char letter) {
  size_t at = letters.find(letter);
  return at == letters.npos ? 0 : shape.dim(static_cast<int64_t>(at));
}

}  // namespace weft::hlo
