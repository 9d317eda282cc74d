// Finding orders: list scheduling under several rule sets, perturbed priorities, and branch and
// bound. All of it deterministic, with bounded work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/schedule/problem.h"

namespace weft::compiler::schedule {

struct SearchOptions {
  int64_t memory_limit = 0;        // bytes besides what is there throughout; 0: none
  int64_t work = 1'600'000;        // jobs placed by list scheduling, about 0.3 us each
  int64_t moves = 20'000'000;      // jobs placed by local search, about 15 ns each
  int64_t blocks = 40'000'000;     // jobs looked at by tabu search, about 10 ns each
  int64_t pairs = 300'000'000;     // looked at by branch and bound over pairs, about 2 ns each
  int64_t states = 120'000;        // expanded by branch and bound, about 10 us each at 100 jobs
  int64_t window_states = 40'000;  // and of windows, about 5 us each
};

struct Order {
  std::vector<int32_t> jobs;
  Evaluation value;
  std::string rule;         // what found it
  bool is_optimal = false;  // equal to a lower bound, or proven by exhaustion
};

// The shortest order found that keeps to the memory limit; where none does, the one with the least
// peak.
Order FindOrder(const Problem& problem, const SearchOptions& options);

// --- the parts

struct ListRules {
  std::string_view name;
  size_t choice = 0;             // which priorities, of those that the search knows
  double part = 0;               // of the memory to spare, for `allowed`; 0: `allowed` is empty
  std::vector<double> priority;  // of compute and of transfers, the largest first
  std::vector<double> need;      // of transfers: compute done when the result is first read
  double horizon = 0;            // compute ahead of which transfers are issued
  bool waits = false;            // the highest priority though it has to be waited for
  int64_t memory_limit = 0;
  // Live bytes from which on `fallback` decides, by compute done; empty: never.
  std::vector<std::pair<double, int64_t>> allowed;
  double tight_horizon = 0;      // of transfers, from there on
  bool thrifty = false;          // waits are filled with what takes the least memory a second
  std::vector<double> fallback;  // priorities of an order that takes little memory
  bool explain = false;
};
Order ListSchedule(const Problem& problem, const ListRules& rules);

// Breadth-first branch and bound with dominance, of at most `width` states a level: optimal where
// no level has more. Shorter than `best` only; otherwise empty.
struct BranchResult {
  std::vector<int32_t> jobs;
  bool is_exhaustive = false;
  int64_t states = 0;
};
// How things stand where a problem begins: a window of a larger one.
struct BranchStart {
  Walker::Streams streams;
  std::vector<double>
      release;  // by job: when what it reads from before has arrived; empty: at once
};
BranchResult BranchAndBound(const Problem& problem, double best, size_t width, int64_t states,
                            const BranchStart& start = {});

struct MoveOptions {
  int64_t work = 0;          // jobs placed, about 15 ns each
  int64_t patience = 0;      // of it, since something became shorter
  int64_t memory_limit = 0;  // 0: none
  double bound = 0;          // where it may stop
  double threshold = 0.01;   // how much longer a move may make it at first, of the length
};
// Local search by moves of single jobs; never longer than the order it begins with.
std::vector<int32_t> ImproveByMoves(const Problem& problem, std::vector<int32_t> order,
                                    const MoveOptions& options);

// One transfer at a time, and compute and transfers alone: streams are machines of a job shop.
bool HasDisjunctions(const Problem& problem);

// Tabu search over critical blocks, where HasDisjunctions. Looks at length alone:
// whether the result is shorter, and what memory it takes, has to be looked at. Empty: it does not
// apply.
std::vector<int32_t> ImproveByCriticalBlocks(const Problem& problem,
                                             const std::vector<int32_t>& order,
                                             const MoveOptions& options);

// Branch and bound over pairs of jobs of one stream: which is the earlier one. Where
// HasDisjunctions. Looks at length alone.
struct DisjunctiveResult {
  std::vector<int32_t> jobs;  // shorter than `best`; otherwise empty
  double bound = 0;           // no order is shorter
};
DisjunctiveResult SearchDisjunctions(const Problem& problem, double bound, double best,
                                     int64_t work);

struct FillOptions {
  int64_t memory_limit = 0;  // 0: none
  double bound = 0;          // waits of less than a millionth of it are left
  double overshoot = 1;      // how much longer than a wait its filling may be
};
// Waits are filled with jobs from behind them, the longest wait first, with what takes the least
// memory a second; transfers that are waited for or that fillings need are issued earlier. By the
// timeline of `order`: whether the result is shorter has to be looked at.
// Adds to `work` what it took.
std::vector<int32_t> FillWaits(const Problem& problem, const std::vector<int32_t>& order,
                               const FillOptions& options, int64_t* work);

// Time runs backwards: job n is job size - 1 - n.
Problem Reversed(const Problem& problem);
// The order of a reversed schedule's timeline. A transfer is issued as soon as its operands and the
// transfer before it allow.
std::vector<int32_t> FromReversed(const Problem& problem, const Problem& reversed,
                                  const std::vector<int32_t>& jobs);
// The order of a timeline, given when each job begins.
std::vector<int32_t> OrderOfBegins(const Problem& problem, const std::vector<double>& begin);

}  // namespace weft::compiler::schedule
