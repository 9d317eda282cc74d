// The sub-commands of weft, one file each.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "args.h"
#include "client/environment.h"
#include "compiler/options.h"

namespace weft::tools {

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view help;  // usage, flags, examples
  // Takes the arguments behind the command's name. An error is wrong usage: the caller prints it
  // with a hint and exits with 2; other failures are reported by the command, which returns 1.
  Result<int> (*run)(Args args);
};

std::span<const Command> Commands();  // in the order they are shown

// What the environment says, read once, before a command runs.
const client::Environment& TheEnvironment();
// Options of the compiler: those of WEFT_OPTIONS, then those of --options.
Status TakeOptions(Args& args, compiler::CompileOptions& options);

extern const Command kParseCommand, kPrintCommand, kVerifyCommand, kEvalCommand, kOptCommand,
    kTestCommand, kDiffCommand, kDocCommand, kRunCommand, kProgramCommand, kBisectCommand,
    kReduceCommand, kRandomCommand, kReportCommand, kCacheCommand, kBugReportCommand,
    kScheduleCommand;

}  // namespace weft::tools
