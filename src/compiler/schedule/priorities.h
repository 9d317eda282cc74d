// Priorities that list scheduling tries.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/schedule/problem.h"
#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {

struct PriorityChoice {
  std::string_view name;
  std::vector<double> priority;  // by job, the largest first
};
enum : size_t { kModuleOrderChoice = 2 };  // of what PriorityChoices returns

// Of transfers: the compute that the list has before the first job that reads the result.
std::vector<double> NeedTimes(const Problem& problem, const std::vector<int32_t>& order);

// `base`: an order that takes little memory; `need`: of the module's order.
std::vector<PriorityChoice> PriorityChoices(const Problem& problem,
                                            const std::vector<int32_t>& base,
                                            const std::vector<double>& need);

// Parts of a batch (split-batch) that keep a distance, so that one computes its gradients while
// another one's activations are sent; none: there are no parts.
std::vector<PriorityChoice> StaggeredParts(const Problem& problem);
// Adds rule sets by those, from choice `first` on.
void RulesOfParts(size_t first, size_t count, double longest, int64_t memory_limit,
                  std::vector<ListRules>& sets);

// Adds rule sets by the priorities while there is memory, in the module's order when it becomes
// scarce.
void RulesUnderLimit(const std::vector<PriorityChoice>& choices, double longest,
                     std::vector<ListRules>& sets);

// Of the module's order: bytes live by compute done.
std::vector<std::pair<double, int64_t>> LiveBytes(const Problem& problem);
// What the module's order takes, and a part of what is left of the limit from there on.
std::vector<std::pair<double, int64_t>> AllowedBytes(
    const std::vector<std::pair<double, int64_t>>& base, int64_t memory_limit, double part);

}  // namespace weft::compiler::schedule
