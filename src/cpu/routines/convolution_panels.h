// The two sides of a convolution as matrices: the windows of the input (implicit im2col), and the
// filters.
#pragma once

#include <vector>

#include "cpu/routines/convolution_plan.h"

namespace weft::cpu {

// Windows of a phase as vectors.
template <class T>
class WindowPanels : public PanelSource<T> {
 public:
  WindowPanels(const ConvolutionPhase& phase, WindowOrder order, const T* input);
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override;
  // Lines of kLine elements of each window in turn, for features that are neighbours and whole
  // lines.
  void PackLines(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width, T* out) const;
  static constexpr int64_t kLine = 64 / int64_t{sizeof(T)};

 private:
  struct Place;
  struct Taps;
  struct Segment;
  void PlacesOf(int64_t first, int64_t count, Place* places) const;
  Taps TapsAt(int64_t tap) const;
  // emit(rows, n, to): n elements of each of `width` rows.
  template <class Emit>
  void ForRuns(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width, T* out,
               const Emit& emit) const;
  void PackRun(const Segment& segment, const Taps& taps, int64_t feature, int64_t n, int64_t width,
               T* out) const;
  void PackSegments(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                    T* out) const;

  const ConvolutionPhase& phase_;
  const program::ConvolutionForm& f_;
  WindowOrder order_;
  const T* input_;
  int64_t merged_ = 1;  // taps of the last axis that lie side by side with their features
};

// Filters as vectors, elements in the same order.
template <class T>
class FilterPanels : public PanelSource<T> {
 public:
  FilterPanels(const ConvolutionPhase& phase, WindowOrder order, const T* kernel);
  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override;
  void PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width, int64_t panel,
                T* out) const override;

 private:
  struct Digit {
    int64_t size, stride;
  };
  // fn(offset, at, n): elements at to at + n of the range lie `inner().stride` apart from there.
  template <class Fn>
  void ForRuns(int64_t k0, int64_t kn, const Fn& fn) const;

  std::vector<Digit> digits_;  // the last one is first to change
  const T* kernel_;
  int64_t vector_stride_;
};

}  // namespace weft::cpu
