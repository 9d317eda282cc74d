// Elements of the host's to and from the memory of a buffer, which has a layout and may be packed.
#pragma once

#include <cstddef>

#include "program/program.h"

namespace weft::program {

void ToBuffer(const Buffer& buffer, const std::byte* elements, std::byte* to);
void FromBuffer(const Buffer& buffer, const std::byte* from, std::byte* elements);

}  // namespace weft::program
