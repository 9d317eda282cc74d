// convolution, slowly: one output element after the other.
#include <algorithm>
#include <complex>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {

namespace {

// The number of a list that may be absent.
std::vector<int64_t> SpatialList(const LibraryStep& call, std::string_view name, size_t rank,
                                 int64_t otherwise) {
  const std::vector<int64_t>* list = IntsAttr(call, name);
  return list != nullptr ? *list : std::vector<int64_t>(rank, otherwise);
}

Status CheckConvolutionOperand(std::string_view name, const std::vector<int64_t>* shape,
                               const std::vector<int64_t>* layout, size_t rank) {
  bool good = shape != nullptr && layout != nullptr && shape->size() == rank + 2 &&
              layout->size() == rank + 2;
  if (good) {
    std::vector<int64_t> sorted = *layout;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) good &= sorted[i] == static_cast<int64_t>(i);
    for (int64_t dim : *shape) good &= dim >= 0;
  }
  if (!good) return InvalidArgument("convolution: needs ", name, "_shape and ", name, "_layout");
  return {};
}

// Sizes that agree with each other, all small enough that no sum of products of two overflows.
Status CheckConvolutionSizes(const ConvolutionForm& f) {
  auto error = [](auto... what) { return InvalidArgument("convolution: ", what...); };
  constexpr int64_t kMost = int64_t{1} << 30;
  int64_t groups = f.feature_groups * f.batch_groups;
  bool good = f.feature_groups >= 1 && f.batch_groups >= 1 && f.feature_groups < kMost &&
              f.batch_groups < kMost && (f.feature_groups == 1 || f.batch_groups == 1) &&
              f.in_features == f.kernel_in * f.feature_groups &&
              f.batch_in == f.batch * f.batch_groups && f.out_features % groups == 0 &&
              f.kernel_out == f.out_features;
  if (!good) return error("batch, features and groups do not agree");
  for (const ConvolutionForm::Axis& a : f.axes) {
    for (int64_t x : {a.stride, a.base_dilation, a.window_dilation}) {
      if (x < 1 || x >= kMost) return error("strides and dilations are at least 1");
    }
    if (a.in >= kMost || a.out >= kMost || a.window >= kMost || a.pad <= -kMost || a.pad >= kMost) {
      return error("a dimension is too large");
    }
  }
  return {};
}

Status VerifyConvolution(const Program& program, const Step& step) {
  if (step.uses.size() < 3 || step.uses[0].access != Access::kRead ||
      step.uses[1].access != Access::kRead || step.uses[2].access != Access::kWrite) {
    return InvalidArgument("convolution: takes (read input, read kernel, write output)");
  }
  const auto& call = std::get<LibraryStep>(step.op);
  const std::vector<int64_t>* input = IntsAttr(call, "input_shape");
  if (input == nullptr || input->size() < 2) {
    return InvalidArgument("convolution: needs input_shape and input_layout");
  }
  size_t rank = input->size() - 2;
  constexpr std::string_view kNames[] = {"input", "kernel", "output"};
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t>* shape = IntsAttr(call, StrCat(kNames[i], "_shape"));
    TRY(CheckConvolutionOperand(kNames[i], shape, IntsAttr(call, StrCat(kNames[i], "_layout")),
                                rank));
    int64_t elements = 1;
    for (int64_t dim : *shape) elements = elements < 0 ? -1 : Product({elements, dim});
    TRY(CheckElements(program, step.uses[i], elements, "convolution", kNames[i]));
  }
  for (std::string_view name :
       {"strides", "pads", "base_dilation", "window_dilation", "reversal"}) {
    if (SpatialList(call, name, rank, 0).size() != rank) {
      return InvalidArgument("convolution: ", name, " has not ", rank, " numbers");
    }
  }
  DType out = DTypeOf(program, step.uses[2]);
  for (const Use& use : std::span(step.uses).first(3)) {
    DType dtype = DTypeOf(program, use);
    bool same_class = IsFloat(dtype) == IsFloat(out) && (IsFloat(dtype) || IsInteger(dtype));
    if (IsComplex(out)) same_class = dtype == out;
    if (!same_class) return InvalidArgument("convolution: does not take ", weft::Name(dtype));
  }
  TRY(CheckConvolutionSizes(ConvolutionFormOf(call)));
  return VerifyEpilogue(program, step, "convolution");
}

// T is what sums are kept in.
template <class T, class Load, class Store>
void RunConvolution(const ConvolutionForm& f, const Load& load, const Store& store) {
  std::vector<T> input = load(0), kernel = load(1);
  int64_t positions = 1, taps = 1;
  for (const auto& a : f.axes) positions *= a.out, taps *= a.window;
  int64_t per_group = f.out_features / (f.feature_groups * f.batch_groups);
  for (int64_t batch = 0; batch < f.batch; ++batch) {
    for (int64_t feature = 0; feature < f.out_features; ++feature) {
      int64_t group = feature / per_group;
      for (int64_t position = 0; position < positions; ++position) {
        T sum = 0;
        int64_t out_at = batch * f.out_batch_stride + feature * f.out_feature_stride;
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t image = batch + (f.batch_groups > 1 ? group * f.batch : 0);
          int64_t first = f.feature_groups > 1 ? group * f.kernel_in : 0;
          int64_t in_at = image * f.in_batch_stride + first * f.in_feature_stride;
          int64_t kernel_at = feature * f.kernel_out_stride, p = position, t = tap;
          bool inside = true;
          out_at = batch * f.out_batch_stride + feature * f.out_feature_stride;
          for (size_t d = f.axes.size(); d-- > 0;) {
            const auto& a = f.axes[d];
            int64_t index = f.InputIndex(a, p % a.out, t % a.window);
            inside &= index >= 0;
            in_at += index * a.in_stride;
            kernel_at += t % a.window * a.window_stride;
            out_at += p % a.out * a.out_stride;
            p /= a.out;
            t /= a.window;
          }
          for (int64_t i = 0; inside && i < f.kernel_in; ++i) {
            sum +=
                input[in_at + i * f.in_feature_stride] * kernel[kernel_at + i * f.kernel_in_stride];
          }
        }
        int64_t p = position;
        out_at = batch * f.out_batch_stride + feature * f.out_feature_stride;
        for (size_t d = f.axes.size(); d-- > 0; p /= f.axes[d].out) {
          out_at += p % f.axes[d].out * f.axes[d].out_stride;
        }
        store(out_at, sum);
      }
    }
  }
}

Status InterpretConvolution(const Program& program, const Step& step, int64_t,
                            std::span<const std::span<std::byte>> memory) {
  ConvolutionForm form = ConvolutionFormOf(std::get<LibraryStep>(step.op));
  DType out = DTypeOf(program, step.uses[2]);
  auto run = [&]<class T>(auto load_elements, auto store_element) {
    RunConvolution<T>(
        form,
        [&](size_t use) {
          DType dtype = DTypeOf(program, step.uses[use]);
          std::vector<T> values(memory[use].size() / static_cast<size_t>(ByteWidth(dtype)));
          load_elements(dtype, memory[use].data(), static_cast<int64_t>(values.size()),
                        values.data());
          return values;
        },
        [&](int64_t at, T value) {
          store_element(out, &value, 1, memory[2].data() + at * ByteWidth(out));
        });
  };
  if (IsComplex(out)) {
    run.operator()<std::complex<double>>(LoadC128, StoreC128);
  } else if (out == DType::kF64) {
    run.operator()<double>(LoadF64, StoreF64);
  } else if (IsFloat(out)) {
    run.operator()<float>(LoadF32, StoreF32);
  } else {
    run.operator()<uint64_t>(
        [](DType dtype, const std::byte* src, int64_t n, uint64_t* dst) {
          LoadI64(dtype, src, n, reinterpret_cast<int64_t*>(dst));
        },
        [](DType dtype, const uint64_t* src, int64_t n, std::byte* dst) {
          StoreI64(dtype, reinterpret_cast<const int64_t*>(src), n, dst);
        });
  }
  return InterpretEpilogue(program, step, memory);
}

int64_t ConvolutionCost(const Program& program, const Step& step) {
  ConvolutionForm f = ConvolutionFormOf(std::get<LibraryStep>(step.op));
  int64_t cost = SaturatingCost({f.batch, f.out_features, f.kernel_in});
  for (const auto& a : f.axes) cost = SaturatingCost({cost, a.out, a.window});
  return std::max(cost, EpilogueCost(program, step));
}

}  // namespace

ConvolutionForm ConvolutionFormOf(const LibraryStep& call) {
  ConvolutionForm f;
  auto strided = [&](std::string_view name) {
    const std::vector<int64_t>& shape = *IntsAttr(call, StrCat(name, "_shape"));
    const std::vector<int64_t>& layout = *IntsAttr(call, StrCat(name, "_layout"));
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
    std::vector<std::pair<int64_t, int64_t>> sizes;  // with strides, in the order of the layout
    for (int64_t d : layout) {
      sizes.push_back({shape[static_cast<size_t>(d)], strides[static_cast<size_t>(d)]});
    }
    return sizes;
  };
  auto input = strided("input"), kernel = strided("kernel"), output = strided("output");
  std::tie(f.batch_in, f.in_batch_stride) = input[0];
  std::tie(f.in_features, f.in_feature_stride) = input[1];
  std::tie(f.kernel_in, f.kernel_in_stride) = kernel[0];
  std::tie(f.kernel_out, f.kernel_out_stride) = kernel[1];
  std::tie(f.batch, f.out_batch_stride) = output[0];
  std::tie(f.out_features, f.out_feature_stride) = output[1];
  f.feature_groups = IntAttr(call, "feature_groups", 1);
  f.batch_groups = IntAttr(call, "batch_groups", 1);
  size_t rank = input.size() - 2;
  auto list = [&](std::string_view name, int64_t otherwise) {
    return SpatialList(call, name, rank, otherwise);
  };
  std::vector<int64_t> strides = list("strides", 1), pads = list("pads", 0),
                       base = list("base_dilation", 1), window = list("window_dilation", 1),
                       reversal = list("reversal", 0);
  for (size_t i = 0; i < rank; ++i) {
    f.axes.push_back({input[2 + i].first, output[2 + i].first, kernel[2 + i].first,
                      input[2 + i].second, output[2 + i].second, kernel[2 + i].second, strides[i],
                      pads[i], base[i], window[i], reversal[i] != 0});
  }
  return f;
}

Routine ConvolutionRoutine() {
  return {"convolution", VerifyConvolution, ConvolutionCost, InterpretConvolution};
}

}  // namespace weft::program
