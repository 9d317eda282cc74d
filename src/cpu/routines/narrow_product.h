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
          kernel.speed};
}

// T: float for bf16, uint32_t for int8. alpha is 1, beta is 0 or 1.
template <class T>
class NarrowProduct : public PackedProduct<T> {
 public:
  NarrowProduct(const NarrowKernel& kernel, const NarrowSource& a, const NarrowSource& b)
      : kernel_(kernel), a_(a), b_(b) {}
  PanelForm form() const override { return NarrowForm(kernel_); }
  void Pack(bool is_left, int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
            std::byte* out) const override {
    PackNarrow(kernel_, is_left, is_left ? a_ : b_, (is_left ? b_ : a_).dtype, first, count, k0, kn,
               panel, out);
  }
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

 private:
  const NarrowKernel& kernel_;
  NarrowSource a_, b_;
};

}  // namespace weft::cpu
