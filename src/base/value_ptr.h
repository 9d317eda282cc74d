// A unique_ptr that copies what it points to: an optional part of a value that is usually absent.
#pragma once

#include <memory>
#include <utility>

namespace weft {

template <class T>
class ValuePtr {
 public:
  ValuePtr() = default;
  explicit ValuePtr(T value) : ptr_(std::make_unique<T>(std::move(value))) {}
  ValuePtr(const ValuePtr& other) : ptr_(other.ptr_ ? std::make_unique<T>(*other.ptr_) : nullptr) {}
  ValuePtr(ValuePtr&&) noexcept = default;
  ValuePtr& operator=(const ValuePtr& other) {
    if (this != &other) ptr_ = other.ptr_ ? std::make_unique<T>(*other.ptr_) : nullptr;
    return *this;
  }
  ValuePtr& operator=(ValuePtr&&) noexcept = default;

  T* get() { return ptr_.get(); }
  const T* get() const { return ptr_.get(); }
  T* operator->() { return ptr_.get(); }
  const T* operator->() const { return ptr_.get(); }
  T& operator*() { return *ptr_; }
  const T& operator*() const { return *ptr_; }
  explicit operator bool() const { return ptr_ != nullptr; }
  void reset() { ptr_.reset(); }
  T& Make() {  // the value, created when absent
    if (!ptr_) ptr_ = std::make_unique<T>();
    return *ptr_;
  }
  // Absent equals absent; present compares by value.
  friend bool operator==(const ValuePtr& a, const ValuePtr& b) {
    if (!a.ptr_ || !b.ptr_) return !a.ptr_ && !b.ptr_;
    return *a.ptr_ == *b.ptr_;
  }

 private:
  std::unique_ptr<T> ptr_;
};

}  // namespace weft
