// Names to objects: open addressing, keys are views into text that outlives the table.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace weft::hlo::text {

template <class T>
class NameTable {
 public:
  T* Find(std::string_view name) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = Home(name);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.value == nullptr) return nullptr;
      if (slot.name == name) return slot.value;
    }
  }
  // False when the name is taken. `value` is not null.
  bool Insert(std::string_view name, T* value) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    for (size_t i = Home(name);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.value == nullptr) {
        slot = {name, value};
        ++size_;
        return true;
      }
      if (slot.name == name) return false;
    }
  }
  // f(name) for every name, in no order.
  template <class F>
  void ForEachName(F&& f) const {
    for (const Slot& slot : slots_) {
      if (slot.value != nullptr) f(slot.name);
    }
  }

 private:
  struct Slot {
    std::string_view name;
    T* value = nullptr;
  };
  size_t Home(std::string_view name) const {
    return std::hash<std::string_view>()(name) & (slots_.size() - 1);
  }
  void Grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.value != nullptr) Insert(slot.name, slot.value);
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace weft::hlo::text
