// A convolution as products of matrices: which ones, and how they lie in the result.
#pragma once

#include <string>
#include <vector>

#include "cpu/routines/multiply.h"
#include "program/library.h"

namespace weft::cpu {

inline constexpr int64_t kMostAxes = 8;  // of a convolution's space

// A convolution without holes in its input: one residue of the positions by the base dilation, with
// the taps that do not fall into holes (polyphase decomposition).
struct ConvolutionPhase {
  program::ConvolutionForm form;  // base_dilation 1, no reversal; window strides may be negative
  int64_t kernel_offset = 0, out_offset = 0;
  int64_t positions = 1, taps = 1;
};
std::vector<ConvolutionPhase> PhasesOf(const program::ConvolutionForm& form);

// What an array of T is.
template <class T>
inline constexpr DType kStoredType = std::is_same_v<T, float>    ? DType::kF32
                                     : std::is_same_v<T, double> ? DType::kF64
                                     : sizeof(T) == 4            ? DType::kU32
                                                                 : DType::kU64;

// In which order windows are numbered, and the elements of each.
struct WindowOrder {
  bool images_inner = false;    // position * images + image, not image * positions + position
  bool features_outer = false;  // feature * taps + tap, not tap * features + feature
};

// How the product of windows and filters lies in the result: windows are rows, or columns of all
// images or of each; or it does not, and is put there afterwards.
enum class ProductForm : uint8_t { kRows, kColumns, kColumnsOfImages, kScattered };

struct PhasePlan {
  ConvolutionPhase phase;
  WindowOrder order;
  ProductForm form = ProductForm::kScattered;
  int64_t pitch = 0;  // of rows

  std::string Describe() const;
  // Rows, columns, depth.
  ProductSizes Sizes(int64_t per_group) const {
    int64_t images = form == ProductForm::kColumnsOfImages ? 1 : phase.form.batch;
    int64_t windows = images * phase.positions, depth = phase.taps * phase.form.kernel_in;
    bool by_rows = form == ProductForm::kRows || form == ProductForm::kScattered;
    return by_rows ? ProductSizes{windows, per_group, depth}
                   : ProductSizes{per_group, windows, depth};
  }
};

PhasePlan PlanOf(ConvolutionPhase phase, int64_t per_group);

}  // namespace weft::cpu
