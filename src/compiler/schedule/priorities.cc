#include "compiler/schedule/priorities.h"

#include <algorithm>
#include <limits>

namespace weft::compiler::schedule {

// Of transfers: the compute that the list has before the first job that reads the result.
std::vector<double> NeedTimes(const Problem& p, const std::vector<int32_t>& order) {
  std::vector<double> at(p.size(), 0), need(p.size(), std::numeric_limits<double>::infinity());
  double done = 0;
  for (int32_t job : order) {
    auto n = static_cast<size_t>(job);
    at[n] = done;
    if (p.jobs[n].stream == Stream::kCompute) done += p.jobs[n].seconds;
  }
  for (size_t n = p.size(); n-- > 0;) {
    for (int32_t s : p.jobs[n].succs) {
      auto k = static_cast<size_t>(s);
      need[n] = std::min(need[n], p.jobs[k].is_async ? need[k] - p.jobs[k].seconds : at[k]);
    }
  }
  return need;
}

std::vector<PriorityChoice> PriorityChoices(const Problem& p, const std::vector<int32_t>& base,
                                            const std::vector<double>& need) {
  std::vector<double> by_base(p.size());
  for (size_t k = 0; k < base.size(); ++k) {
    by_base[static_cast<size_t>(base[k])] = -static_cast<double>(k);
  }
  std::vector<double> listed(p.size()), tails = p.tail;
  for (size_t n = 0; n < p.size(); ++n) listed[n] = -static_cast<double>(n);
  for (size_t n = 0; n < p.size(); ++n) tails[n] += p.jobs[n].seconds;
  std::vector<double> needed = tails;
  // Transfers compete among themselves: what is needed first goes first.
  for (size_t n = 0; n < p.size(); ++n) {
    if (p.jobs[n].is_async) needed[n] = listed[n] = by_base[n] = -std::min(need[n], 1e9);
  }
  std::vector<double> shallow = tails;
  std::vector<PriorityChoice> choices = {{"critical path", std::move(tails)},
                                         {"critical path, transfers by need", std::move(needed)},
                                         {"module order", std::move(listed)},
                                         {"memory order", std::move(by_base)}};
  if (p.overlap < 2) return choices;
  // Where several are on the wire at once those that depend on little are issued first.
  std::vector<double> depth(p.size(), 0);
  for (size_t n = 0; n < p.size(); ++n) {
    for (int32_t q : p.jobs[n].preds) {
      auto k = static_cast<size_t>(q);
      depth[n] = std::max(depth[n], depth[k] + p.jobs[k].seconds);
    }
    if (p.jobs[n].is_async) shallow[n] = -depth[n];
  }
  choices.push_back({"critical path, shallow transfers first", std::move(shallow)});
  return choices;
}

void RulesUnderLimit(const std::vector<PriorityChoice>& choices, double longest,
                     std::vector<ListRules>& sets) {
  for (size_t c = 0; c <= kModuleOrderChoice && c < choices.size(); ++c) {
    for (double part : {1.0, 0.9, 0.8, 0.65, 0.5, 0.3, 0.15}) {
      for (double horizon : {1.5, 4.0, 10.0, 40.0, std::numeric_limits<double>::infinity()}) {
        for (bool thrifty : {true, false}) {
          ListRules rules;
          rules.name =
              thrifty ? "critical path within memory, thrifty" : "critical path within memory";
          rules.choice = c;
          rules.part = part;
          rules.horizon = horizon * longest;
          rules.tight_horizon = 1.5 * longest;
          rules.thrifty = thrifty;
          sets.push_back(std::move(rules));
        }
      }
    }
  }
}

}  // namespace weft::compiler::schedule
