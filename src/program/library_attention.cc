// attention, slowly: one query after the other, all of its scores at once.
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

Status VerifyAttention(const Program& program, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  AttentionForm form = AttentionFormOf(call);
  size_t count = size_t{4} + form.has_bias + form.has_mask;
  bool good = step.uses.size() == count && step.uses.back().access == Access::kWrite;
  for (size_t i = 0; good && i + 1 < count; ++i) good = step.uses[i].access == Access::kRead;
  if (!good) {
    return InvalidArgument(
        "attention: takes (read q, read k, read v [, read bias] [, read mask], write out)");
  }
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
  if (form.has_bias) TRY(CheckOperand(program, uses[3], form, form.bias, 1, "bias"));
  if (form.has_mask) TRY(CheckOperand(program, uses[count - 2], form, form.mask, 1, "mask"));
  TRY(CheckOperand(program, uses[count - 1], form, form.out, form.values, "out"));
  return CheckElements(program, uses[count - 1],
                       std::max<int64_t>(SaturatingCost({form.queries(), form.values}), 0),
                       "attention", "out");
}

int64_t AttentionCost(const Program&, const Step& step) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({form.queries(), form.keys, form.depth + form.values});
}

struct AttentionMemory {
  DType dtype;
  std::byte* data;
  float At(int64_t element) const {
    float x;
    LoadF32(dtype, data + element * ByteWidth(dtype), 1, &x);
    return x;
  }
};

// Places of one query in the operands.
struct QueryPlaces {
  int64_t q = 0, k = 0, v = 0, bias = 0, mask = 0, out = 0, position = 0;
};

QueryPlaces PlacesOf(const AttentionForm& form, int64_t query) {
  QueryPlaces at;
  for (size_t i = form.axes.size(); i-- > 0; query /= form.axes[i]) {
    int64_t index = query % form.axes[i];
    at.q += index * form.q.axes[i];
    at.k += index * form.k.axes[i];
    at.v += index * form.v.axes[i];
    at.out += index * form.out.axes[i];
    if (form.has_bias) at.bias += index * form.bias.axes[i];
    if (form.has_mask) at.mask += index * form.mask.axes[i];
    if (static_cast<int64_t>(i) == form.query_axis) at.position = index;
  }
  return at;
}

Status InterpretAttention(const Program& program, const Step& step, int64_t,
                          std::span<const std::span<std::byte>> memory) {
  AttentionForm form = AttentionFormOf(std::get<LibraryStep>(step.op));
  auto use = [&](size_t i) {
    return AttentionMemory{DTypeOf(program, step.uses[i]), memory[i].data()};
  };
  AttentionMemory q = use(0), k = use(1), v = use(2), bias = use(3), mask = use(memory.size() - 2),
                  out = use(memory.size() - 1);
  std::vector<double> scores(static_cast<size_t>(form.keys));
  for (int64_t query = 0, n = form.queries(); query < n; ++query) {
    QueryPlaces at = PlacesOf(form, query);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    bool has_nan = false;
    for (int64_t s = 0; s < form.keys; ++s) {
      double& score = scores[static_cast<size_t>(s)];
      bool kept = s >= at.position + form.first && s <= at.position + form.last;
      if (kept && form.has_mask) {
        kept = mask.data[at.mask + s * form.mask.key] != std::byte{0};
      }
      score = 0;
      for (int64_t p = 0; p < form.depth; ++p) {
        score += static_cast<double>(q.At(at.q + p * form.q.element)) *
                 k.At(at.k + s * form.k.key + p * form.k.element);
      }
      score *= form.scale;
      if (form.has_bias) score += bias.At(at.bias + s * form.bias.key);
      if (!kept) score = form.fill;
      largest = std::max(largest, score);
      has_nan |= std::isnan(score);
    }
    if (has_nan) largest = std::numeric_limits<double>::quiet_NaN();
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (int64_t i = 0; i < form.values; ++i) {
      double total = 0;
      for (int64_t s = 0; s < form.keys; ++s) {
        total += scores[static_cast<size_t>(s)] * v.At(at.v + s * form.v.key + i * form.v.element);
      }
      float x = static_cast<float>(total / sum);
      StoreF32(out.dtype, &x, 1, out.data + (at.out + i * form.out.element) * ByteWidth(out.dtype));
    }
  }
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
  form.scale = DoubleAttr(call, "scale", 1);
  form.fill = DoubleAttr(call, "fill", -std::numeric_limits<double>::infinity());
  form.query_axis = IntAttr(call, "query_axis", 0);
  int64_t none = AttentionForm::kNoBound;
  form.first = std::max(IntAttr(call, "first", -none), -none);
  form.last = std::min(IntAttr(call, "last", none), none);
  return form;
}

Routine AttentionRoutine() {
  return {"attention", VerifyAttention, AttentionCost, InterpretAttention};
}

}  // namespace weft::program
