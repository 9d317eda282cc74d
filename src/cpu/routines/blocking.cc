#include "cpu/routines/blocking.h"

#include <algorithm>
#include <cmath>

#include "base/cores.h"
#include "cpu/routines/machine.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Of a shallow product, for many threads, as long as each is worth one.
constexpr int64_t kTasks = 4 * program::TargetFacts::kUsualThreads;
// Depth below which writing the result takes longest.
constexpr int64_t kShallow = program::CodeBounds::kShortLoop;
// Of a task then.
constexpr int64_t kShallowCols = program::TargetFacts::kFirstLevelBytes / 4 / sizeof(float);
constexpr int64_t kShallowWork = 1 << 21;  // multiplications that are worth a task then
// Of a panel: f32 sums of so many are added elsewhere.
constexpr int64_t kMostDepth = program::SumOrder::kBlock;

int64_t FirstCache() {
  return std::max<int64_t>(HostCaches().l1, 32 << 10);
}
int64_t SecondCache() {
  return std::max<int64_t>(HostCaches().l2, 256 << 10);
}

// Bytes of an operand that are packed at once: each time all threads wait for each other.
int64_t MostPacked() {
  return std::max(program::TargetFacts::kThirdLevelBytes, HostCaches().l3 / 2);
}

// Rows, or columns, of a square of sums that fills a quarter of L2.
int64_t TaskSide(const PanelForm& form) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(SecondCache() / 4 / form.sum)));
}

// Rows of a task: their panels of one depth, which every panel of b meets again, fill no more than
// a quarter of L2.
int64_t TaskRows(const PanelForm& form, int64_t depth) {
  int64_t fits = SecondCache() / 4 / (depth * form.element) / form.rows * form.rows;
  return std::clamp(fits, form.rows, RoundUp(TaskSide(form), form.rows));
}

// Depth of panels: one of b is read again for every panel of a. Between two readings all of a panel
// of a passes, so that both, and the sums, have to fit in L1 for b to be still there. Where panels
// of a are much narrower they stay instead, and may be deeper: half of L1 for one. Even parts.
void CutDepth(const PanelForm& form, int64_t k, int64_t wish, Blocking& cut) {
  int64_t room = FirstCache() * 15 / 16 - form.rows * form.cols * form.sum;
  int64_t fits = room / ((form.rows + form.cols) * form.element);
  int64_t unit = std::max<int64_t>(form.step, 16);
  // Sums of integers may be as long as panels of as many rows as a task has fill half of L2.
  int64_t bound = form.exact ? SecondCache() / 2 / (TaskSide(form) * form.element) : kMostDepth;
  if (cut.a_stays) fits = FirstCache() / 2 / (form.rows * form.element);
  int64_t most = std::clamp(fits / unit * unit, unit, std::max(RoundUp(bound, unit), unit));
  if (wish > 0) most = RoundUp(wish, unit);
  cut.panels = std::max<int64_t>(1, CeilDiv(k, most));
  cut.depth = std::max(unit, RoundUp(CeilDiv(k, cut.panels), unit));
  cut.panels = std::max<int64_t>(1, CeilDiv(k, cut.depth));
}

int64_t EvenPart(int64_t all, int64_t parts, int64_t unit) {
  return RoundUp(CeilDiv(all, parts), unit);
}

// Tasks of a shallow product write long runs of rows.
void CutShallow(const PanelForm& form, const ProductSizes& s, int64_t side, Blocking& cut) {
  int64_t rows = RoundUp(std::min(s.m, side / 4), form.rows);
  int64_t cols = RoundUp(std::min(s.n, kShallowCols), form.cols);
  rows = EvenPart(s.m, CeilDiv(s.m, rows), form.rows);
  cols = EvenPart(s.n, CeilDiv(s.n, cols), form.cols);
  while (CeilDiv(s.m, rows) * CeilDiv(s.n, cols) < kTasks && rows * cols * s.k > kShallowWork) {
    bool rows_go = rows > form.rows && rows >= cols;
    if (!rows_go && cols <= form.cols) {
      if (rows <= form.rows) break;
      rows_go = true;
    }
    int64_t& part = rows_go ? rows : cols;
    part = RoundUp(CeilDiv(part, 2), rows_go ? form.rows : form.cols);
  }
  cut.task_rows = rows;
  cut.task_cols = cols;
}

// What tasks of that size take, on one thread and on many, in nanoseconds. Threads take up tasks as
// they come: the last one that is taken up is waited for.
double CostOfTasks(const PanelForm& form, const ProductSizes& s, int64_t rows, int64_t cols) {
  auto row_part = static_cast<double>(rows), col_part = static_cast<double>(cols);
  int64_t tasks = CeilDiv(s.m, rows) * CeilDiv(s.n, cols);
  // Panels come from the last cache, which is quicker than memory.
  constexpr double kCacheReads = 4 * kCoreReads;
  double bytes = (row_part + col_part) * static_cast<double>(s.k * form.element);
  double one = row_part * col_part * static_cast<double>(s.k) / form.speed + bytes / kCacheReads;
  // Panels that tasks share are written, and come back from the last cache.
  int64_t vectors = (rows < s.m ? s.n : 0) + (cols < s.n ? s.m : 0);
  double share = 2 * static_cast<double>(vectors * s.k * form.element) / kCoreReads;
  auto threads = static_cast<double>(TaskThreads());
  return one * (static_cast<double>(tasks) / threads + 1) + share / threads;
}

// Panels that another core wrote last come from there: those of a task that reads b once are small,
// a quarter of L2. Sums are read and written again for each.
int64_t DepthOfReading(const PanelForm& form, const ProductSizes& s) {
  // Elements, so that sums are not read and written too often.
  constexpr int64_t kLeast = 2 * program::SumOrder::kRun;
  int64_t most = SecondCache() / 4 / (RoundUp(s.n, form.cols) * form.element);
  return std::clamp(most / kLeast * kLeast, kLeast, kMostDepth);
}

// All rows, and as many columns as half of L2 holds panels of one depth of: rows of b are read in
// long runs, which a processor's prefetcher follows.
void CutReading(const PanelForm& form, const ProductSizes& s, Blocking& cut) {
  int64_t most = SecondCache() / 2 / (cut.depth * form.element) / form.cols * form.cols;
  cut.by_rows = false;
  cut.task_rows = RoundUp(s.m, form.rows);
  cut.task_cols = EvenPart(s.n, CeilDiv(s.n, std::max(most, form.cols)), form.cols);
}

// Tasks whose sums fill no more than a quarter of L2, beside the panels of one depth; or smaller
// ones, where these divide better among threads.
void CutTasks(const PanelForm& form, const ProductSizes& s, Blocking& cut) {
  constexpr int64_t kQuarters[] = {4, 5, 6, 8, 12, 16, 24, 32, 48, 64};  // as many parts more
  int64_t side = TaskSide(form);
  cut.by_rows = s.k <= kShallow;
  cut.a_stays = cut.a_stays || cut.by_rows;
  if (cut.by_rows) return CutShallow(form, s, side, cut);
  double best = 0;
  auto try_rows = [&](int64_t rows, int64_t col_parts) {
    for (int64_t more_cols : kQuarters) {
      int64_t cols = EvenPart(s.n, CeilDiv(col_parts * more_cols, 4), form.cols);
      double cost = CostOfTasks(form, s, rows, cols);
      if (best == 0 || cost < best) {
        best = cost;
        cut.task_rows = rows;
        cut.task_cols = cols;
      }
      if (cols <= form.cols) break;
    }
  };
  int64_t row_parts = CeilDiv(s.m, TaskRows(form, cut.depth));
  if (cut.a_stays) {  // it is panels of b that are met again
    row_parts = CeilDiv(s.m, RoundUp(side, form.rows));
    side = std::clamp(SecondCache() / 4 / (cut.depth * form.element), form.cols, side);
  }
  for (int64_t more_rows : kQuarters) {
    int64_t rows = EvenPart(s.m, CeilDiv(row_parts * more_rows, 4), form.rows);
    try_rows(rows, CeilDiv(s.n, RoundUp(side, form.cols)));
    if (rows <= form.rows) break;
  }
  // All rows of some columns: no other task needs those of b.
  int64_t rows = RoundUp(s.m, form.rows), cols = side * side / rows / form.cols * form.cols;
  if (row_parts > 1 && cols > 0) try_rows(rows, CeilDiv(s.n, cols));
}

// Rows or columns that are packed at once.
int64_t VectorsAtOnce(const PanelForm& form, const Blocking& cut) {
  return std::max<int64_t>(1, MostPacked() / (cut.depth * cut.panels * form.element));
}

}  // namespace

int64_t TaskThreads() {
  static const int64_t cores = AvailableCores();
  return std::max(program::TargetFacts::kUsualThreads, cores);
}

Blocking BlockingOf(const PanelForm& form, const ProductSizes& s, const ProductTrial* trial) {
  Blocking cut;
  cut.a_stays = 2 * form.rows <= form.cols;
  CutDepth(form, s.k, trial != nullptr ? trial->depth : 0, cut);
  if (s.reads_once && cut.depth > DepthOfReading(form, s)) {
    CutDepth(form, s.k, DepthOfReading(form, s), cut);
  }
  if (s.reads_once) {
    CutReading(form, s, cut);
  } else {
    // Even parts: a rest of few vectors would be a parallel region of its own.
    ProductSizes at_once = s;
    for (int64_t* all : {&at_once.m, &at_once.n}) {
      *all = EvenPart(*all, CeilDiv(*all, VectorsAtOnce(form, cut)), 1);
    }
    CutTasks(form, at_once, cut);
  }
  if (trial != nullptr && trial->task_rows > 0) {
    cut.task_rows = RoundUp(std::min(s.m, trial->task_rows), form.rows);
  }
  if (trial != nullptr && trial->task_cols > 0) {
    cut.task_cols = RoundUp(std::min(s.n, trial->task_cols), form.cols);
  }
  cut.in_place = trial != nullptr && trial->in_place;
  cut.a_in_tasks = s.n <= cut.task_cols;
  cut.b_in_tasks = s.m <= cut.task_rows;
  auto outer = [&](int64_t all, int64_t part, bool in_tasks) {
    return in_tasks ? all
                    : std::min(all, EvenPart(all, CeilDiv(all, VectorsAtOnce(form, cut)), part));
  };
  cut.outer_rows = outer(s.m, cut.task_rows, cut.a_in_tasks);
  cut.outer_cols = outer(s.n, cut.task_cols, cut.b_in_tasks);
  return cut;
}

int64_t SharedBytes(const PanelForm& form, const Blocking& cut, bool is_left, int64_t vectors) {
  int64_t width = is_left ? form.rows : form.cols;
  return CeilDiv(vectors, width) * form.PanelBytes(is_left, cut.depth) * cut.panels;
}

int64_t OwnBytes(const PanelForm& form, const Blocking& cut, bool is_left) {
  int64_t vectors = is_left ? cut.task_rows : cut.task_cols,
          width = is_left ? form.rows : form.cols;
  return CeilDiv(vectors, width) * form.PanelBytes(is_left, cut.depth);
}

int64_t KeptSums(const PanelForm& form, const Blocking& cut) {
  if (cut.panels == 1) return 0;
  return RoundUp(cut.task_rows, form.rows) * RoundUp(cut.task_cols, form.cols);
}

}  // namespace weft::cpu
