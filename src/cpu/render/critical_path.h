// What keeps operations off the critical path of a recurrence (program/critical_path.h): products
// that are not contracted, and reassociation. `memories`: depths of what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "program/kernel.h"
#include "program/target.h"

namespace weft::cpu {

// FMA contraction, kept off the critical path. By value: products that are to stay apart from the
// sum that uses them. Of a sum of two products the deeper one is contracted. With
// `add_faster_than_fma` a product that is added to a deeper number of memory stays apart too, and
// so does the sum: an FMA would put the latency of the product on the critical path.
std::vector<bool> UncontractedProducts(const program::Kernel& kernel,
                                       std::span<const int64_t> memories,
                                       const program::OpLatency& latency, bool add_faster_than_fma);

// Reassociation: op(op(first, second), critical) for op(op(critical, first), second), which leaves
// one operation on the critical path.
struct Reassociation {
  program::ValueId critical, first, second;
};
// By the number of the instruction.
std::map<size_t, Reassociation> Reassociations(const program::Kernel& kernel,
                                               std::span<const int64_t> memories,
                                               const program::OpLatency& latency);

}  // namespace weft::cpu
