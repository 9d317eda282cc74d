#include "compiler/schedule/priorities.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>

#include "base/str.h"
#include "compiler/passes.h"

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

namespace {

// Which part of the batch a job is of: that of the transfers that it waits for, or that wait for
// it. -1: of none, or of several.
std::vector<int32_t> PartsOfBatch(const Problem& p) {
  std::vector<uint64_t> before(p.size(), 0), behind(p.size(), 0);
  for (size_t n = 0; n < p.size(); ++n) {
    const hlo::Instruction* op = p.jobs[n].op;
    const std::string* told = op != nullptr ? op->FrontendAttributeValue(kPartOfBatch) : nullptr;
    const std::optional<int64_t> part = told != nullptr ? ParseInt(*told) : std::nullopt;
    if (part && *part >= 0 && *part < 64) before[n] = behind[n] = uint64_t{1} << *part;
    for (int32_t q : p.jobs[n].preds) before[n] |= before[static_cast<size_t>(q)];
  }
  std::vector<int32_t> parts(p.size(), -1);
  for (size_t n = p.size(); n-- > 0;) {
    for (int32_t s : p.jobs[n].succs) behind[n] |= behind[static_cast<size_t>(s)];
    const uint64_t own = before[n] != 0 ? before[n] : behind[n];
    if (std::has_single_bit(own)) parts[n] = std::countr_zero(own);
  }
  return parts;
}

}  // namespace

std::vector<PriorityChoice> StaggeredParts(const Problem& p) {
  const std::vector<int32_t> parts = PartsOfBatch(p);
  double longest = 0;
  for (size_t n = 0; n < p.size(); ++n) longest = std::max(longest, p.tail[n] + p.jobs[n].seconds);
  std::vector<PriorityChoice> choices;
  if (std::ranges::max(parts) < 1) return choices;
  for (double distance : {0.02, 0.05, 0.1, 0.2, 0.4, 1.0}) {  // of the critical path
    PriorityChoice choice{"parts of the batch staggered", p.tail};
    for (size_t n = 0; n < p.size(); ++n) {
      choice.priority[n] += p.jobs[n].seconds - distance * longest * std::max(parts[n], 0);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

void RulesOfParts(size_t first, size_t count, double longest, int64_t memory_limit,
                  std::vector<ListRules>& sets) {
  for (size_t c = first; c < first + count; ++c) {
    for (double part : {0.0, 1.0, 0.8, 0.5}) {
      if (part > 0 && memory_limit == 0) continue;
      for (double horizon : {4.0, std::numeric_limits<double>::infinity()}) {
        for (bool thrifty : {false, true}) {
          ListRules rules;
          rules.name = "parts of the batch staggered";
          rules.choice = c;
          rules.part = part;
          rules.horizon = horizon * longest;
          rules.tight_horizon = 1.5 * longest;
          rules.thrifty = thrifty;
          rules.memory_limit = memory_limit;
          sets.push_back(std::move(rules));
        }
      }
    }
  }
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

std::vector<std::pair<double, int64_t>> LiveBytes(const Problem& p) {
  Walker walker(p);
  std::vector<std::pair<double, int64_t>> found;
  double done = 0;
  for (size_t n = 0; n < p.size(); ++n) {
    walker.Place(static_cast<int32_t>(n));
    found.emplace_back(done, walker.live());
    if (p.jobs[n].stream == Stream::kCompute) done += p.jobs[n].seconds;
  }
  return found;
}

std::vector<std::pair<double, int64_t>> AllowedBytes(
    const std::vector<std::pair<double, int64_t>>& base, int64_t memory_limit, double part) {
  std::vector<std::pair<double, int64_t>> allowed = base;
  int64_t ahead = 0;  // the most that the module's order takes from here on
  for (size_t k = allowed.size(); k-- > 0;) {
    ahead = std::max(ahead, base[k].second);
    const auto spare = static_cast<double>(std::max<int64_t>(memory_limit - ahead, 0));
    allowed[k].second += static_cast<int64_t>(part * spare);
  }
  return allowed;
}

}  // namespace weft::compiler::schedule
