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

// By kernel: how late what each of its memories holds is, at the latest of its launches.
using Lateness = std::map<int32_t, std::vector<int64_t>>;
void AddLateness(const program::Program& program, const Plan& plan, const Region& region,
                 Lateness& lateness);

// By value: products that are added to later ones. A machine that adds to a product in one
// operation is to take the later product for that.
std::vector<bool> EarlyProducts(const program::Kernel& kernel, std::span<const int64_t> memories);

// Another way to compute an instruction, in which less has to wait for its latest operand.
struct ShorterForm {
  // op(op(other, third), late) for op(op(late, other), third); or, with a step, for
  // min(min(late, other) + step, third), step > 0: late < c - step ? late + step : c, where
  // c = min(other + step, third), unless other + step overflows. max and a step < 0 likewise.
  program::ValueId late, other, third;
  int64_t step = 0;
};
// By the number of the instruction.
std::map<size_t, ShorterForm> ShorterForms(const program::Kernel& kernel,
                                           std::span<const int64_t> memories);

}  // namespace weft::cpu
