// attention and its gradient, slowly: one query after the other, all of its scores at once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

// Strides of the axes, then of keys and of elements where the operand has them.
AttentionForm::Operand StridesOf(const LibraryStep& call, std::string_view name, size_t axes,
                                 bool has_keys, bool has_elements) {
  AttentionForm::Operand operand;
  const std::vector<int64_t>* list = IntsAttr(call, name);
  if (list == nullptr || list->size() != axes + has_keys + has_elements) return operand;
  operand.axes.assign(list->begin(), list->begin() + static_cast<int64_t>(axes));
  if (has_keys) operand.key = (*list)[axes];
  if (has_elements) operand.element = list->back();
  return operand;
}

// That every element lies in the buffer; -1 for a negative or an overflowing extent.
int64_t ExtentOf(const AttentionForm& form, const AttentionForm::Operand& operand,
                 int64_t elements) {
  int64_t last = 0;
  auto add = [&](int64_t size, int64_t stride) {
    int64_t step;
    bool bad = size < 1 || stride < 0 || __builtin_mul_overflow(size - 1, stride, &step) ||
               __builtin_add_overflow(last, step, &last);
    if (bad) last = INT64_MIN / 2;
  };
  for (size_t i = 0; i < form.axes.size(); ++i) add(form.axes[i], operand.axes[i]);
  add(form.keys, operand.key);
  add(elements, operand.element);
  return last < 0 ? -1 : last + 1;
}

Status CheckOperand(const Program& program, const Use& use, const AttentionForm& form,
                    const AttentionForm::Operand& operand, int64_t elements,
                    std::string_view name) {
  DType dtype = DTypeOf(program, use);
  bool is_float = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  if (name == "mask" ? dtype != DType::kPred : !is_float) {
    return InvalidArgument("attention: ", name, " is ", weft::Name(dtype));
  }
  if (operand.axes.size() != form.axes.size()) {
    return InvalidArgument("attention: ", name, " does not have a stride for each of ",
                           form.axes.size(), " axes");
  }
  int64_t extent = ExtentOf(form, operand, elements);
  if (extent < 0 || extent > use.slice.size / ByteWidth(dtype)) {
    return InvalidArgument("attention: ", name, " reaches beyond its buffer of ", use.slice.size,
                           " bytes");
  }
  return {};
}

// Statistics of rows: two numbers of f32 for each.
Status CheckStatistics(const Program& program, const Use& use, const AttentionForm& form) {
  if (DTypeOf(program, use) != DType::kF32) {
    return InvalidArgument("attention: statistics are ", weft::Name(DTypeOf(program, use)));
  }
  return CheckElements(program, use, SaturatingCost({form.queries(), 2}), "attention",
                       "statistics");
}

// What an attention and its gradient have.
Status CheckInputs(const Program& program, const Step& step, const AttentionForm& form) {
  if (form.axes.empty() || form.keys < 1 || form.depth < 1 || form.values < 1) {
    return InvalidArgument("attention: needs axes, keys, depth and values above 0");
  }
  if (form.query_axis < 0 || form.query_axis >= std::ssize(form.axes)) {
    return InvalidArgument("attention: there is no axis ", form.query_axis);
  }
  const auto& uses = step.uses;
  TRY(CheckOperand(program, uses[0], form, form.q, form.depth, "q"));
  TRY(CheckOperand(program, uses[1], form, form.k, form.depth, "k"));
  TRY(CheckOperand(program, uses[2], form, form.v, form.values, "v"));
  if (form.has_bias) {
    TRY(CheckOperand(program, uses[form.bias_use()], form, form.bias, 1, "bias"));
  }
  if (form.has_mask) {
    TRY(CheckOperand(program, uses[form.mask_use()], form, form.mask, 1, "mask"));
  }
  return CheckOperand(program, uses[form.out_use()], form, form.out, form.values, "out");
}

bool HasAccesses(const Step& step, size_t reads) {
  for (size_t i = 0; i < step.uses.size(); ++i) {
    if (step.uses[i].access != (i < reads ? Access::kRead : Access::kWrite)) return false;
  }
  return step.uses.size() > reads;
}

Status VerifyAttention(const Program& program, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  AttentionForm form = AttentionFormOf(call);
  size_t out = form.out_use(), count = step.uses.size();
  if (count < out + 1 || count > out + 2 || !HasAccesses(step, out)) {
    return InvalidArgument(
        "attention: takes (read q, read k, read v [, read bias] [, read mask], write out [, write "
        "statistics])");
  }
  TRY(CheckInputs(program, step, form));
  if (count == out + 2) TRY(CheckStatistics(program, step.uses[out + 1], form));
  return CheckElements(program, step.uses[out],
                       std::max<int64_t>(SaturatingCost({form.queries(), form.values}), 0),
                       "attention", "out");
}

Status VerifyAttentionGradient(const Program& program, const Step& step) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  size_t out = form.out_use(), next = out + 3;
  const AttentionForm::Operand* gradients[] = {&form.dq, &form.dk, &form.dv};
  size_t count = next;
  for (const auto* gradient : gradients) count += !gradient->axes.empty();
  if (step.uses.size() != count || count == next || !HasAccesses(step, next)) {
    return InvalidArgument(
        "attention_gradient: takes (read q, read k, read v [, read bias] [, read mask], read out, "
        "read statistics, read dout [, write dq] [, write dk] [, write dv])");
  }
  TRY(CheckInputs(program, step, form));
  TRY(CheckStatistics(program, step.uses[out + 1], form));
  TRY(CheckOperand(program, step.uses[out + 2], form, form.dout, form.values, "dout"));
  constexpr std::string_view kNames[] = {"dq", "dk", "dv"};
  for (size_t n = 0; n < 3; ++n) {
    if (gradients[n]->axes.empty()) continue;
    int64_t elements = n == 2 ? form.values : form.depth;
    TRY(CheckOperand(program, step.uses[next++], form, *gradients[n], elements, kNames[n]));
  }
  for (size_t i = 0; i < form.axes.size(); ++i) {
    bool sums =
        form.axes[i] > 1 && (form.q.axes[i] == 0 || (form.k.axes[i] == 0) != (form.v.axes[i] == 0));
    if (sums) {
      return InvalidArgument("attention_gradient: q has every axis, k and v have the same ones");
    }
  }
  return {};
}

int64_t AttentionCost(const Program&, const Step& step) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({form.queries(), form.keys, form.depth + form.values});
}

int64_t AttentionGradientCost(const Program&, const Step& step) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({form.queries(), form.keys, 3 * form.depth + 2 * form.values});
}

struct AttentionMemory {
  DType dtype;
  std::byte* data;
  void Put(int64_t element, double value) const {
    auto x = static_cast<float>(value);
    StoreF32(dtype, &x, 1, data + element * ByteWidth(dtype));
  }
  float At(int64_t element) const {
    float x;
    LoadF32(dtype, data + element * ByteWidth(dtype), 1, &x);
    return x;
  }
};

// The element of an operand that a query begins at.
int64_t PlaceOf(const AttentionForm& form, const AttentionForm::Operand& operand, int64_t query) {
  int64_t at = 0;
  for (size_t i = form.axes.size(); i-- > 0; query /= form.axes[i]) {
    at += query % form.axes[i] * operand.axes[i];
  }
  return at;
}

// The scores of one query after the other.
struct QueryScores {
  const AttentionForm& form;
  AttentionMemory q, k, bias, mask;
  std::vector<double> scores;
  std::vector<bool> kept;

  void Score(int64_t query) {
    int64_t in_q = PlaceOf(form, form.q, query), in_k = PlaceOf(form, form.k, query);
    int64_t in_bias = form.has_bias ? PlaceOf(form, form.bias, query) : 0;
    int64_t in_mask = form.has_mask ? PlaceOf(form, form.mask, query) : 0, position = query;
    for (size_t i = form.axes.size(); --i > static_cast<size_t>(form.query_axis);) {
      position /= form.axes[i];
    }
    position %= form.axes[static_cast<size_t>(form.query_axis)];
    for (int64_t s = 0; s < form.keys; ++s) {
      bool keep = s >= position + form.first && s <= position + form.last;
      if (keep && form.has_mask) keep = mask.data[in_mask + s * form.mask.key] != std::byte{0};
      double score = 0;
      for (int64_t p = 0; p < form.depth; ++p) {
        score += static_cast<double>(q.At(in_q + p * form.q.element)) *
                 k.At(in_k + s * form.k.key + p * form.k.element);
      }
      score *= form.scale;
      if (form.has_bias) score += bias.At(in_bias + s * form.bias.key);
      scores[static_cast<size_t>(s)] = keep ? score : form.fill;
      kept[static_cast<size_t>(s)] = keep;
    }
  }
};

AttentionMemory UseOf(const Program& program, const Step& step,
                      std::span<const std::span<std::byte>> memory, size_t i) {
  if (i >= memory.size()) return {DType::kF32, nullptr};
  return {DTypeOf(program, step.uses[i]), memory[i].data()};
}

QueryScores ScoresOf(const Program& program, const Step& step, const AttentionForm& form,
                     std::span<const std::span<std::byte>> memory) {
  auto use = [&](size_t i) { return UseOf(program, step, memory, i); };
  auto keys = static_cast<size_t>(form.keys);
  return {form,
          use(0),
          use(1),
          use(form.bias_use()),
          use(form.mask_use()),
          std::vector<double>(keys),
          std::vector<bool>(keys)};
}

Status InterpretAttention(const Program& program, const Step& step, int64_t,
                          std::span<const std::span<std::byte>> memory) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  QueryScores all = ScoresOf(program, step, form, memory);
  AttentionMemory v = UseOf(program, step, memory, 2),
                  out = UseOf(program, step, memory, form.out_use()),
                  statistics = UseOf(program, step, memory, form.out_use() + 1);
  for (int64_t query = 0, n = form.queries(); query < n; ++query) {
    all.Score(query);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double score : all.scores) {
      largest = std::isnan(score) || std::isnan(largest) ? std::nan("") : std::max(largest, score);
    }
    for (double& score : all.scores) sum += score = std::exp(score - largest);
    int64_t in_v = PlaceOf(form, form.v, query), to = PlaceOf(form, form.out, query);
    for (int64_t i = 0; i < form.values; ++i) {
      double total = 0;
      for (int64_t s = 0; s < form.keys; ++s) {
        total +=
            all.scores[static_cast<size_t>(s)] * v.At(in_v + s * form.v.key + i * form.v.element);
      }
      out.Put(to + i * form.out.element, total / sum);
    }
    if (statistics.data == nullptr) continue;
    statistics.Put(2 * query, largest);
    statistics.Put(2 * query + 1, 1 / sum);
  }
  return {};
}

// Sums in f64 that end in a use; none: not asked for.
struct GradientSums {
  const AttentionForm::Operand& strides;
  AttentionMemory to;
  std::vector<double> sums;
  int64_t base = 0;

  GradientSums(const AttentionForm::Operand& operand, AttentionMemory memory, int64_t elements)
      : strides(operand), to(memory), sums(static_cast<size_t>(elements)) {}
  void Add(int64_t key, int64_t element, double x) {
    if (to.data == nullptr) return;
    sums[static_cast<size_t>(base + key * strides.key + element * strides.element)] += x;
  }
  void Finish() {
    for (size_t i = 0; i < sums.size(); ++i) to.Put(static_cast<int64_t>(i), sums[i]);
  }
};

Status InterpretAttentionGradient(const Program& program, const Step& step, int64_t,
                                  std::span<const std::span<std::byte>> memory) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  QueryScores all = ScoresOf(program, step, form, memory);
  auto use = [&](size_t i) { return UseOf(program, step, memory, i); };
  size_t at = form.out_use(), next = at + 3;
  AttentionMemory v = use(2), out = use(at), statistics = use(at + 1), dout = use(at + 2);
  std::vector<GradientSums> sums;
  for (const AttentionForm::Operand* operand : {&form.dq, &form.dk, &form.dv}) {
    bool wanted = !operand->axes.empty();
    AttentionMemory to = wanted ? use(next++) : AttentionMemory{DType::kF32, nullptr};
    int64_t elements = wanted ? step.uses[next - 1].slice.size / ByteWidth(to.dtype) : 0;
    sums.emplace_back(*operand, to, elements);
  }
  for (int64_t query = 0, n = form.queries(); query < n; ++query) {
    all.Score(query);
    for (GradientSums& sum : sums) {
      if (sum.to.data != nullptr) sum.base = PlaceOf(form, sum.strides, query);
    }
    int64_t in_q = PlaceOf(form, form.q, query), in_k = PlaceOf(form, form.k, query);
    int64_t in_v = PlaceOf(form, form.v, query), in_out = PlaceOf(form, form.out, query);
    int64_t in_dout = PlaceOf(form, form.dout, query);
    double delta = 0;
    for (int64_t i = 0; i < form.values; ++i) {
      delta += static_cast<double>(out.At(in_out + i * form.out.element)) *
               dout.At(in_dout + i * form.dout.element);
    }
    for (int64_t s = 0; s < form.keys; ++s) {
      auto key = static_cast<size_t>(s);
      double w = std::exp(all.scores[key] - statistics.At(2 * query)) *
                 statistics.At(2 * query + 1),
             dw = 0;
      for (int64_t i = 0; i < form.values; ++i) {
        double d = dout.At(in_dout + i * form.dout.element);
        dw += d * v.At(in_v + s * form.v.key + i * form.v.element);
        sums[2].Add(s, i, w * d);
      }
      double ds = all.kept[key] ? w * (dw - delta) * form.scale : 0;
      for (int64_t p = 0; p < form.depth; ++p) {
        sums[0].Add(0, p, ds * all.k.At(in_k + s * form.k.key + p * form.k.element));
        sums[1].Add(s, p, ds * all.q.At(in_q + p * form.q.element));
      }
    }
  }
  for (GradientSums& sum : sums) sum.Finish();
  return {};
}

}  // namespace

int64_t AttentionForm::queries() const {
  int64_t n = 1;
  for (int64_t size : axes) n = SaturatingCost({n, size});
  return n;
}

AttentionForm AttentionFormOf(const LibraryStep& call) {
  AttentionForm form;
  if (const std::vector<int64_t>* axes = IntsAttr(call, "axes")) form.axes = *axes;
  size_t axes = form.axes.size();
  form.keys = IntAttr(call, "keys", 0);
  form.depth = IntAttr(call, "depth", 0);
  form.values = IntAttr(call, "values", 0);
  form.q = StridesOf(call, "q", axes, false, true);
  form.k = StridesOf(call, "k", axes, true, true);
  form.v = StridesOf(call, "v", axes, true, true);
  form.out = StridesOf(call, "out", axes, false, true);
  form.has_bias = IntsAttr(call, "bias") != nullptr;
  form.has_mask = IntsAttr(call, "mask") != nullptr;
  form.bias = StridesOf(call, "bias", axes, true, false);
  form.mask = StridesOf(call, "mask", axes, true, false);
  form.dout = StridesOf(call, "dout", axes, false, true);
  form.dq = StridesOf(call, "dq", axes, false, true);
  form.dk = StridesOf(call, "dk", axes, true, true);
  form.dv = StridesOf(call, "dv", axes, true, true);
  form.scale = DoubleAttr(call, "scale", 1);
  // Scores are f32, and so is what is filled in: a row of nothing else is as large as its largest.
  form.fill =
      static_cast<float>(DoubleAttr(call, "fill", -std::numeric_limits<double>::infinity()));
  form.query_axis = IntAttr(call, "query_axis", 0);
  int64_t none = AttentionForm::kNoBound;
  form.first = std::max(IntAttr(call, "first", -none), -none);
  form.last = std::min(IntAttr(call, "last", none), none);
  return form;
}

Routine AttentionGradientRoutine() {
  return {"attention_gradient", VerifyAttentionGradient, AttentionGradientCost,
          InterpretAttentionGradient};
}

Routine AttentionRoutine() {
  return {"attention", VerifyAttention, AttentionCost, InterpretAttention};
}

}  // namespace weft::program
