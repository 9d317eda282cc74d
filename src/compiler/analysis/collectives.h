// What collectives of a module mean in numbers of devices: replica * num_partitions + partition.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hlo/instruction.h"
#include "program/program.h"

namespace weft::compiler {

int64_t DeviceCount(const hlo::Module& module);

// The groups of a collective, each in its order; every device is in one, but for
// collective-broadcast.
Result<std::vector<std::vector<int64_t>>> DeviceGroups(const hlo::Instruction& collective);
// Who sends to whom in a collective-permute, or in a collective-broadcast from the first of each
// group.
Result<std::vector<std::vector<int64_t>>> DevicePairs(const hlo::Instruction& collective);

// Of a send or recv, whose pairs are a text.
Result<std::vector<std::vector<int64_t>>> DevicePairs(const hlo::Instruction& op,
                                                      std::string_view pairs);

// The reduction that a computation of two scalars is; nullopt: another one.
std::optional<program::ReduceOp> SimpleReduction(const hlo::Computation& computation);

// Whether the collective is one that lowering takes as it stands: its parts lie one after the other
// in memory.
bool IsFlatCollective(const hlo::Instruction& collective);
// The product of the dimensions before `dim`.
int64_t OuterElements(const Shape& shape, int64_t dim);

}  // namespace weft::compiler
