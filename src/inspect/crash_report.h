// What a crash says. A signal that ends the process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT),
// when it comes to a thread that compiles or runs a program, is reported on standard error: the
// program, the pass or step (base/doing.h), its source line, where the program lies and the command
// to see it again. Then it does what it would have done: the handler that was there before runs, or
// the process ends. Other threads are none of our business.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::inspect {

struct CrashReportOptions {
  // Where the program is written to when it lies nowhere yet; made when needed.
  std::string directory = "weft-faults";
  // For tests: "KIND:PASS" crashes in a pass. KIND is segv, abort, check or overflow (of the
  // stack).
  std::string provoke;
};
// For the process; again: only the options change.
void InstallCrashReport(const CrashReportOptions& options);
// Signals do again what they did before.
void RemoveCrashReport();

// Crashes where CrashReportOptions::provoke says so; CompileWatch::Hooks.
Status ProvokeCrash(std::string_view pass);

}  // namespace weft::inspect
