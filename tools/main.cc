// weft: one binary, one sub-command per job. Environment variables are read here and nowhere below.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "inspect/trace_json.h"

namespace weft::tools {

std::span<const Command> Commands() {
  static const Command kAll[] = {kParseCommand, kPrintCommand,   kVerifyCommand, kEvalCommand,
                                 kOptCommand,   kTestCommand,    kDiffCommand,   kDocCommand,
                                 kRunCommand,   kProgramCommand, kBisectCommand, kReduceCommand,
                                 kRandomCommand};
  return kAll;
}

const Environment& TheEnvironment() {
  static const Environment environment = [] {
    auto value = [](const char* name) {
      const char* text = std::getenv(name);
      return std::string(text == nullptr ? "" : text);
    };
    return Environment{value("WEFT_DUMP"), value("WEFT_CHECK") == "1", value("WEFT_TRACE")};
  }();
  return environment;
}

namespace {

std::string Overview() {
  std::string out = "usage: weft COMMAND [ARGUMENT]...\n\n";
  for (const Command& c : Commands()) {
    StrAppend(out, "  ", c.name, std::string(10 - c.name.size(), ' '), c.summary, "\n");
  }
  out +=
      "\n`weft COMMAND --help` says more. A FILE is HLO text or Program text, recognised by what "
      "is in it; `-` is standard input.\n"
      "Exit status: 0 fine, 1 bad input or a failed comparison, 2 wrong usage.\n"
      "Environment: WEFT_DEBUG=1 to 4 or step=2,pass=3 (messages), WEFT_DUMP=DIR (files), "
      "WEFT_CHECK=1\n"
      "(steps beside the interpreter), WEFT_THREADS=N (threads to use), WEFT_TRACE=FILE (timeline "
      "for Perfetto);\ndocs/debugging.md, docs/profiling.md.\n";
  return out;
}

// WEFT_DEBUG and WEFT_THREADS; wrong values are reported and otherwise ignored.
void ReadEnvironment() {
  if (const char* filter = std::getenv("WEFT_DEBUG"); filter != nullptr && *filter != '\0') {
    if (Status s = SetLogFilter(filter); !s) {
      LOG(warn) << "WEFT_DEBUG: " << s.error().message();
    }
  }
  if (const char* threads = std::getenv("WEFT_THREADS"); threads != nullptr && *threads != '\0') {
    std::optional<int64_t> n = ParseInt(threads);
    if (n && *n >= 1) {
      DefaultPool().SetLimit(static_cast<int>(std::min<int64_t>(*n, DefaultPool().threads())));
    } else {
      LOG(warn) << "WEFT_THREADS: not a number of at least 1: " << threads;
    }
  }
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

int Main(std::span<const char* const> argv) {
  ReadEnvironment();
  std::string_view name = argv.size() > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    Write(stdout, Overview());
    return kOk;
  }
  for (const Command& command : Commands()) {
    if (command.name != name) continue;
    Args args(argv.subspan(2));
    if (args.Flag("--help") || args.Flag("-h")) {
      Write(stdout, command.help);
      return kOk;
    }
    Result<int> status = RunTraced(command, std::move(args));
    if (status) {
      if (std::fflush(stdout) != 0) {
        Write(stderr, "weft: error: cannot write to standard output\n");
        return kFailed;
      }
      return *status;
    }
    Write(stderr, StrCat("weft ", name, ": ", status.error().ToString(), "\n"));
    std::string_view help = command.help;
    Write(stderr, help.substr(0, help.find("\n\n") + 1));
    Write(stderr, StrCat("`weft ", name, " --help` says more\n"));
    return kUsage;
  }
  if (!name.empty()) Write(stderr, StrCat("weft: unknown command: ", name, "\n"));
  Write(stderr, Overview());
  return kUsage;
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::Main({argv, static_cast<size_t>(argc)});
}
