// topk: the best k so far in a heap, which few elements enter; or a selection when k is large.
#include <algorithm>
#include <cstring>

#include "cpu/routines/key_format.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// The best have the smallest keys; equal ones are told apart by their position.
struct TopEntry {
  uint64_t key;
  int64_t index;
  bool operator<(const TopEntry& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

// Elements looked at together: most have none that is good enough.
constexpr int64_t kTopKBlock = program::CodeBounds::kShortLoop;

class TopK : public PreparedRoutine {
 public:
  TopK(int64_t rows, int64_t n, int64_t k, DType dtype, bool largest)
      : rows_(rows), n_(n), k_(k), format_(FormatOf(dtype, largest, false, false)) {}

  Status Run(const RoutineContext& context) const override {
    if (n_ == 0 || k_ == 0) return {};
    double cost = 2 * static_cast<double>(n_) + 50 * static_cast<double>(k_);
    return TryPieces(&context.pool, rows_, cost, [&](int64_t begin, int64_t end) -> Status {
      bool few = k_ <= n_ / 8;
      auto entries = TRY(Scratch<TopEntry>::New(context.means(), few ? k_ : n_));
      for (int64_t row = begin; row < end; ++row) {
        const std::byte* x = context.memory[0] + row * n_ * format_.width;
        WithWidth([&]<class Storage>() { Select<Storage>(x, few, entries.data()); });
        Store(x, entries.data(), row, context);
      }
      return {};
    });
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t entries = k_ <= n_ / 8 ? k_ : n_;
    return std::min(threads, rows_) * entries * int64_t{sizeof(TopEntry)};
  }

 private:
  template <class Fn>
  void WithWidth(const Fn& fn) const {
    switch (format_.width) {
      case 1: return fn.template operator()<uint8_t>();
      case 2: return fn.template operator()<uint16_t>();
      case 4: return fn.template operator()<uint32_t>();
      default: return fn.template operator()<uint64_t>();
    }
  }

  // Of the elements from begin to end, or a better one.
  template <class Storage>
  uint64_t BestKey(const std::byte* x, int64_t begin, int64_t end) const {
    if constexpr (sizeof(Storage) < 4) {
      return 0;
    } else {
      const auto& order = [&]() -> const KeyOrder<Storage>& {
        if constexpr (sizeof(Storage) == 8) return format_.wide;
        if constexpr (sizeof(Storage) == 4) return format_.narrow;
      }();
      if (!format_.table.empty() || !order.IsPlain()) return 0;
      Storage best = ~Storage{0};
      const PlainOrder<Storage> key = order.plain;
      for (int64_t i = begin; i < end; ++i) {
        Storage bits;
        std::memcpy(&bits, x + i * int64_t{sizeof(bits)}, sizeof(bits));
        best = std::min<Storage>(best, key(bits));
      }
      return best;
    }
  }

  // The first k entries are the best of the row, in order.
  template <class Storage>
  void Select(const std::byte* x, bool few, TopEntry* entries) const {
    auto entry = [&](int64_t i) {
      Storage bits;
      std::memcpy(&bits, x + i * int64_t{sizeof(bits)}, sizeof(bits));
      return TopEntry{format_.Key(bits), i};
    };
    int64_t filled = few ? k_ : n_;
    for (int64_t i = 0; i < filled; ++i) entries[i] = entry(i);
    if (few) {
      std::make_heap(entries, entries + k_);  // the worst first
      for (int64_t begin = k_; begin < n_; begin += kTopKBlock) {
        int64_t end = std::min(begin + kTopKBlock, n_);
        if (BestKey<Storage>(x, begin, end) >= entries[0].key) continue;
        for (int64_t i = begin; i < end; ++i) {
          TopEntry next = entry(i);
          if (next.key >= entries[0].key) continue;  // later ones are worse than equal ones
          std::pop_heap(entries, entries + k_);
          entries[k_ - 1] = next;
          std::push_heap(entries, entries + k_);
        }
      }
      std::sort_heap(entries, entries + k_);
      return;
    }
    std::nth_element(entries, entries + (k_ - 1), entries + n_);
    std::sort(entries, entries + k_);
  }

  void Store(const std::byte* x, const TopEntry* entries, int64_t row,
             const RoutineContext& context) const {
    int64_t width = format_.width;
    for (int64_t i = 0; i < k_; ++i) {
      int64_t at = row * k_ + i;
      std::copy_n(x + entries[i].index * width, width, context.memory[1] + at * width);
      int32_t index = static_cast<int32_t>(entries[i].index);
      std::memcpy(context.memory[2] + 4 * at, &index, sizeof(index));
    }
  }

  int64_t rows_, n_, k_;
  KeyFormat format_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareTopK(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "topk"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  return std::make_unique<TopK>(program::IntAttr(call, "rows", 1), program::IntAttr(call, "n", 0),
                                program::IntAttr(call, "k", 0), UseDType(inputs, 0),
                                program::BoolAttr(call, "largest", true));
}

}  // namespace weft::cpu
