// How long steps take, and how close that is to what the machine can do.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "runtime/device.h"

namespace weft::runtime {

// What the machine does at best, measured: f32 multiply-adds on all threads of the pool, and bytes
// read and written by a large copy.
struct Roofline {
  double flops_per_second = 0, bytes_per_second = 0;
};
// Compiles two small kernels and runs them for some milliseconds.
Result<Roofline> MeasureRoofline(Device& device, ThreadPool* pool = nullptr);

// One line for a step that took so long: time, GFLOP/s, GB/s, percent of the roofline, source line.
//   fusion.3         12.4 us   33.1 GFLOP/s   12.5 GB/s   61 %  model.py:12
std::string StepLine(const program::Program& program, const program::Step& step, double seconds,
                     const Roofline& roofline);

// Times of the steps of several runs.
class StepTimes {
 public:
  explicit StepTimes(const program::Program& program) : program_(program) {}
  void Add(const program::Step& step, double seconds);
  void EndRun();
  // In the order in which they first ran; the median of a run, and how often in it at most.
  struct Row {
    const program::Step* step;
    double seconds;
    int64_t count;
  };
  std::vector<Row> Rows() const;
  // A line for each step in the order of the program, its median and share of the whole, then
  // totals.
  std::string Table(const Roofline& roofline) const;

 private:
  struct Times {
    double this_run = 0;
    int64_t count = 0;  // in this run
    int64_t most = 0;
    std::vector<double> runs;
  };
  const program::Program& program_;
  std::vector<const program::Step*> order_;
  std::map<const program::Step*, Times> times_;  // never iterated
};

}  // namespace weft::runtime
