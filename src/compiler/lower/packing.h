// Which buffers of a Program hold elements of two and four bits packed.
#pragma once

#include "program/program.h"

namespace weft::compiler {

// Packs buffers of s4, u4, s2, u2 and f4e2m1fn: constants that kernels alone read, temporaries that
// kernels alone read and write by whole bytes, and all parameters and results. What works on one of
// the last in another way, as library routines do, works on an unpacked copy of it, made where the
// program begins, packed again where it ends.
void PackNarrowElements(program::Program& program);

}  // namespace weft::compiler
