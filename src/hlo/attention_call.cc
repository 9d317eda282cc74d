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
  const Shape& out = i.shape();
  TRY(CheckLetters(call, call.out, out, out, "v"));
  TRY(CheckLetters(call, call.q, q, out, "d"));
  TRY(CheckLetters(call, call.k, k, out, "sd"));
  TRY(CheckLetters(call, call.v, v, out, "sv"));
  int64_t keys = SizeAlong(call.k, k, 's');
  bool same = SizeAlong(call.q, q, 'd') == SizeAlong(call.k, k, 'd') &&
              SizeAlong(call.v, v, 's') == keys &&
              SizeAlong(call.v, v, 'v') == SizeAlong(call.out, out, 'v') && !call.q.contains('s') &&
              !call.out.contains('s') && out.elements() > 0 && keys > 0;
  for (int64_t at = 3; at < i.operand_count(); ++at) {
    const std::string& letters = at == 3 && call.has_bias ? call.bias : call.mask;
    const Shape& shape = i.operand(at)->shape();
    TRY(CheckLetters(call, letters, shape, out, ""));
    same &= !letters.contains('s') || SizeAlong(letters, shape, 's') == keys;
  }
  if (!same) return InvalidArgument("weft.attention: sizes do not fit: ", i.ToString());
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
  return call.op() == Op::kCustomCall &&
         call.attrs<CustomCallAttrs>().custom_call_target == kAttentionTarget;
}

std::string ConfigOfAttention(const AttentionCall& call) {
  std::string text = StrCat("{\"spec\":\"", call.q, ",", call.k, ",", call.v);
  if (call.has_bias) StrAppend(text, ",", call.bias);
  if (call.has_mask) StrAppend(text, ",", call.mask);
  StrAppend(text, "->", call.out, "\",\"scale\":", ShortestNumber(static_cast<float>(call.scale)));
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
  std::string_view spec = ConfigField(config, "spec");
  size_t arrow = spec.find("->");
  if (arrow == spec.npos) return InvalidArgument("weft.attention: needs a spec: ", config);
  std::vector<std::string> parts;
  for (std::string_view rest = spec.substr(0, arrow);;) {
    size_t comma = rest.find(',');
    parts.emplace_back(rest.substr(0, comma));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (parts.size() < 3 || std::ssize(parts) != i.operand_count() || parts.size() > 5) {
    return InvalidArgument("weft.attention: ", spec, " does not fit ", i.operand_count(),
                           " operands");
  }
  call.q = parts[0], call.k = parts[1], call.v = parts[2], call.out = spec.substr(arrow + 2);
  for (int64_t at = 3; at < i.operand_count(); ++at) {
    bool is_mask = i.operand(at)->shape().dtype() == DType::kPred;
    if (is_mask ? call.has_mask : call.has_bias || call.has_mask) {
      return InvalidArgument("weft.attention: takes one bias, then one mask: ", i.ToString());
    }
    (is_mask ? call.mask : call.bias) = parts[static_cast<size_t>(at)];
    (is_mask ? call.has_mask : call.has_bias) = true;
  }
  call.scale = static_cast<float>(ConfigNumber(config, "scale").value_or(1));
  call.fill = static_cast<float>(ConfigNumber(config, "fill").value_or(call.fill));
  call.first = ParseInt(ConfigField(config, "first"));
  call.last = ParseInt(ConfigField(config, "last"));
  TRY(CheckSizes(call, i));
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
