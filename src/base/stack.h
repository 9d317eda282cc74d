// How deep what calls itself may go: programs nest as deep as whoever wrote them likes, and a
// thread has the stack that it was started with.
#pragma once

#include <cstdint>

namespace weft {

// Levels of loops, branches and calls within each other that are taken at all.
inline constexpr int kMaxProgramNesting = 1024;

// Whether little is left of this thread's stack: another level of something that nests may not fit.
bool IsStackShort();

// The lowest address of the stack that this thread runs on, for threads that change over to others
// (fibers.h).
uintptr_t StackEnd();
void SetStackEnd(uintptr_t end);

}  // namespace weft
