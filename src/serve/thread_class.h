// How the system's scheduler ranks the server's threads: those that receive and turn away before
// runs, runs of the high class before the others.
#pragma once

#include <string>

#include "serve/scheduler.h"

namespace weft::serve {

// This thread gives way to others from now on, and cannot come back: nice; SCHED_IDLE where no
// other program uses the cores.
void StandBehind(bool own_cores);
// Whether it does: with a lock that others want it would hold them up.
bool StandsBehind();

// This thread asks for cores for this long at a time. When it wakes, the system (Linux 6.12 and
// later) puts it in the place of one with longer slices at once; otherwise it would wait until that
// one's is over, some milliseconds. The least is 100 us.
void UseSlices(Time slice);
// The system does not look for a free core for a thread that wakes while all are busy: it stays
// where it was, maybe behind a run of the high class for milliseconds. Where the cores are the
// server's own, such runs begin on the second half of them, and threads that receive keep to the
// first while requests are turned away; both halves are full of runs that give way at once.
// 0: too few to share.
int CoresForReceivers(int cores);
// From now on this thread is on these of the process's cores only; all of them: count 0. Threads
// that it starts meanwhile are, too.
void UseCores(int first, int count);
// This thread receives: it has short slices.
void BecomeReceiver();
// One that receives, and turned somebody away, keeps to its half until then. Others do not.
void KeepToReceiverCores(int cores, Time until);
// Back on all cores, where that time is over.
void LeaveReceiverCores();
inline constexpr Time kReceiverSlice = 100 * kMicrosecond, kHighSlice = 400 * kMicrosecond;
// What the system calls the rank of a thread that stands behind, and of one with short slices.
std::string RankBehind(bool own_cores);
std::string RankWithSlices(Time slice);

}  // namespace weft::serve
