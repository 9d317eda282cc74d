// Priorities that list scheduling tries.
#pragma once

#include <cstdint>
#include <string_view>
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

// Adds rule sets by the priorities while there is memory, in the module's order when it becomes
// scarce.
void RulesUnderLimit(const std::vector<PriorityChoice>& choices, double longest,
                     std::vector<ListRules>& sets);

}  // namespace weft::compiler::schedule
