// Pieces of a mesh's axes by number, major to minor: those that cut a dimension or form groups.
// Every dimension of every form has such a list, and forms are copied for each operand of each op,
// so that a list has no memory of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace weft::compiler::spmd {

using Axis = int8_t;
using AxisSpan = std::span<const Axis>;

class AxisList {
 public:
  static constexpr size_t kMost = 16;  // of a mesh's pieces, each of two devices or more

  AxisList() = default;
  AxisList(std::initializer_list<Axis> axes) : AxisList(AxisSpan(axes.begin(), axes.size())) {}
  explicit AxisList(AxisSpan axes) : size_(static_cast<uint8_t>(axes.size())) {
    std::copy_n(axes.data(), axes.size(), axes_);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Axis* data() const { return axes_; }
  const Axis* begin() const { return axes_; }
  const Axis* end() const { return axes_ + size_; }
  Axis* begin() { return axes_; }
  Axis* end() { return axes_ + size_; }
  Axis operator[](size_t k) const { return axes_[k]; }
  Axis& operator[](size_t k) { return axes_[k]; }
  Axis back() const { return axes_[size_ - 1]; }
  operator AxisSpan() const { return {axes_, size_}; }

  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  // A full list has every axis of the mesh already.
  void push_back(int axis) {
    if (size_ < kMost) axes_[size_++] = static_cast<Axis>(axis);
  }
  void insert_at(size_t position, int axis) {
    push_back(axis);
    std::rotate(begin() + position, end() - 1, end());
  }
  void resize(size_t n) { size_ = static_cast<uint8_t>(n); }  // to fewer

  bool operator==(const AxisList& other) const { return std::ranges::equal(*this, other); }

 private:
  uint8_t size_ = 0;
  Axis axes_[kMost];
};

inline void Append(AxisList& to, AxisSpan axes) {
  for (Axis axis : axes) to.push_back(axis);
}

}  // namespace weft::compiler::spmd
