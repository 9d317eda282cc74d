// The custom calls weft.attention and its gradient: the library's routine, which goes by strides.
#include <algorithm>
#include <cmath>

#include "compiler/lower/dot.h"
#include "compiler/lower/table.h"
#include "hlo/attention_call.h"

namespace weft::compiler {
namespace {

Decision MatchAttention(Subject& subject) {
  if (!hlo::IsAttentionCall(subject.instruction)) return Refuse("it is another call");
  return Take("it is attention");
}

Status LowerAttention(Subject& subject) {
  const hlo::Instruction& i = subject.instruction;
  hlo::AttentionCall call = TRY(hlo::AttentionCallOf(i));
  std::string axes = call.axes();
  if (axes.empty()) axes = "t";  // one query
  auto strides = [&](const std::string& letters, const Shape& shape, std::string_view more) {
    std::vector<int64_t> list;
    for (char c : axes) list.push_back(hlo::StrideAlong(letters, shape, c));
    for (char c : more) list.push_back(hlo::StrideAlong(letters, shape, c));
    return list;
  };
  auto shape = [&](int64_t n) -> const Shape& { return i.operand(n)->shape(); };
  const Shape& out = hlo::AttentionResult(call, i);
  std::vector<int64_t> sizes;
  for (char c : axes) sizes.push_back(std::max<int64_t>(1, hlo::SizeAlong(call.out, out, c)));
  std::vector<program::Attr> list = {{"axes", sizes},
                                     {"keys", hlo::SizeAlong(call.k, shape(1), 's')},
                                     {"depth", hlo::SizeAlong(call.k, shape(1), 'd')},
                                     {"values", hlo::SizeAlong(call.v, shape(2), 'v')},
                                     {"q", strides(call.q, shape(0), "d")},
                                     {"k", strides(call.k, shape(1), "sd")},
                                     {"v", strides(call.v, shape(2), "sv")},
                                     {"out", strides(call.out, out, "v")}};
  if (call.has_bias) list.push_back({"bias", strides(call.bias, shape(3), "s")});
  if (call.has_mask) list.push_back({"mask", strides(call.mask, shape(call.mask_operand()), "s")});
  if (call.is_gradient) {
    list.push_back({"dout", strides(call.dout, shape(call.out_operand() + 2), "v")});
    int64_t result = 0;
    auto gradient = [&](const char* name, const std::string& letters, std::string_view more) {
      if (letters.empty()) return;
      list.push_back({name, strides(letters, i.shape().tuple_element(result++), more)});
    };
    gradient("dq", call.dq, "d");
    gradient("dk", call.dk, "sd");
    gradient("dv", call.dv, "sv");
  }
  if (call.scale != 1) list.push_back({"scale", call.scale});
  if (!std::isinf(call.fill)) list.push_back({"fill", call.fill});
  if (call.first || call.last) {
    list.push_back({"query_axis", static_cast<int64_t>(axes.find('t'))});
  }
  if (call.first) list.push_back({"first", *call.first});
  if (call.last) list.push_back({"last", *call.last});
  const char* routine = call.is_gradient ? "attention_gradient" : "attention";
  subject.steps.push_back(Routine(subject.cx, routine, i, std::move(list)));
  return {};
}

}  // namespace

extern constinit const LoweringRow kAttention = {
    "attention", {hlo::Op::kCustomCall}, MatchAttention, LowerAttention};

}  // namespace weft::compiler
