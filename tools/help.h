// What `weft help` prints besides the help of commands.
#pragma once

#include <string>

namespace weft::tools {

std::string HelpOnVariables();  // the table of client/environment.h
std::string HelpOnOptions();    // the listing of compiler/options.h
std::string VersionLine();      // "weft 0.1.0, sources ..., LLVM 19.1.7"
// The processor and what code is made for, cores, caches, memory, peaks, the cache. Measures peaks,
// for some milliseconds.
std::string DescribeMachine();

}  // namespace weft::tools
