// sort: radix sort by keys, merge sort by a comparator.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "cpu/routines/key_format.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/sort_items.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

constexpr int64_t kShortRow = 40;                                           // sorted by comparisons
constexpr int64_t kLongRow = program::TargetFacts::kSecondLevelBytes / 16;  // worth the whole pool
// What merging by a comparator starts from.
constexpr int64_t kComparatorRun = program::CodeBounds::kWrittenOut / 2;
constexpr double kComparisonCost = program::TargetFacts::kMispredictedWork / 4;  // nanoseconds

struct SortShape {
  int64_t outer, n, inner;
  std::vector<DType> dtypes;
  size_t keys;
  KernelFunction comparator;

  int64_t rows() const { return outer * inner; }
  int64_t First(int64_t row) const { return row / inner * n * inner + row % inner; }
};

// A row of one operand: elements `stride` apart.
struct RowOf {
  std::byte* at;
  int64_t stride;
  int64_t width;
};

template <class Storage, class Fn>
void EachOf(const RowOf& row, int64_t n, const Fn& fn) {
  const Storage* from = reinterpret_cast<const Storage*>(row.at);
  for (int64_t i = 0; i < n; ++i) fn(i, from[i * row.stride]);
}

// fn(i, bits) for elements of at most 8 bytes.
template <class Fn>
void EachElement(const RowOf& row, int64_t n, const Fn& fn) {
  switch (row.width) {
    case 1: return EachOf<uint8_t>(row, n, fn);
    case 2: return EachOf<uint16_t>(row, n, fn);
    case 4: return EachOf<uint32_t>(row, n, fn);
    default: return EachOf<uint64_t>(row, n, fn);
  }
}

template <class Storage, class Fn>
void FillWith(const RowOf& row, int64_t n, const Fn& fn) {
  Storage* to = reinterpret_cast<Storage*>(row.at);
  for (int64_t i = 0; i < n; ++i) to[i * row.stride] = static_cast<Storage>(fn(i));
}

// Element i becomes the bits fn(i).
template <class Fn>
void FillElements(const RowOf& row, int64_t n, const Fn& fn) {
  switch (row.width) {
    case 1: return FillWith<uint8_t>(row, n, fn);
    case 2: return FillWith<uint16_t>(row, n, fn);
    case 4: return FillWith<uint32_t>(row, n, fn);
    default: return FillWith<uint64_t>(row, n, fn);
  }
}

template <class Storage, class Index>
void PermuteStorage(const RowOf& in, const RowOf& out, int64_t n, const Index& index) {
  const Storage* from = reinterpret_cast<const Storage*>(in.at);
  Storage* to = reinterpret_cast<Storage*>(out.at);
  for (int64_t i = 0; i < n; ++i)
    to[i * out.stride] = from[static_cast<int64_t>(index(i)) * in.stride];
}

// Element i of out is element index(i) of in.
template <class Index>
void PermuteElements(const RowOf& in, const RowOf& out, int64_t n, const Index& index) {
  switch (in.width) {
    case 1: return PermuteStorage<uint8_t>(in, out, n, index);
    case 2: return PermuteStorage<uint16_t>(in, out, n, index);
    case 4: return PermuteStorage<uint32_t>(in, out, n, index);
    case 8: return PermuteStorage<uint64_t>(in, out, n, index);
    default: return PermuteStorage<Key64Value>(in, out, n, index);  // any 16 bytes
  }
}

class Sort : public PreparedRoutine {
 public:
  Sort(SortShape shape, std::vector<KeyFormat> formats)
      : shape_(std::move(shape)), formats_(std::move(formats)) {}

  Status Run(const RoutineContext& context) const override {
    if (shape_.n == 0 || shape_.rows() == 0) return {};
    if (IsTogether(context.pool.limit())) {
      for (int64_t row = 0; row < shape_.rows(); ++row) TRY(SortRow(context, row, &context.pool));
      return {};
    }
    double cost = static_cast<double>(shape_.n) * (shape_.comparator != nullptr ? 100 : 20);
    return TryPieces(&context.pool, shape_.rows(), cost, [&](int64_t begin, int64_t end) -> Status {
      for (int64_t row = begin; row < end; ++row) TRY(SortRow(context, row, nullptr));
      return {};
    });
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t n = shape_.n, item = 0;
    size_t operands = shape_.dtypes.size();
    if (shape_.comparator != nullptr) {
      item = 2 * int64_t{sizeof(uint32_t)};
    } else if (shape_.keys > 1) {
      item = 2 * int64_t{sizeof(Key64Value)} + int64_t{sizeof(uint64_t)};
    } else if (n > kShortRow) {
      const KeyFormat& key = formats_[0];
      bool alone = operands == 1 && key.table.empty();
      int64_t width = key.is_wide() ? 8 : 4;
      bool in_place = alone && shape_.inner == 1 && ByteWidth(shape_.dtypes[0]) == width;
      item = (in_place ? 1 : 2) * (alone ? width : 2 * width);
    }
    return (IsTogether(threads) ? 1 : std::min(threads, shape_.rows())) * item * n;
  }

 private:
  // The threads sort one row after the other.
  bool IsTogether(int64_t threads) const { return shape_.n >= kLongRow && shape_.rows() < threads; }

  RowOf Row(const RoutineContext& context, size_t use, int64_t row) const {
    int64_t width = ByteWidth(shape_.dtypes[use % shape_.dtypes.size()]);
    return {context.memory[use] + shape_.First(row) * width, shape_.inner, width};
  }

  Status SortRow(const RoutineContext& context, int64_t row, ThreadPool* pool) const {
    if (shape_.comparator != nullptr) return SortByComparator(context, row, pool);
    const KeyFormat& key = formats_[0];
    size_t operands = shape_.dtypes.size();
    if (shape_.keys > 1) return SortByManyKeys(context, row, pool);
    if (shape_.n <= kShortRow)
      return key.is_wide() ? SortShort<unsigned __int128>(context, row)
                           : SortShort<uint64_t>(context, row);
    if (operands == 1 && key.table.empty()) {
      return key.is_wide() ? SortAlone<uint64_t>(context, row, pool, key.wide)
                           : SortAlone<uint32_t>(context, row, pool, key.narrow);
    }
    if (key.is_wide()) return SortWithIndex<Key64Value>(context, row, pool, key.wide);
    bool small_value = operands == 2 && ByteWidth(shape_.dtypes[1]) <= 4;
    if (small_value && key.table.empty()) return SortPairs(context, row, pool);
    return SortWithIndex<Key32Value>(context, row, pool, key.narrow);
  }

  // Positions that a cancelled sort has left are no positions.
  static Status CheckCancelled() {
    return CancelFlag::IsSet() ? Status(MakeError(Code::kCancelled, "sort: cancelled")) : Status();
  }

  // Most rows have nothing that needs more than a look at the bits.
  template <class Item, class Bits>
  Status SortAll(ThreadPool* pool, Item* items, Item* spare, int bits,
                 const KeyOrder<Bits>& key) const {
    if (key.IsPlain() || !HasSpecial(items, shape_.n, key)) {
      SortAllBy(pool, items, spare, bits, key.plain);
    } else {
      SortAllBy(pool, items, spare, bits, key);
    }
    return CheckCancelled();
  }
  template <class Item, class Key>
  void SortAllBy(ThreadPool* pool, Item* items, Item* spare, int bits, const Key& key) const {
    if (pool != nullptr) {
      SortItemsInParallel(*pool, items, spare, shape_.n, bits, key);
    } else {
      SortItems(items, spare, shape_.n, bits, key);
    }
  }

  // Items are the elements themselves.
  template <class Item, class Key>
  Status SortAlone(const RoutineContext& context, int64_t row, ThreadPool* pool,
                   const Key& key) const {
    RowOf in = Row(context, 0, row), out = Row(context, 1, row);
    bool in_place = in.stride == 1 && in.width == int64_t{sizeof(Item)};
    auto scratch = TRY(Scratch<Item>::New(context.means(), in_place ? shape_.n : 2 * shape_.n));
    Item* items = in_place ? reinterpret_cast<Item*>(out.at) : scratch.data() + shape_.n;
    EachElement(in, shape_.n,
                [&](int64_t i, uint64_t bits) { items[i] = static_cast<Item>(bits); });
    TRY(SortAll(pool, items, scratch.data(), formats_[0].bits(), key));
    if (!in_place) FillElements(out, shape_.n, [&](int64_t i) { return items[i]; });
    return {};
  }

  // Items are the keys with the values of the other operand.
  Status SortPairs(const RoutineContext& context, int64_t row, ThreadPool* pool) const {
    auto scratch = TRY(Scratch<Key32Value>::New(context.means(), 2 * shape_.n));
    Key32Value* items = scratch.data();
    EachElement(Row(context, 0, row), shape_.n,
                [&](int64_t i, uint64_t bits) { items[i].raw = static_cast<uint32_t>(bits); });
    EachElement(Row(context, 1, row), shape_.n,
                [&](int64_t i, uint64_t bits) { items[i].value = static_cast<uint32_t>(bits); });
    TRY(SortAll(pool, items, items + shape_.n, formats_[0].bits(), formats_[0].narrow));
    FillElements(Row(context, 2, row), shape_.n, [&](int64_t i) { return items[i].raw; });
    FillElements(Row(context, 3, row), shape_.n, [&](int64_t i) { return items[i].value; });
    return {};
  }

  template <class Index>
  void PermuteAll(const RoutineContext& context, int64_t row, ThreadPool* pool,
                  const Index& index) const {
    size_t operands = shape_.dtypes.size();
    for (size_t i = 0; i < operands; ++i) {
      RowOf in = Row(context, i, row), out = Row(context, operands + i, row);
      ForPieces(pool, shape_.n, 4, [&](int64_t begin, int64_t end) {
        RowOf part = {out.at + begin * out.stride * out.width, out.stride, out.width};
        PermuteElements(in, part, end - begin, [&](int64_t j) { return index(begin + j); });
      });
    }
  }

  // Items are the keys with the positions.
  template <class Item, class Key>
  Status SortWithIndex(const RoutineContext& context, int64_t row, ThreadPool* pool,
                       const Key& key) const {
    auto scratch = TRY(Scratch<Item>::New(context.means(), 2 * shape_.n));
    Item* items = scratch.data();
    LoadKeys(context, row, 0, [&](int64_t i, auto raw) {
      items[i].raw = static_cast<decltype(items[i].raw)>(raw);
      items[i].value = static_cast<decltype(items[i].value)>(i);
    });
    TRY(SortAll(pool, items, items + shape_.n, formats_[0].bits(), key));
    PermuteAll(context, row, pool, [&](int64_t i) { return items[i].value; });
    return {};
  }

  // fn(i, raw bits) for the elements of a key operand.
  template <class Fn>
  void LoadKeys(const RoutineContext& context, int64_t row, size_t operand, const Fn& fn) const {
    const std::vector<uint32_t>& table = formats_[operand].table;
    EachElement(Row(context, operand, row), shape_.n,
                [&](int64_t i, uint64_t bits) { fn(i, table.empty() ? bits : table[bits]); });
  }

  // Each entry is a key and a position, so that no two are equal.
  template <class Entry>
  Status SortShort(const RoutineContext& context, int64_t row) const {
    Entry entries[kShortRow];
    const KeyFormat& format = formats_[0];
    LoadKeys(context, row, 0, [&](int64_t i, uint64_t raw) {
      uint64_t key =
          format.is_wide() ? format.wide(raw) : format.narrow(static_cast<uint32_t>(raw));
      entries[i] = Entry{key} << (4 * sizeof(Entry)) | static_cast<uint32_t>(i);
    });
    std::sort(entries, entries + shape_.n);
    PermuteAll(context, row, nullptr, [&](int64_t i) { return static_cast<uint32_t>(entries[i]); });
    return {};
  }

  // Stable passes, the last key first.
  Status SortByManyKeys(const RoutineContext& context, int64_t row, ThreadPool* pool) const {
    auto scratch = TRY(Scratch<Key64Value>::New(context.means(), 2 * shape_.n));
    auto keys = TRY(Scratch<uint64_t>::New(context.means(), shape_.n));
    Key64Value* items = scratch.data();
    for (int64_t i = 0; i < shape_.n; ++i) items[i].value = static_cast<uint64_t>(i);
    for (size_t operand = shape_.keys; operand-- > 0;) {
      const KeyFormat& format = formats_[operand];
      LoadKeys(context, row, operand, [&](int64_t i, uint64_t raw) {
        keys.data()[i] =
            format.is_wide() ? format.wide(raw) : format.narrow(static_cast<uint32_t>(raw));
      });
      for (int64_t i = 0; i < shape_.n; ++i) items[i].raw = keys.data()[items[i].value];
      TRY(SortAll(pool, items, items + shape_.n, format.bits(), KeyOrder<uint64_t>()));
    }
    PermuteAll(context, row, pool, [&](int64_t i) { return items[i].value; });
    return {};
  }

  Status SortByComparator(const RoutineContext& context, int64_t row, ThreadPool* pool) const {
    auto scratch = TRY(Scratch<uint32_t>::New(context.means(), 2 * shape_.n));
    uint32_t *from = scratch.data(), *to = from + shape_.n;
    std::vector<RowOf> rows;
    for (size_t i = 0; i < shape_.dtypes.size(); ++i) rows.push_back(Row(context, i, row));
    std::iota(from, from + shape_.n, 0u);
    int64_t runs = (shape_.n + kComparatorRun - 1) / kComparatorRun;
    ForPieces(pool, runs, kComparatorRun * 3 * kComparisonCost, [&](int64_t begin, int64_t end) {
      Comparison less(shape_.comparator, rows);
      for (int64_t run = begin; run < end; ++run) {
        int64_t at = run * kComparatorRun;
        InsertionSort(from + at, std::min(kComparatorRun, shape_.n - at), less);
      }
    });
    for (int64_t run = kComparatorRun; run < shape_.n; run *= 2) {
      int64_t pairs = (shape_.n + 2 * run - 1) / (2 * run);
      double cost = static_cast<double>(2 * run) * kComparisonCost;
      ForPieces(pool, pairs, cost, [&](int64_t begin, int64_t end) {
        Comparison less(shape_.comparator, rows);
        for (int64_t pair = begin; pair < end; ++pair) {
          int64_t at = pair * 2 * run, middle = std::min(shape_.n, at + run);
          MergeBy(from, at, middle, std::min(shape_.n, at + 2 * run), to, less);
        }
      });
      std::swap(from, to);
    }
    TRY(CheckCancelled());
    PermuteAll(context, row, pool, [&](int64_t i) { return from[i]; });
    return {};
  }

  class Comparison {
   public:
    Comparison(KernelFunction function, const std::vector<RowOf>& rows)
        : function_(function), rows_(rows), parameters_(2 * rows.size() + 1) {
      parameters_.back() = &result_;
    }
    bool operator()(uint32_t a, uint32_t b) {
      for (size_t i = 0; i < rows_.size(); ++i) {
        int64_t step = rows_[i].stride * rows_[i].width;
        parameters_[2 * i] = rows_[i].at + a * step;
        parameters_[2 * i + 1] = rows_[i].at + b * step;
      }
      function_(parameters_.data());
      return result_ != std::byte{0};
    }

   private:
    KernelFunction function_;
    const std::vector<RowOf>& rows_;
    std::vector<std::byte*> parameters_;
    std::byte result_{0};
  };

  static void InsertionSort(uint32_t* items, int64_t n, Comparison& less) {
    for (int64_t i = 1; i < n; ++i) {
      uint32_t item = items[i];
      int64_t at = i;
      for (; at > 0 && less(item, items[at - 1]); --at) items[at] = items[at - 1];
      items[at] = item;
    }
  }

  static void MergeBy(const uint32_t* from, int64_t begin, int64_t middle, int64_t end,
                      uint32_t* to, Comparison& less) {
    int64_t left = begin, right = middle, out = begin;
    while (left < middle && right < end) {
      to[out++] = less(from[right], from[left]) ? from[right++] : from[left++];
    }
    while (left < middle) to[out++] = from[left++];
    while (right < end) to[out++] = from[right++];
  }

  SortShape shape_;
  std::vector<KeyFormat> formats_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareSort(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "sort"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  SortShape s = {program::IntAttr(call, "outer", 1),
                 program::IntAttr(call, "n", 0),
                 program::IntAttr(call, "inner", 1),
                 {},
                 1,
                 nullptr};
  if (s.n > INT32_MAX) return Unimplemented("sort: rows of ", s.n, " elements");
  for (size_t i = 0; i < inputs.step.uses.size() / 2; ++i) {
    s.dtypes.push_back(UseDType(inputs, i));
  }
  std::vector<KeyFormat> formats;
  std::string_view comparator = program::StringAttr(call, "comparator", "");
  if (!comparator.empty()) {
    s.comparator = inputs.kernel(comparator);
    if (s.comparator == nullptr) {
      return InvalidArgument("sort: there is no kernel '", comparator, "'");
    }
  } else {
    s.keys = static_cast<size_t>(program::IntAttr(call, "keys", 1));
    for (size_t i = 0; i < s.keys; ++i) {
      formats.push_back(FormatOf(s.dtypes[i], program::StringAttr(call, "order", "asc") == "desc",
                                 program::BoolAttr(call, "zeros_equal", false),
                                 program::BoolAttr(call, "nans_equal", false)));
    }
  }
  return std::make_unique<Sort>(std::move(s), std::move(formats));
}

}  // namespace weft::cpu
