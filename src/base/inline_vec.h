// A vector of trivially copyable values that keeps its first N inside itself.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

namespace weft {

template <class T, uint32_t N>
class InlineVec {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  InlineVec() {}
  InlineVec(std::initializer_list<T> init) { Assign(init.begin(), init.size()); }
  InlineVec(std::span<const T> values) { Assign(values.data(), values.size()); }
  InlineVec(const std::vector<T>& values) { Assign(values.data(), values.size()); }
  InlineVec(size_t n, T value) { resize(n, value); }
  InlineVec(const InlineVec& other) { Assign(other.data(), other.size()); }
  InlineVec(InlineVec&& other) noexcept { Steal(other); }
  InlineVec& operator=(const InlineVec& other) {
    if (this != &other) {
      size_ = 0;
      Assign(other.data(), other.size());
    }
    return *this;
  }
  InlineVec& operator=(InlineVec&& other) noexcept {
    if (this != &other) {
      Free();
      Steal(other);
    }
    return *this;
  }
  ~InlineVec() { Free(); }

  T* data() { return capacity_ > N ? heap_ : inline_; }
  const T* data() const { return capacity_ > N ? heap_ : inline_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  const T& front() const { return data()[0]; }

  void clear() { size_ = 0; }
  void push_back(T value) {
    if (size_ == capacity_) Grow(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void resize(size_t n, T value = T()) {
    if (n > capacity_) Grow(n);
    for (size_t i = size_; i < n; ++i) data()[i] = value;
    size_ = static_cast<uint32_t>(n);
  }
  void insert_at(size_t position, T value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase_at(size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }
  operator std::span<const T>() const { return {data(), size_}; }

  friend bool operator==(const InlineVec& a, const InlineVec& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void Assign(const T* values, size_t n) {
    if (n > capacity_) Grow(n);
    if (n > 0) std::memcpy(static_cast<void*>(data()), values, n * sizeof(T));
    size_ = static_cast<uint32_t>(n);
  }
  void Grow(size_t at_least) {
    size_t capacity = std::max<size_t>(at_least, size_t{capacity_} * 2);
    T* heap = new T[capacity];
    if (size_ > 0) std::memcpy(static_cast<void*>(heap), data(), size_ * sizeof(T));
    Free();
    heap_ = heap;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void Steal(InlineVec& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ > N) {
      heap_ = other.heap_;
    } else if (size_ > 0) {
      std::memcpy(static_cast<void*>(inline_), other.inline_, size_ * sizeof(T));
    }
    other.size_ = 0;
    other.capacity_ = N;
  }
  void Free() {
    if (capacity_ > N) delete[] heap_;
    capacity_ = N;
  }

  uint32_t size_ = 0, capacity_ = N;
  union {
    T inline_[N];
    T* heap_;
  };
};

using Dims = InlineVec<int64_t, 6>;

}  // namespace weft
