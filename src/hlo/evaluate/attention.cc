#include "hlo/evaluate/attention.h"

#include <algorithm>
#include <cmath>

#include "base/elements.h"
#include "hlo/attention_call.h"
#include "hlo/evaluate/result.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

// An operand as numbers, and where the element of an index is.
struct Side {
  std::vector<float> data;
  const std::string& letters;
  Shape shape;
  int64_t base = 0;  // of the row at hand

  Side(const Literal& literal, const std::string& the_letters)
      : data(static_cast<size_t>(literal.size())), letters(the_letters), shape(literal.shape()) {
    if (literal.dtype() == DType::kPred) {
      for (int64_t i = 0; i < literal.size(); ++i) data[i] = literal.GetInt(i) != 0;
    } else {
      LoadF32(literal.dtype(), literal.data(), literal.size(), data.data());
    }
  }
  int64_t Stride(char letter) const { return StrideAlong(letters, shape, letter); }
  float At(int64_t offset) const { return data[static_cast<size_t>(base + offset)]; }
};

// One row of the result: the index of every axis is in the bases.
std::vector<double> AttendRow(const AttentionCall& call, const Side& q, const Side& k,
                              const Side& v, const Side* bias, const Side* mask, int64_t position) {
  int64_t keys = SizeAlong(k.letters, k.shape, 's'), depth = SizeAlong(k.letters, k.shape, 'd');
  int64_t values = SizeAlong(v.letters, v.shape, 'v');
  std::vector<double> scores(static_cast<size_t>(keys)), out(static_cast<size_t>(values));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t s = 0; s < keys; ++s) {
    double score = 0;
    for (int64_t p = 0; p < depth; ++p) {
      score += static_cast<double>(q.At(p * q.Stride('d'))) *
               k.At(s * k.Stride('s') + p * k.Stride('d'));
    }
    score *= call.scale;
    if (bias != nullptr) score += bias->At(s * bias->Stride('s'));
    bool kept = (!call.first || s >= position + *call.first) &&
                (!call.last || s <= position + *call.last) &&
                (mask == nullptr || mask->At(s * mask->Stride('s')) != 0);
    scores[s] = kept ? score : call.fill;
    largest =
        std::isnan(scores[s]) || std::isnan(largest) ? std::nan("") : std::max(largest, scores[s]);
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (int64_t i = 0; i < values; ++i) {
    for (int64_t s = 0; s < keys; ++s) {
      out[i] += scores[s] * v.At(s * v.Stride('s') + i * v.Stride('v'));
    }
    out[i] /= sum;
  }
  return out;
}

}  // namespace

Result<Literal> EvaluateAttention(EvalContext& context, const Instruction& i,
                                  std::span<Literal> operands) {
  AttentionCall call = TRY(AttentionCallOf(i));
  std::vector<Side> sides;
  const std::string* letters[] = {&call.q, &call.k, &call.v,
                                  call.has_bias ? &call.bias : &call.mask, &call.mask};
  for (size_t at = 0; at < operands.size(); ++at) sides.emplace_back(operands[at], *letters[at]);
  const Side* bias = call.has_bias ? &sides[3] : nullptr;
  const Side* mask = call.has_mask ? &sides.back() : nullptr;
  Literal result = TRY(NewResult(context, StripLayout(i.shape())));
  std::string axes = call.axes();
  int64_t rows = i.shape().elements() / SizeAlong(call.out, i.shape(), 'v');
  for (int64_t row = 0; row < rows; ++row) {
    int64_t to = 0, position = 0, rest = row;
    for (Side& side : sides) side.base = 0;
    for (size_t a = axes.size(); a-- > 0;) {
      int64_t size = SizeAlong(call.out, i.shape(), axes[a]), index = rest % size;
      rest /= size;
      for (Side& side : sides) side.base += index * side.Stride(axes[a]);
      to += index * StrideAlong(call.out, i.shape(), axes[a]);
      if (axes[a] == 't') position = index;
    }
    std::vector<double> values =
        AttendRow(call, sides[0], sides[1], sides[2], bias, mask, position);
    for (size_t j = 0; j < values.size(); ++j) {
      float x = static_cast<float>(values[j]);
      int64_t at = to + static_cast<int64_t>(j) * StrideAlong(call.out, i.shape(), 'v');
      StoreF32(result.dtype(), &x, 1, result.mutable_data() + at * ByteWidth(result.dtype()));
    }
  }
  return result;
}

}  // namespace weft::hlo
