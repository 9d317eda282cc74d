// weft: one binary, one sub-command per job. Environment variables are read here (by the table of
// client/environment.h) and nowhere below.
#include <unistd.h>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/doing.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "help.h"
#include "inspect/crash_report.h"
#include "inspect/trace_json.h"

namespace weft::tools {

std::span<const Command> Commands() {
  static const Command kAll[] = {
      kParseCommand,     kPrintCommand,    kVerifyCommand, kEvalCommand,   kOptCommand,
      kTestCommand,      kDiffCommand,     kDocCommand,    kRunCommand,    kProgramCommand,
      kBisectCommand,    kReduceCommand,   kRandomCommand, kReportCommand, kCacheCommand,
      kBugReportCommand, kScheduleCommand, kServeCommand};
  return kAll;
}

namespace {

// Set once, before commands run.
client::Environment& MutableEnvironment() {
  static client::Environment environment;
  return environment;
}

std::string Overview() {
  std::string out = "usage: weft COMMAND [ARGUMENT]...\n\n";
  for (const Command& c : Commands()) {
    StrAppend(out, "  ", c.name, std::string(12 - c.name.size(), ' '), c.summary, "\n");
  }
  out +=
      "\n"
      "  weft help COMMAND      says more (or weft COMMAND --help)\n"
      "  weft help variables    variables of the environment: WEFT_DEBUG, WEFT_DUMP, ...\n"
      "  weft help options      options of the compiler: --options=key=value,...\n"
      "  weft --version         which build this is\n"
      "  weft --machine         the processor, what code is made for, memory, peaks\n"
      "\n"
      "A FILE is HLO (text, proto), StableHLO (text, bytecode) or Program text, recognised by what "
      "is in it;\n`-` is standard input. Exit status: 0 fine, 1 bad input or a failed comparison, "
      "2 wrong usage.\n";
  return out;
}

// The file that the command is about: the last argument that is one.
std::string_view FileAmong(std::span<const char* const> arguments) {
  for (size_t i = arguments.size(); i > 0; --i) {
    if (arguments[i - 1][0] != '-' && access(arguments[i - 1], R_OK) == 0) return arguments[i - 1];
  }
  return "";
}

void ReportCrashes(const client::Environment& environment) {
  if (!environment.crash_report) return;
  inspect::CrashReportOptions options;
  if (!environment.dump.empty()) options.directory = environment.dump;
  options.provoke = environment.provoke_crash;
  inspect::InstallCrashReport(options);
}

void Write(std::FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
}

// With WEFT_TRACE, from begin to end.
Result<int> RunTraced(const Command& command, Args args) {
  const std::string& path = TheEnvironment().trace;
  if (path.empty()) return command.run(std::move(args));
  inspect::TraceFile trace(path);
  Result<int> status = command.run(std::move(args));
  if (Status written = trace.Write(); !written) {
    LOG(warn) << "WEFT_TRACE: " << written.error();
  }
  return status;
}

const Command* FindCommand(std::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

// The error comes last, where it is seen.
int UnknownWord(std::string_view what, std::string_view word,
                std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> known(more);
  for (const Command& command : Commands()) known.push_back(command.name);
  Write(stderr, Overview());
  Write(stderr, StrCat("\nweft: unknown ", what, ": ", word, DidYouMean(word, known), "\n"));
  return kUsage;
}

int Help(std::string_view topic) {
  if (topic.empty()) {
    Write(stdout, Overview());
  } else if (topic == "variables") {
    Write(stdout, HelpOnVariables());
  } else if (topic == "options") {
    Write(stdout, HelpOnOptions());
  } else if (const Command* command = FindCommand(topic)) {
    Write(stdout, command->help);
  } else {
    return UnknownWord("topic", topic, {"variables", "options"});
  }
  return kOk;
}

Status ReadTheEnvironment() {
  client::Environment& environment = MutableEnvironment();
  environment = TRY(client::ReadEnvironment());
  if (environment.threads > 0) {
    DefaultPool().SetLimit(std::min(environment.threads, DefaultPool().threads()));
  }
  return {};
}

int Run(const Command& command, Args args) {
  Result<int> status = RunTraced(command, std::move(args));
  if (status) {
    if (std::fflush(stdout) == 0) return *status;
    Write(stderr, "weft: error: cannot write to standard output\n");
    return kFailed;
  }
  std::string_view help = command.help;
  Write(stderr, help.substr(0, help.find("\n\n") + 1));
  Write(stderr, StrCat("`weft ", command.name, " --help` says more\n"));
  Write(stderr, StrCat("weft ", command.name, ": ", status.error().ToString(), "\n"));
  return kUsage;
}

int Main(std::span<const char* const> argv) {
  std::string_view name = argv.size() > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    client::WarnOfUnknownVariables();
    return Help(argv.size() > 2 ? argv[2] : "");
  }
  if (name == "--version") {
    client::WarnOfUnknownVariables();
    Write(stdout, VersionLine());
    return kOk;
  }
  if (name.empty()) {
    Write(stderr, Overview());
    return kUsage;
  }
  const Command* command = FindCommand(name);
  if (command == nullptr && name != "--machine") return UnknownWord("command", name, {"help"});
  Args args(argv.subspan(2));
  if (command != nullptr && (args.Flag("--help") || args.Flag("-h"))) {
    client::WarnOfUnknownVariables();
    Write(stdout, command->help);
    return kOk;
  }
  if (Status read = ReadTheEnvironment(); !read) {
    Write(stderr, StrCat("weft: ", read.error().ToString(), "\n"));
    return kUsage;
  }
  SignalStack stack;
  ReportCrashes(TheEnvironment());
  if (command != nullptr) {
    Doing doing({.phase = "command", .what = name, .file = FileAmong(argv.subspan(2))});
    return Run(*command, std::move(args));
  }
  Write(stdout, DescribeMachine());
  return kOk;
}

}  // namespace

const client::Environment& TheEnvironment() {
  return MutableEnvironment();
}

Status TakeOptions(Args& args, compiler::CompileOptions& options) {
  TRY(compiler::ParseOptions(TheEnvironment().options, options));
  return compiler::ParseOptions(args.Value("--options").value_or(""), options);
}

}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::Main({argv, static_cast<size_t>(argc)});
}
