// How late the values of a loop are: how much has to be computed, from what the round before left,
// until they are there. What is early may take its time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cpu/plan.h"
#include "program/program.h"

namespace weft::cpu {

// By kernel: how late what each of its memories holds is, in the innermost loop that has it.
using Lateness = std::map<int32_t, std::vector<int64_t>>;
void AddLateness(const program::Program& program, const Plan& plan, const Region& region,
                 Lateness& lateness);

// By value: products that are added to later ones. A machine that adds to a product in one
// operation is to take the later product for that. `quick_adds`: that operation takes longer than
// a sum alone, so products that are added to later numbers of memory are among them, and the sums.
std::vector<bool> EarlyProducts(const program::Kernel& kernel, std::span<const int64_t> memories,
                                bool quick_adds);

// op(op(first, second), late) for op(op(late, first), second): less has to wait for the latest.
struct ShorterForm {
  program::ValueId late, first, second;
};
// By the number of the instruction.
std::map<size_t, ShorterForm> ShorterForms(const program::Kernel& kernel,
                                           std::span<const int64_t> memories);

}  // namespace weft::cpu
