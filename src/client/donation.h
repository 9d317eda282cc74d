// Donated arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/buffer.h"

namespace weft::client {

// Position of an array that occurs before, at `earlier`, one of both donated; -1: there is none.
int64_t FirstDuplicateOfDonated(std::span<const ArrayRef> arrays, const std::vector<bool>& donated,
                                int64_t* earlier);

}  // namespace weft::client
