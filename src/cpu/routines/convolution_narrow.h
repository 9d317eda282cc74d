// A convolution of bf16 or int8 by one of the micro-kernels for them: windows are packed in words,
// as many neighbouring features as an instruction takes for one lane.
#pragma once

#include "cpu/routines/convolution_panels.h"
#include "cpu/routines/narrow_product.h"

namespace weft::cpu {

// The phase in words of so many features instead of these.
inline ConvolutionPhase InWords(ConvolutionPhase phase, int64_t of_word) {
  phase.form.kernel_in /= of_word;
  phase.form.in_features /= of_word;
  phase.form.in_batch_stride /= of_word;
  for (auto& a : phase.form.axes) a.in_stride /= of_word;
  return phase;
}

// Whether the kernel takes the windows of a phase: rows, of whole groups of features that are
// neighbours in memory.
inline bool TakesWindows(const NarrowKernel& kernel, const PhasePlan& plan) {
  bool as_is = kernel.element != NarrowElement::kInt16;
  bool rows = plan.form == ProductForm::kRows || plan.form == ProductForm::kScattered;
  const program::ConvolutionForm& f = plan.phase.form;
  return as_is && rows && f.in_feature_stride == 1 && !plan.order.features_outer &&
         f.kernel_in % std::max(kernel.a_group, kernel.step) == 0;
}

// The filters of a phase as [tap][feature][n columns], elements of so many bytes.
void GatherFilters(const Means& means, const PhasePlan& plan, int64_t n, const std::byte* kernel,
                   int64_t bytes, std::byte* to);

// T: float for bf16, uint32_t for int8. Word: what the kernel takes of a vector at once.
template <class T, class Word>
class NarrowConvolution : public NarrowPanelProduct<T> {
 public:
  // `filters`: as [tap][feature][column].
  NarrowConvolution(const NarrowKernel& kernel, const PhasePlan& plan, DType dtype,
                    const std::byte* input, const NarrowSource& filters)
      : NarrowPanelProduct<T>(kernel),
        dtype_(dtype),
        of_word_(int64_t{sizeof(Word)} / kernel.element_bytes()),
        phase_(InWords(plan.phase, of_word_)),
        windows_(phase_, plan.order, reinterpret_cast<const Word*>(input)),
        filters_(filters) {}
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    if (!is_left) {
      return PackNarrow(kernel_, false, filters_, dtype_, first, count, k0, kn, panel, out);
    }
    int64_t width = kernel_.rows;
    for (int64_t at = 0; at < count; at += width, out += panel) {
      int64_t used = std::min(width, count - at);
      auto* to = reinterpret_cast<Word*>(out + NarrowHead(kernel_, true));
      if (kernel_.a_group == of_word_) {
        windows_.Pack(first + at, used, k0 / of_word_, kn / of_word_, width, to);
      } else {
        windows_.PackLines(first + at, used, k0 / of_word_, kn / of_word_, width, to);
      }
      CorrectNarrow(kernel_, true, dtype_, dtype_, kn, out);
    }
  }

 private:
  using NarrowPanelProduct<T>::kernel_;
  DType dtype_;
  int64_t of_word_;
  ConvolutionPhase phase_;
  WindowPanels<Word> windows_;
  NarrowSource filters_;
};

// Windows by filters, by the kernel's words of 4 or of 8 bytes.
template <class T>
Status MultiplyNarrow(const Means& means, const NarrowKernel& kernel, const PhasePlan& plan,
                      const ProductSizes& sizes, DType dtype, const std::byte* input,
                      const std::byte* filters, const ResultMatrix& result, const RowsDone& done) {
  int64_t bytes = kernel.element_bytes();
  auto dense = TRY(Scratch<std::byte>::New(means, sizes.k * sizes.n * bytes));
  GatherFilters(means, plan, sizes.n, filters, bytes, dense.data());
  auto multiply = [&]<class Word>() {
    NarrowConvolution<T, Word> product(kernel, plan, dtype, input,
                                       {dtype, dense.data(), 1, sizes.n});
    return MultiplyPacked<T>(means, sizes, product, result, T(1), T(0), done);
  };
  return kernel.b_group * bytes == sizeof(uint64_t) ? multiply.template operator()<uint64_t>()
                                                    : multiply.template operator()<uint32_t>();
}

}  // namespace weft::cpu
