// The two sides of a convolution as matrices: the windows of the input (implicit im2col), and the
// filters.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/routines/convolution_plan.h"
#include "cpu/routines/tiles.h"

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
  // Whether windows are made of runs that are worth reading where they lie.
  bool HasRuns() const;
  // For TileKernel::from_rows: the number of runs, then the runs.
  void PackTable(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                 const void** out) const;

 private:
  struct Place;
  struct Taps;
  struct Segment;
  void PlacesOf(int64_t first, int64_t count, Place* places) const;
  Taps TapsAt(int64_t tap) const;
  // emit(rows, n, done): n elements of each of `width` rows, behind those that are done.
  template <class Emit>
  void ForRuns(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
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

// Windows, read where they lie, by packed filters.
template <class T>
class WindowProduct : public PackedProduct<T> {
 public:
  WindowProduct(const TileKernel<T>& kernel, const PanelForm& form, const WindowPanels<T>& windows,
                const FilterPanels<T>& filters)
      : kernel_(kernel), form_(form), windows_(windows), filters_(filters) {}
  PanelForm form() const override { return form_; }
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    if (!is_left) {
      return filters_.PackMany(first, count, k0, kn, kernel_.cols, panel / int64_t{sizeof(T)},
                               reinterpret_cast<T*>(out));
    }
    for (int64_t at = 0; at < count; at += kernel_.rows, out += panel) {
      windows_.PackTable(first + at, std::min<int64_t>(kernel_.rows, count - at), k0, kn,
                         kernel_.rows, reinterpret_cast<const void**>(out));
    }
  }
  void Run(int64_t /*k*/, const std::byte* a, const std::byte* b, T* c, int64_t ldc, T alpha,
           T beta) const override {
    const auto* table = reinterpret_cast<const void* const*>(a);
    kernel_.from_rows(static_cast<int64_t>(reinterpret_cast<intptr_t>(table[0])), table + 1,
                      reinterpret_cast<const T*>(b), c, ldc, alpha, beta);
  }

 private:
  const TileKernel<T>& kernel_;
  PanelForm form_;
  const WindowPanels<T>& windows_;
  const FilterPanels<T>& filters_;
};

}  // namespace weft::cpu
