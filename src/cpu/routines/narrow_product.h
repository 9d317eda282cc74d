// A product of bf16 or int8 by one of the micro-kernels for them.
#pragma once

#include "cpu/routines/multiply.h"
#include "cpu/routines/narrow_kernels.h"

namespace weft::cpu {

inline PanelForm NarrowForm(const NarrowKernel& kernel) {
  return {kernel.rows,
          kernel.cols,
          kernel.step,
          kernel.element_bytes(),
          NarrowHead(kernel, true),
          NarrowHead(kernel, false),
          4,
          kernel.speed,
          kernel.element != NarrowElement::kBf16};
}

// Packed panels by a micro-kernel for narrow elements, whatever they are packed from. T: float for
// bf16, uint32_t for int8. alpha is 1, beta is 0 or 1.
template <class T>
class NarrowPanelProduct : public PackedProduct<T> {
 public:
  explicit NarrowPanelProduct(const NarrowKernel& kernel) : kernel_(kernel) {}
  PanelForm form() const override { return NarrowForm(kernel_); }
  void Run(int64_t k, const std::byte* a, const std::byte* b, T* c, int64_t ldc, T /*alpha*/,
           T beta) const override {
    kernel_.run(k, a, b, reinterpret_cast<std::byte*>(c), ldc, beta != 0);
  }
  void Enter() const override {
    if (kernel_.enter != nullptr) kernel_.enter();
  }
  void Leave() const override {
    if (kernel_.leave != nullptr) kernel_.leave();
  }

 protected:
  const NarrowKernel& kernel_;
};

template <class T>
class NarrowProduct : public NarrowPanelProduct<T> {
 public:
  NarrowProduct(const NarrowKernel& kernel, const NarrowSource& a, const NarrowSource& b)
      : NarrowPanelProduct<T>(kernel), a_(a), b_(b) {}
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    PackNarrow(this->kernel_, is_left, is_left ? a_ : b_, (is_left ? b_ : a_).dtype, first, count,
               k0, kn, panel, out);
  }

 private:
  NarrowSource a_, b_;
};

}  // namespace weft::cpu
