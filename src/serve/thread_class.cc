#include "serve/thread_class.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "serve/run_handler.h"

namespace weft::serve {
namespace {

// Of the system's priorities (nice): a tenth of the weight of the threads that do not stand behind.
constexpr int kBehind = 10;

thread_local bool stands_behind = false;
thread_local bool receives = false;
thread_local Time receives_until = 0;  // on the cores for that; 0: on any

// The process's cores as they were when this was first asked, before any thread chose.
const cpu_set_t& ProcessCores() {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)sched_getaffinity(getpid(), sizeof(set), &set);
    return set;
  }();
  return all;
}

// The kernel's sched_attr, which C libraries know only of late.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void StandBehind(bool own_cores) {
  stands_behind = true;
  sched_param none = {};
  if (own_cores && sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;
  id_t self = static_cast<id_t>(gettid());
  // Where it is refused all are alike.
  (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kBehind);
}

bool StandsBehind() {
  return stands_behind;
}

void UseSlices(Time slice) {
  if (slice == 0 || sched_getscheduler(0) != SCHED_OTHER) return;  // somebody chose another
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  attributes.runtime = static_cast<uint64_t>(slice);
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);  // a hint: older systems do not know it
}

std::string RankBehind(bool own_cores) {
  return own_cores ? "SCHED_IDLE" : StrCat("SCHED_OTHER, nice +", kBehind);
}

std::string RankWithSlices(Time slice) {
  if (slice == 0) return "SCHED_OTHER";
  return StrCat("SCHED_OTHER, slices of ", slice / kMicrosecond, " us");
}

int CoresForReceivers(int cores) {
  return (cores + 2) / 4;
}

void UseCores(int first, int count) {
  const cpu_set_t& all = ProcessCores();
  cpu_set_t some;
  CPU_ZERO(&some);
  for (int core = 0, index = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (index >= first && index < first + count) CPU_SET(core, &some);
    ++index;
  }
  (void)sched_setaffinity(0, sizeof(some), CPU_COUNT(&some) > 0 ? &some : &all);
}

void BecomeReceiver(bool own_cores) {
  receives = true;
  UseSlices(SlicesFor(own_cores).receiver);
}

void GiveWay() {
  sched_yield();
}

void KeepToReceiverCores(int cores, Time until) {
  const int count = CoresForReceivers(cores);
  if (!receives || count == 0) return;
  if (receives_until == 0) UseCores(0, count);
  receives_until = until;
}

void LeaveReceiverCores() {
  if (receives_until == 0 || Now() < receives_until) return;
  receives_until = 0;
  UseCores(0, 0);
}

}  // namespace weft::serve
