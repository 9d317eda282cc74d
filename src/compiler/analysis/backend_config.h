// What backend configs say in numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// The text behind `"key":` of a backend config, which may also be a quoted string of JSON.
std::string_view ConfigValue(const hlo::Instruction& i, std::string_view key);
// `"key":[1,2]` or `"key":"4"` in a backend config: the digits behind the key.
std::vector<int64_t> ConfigInts(const hlo::Instruction& i, std::string_view key);

// Iterations: what the loop's counter shows, or else what the backend config says; 0: not known.
int64_t KnownTripCount(const hlo::Instruction& loop);
// Writes it into the backend config, beside what else is there.
void SetKnownTripCount(hlo::Instruction& loop, int64_t trips);

}  // namespace weft::compiler
