// A set of small numbers, walked in ascending order: words of bits over words of bits, so that all
// it does takes a few steps whatever the size.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace weft::compiler::schedule {

class RankSet {
 public:
  explicit RankSet(size_t size = 0) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void Insert(int32_t n) {
    for (std::vector<uint64_t>& level : levels_) {
      uint64_t& word = level[static_cast<size_t>(n) / 64];
      bool was_empty = word == 0;
      word |= uint64_t{1} << (n % 64);
      if (!was_empty) return;
      n /= 64;
    }
  }
  void Erase(int32_t n) {
    for (std::vector<uint64_t>& level : levels_) {
      uint64_t& word = level[static_cast<size_t>(n) / 64];
      word &= ~(uint64_t{1} << (n % 64));
      if (word != 0) return;
      n /= 64;
    }
  }
  bool empty() const { return levels_.back().empty() || levels_.back()[0] == 0; }

  // The least that is at least n; -1: there is none.
  int32_t From(int32_t n) const {
    for (size_t at = 0; at < levels_.size(); ++at) {
      auto word = static_cast<size_t>(n) / 64;
      if (word >= levels_[at].size()) return -1;
      uint64_t bits = levels_[at][word] >> (n % 64);
      if (bits == 0) {
        n = static_cast<int32_t>(word) + 1;
        continue;
      }
      n += std::countr_zero(bits);
      while (at-- > 0) n = n * 64 + std::countr_zero(levels_[at][static_cast<size_t>(n)]);
      return n;
    }
    return -1;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;  // the lowest first
};

}  // namespace weft::compiler::schedule
