#include "hlo/evaluate/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// The operands of the attention, at one row of its result.
struct AttentionRows {
  const AttentionCall& call;
  const Shape& out_shape;
  std::vector<Side> sides;  // q, k, v, bias, mask
  std::string axes;
  int64_t keys, depth, values, rows;
  int64_t position = 0;  // along 't'
  std::vector<double> scores;
  std::vector<bool> kept;  // by the mask

  AttentionRows(const AttentionCall& the_call, const Instruction& i, std::span<Literal> operands)
      : call(the_call), out_shape(AttentionResult(call, i)), axes(call.axes()) {
    const std::string* letters[] = {&call.q, &call.k, &call.v,
                                    call.has_bias ? &call.bias : &call.mask, &call.mask};
    for (int64_t at = 0; at < call.out_operand(); ++at) {
      sides.emplace_back(operands[static_cast<size_t>(at)], *letters[at]);
    }
    keys = SizeAlong(call.k, sides[1].shape, 's'), depth = SizeAlong(call.k, sides[1].shape, 'd');
    values = SizeAlong(call.v, sides[2].shape, 'v');
    rows = out_shape.elements() / values;
    scores.resize(static_cast<size_t>(keys));
    kept.resize(static_cast<size_t>(keys));
  }

  void Place(int64_t row, Side& side) const {
    side.base = 0;
    for (size_t a = axes.size(); a-- > 0;) {
      int64_t size = SizeAlong(call.out, out_shape, axes[a]);
      side.base += row % size * side.Stride(axes[a]);
      row /= size;
    }
  }
  // The scores of a row.
  void Score(int64_t row);
};

void AttentionRows::Score(int64_t row) {
  for (Side& side : sides) Place(row, side);
  position = 0;
  for (size_t a = axes.size(); a-- > 0;) {
    int64_t size = SizeAlong(call.out, out_shape, axes[a]);
    if (axes[a] == 't') position = row % size;
    row /= size;
  }
  const Side &q = sides[0], &k = sides[1];
  const Side* bias = call.has_bias ? &sides[3] : nullptr;
  const Side* mask = call.has_mask ? &sides.back() : nullptr;
  for (int64_t s = 0; s < keys; ++s) {
    double score = 0;
    for (int64_t p = 0; p < depth; ++p) {
      score += static_cast<double>(q.At(p * q.Stride('d'))) *
               k.At(s * k.Stride('s') + p * k.Stride('d'));
    }
    score *= call.scale;
    if (bias != nullptr) score += bias->At(s * bias->Stride('s'));
    kept[s] = (!call.first || s >= position + *call.first) &&
              (!call.last || s <= position + *call.last) &&
              (mask == nullptr || mask->At(s * mask->Stride('s')) != 0);
    scores[s] = kept[s] ? score : call.fill;
  }
}

void StoreNumber(Literal& to, int64_t at, double value) {
  auto x = static_cast<float>(value);
  StoreF32(to.dtype(), &x, 1, to.mutable_data() + at * ByteWidth(to.dtype()));
}

// Sums in f64 that end in an array.
struct Sums {
  Literal result;
  Side place;
  std::vector<double> sums;

  Sums(Literal empty, const std::string& letters)
      : result(std::move(empty)),
        place(result, letters),
        sums(static_cast<size_t>(result.size())) {}
  void Add(int64_t offset, double x) { sums[static_cast<size_t>(place.base + offset)] += x; }
  Literal Finish() {
    for (size_t i = 0; i < sums.size(); ++i) StoreNumber(result, static_cast<int64_t>(i), sums[i]);
    return std::move(result);
  }
};

// What a row adds to the gradients, null where they are not asked for.
void AddRow(const AttentionRows& rows, const Side& out, const Side& dout, double largest,
            double inverse, Sums* dq, Sums* dk, Sums* dv) {
  const Side &q = rows.sides[0], &k = rows.sides[1], &v = rows.sides[2];
  double delta = 0;
  for (int64_t j = 0; j < rows.values; ++j) {
    delta += static_cast<double>(dout.At(j * dout.Stride('v'))) * out.At(j * out.Stride('v'));
  }
  for (int64_t s = 0; s < rows.keys; ++s) {
    double w = std::exp(rows.scores[s] - largest) * inverse, dw = 0;
    for (int64_t j = 0; j < rows.values; ++j) {
      double d = dout.At(j * dout.Stride('v'));
      dw += d * v.At(s * v.Stride('s') + j * v.Stride('v'));
      if (dv) dv->Add(s * dv->place.Stride('s') + j * dv->place.Stride('v'), w * d);
    }
    double ds = rows.kept[s] ? w * (dw - delta) * rows.call.scale : 0;
    for (int64_t p = 0; p < rows.depth; ++p) {
      int64_t in_k = s * k.Stride('s') + p * k.Stride('d');
      if (dq) dq->Add(p * dq->place.Stride('d'), ds * k.At(in_k));
      if (dk) {
        dk->Add(s * dk->place.Stride('s') + p * dk->place.Stride('d'),
                ds * q.At(p * q.Stride('d')));
      }
    }
  }
}

}  // namespace

Result<Literal> EvaluateAttention(EvalContext& context, const Instruction& i,
                                  std::span<Literal> operands) {
  AttentionCall call = TRY(AttentionCallOf(i));
  AttentionRows rows(call, i, operands);
  Literal result = TRY(NewResult(context, StripLayout(rows.out_shape)));
  Literal statistics = TRY(NewResult(context, StatisticsShape(call, rows.out_shape)));
  Side to(result, call.out);
  for (int64_t row = 0; row < rows.rows; ++row) {
    rows.Score(row);
    rows.Place(row, to);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double score : rows.scores) {
      largest = std::isnan(score) || std::isnan(largest) ? std::nan("") : std::max(largest, score);
    }
    for (double& score : rows.scores) sum += score = std::exp(score - largest);
    const Side& v = rows.sides[2];
    for (int64_t j = 0; j < rows.values; ++j) {
      double total = 0;
      for (int64_t s = 0; s < rows.keys; ++s) {
        total += rows.scores[s] * v.At(s * v.Stride('s') + j * v.Stride('v'));
      }
      StoreNumber(result, to.base + j * to.Stride('v'), total / sum);
    }
    StoreNumber(statistics, 2 * row, largest);
    StoreNumber(statistics, 2 * row + 1, 1 / sum);
  }
  if (!call.has_statistics) return result;
  return Literal::Tuple({std::move(result), std::move(statistics)});
}

Result<Literal> EvaluateAttentionGradient(EvalContext& context, const Instruction& i,
                                          std::span<Literal> operands) {
  AttentionCall call = TRY(AttentionCallOf(i));
  AttentionRows rows(call, i, operands);
  auto at = static_cast<size_t>(call.out_operand());
  Side out(operands[at], call.out), dout(operands[at + 2], call.dout);
  const std::string* letters[] = {&call.dq, &call.dk, &call.dv};
  std::vector<Sums> sums;
  sums.reserve(3);
  Sums* gradients[3] = {};
  for (int n = 0; n < 3; ++n) {
    if (letters[n]->empty()) continue;
    const Shape& shape = i.shape().tuple_element(std::ssize(sums));
    sums.emplace_back(TRY(NewResult(context, StripLayout(shape))), *letters[n]);
    gradients[n] = &sums.back();
  }
  for (int64_t row = 0; row < rows.rows; ++row) {
    rows.Score(row);
    rows.Place(row, out);
    rows.Place(row, dout);
    for (Sums& sum : sums) rows.Place(row, sum.place);
    AddRow(rows, out, dout, operands[at + 1].GetDouble(2 * row),
           operands[at + 1].GetDouble(2 * row + 1), gradients[0], gradients[1], gradients[2]);
  }
  std::vector<Literal> results;
  for (Sums& sum : sums) results.push_back(sum.Finish());
  return Literal::Tuple(std::move(results));
}

}  // namespace weft::hlo
