// Stable sorting of items by an unsigned key that a function takes out of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/cancel_flag.h"
#include "base/thread_pool.h"
#include "program/target_facts.h"

namespace weft::cpu {

// Raw bits of an element to a number whose unsigned order is that of the elements.
template <class Bits>
struct PlainOrder {
  Bits sign = 0;                          // the sign bit
  Bits if_positive = 0, if_negative = 0;  // what changes: floats and integers of either sign

  Bits operator()(Bits raw) const { return raw ^ (raw & sign ? if_negative : if_positive); }
};

// The same where -0 may count as 0, and all NaN as one.
template <class Bits>
struct KeyOrder {
  PlainOrder<Bits> plain;
  Bits infinity = ~Bits{0};   // NaN is above
  Bits zero_mask = ~Bits{0};  // what stays of the bits of -0
  Bits nan_mask = ~Bits{0};   // 0 when all NaN are one

  Bits Magnitude(Bits raw) const { return raw & (plain.sign - 1); }
  bool IsPlain() const { return zero_mask != 0 && nan_mask != 0; }
  // Whether it is an element that is not compared by its bits.
  bool IsSpecial(Bits raw) const {
    return (Magnitude(raw) == 0) & (raw != 0) || Magnitude(raw) > infinity;
  }
  Bits operator()(Bits raw) const {
    Bits magnitude = Magnitude(raw);
    raw = magnitude == 0 ? raw & zero_mask : raw;
    raw = magnitude > infinity ? (raw & nan_mask) | ((plain.sign - 1) & ~nan_mask) : raw;
    return plain(raw);
  }
};

// Items with the raw bits of their key.
struct Key64Value {
  uint64_t raw, value;
};
inline uint32_t RawKey(uint32_t item) {
  return item;
}
inline uint64_t RawKey(const Key64Value& item) {
  return item.raw;
}
struct Key32Value {
  uint32_t value, raw;
};
inline uint32_t RawKey(const Key32Value& item) {
  return item.raw;
}
inline uint64_t RawKey(uint64_t item) {
  return item;
}

// Least significant digits first, passes in which all items agree left out. The result is in
// `items`; `spare` has the same size. n < 2^32.
template <int kDigitBits, class Item, class Key>
void RadixSort(Item* items, Item* spare, int64_t n, int key_bits, const Key& key) {
  constexpr uint32_t kDigits = 1u << kDigitBits;
  constexpr int kMostPasses = (8 * int{sizeof(RawKey(*items))} + kDigitBits - 1) / kDigitBits;
  int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  uint32_t counts[kMostPasses * kDigits];
  std::fill_n(counts, static_cast<uint32_t>(passes) * kDigits, 0u);
  for (int64_t i = 0; i < n; ++i) {
    auto bits = key(RawKey(items[i]));
    uint32_t* count = counts;
    for (int pass = 0; pass < passes; ++pass) {
      ++count[bits & (kDigits - 1)];
      count += kDigits;
      bits = static_cast<decltype(bits)>(bits >> kDigitBits);
    }
  }
  Item *from = items, *to = spare;
  for (int pass = 0; pass < passes && !CancelFlag::IsSet(); ++pass) {
    uint32_t* count = counts + static_cast<uint32_t>(pass) * kDigits;
    int shift = pass * kDigitBits;
    auto digit = [&](const Item& item) {
      return static_cast<uint32_t>(key(RawKey(item)) >> shift) & (kDigits - 1);
    };
    if (count[digit(from[0])] == static_cast<uint32_t>(n)) continue;
    uint32_t sum = 0;
    for (uint32_t d = 0; d < kDigits; ++d) sum += std::exchange(count[d], sum);
    for (int64_t i = 0; i < n; ++i) {
      Item item = from[i];
      to[count[digit(item)]++] = item;
    }
    std::swap(from, to);
  }
  if (from != items) std::memcpy(items, from, static_cast<size_t>(n) * sizeof(Item));
}

template <class Item, class Bits>
bool HasSpecial(const Item* items, int64_t n, const KeyOrder<Bits>& order) {
  constexpr int64_t kBlock = program::TargetFacts::kLeastPageBytes / 4;
  for (int64_t at = 0; at < n; at += kBlock) {
    bool any = false;
    for (int64_t i = at; i < std::min(n, at + kBlock); ++i) {
      any |= order.IsSpecial(RawKey(items[i]));
    }
    if (any) return true;
  }
  return false;
}

template <class Item, class Key>
void SortItems(Item* items, Item* spare, int64_t n, int key_bits, const Key& key) {
  if (n < 2) return;
  if (key_bits == 32 && n > 4096) return RadixSort<11>(items, spare, n, key_bits, key);
  RadixSort<8>(items, spare, n, key_bits, key);
}

// How many of the first `count` items of two sorted runs together come from the first run.
template <class Item, class Key>
int64_t SplitOfMerge(const Item* a, int64_t na, const Item* b, int64_t nb, int64_t count,
                     const Key& key) {
  int64_t low = std::max<int64_t>(0, count - nb), high = std::min(count, na);
  while (low < high) {
    int64_t i = low + (high - low) / 2;
    // Item i of a goes before item count - 1 - i of b: then more than i come from a.
    if (key(RawKey(a[i])) <= key(RawKey(b[count - 1 - i]))) {
      low = i + 1;
    } else {
      high = i;
    }
  }
  return low;
}

template <class Item, class Key>
void MergeItems(const Item* a, int64_t na, const Item* b, int64_t nb, Item* out, const Key& key) {
  int64_t i = 0, j = 0;
  while (i < na && j < nb) {
    bool second = key(RawKey(b[j])) < key(RawKey(a[i]));
    *out++ = second ? b[j] : a[i];
    j += second;
    i += !second;
  }
  out = std::copy(a + i, a + na, out);
  std::copy(b + j, b + nb, out);
}

// One long row on all threads: pieces are sorted, then merged two by two, each merge cut in parts.
template <class Item, class Key>
void SortItemsInParallel(ThreadPool& pool, Item* items, Item* spare, int64_t n, int key_bits,
                         const Key& key) {
  constexpr int64_t kPart = program::TargetFacts::kSecondLevelBytes / 32;
  int64_t pieces = 1;
  while (pieces < pool.limit() && n / (2 * pieces) >= kPart) pieces *= 2;
  if (pieces == 1) return SortItems(items, spare, n, key_bits, key);
  int64_t run = (n + pieces - 1) / pieces;
  pool.ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = i * run;
      SortItems(items + at, spare + at, std::min(run, n - at), key_bits, key);
    }
  });
  Item *from = items, *to = spare;
  for (; run < n && !CancelFlag::IsSet(); run *= 2) {
    int64_t parts = (2 * run + kPart - 1) / kPart, pairs = (n + 2 * run - 1) / (2 * run);
    pool.ParallelFor(parts * pairs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end && !CancelFlag::IsSet(); ++part) {
        int64_t base = part / parts * 2 * run;
        int64_t na = std::min(run, n - base), nb = std::clamp<int64_t>(n - base - run, 0, run);
        const Item *a = from + base, *b = a + na;
        int64_t first = std::min(part % parts * kPart, na + nb);
        int64_t last = std::min(first + kPart, na + nb);
        int64_t a0 = SplitOfMerge(a, na, b, nb, first, key);
        int64_t a1 = SplitOfMerge(a, na, b, nb, last, key);
        MergeItems(a + a0, a1 - a0, b + (first - a0), (last - a1) - (first - a0), to + base + first,
                   key);
      }
    });
    std::swap(from, to);
  }
  if (from != items) std::memcpy(items, from, static_cast<size_t>(n) * sizeof(Item));
}

}  // namespace weft::cpu
