#include "cpu/routines/convolution_plan.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/str.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;

// An axis without reversal, which runs through the window from its end instead.
ConvolutionForm::Axis Forward(ConvolutionForm::Axis a, int64_t& kernel_offset) {
  if (!a.reversal) return a;
  kernel_offset += (a.window - 1) * a.window_stride;
  a.window_stride = -a.window_stride;
  a.reversal = false;
  return a;
}

// How many residues of positions meet different taps.
int64_t ResiduesOf(const ConvolutionForm::Axis& a) {
  return std::min(a.base_dilation / std::gcd(a.stride, a.base_dilation),
                  std::max<int64_t>(1, a.out));
}

// Positions residue + residues * v and taps first + step * u, which are no holes:
// position * stride - pad + tap * dilation is a multiple of the base dilation.
ConvolutionForm::Axis OfResidue(const ConvolutionForm::Axis& a, int64_t residue,
                                ConvolutionPhase& phase) {
  int64_t all = a.base_dilation / std::gcd(a.stride, a.base_dilation);
  int64_t step = a.base_dilation / std::gcd(a.window_dilation, a.base_dilation);
  auto at = [&](int64_t tap) { return residue * a.stride - a.pad + tap * a.window_dilation; };
  int64_t first = 0, most = std::min(a.window, step);
  while (first < most && at(first) % a.base_dilation != 0) ++first;
  ConvolutionForm::Axis r = a;
  r.window = first == most ? 0 : (a.window - first + step - 1) / step;
  phase.kernel_offset += r.window == 0 ? 0 : first * a.window_stride;
  phase.out_offset += residue * a.out_stride;
  r.window_stride = a.window_stride * step;
  r.window_dilation = step * a.window_dilation / a.base_dilation;
  r.stride = all * a.stride / a.base_dilation;
  r.pad = r.window == 0 ? 0 : -at(first) / a.base_dilation;
  r.out = (a.out - residue + all - 1) / all;
  r.out_stride = a.out_stride * all;
  r.base_dilation = 1;
  return r;
}

// Sizes and strides of the digits that number rows, the last one first to change: how far apart
// rows are, when that is the same everywhere; 0: there is one row; -1: it is not.
int64_t PitchOf(std::span<const std::pair<int64_t, int64_t>> digits) {
  int64_t pitch = 0, next = 0;
  for (size_t d = digits.size(); d-- > 0;) {
    auto [size, stride] = digits[d];
    if (size == 1) continue;
    if (pitch == 0) {
      pitch = stride;
    } else if (stride != next) {
      return -1;
    }
    next = stride * size;
  }
  return pitch;
}

// Elements of windows are numbered as they lie in the filters, unless features are neighbours in
// the input, where runs of them are turned.
bool NumbersFeaturesFirst(const ConvolutionForm& f) {
  // Features that make a run.
  constexpr int64_t kRun = program::TargetFacts::kNarrowLanes;
  if (f.kernel_in == 1 || (f.in_feature_stride == 1 && f.kernel_in >= kRun)) return false;
  if (f.in_feature_stride == 1 && !f.axes.empty() && f.axes.back().in_stride == f.kernel_in) {
    return false;
  }
  for (const auto& a : f.axes) {
    if (a.window > 1 && std::abs(a.window_stride) < f.kernel_in_stride) return true;
  }
  return false;
}

}  // namespace

std::vector<ConvolutionPhase> PhasesOf(const ConvolutionForm& form) {
  ConvolutionPhase whole;
  whole.form = form;
  int64_t count = 1;
  for (ConvolutionForm::Axis& a : whole.form.axes) {
    a = Forward(a, whole.kernel_offset);
    count *= ResiduesOf(a);
  }
  std::vector<ConvolutionPhase> phases;
  for (int64_t number = 0; number < count; ++number) {
    ConvolutionPhase phase = whole;
    int64_t rest = number;
    for (ConvolutionForm::Axis& a : phase.form.axes) {
      int64_t residues = ResiduesOf(a), residue = rest % residues;
      rest /= residues;
      a = OfResidue(a, residue, phase);
      phase.positions *= a.out;
      phase.taps *= a.window;
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

PhasePlan PlanOf(ConvolutionPhase phase, int64_t per_group) {
  // Rather rows of the product than columns.
  constexpr int64_t kFewFeatures = program::TargetFacts::kUsualLanes;
  PhasePlan plan;
  plan.phase = std::move(phase);
  const ConvolutionForm& f = plan.phase.form;
  plan.order.features_outer = NumbersFeaturesFirst(f);
  std::vector<std::pair<int64_t, int64_t>> digits = {{f.batch, f.out_batch_stride}};
  for (const auto& a : f.axes) digits.push_back({a.out, a.out_stride});
  int64_t images_outer = PitchOf(digits);
  int64_t of_image = PitchOf(std::span(digits).subspan(1));
  std::rotate(digits.begin(), digits.begin() + 1, digits.end());
  int64_t images_inner = PitchOf(digits);
  auto take = [&](ProductForm form, bool inner, int64_t pitch) {
    plan.form = form;
    plan.order.images_inner = inner;
    plan.pitch = pitch;
    return plan;
  };
  bool features_last = f.out_feature_stride == 1 || per_group == 1;
  if (per_group < kFewFeatures) {
    if (images_outer == 1) return take(ProductForm::kColumns, false, f.out_feature_stride);
    if (images_inner == 1) return take(ProductForm::kColumns, true, f.out_feature_stride);
  }
  if (features_last && images_outer >= 0) {
    return take(ProductForm::kRows, false, std::max(images_outer, per_group));
  }
  if (features_last && images_inner >= 0) return take(ProductForm::kRows, true, images_inner);
  if (images_outer == 1) return take(ProductForm::kColumns, false, f.out_feature_stride);
  if (images_inner == 1) return take(ProductForm::kColumns, true, f.out_feature_stride);
  if (of_image == 0 || of_image == 1) {
    return take(ProductForm::kColumnsOfImages, false, f.out_feature_stride);
  }
  plan.order.images_inner = f.in_batch_stride == 1 && f.in_feature_stride != 1;
  plan.pitch = per_group;
  return plan;
}

std::string PhasePlan::Describe() const {
  constexpr std::string_view kForms[] = {"windows are rows of the product",
                                         "windows are columns of the product",
                                         "windows are columns of a product for each image",
                                         "results are put in their places afterwards"};
  return StrCat(kForms[static_cast<size_t>(form)], order.images_inner ? ", images innermost" : "",
                order.features_outer ? ", features before taps" : ", taps before features");
}

}  // namespace weft::cpu
