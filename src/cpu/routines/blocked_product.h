// One product that is cut: panels of both operands are packed, tasks of some rows and columns of
// the result go through the whole depth, one panel of it at a time. For multiply.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/thread_limit.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/panel_units.h"
#include "program/target_facts.h"

namespace weft::cpu {

// Adds the time until it ends to what a benchmark measures, if one does.
class TrialClock {
 public:
  explicit TrialClock(std::atomic<int64_t>* sum) : sum_(sum) {
    if (sum_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  TrialClock(const TrialClock&) = delete;
  TrialClock& operator=(const TrialClock&) = delete;
  ~TrialClock() {
    if (sum_ != nullptr) *sum_ += (std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::atomic<int64_t>* sum_;
  std::chrono::steady_clock::time_point start_;
};

// One product, cut.
template <class T>
class BlockedProduct {
 public:
  BlockedProduct(const Means& means, const ProductSizes& sizes, const PackedProduct<T>& product,
                 const ResultMatrix& result, T alpha, T beta, const RowsDone& done)
      : means_(means),
        sizes_(sizes),
        product_(product),
        result_(result),
        alpha_(alpha),
        beta_(beta),
        done_(done),
        form_(product.form()),
        cut_(BlockingOf(form_, sizes, means.trial)) {}

  Status Run() {
    int64_t m = sizes_.m, n = sizes_.n;
    auto a = TRY(Scratch<std::byte>::New(
        means_, cut_.a_in_tasks ? 0 : SharedBytes(form_, cut_, true, cut_.outer_rows)));
    auto b = TRY(Scratch<std::byte>::New(
        means_, cut_.b_in_tasks ? 0 : SharedBytes(form_, cut_, false, cut_.outer_cols)));
    a_ = a.data();
    b_ = b.data();
    tells_ = done_ && n <= cut_.outer_cols && OneTellsOfRows();
    for (int64_t j = 0; j < n; j += cut_.outer_cols) {
      for (int64_t i = 0; i < m; i += cut_.outer_rows) {
        Outer outer = {i, std::min(cut_.outer_rows, m - i), j, std::min(cut_.outer_cols, n - j)};
        TRY(RunOuter(outer, /*with_b=*/i == 0));
      }
    }
    if (done_ && !tells_) ForPieces(means_.pool, m, static_cast<double>(n), done_);
    return {};
  }

 private:
  struct Outer {
    int64_t i, rows, j, cols;
  };
  struct Own {
    std::byte *a, *b;
    T* sums;  // kept from one depth to the next, tile after tile
  };
  std::atomic<int64_t>* Measured(std::atomic<int64_t> ProductTrial::* sum) const {
    return means_.trial != nullptr ? &(means_.trial->*sum) : nullptr;
  }

  // Whether rows that are complete before all is are left to the thread that completes them, while
  // they are in its cache. Where threads have few of such parts each, the last of them would be
  // waited for.
  bool OneTellsOfRows() const {
    int64_t threads = means_.pool != nullptr ? means_.pool->limit() : 1;
    return threads == 1 || CeilDiv(sizes_.m, cut_.task_rows) >= 4 * threads ||
           sizes_.n <= cut_.task_cols;
  }

  int64_t DepthOf(int64_t panel) const {
    return std::min(cut_.depth, sizes_.k - panel * cut_.depth);
  }
  std::byte* Shared(bool is_left, int64_t vectors, int64_t panel, int64_t at) const {
    int64_t width = is_left ? form_.rows : form_.cols;
    return (is_left ? a_ : b_) +
           (panel * CeilDiv(vectors, width) + at / width) * form_.PanelBytes(is_left, cut_.depth);
  }

  // Panels that are packed together: neighbours in memory where operands lie across, so that rows
  // are read in runs that a processor's prefetcher notices.
  int64_t UnitVectors(bool is_left) const {
    constexpr int64_t kPanels = program::TargetFacts::kUsualThreads / 2;
    return kPanels * (is_left ? form_.rows : form_.cols);
  }

  // Everything that tasks share: units of the left side, then of the right one, of every depth.
  struct SharedPanels {
    int64_t left, right;  // units at one depth
    PanelUnits units;
  };
  SharedPanels PanelsOf(const Outer& outer, bool with_b) const {
    int64_t left = cut_.a_in_tasks ? 0 : CeilDiv(outer.rows, UnitVectors(true));
    int64_t right = cut_.b_in_tasks || !with_b ? 0 : CeilDiv(outer.cols, UnitVectors(false));
    return {left, right, PanelUnits((left + right) * cut_.panels)};
  }

  void PackUnit(const Outer& outer, SharedPanels& shared, int64_t unit) const {
    shared.units.Pack(unit, [&] {
      TrialClock busy(Measured(&ProductTrial::pack_busy));
      int64_t panel = unit % cut_.panels, number = unit / cut_.panels;
      bool is_left = number < shared.left;
      int64_t at = (is_left ? number : number - shared.left) * UnitVectors(is_left);
      int64_t first = is_left ? outer.i : outer.j, all = is_left ? outer.rows : outer.cols;
      PackPanels(is_left, first + at, std::min(UnitVectors(is_left), all - at), panel,
                 Shared(is_left, all, panel, at));
    });
  }

  // Vectors [begin, end) of one side are there at one depth when it returns.
  void AwaitPanels(const Outer& outer, SharedPanels& shared, bool is_left, int64_t begin,
                   int64_t end, int64_t panel) const {
    if ((is_left ? shared.left : shared.right) == 0) return;
    int64_t vectors = UnitVectors(is_left), skip = is_left ? 0 : shared.left;
    int64_t first = skip + begin / vectors, last = skip + (end - 1) / vectors;
    for (int64_t number = first; number <= last; ++number) {
      PackUnit(outer, shared, number * cut_.panels + panel);
    }
    for (int64_t number = first; number <= last; ++number) {
      shared.units.Await(number * cut_.panels + panel);
    }
  }

  void PackPanels(bool is_left, int64_t first, int64_t count, int64_t panel, std::byte* out) const {
    product_.Pack(is_left, first, count, panel * cut_.depth, DepthOf(panel),
                  form_.PanelBytes(is_left, cut_.depth), out);
  }

  // Tasks of what is there at once, and the rows of each that are complete.
  struct Tasks {
    int64_t rows, cols;
    std::vector<std::atomic<int64_t>> finished;
  };

  void RunAndTell(const Outer& outer, SharedPanels& shared, Tasks& tasks, int64_t task,
                  const Own& own) const {
    TrialClock busy(Measured(&ProductTrial::task_busy));
    // Rows that somebody waits for are completed one after the other.
    bool along = tells_ || cut_.by_rows;
    int64_t row = along ? task / tasks.cols : task % tasks.rows;
    int64_t col = along ? task % tasks.cols : task / tasks.rows;
    int64_t i = row * cut_.task_rows, end = std::min(outer.rows, i + cut_.task_rows);
    int64_t j = col * cut_.task_cols;
    RunTask(outer, shared, i, end, j, std::min(outer.cols, j + cut_.task_cols), own);
    if (!tells_) return;
    auto& count = tasks.finished[static_cast<size_t>(row)];
    if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks.cols) {
      done_(outer.i + i, outer.i + end);
    }
  }

  Status RunOuter(const Outer& outer, bool with_b) const {
    SharedPanels shared = PanelsOf(outer, with_b);
    Tasks tasks = {CeilDiv(outer.rows, cut_.task_rows), CeilDiv(outer.cols, cut_.task_cols), {}};
    if (tells_) tasks.finished = std::vector<std::atomic<int64_t>>(static_cast<size_t>(tasks.rows));
    int64_t count = tasks.rows * tasks.cols;
    double cost = static_cast<double>(cut_.task_rows * cut_.task_cols) *
                  static_cast<double>(sizes_.k) / form_.speed;
    int64_t threads =
        means_.pool != nullptr ? std::min(means_.pool->limit(), ThreadLimit::current()) : 1;
    UnitsThenTasks order = {shared.units.count(), count, std::min(threads, count)};
    TrialClock clock(Measured(&ProductTrial::task_wall));
    auto run = [&](int64_t begin, int64_t end) -> Status {
      for (; begin < end && order.At(begin) < 0; ++begin) {
        PackUnit(outer, shared, -1 - order.At(begin));
      }
      if (begin == end) return {};
      auto a =
          TRY(Scratch<std::byte>::New(means_, cut_.a_in_tasks ? OwnBytes(form_, cut_, true) : 0));
      auto b =
          TRY(Scratch<std::byte>::New(means_, cut_.b_in_tasks ? OwnBytes(form_, cut_, false) : 0));
      auto sums = TRY(Scratch<T>::New(means_, KeptSums(form_, cut_)));
      product_.Enter();
      for (; begin < end; ++begin) {
        int64_t item = order.At(begin);
        if (item < 0) {
          PackUnit(outer, shared, -1 - item);
        } else {
          RunAndTell(outer, shared, tasks, item, {a.data(), b.data(), sums.data()});
        }
      }
      product_.Leave();
      return {};
    };
    return TryPieces(means_.pool, order.count(), cost, run);
  }

  // Rows [i0, i1) and columns [j0, j1) of what is there at once.
  void RunTask(const Outer& outer, SharedPanels& shared, int64_t i0, int64_t i1, int64_t j0,
               int64_t j1, const Own& own) const {
    for (int64_t panel = 0; panel < cut_.panels; ++panel) {
      const std::byte *a = own.a, *b = own.b;
      if (cut_.a_in_tasks) {
        PackPanels(true, outer.i + i0, i1 - i0, panel, own.a);
      } else {
        AwaitPanels(outer, shared, true, i0, i1, panel);
        a = Shared(true, outer.rows, panel, i0);
      }
      if (cut_.b_in_tasks) {
        PackPanels(false, outer.j + j0, j1 - j0, panel, own.b);
      } else {
        AwaitPanels(outer, shared, false, j0, j1, panel);
        b = Shared(false, outer.cols, panel, j0);
      }
      RunTiles({outer.i + i0, i1 - i0, outer.j + j0, j1 - j0}, panel, a, b, own.sums);
    }
  }

  // One depth of the part of the result.
  void RunTiles(const Outer& part, int64_t panel, const std::byte* a, const std::byte* b,
                T* sums) const {
    int64_t a_panel = form_.PanelBytes(true, cut_.depth), a_count = CeilDiv(part.rows, form_.rows);
    int64_t b_panel = form_.PanelBytes(false, cut_.depth), b_count = CeilDiv(part.cols, form_.cols);
    auto tile = [&](int64_t x, int64_t y) {
      T* kept = sums + (y * a_count + x) * form_.rows * form_.cols;
      RunTile(part, x, y, panel, a + x * a_panel, b + y * b_panel, kept);
    };
    if (cut_.a_stays) {  // wide panels are runs that a processor's prefetcher follows
      for (int64_t x = 0; x < a_count; ++x) {
        for (int64_t y = 0; y < b_count; ++y) tile(x, y);
      }
      return;
    }
    int64_t line = std::max<int64_t>(HostCaches().line, 32);
    int64_t ahead = RoundUp(CeilDiv(b_panel, a_count), line);
    for (int64_t y = 0; y < b_count; ++y) {
      for (int64_t x = 0; x < a_count; ++x) {
        // The next panel of b comes in the meantime.
        const std::byte* next = b + (y + 1) * b_panel;
        for (int64_t at = x * ahead; y + 1 < b_count && at < std::min(b_panel, (x + 1) * ahead);
             at += line) {
          __builtin_prefetch(next + at, 0, 2);
        }
        tile(x, y);
      }
    }
  }

  // A product of one depth goes straight to the result where it can. Otherwise sums are kept in
  // tiles of their own: rows of a large result lie apart by powers of two, which few places of a
  // cache hold.
  void RunTile(const Outer& part, int64_t x, int64_t y, int64_t panel, const std::byte* a,
               const std::byte* b, T* kept) const {
    int64_t i = x * form_.rows, j = y * form_.cols, k = DepthOf(panel);
    int64_t rows = std::min(form_.rows, part.rows - i), cols = std::min(form_.cols, part.cols - j);
    int64_t width = ByteWidth(result_.dtype);
    std::byte* to = result_.data + ((part.i + i) * result_.row + part.j + j) * width;
    bool whole = rows == form_.rows && cols == form_.cols;
    if ((cut_.panels == 1 || cut_.in_place) && whole && IsStoredAs<T>(result_.dtype)) {
      return product_.Run(k, a, b, reinterpret_cast<T*>(to), result_.row, alpha_,
                          panel == 0 ? beta_ : T(1));
    }
    alignas(64) T once[kMostTile];
    if (cut_.panels == 1) kept = once;
    product_.Run(k, a, b, kept, form_.cols, alpha_, panel == 0 ? T(0) : T(1));
    if (panel + 1 == cut_.panels) StoreTile(kept, rows, cols, to);
  }

  void StoreTile(const T* sums, int64_t rows, int64_t cols, std::byte* to) const {
    int64_t row = result_.row * ByteWidth(result_.dtype);
    if (beta_ == 0 && IsStoredAs<T>(result_.dtype)) {
      for (int64_t i = 0; i < rows; ++i, sums += form_.cols, to += row) {
        CopyRow(sums, cols, reinterpret_cast<T*>(to));
      }
      return;
    }
    for (int64_t i = 0; i < rows; ++i, sums += form_.cols, to += row) {
      if (beta_ == 0) {
        StoreRun<T>(result_.dtype, sums, cols, to);
        continue;
      }
      T old[kMostTile];
      LoadRun<T>(result_.dtype, to, cols, old);
      for (int64_t j = 0; j < cols; ++j) old[j] = static_cast<T>(sums[j] + beta_ * old[j]);
      StoreRun<T>(result_.dtype, old, cols, to);
    }
  }

  const Means& means_;
  ProductSizes sizes_;
  const PackedProduct<T>& product_;
  ResultMatrix result_;
  T alpha_, beta_;
  const RowsDone& done_;
  PanelForm form_;
  Blocking cut_;
  bool tells_ = false;
  std::byte *a_ = nullptr, *b_ = nullptr;
};

}  // namespace weft::cpu
