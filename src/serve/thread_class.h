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
// later) puts it in the place of one with much longer slices at once; otherwise it would wait until
// that one's is over, some milliseconds. One whose slice is over is displaced by any other that
// waits for the core, from the system's next tick to the one after, some milliseconds too. From
// 100 us to 100 ms; 0: the system's.
void UseSlices(Time slice);
// Beside other programs those that are urgent have the shortest, so that they come before these as
// well. Where there are none, runs have the longest, so that none is ever in the way, and the
// urgent ones such that are over only when something is wrong: nobody is displaced with a
// connection's lock, or in the midst of an urgent run, and all that is behind it with him.
struct Slices {
  Time receiver, high, run;
};
constexpr Slices SlicesFor(bool own_cores) {
  return own_cores ? Slices{3 * kMillisecond, 20 * kMillisecond, 100 * kMillisecond}
                   : Slices{100 * kMicrosecond, 400 * kMicrosecond, 0};
}
// The system does not look for a free core for a thread that wakes while all are busy: it stays
// where it was, maybe behind a run of the high class for milliseconds. Where the cores are the
// server's own, threads that receive keep to the first quarter of them while requests are turned
// away, and such runs begin on the others; all are full of runs that give way at once.
// 0: too few to share.
int CoresForReceivers(int cores);
// From now on this thread is on these of the process's cores only; all of them: count 0. Threads
// that it starts meanwhile are, too.
void UseCores(int first, int count);
// This thread receives.
void BecomeReceiver(bool own_cores);
// One that receives, and turned somebody away, keeps to its cores until then. Others do not.
void KeepToReceiverCores(int cores, Time until);
// Back on all cores, where that time is over.
void LeaveReceiverCores();
// Somebody who waits for this thread's core has it now, where it is not urgent.
void GiveWay();
// What the system calls the rank of a thread that stands behind, and of one with such slices.
std::string RankBehind(bool own_cores);
std::string RankWithSlices(Time slice);

}  // namespace weft::serve
