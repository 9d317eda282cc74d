// weft bug-report: what others need to look into a problem, in one file, and nothing private.
#include <dirent.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string_view>

#include "archive.h"
#include "base/file.h"
#include "base/str.h"
#include "child.h"
#include "commands.h"
#include "help.h"
#include "privacy.h"
#include "units.h"

namespace weft::tools {
namespace {

constexpr size_t kMostOutput = 256 << 10;  // bytes kept of what a command writes, the last ones
constexpr int64_t kMostFile = 8 << 20;     // bytes of a file
constexpr int64_t kMostDump = 32 << 20;    // bytes of all files of a dump
constexpr int kMostDepth = 4;              // folders within a dump

// ---- What is private

struct Private {
  std::vector<std::string> names, folders;
};

Private WhatIsPrivate() {
  Private what;
  char buffer[4096];
  if (gethostname(buffer, sizeof(buffer)) == 0) what.names.emplace_back(buffer);
  if (const passwd* user = getpwuid(getuid()); user != nullptr) {
    if (std::string_view(user->pw_name) != "root") what.names.emplace_back(user->pw_name);
    what.folders.emplace_back(user->pw_dir);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr) what.folders.emplace_back(home);
  if (getcwd(buffer, sizeof(buffer)) != nullptr) what.folders.emplace_back(buffer);
  return what;
}

std::string WithoutPrivate(std::string contents, const Private& what) {
  if (contents.contains('\0')) return MaskFolders(std::move(contents), what.folders);
  return HideNames(ShortenPaths(contents), what.names);
}

bool LooksSecret(std::string_view name) {
  constexpr std::string_view kWords[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return name.contains(word); });
}

// ---- Processes

struct Ran {
  std::string output;
  int status = 0;  // as DescribeEnd takes it
};

// Runs a program. Its standard error, or instead its standard output, is kept; `show` passes it on.
Ran RunProgram(const std::vector<std::string>& words, bool keep_output, bool show) {
  int ends[2];
  if (pipe(ends) != 0) return {"", kChildStopped};
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    dup2(ends[1], keep_output ? STDOUT_FILENO : STDERR_FILENO);
    if (int nowhere = keep_output ? open("/dev/null", O_WRONLY) : -1; nowhere >= 0) {
      dup2(nowhere, STDERR_FILENO);
    }
    close(ends[0]);
    close(ends[1]);
    execvp(argv[0], argv.data());
    std::fprintf(stderr, "weft bug-report: cannot run %s\n", argv[0]);
    _exit(127);
  }
  close(ends[1]);
  Ran ran;
  char buffer[4096];
  for (ssize_t n; child > 0 && (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    std::string_view text(buffer, static_cast<size_t>(n));
    if (show) std::fwrite(text.data(), 1, text.size(), stderr);
    ran.output += text;
    if (ran.output.size() > 2 * kMostOutput) ran.output.erase(0, ran.output.size() - kMostOutput);
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return {ran.output, kChildStopped};
  ran.status = WIFSIGNALED(status) ? kChildSignal + WTERMSIG(status) : WEXITSTATUS(status);
  return ran;
}

// ---- report.txt

// The interpreter beside this command, where both lie in one environment; else that of the shell.
std::string FindPython() {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
  std::string beside(self, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  std::vector<std::string> places = {beside.substr(0, beside.rfind('/') + 1) + "python"};
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr) {
    places.push_back(StrCat(active, "/bin/python"));
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  const char* path = std::getenv("PATH");
  for (std::string_view left = path == nullptr ? "" : path; !left.empty();) {
    std::string_view folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(folder.size() + 1, left.size()));
    for (std::string_view name : {"/python", "/python3"}) {
      if (std::string full = StrCat(folder, name); access(full.c_str(), X_OK) == 0) return full;
    }
  }
  return "python3";
}

// Without importing anything that could be what is broken.
constexpr std::string_view kAskPython = R"(
import importlib.metadata as m, platform, sys
print("Python", platform.python_version(), platform.python_implementation())
for name in ("jax", "jaxlib", "weft", "numpy", "scipy", "ml_dtypes", "flax", "equinox", "optax"):
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        if name in ("jax", "jaxlib", "weft", "numpy"):
            print(name, "not installed")
)";

// Of the interpreter that the command names, if it does.
std::string AboutPython(const std::vector<std::string>& command) {
  std::string python = FindPython();
  if (!command.empty()) {
    std::string_view name = std::string_view(command[0]).substr(command[0].rfind('/') + 1);
    if (name.starts_with("python")) python = command[0];
  }
  Ran ran = RunProgram({python, "-c", std::string(kAskPython)}, true, false);
  return ran.output.empty() ? "no Python found\n" : ran.output;
}

std::string AboutSystem() {
  utsname name{};
  uname(&name);
  std::string system = "unknown";
  if (Result<std::string> release = ReadFile("/etc/os-release", 1 << 16)) {
    constexpr std::string_view kKey = "PRETTY_NAME=\"";
    if (size_t at = release->find(kKey); at != release->npos) {
      size_t begin = at + kKey.size();
      system = release->substr(begin, release->find('"', begin) - begin);
    }
  }
  return StrCat(system, "\n", name.sysname, " ", name.release, " ", name.machine, ", glibc ",
                gnu_get_libc_version(), "\n");
}

// Those of Weft, JAX and XLA; no others.
std::string AboutVariables() {
  std::map<std::string, std::string> shown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    size_t equals = std::min(text.find('='), text.size());
    std::string_view name = text.substr(0, equals);
    bool ours = name.starts_with("WEFT_") || name.starts_with("JAX_") || name.starts_with("XLA_");
    if (!ours) continue;
    std::string_view value = text.substr(std::min(equals + 1, text.size()));
    shown.emplace(name, LooksSecret(name) ? "(hidden)" : ShortenPaths(value));
  }
  std::string out;
  for (const auto& [name, value] : shown) StrAppend(out, name, "=", value, "\n");
  return out.empty() ? "none\n" : out;
}

// ---- Files

struct BugReport {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // a phrase on each of them
  std::vector<std::string> left_out;

  void Add(std::string name, std::string contents, std::string what) {
    files.push_back({std::move(name), std::move(contents)});
    about.push_back(std::move(what));
  }
};

struct DumpRequest {
  bool data = false;    // arrays too
  bool inputs = false;  // of what WEFT_DUMP writes, what the rest can be made from
};

bool IsData(std::string_view name) {
  return name.ends_with(".npy") || name.ends_with(".npz");
}
// Programs as they came, crashes and faults.
bool IsInput(std::string_view path, std::string_view name) {
  return name == "0000.input.hlo" || name == "REPRO" || name.starts_with("crash-") ||
         path.contains("fault.");
}

// Files below a path, the newest folders first: their names begin with a number.
void ListFiles(const std::string& path, int depth, std::vector<std::string>& to) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return;
  if (S_ISREG(info.st_mode)) to.push_back(path);
  if (!S_ISDIR(info.st_mode) || depth == 0) return;
  std::vector<std::string> names;
  if (DIR* folder = opendir(path.c_str()); folder != nullptr) {
    while (const dirent* entry = readdir(folder)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    closedir(folder);
  }
  std::sort(names.rbegin(), names.rend());
  for (const std::string& name : names) ListFiles(StrCat(path, "/", name), depth - 1, to);
}

void AddDump(const std::string& path, const DumpRequest& request, const Private& what,
             BugReport& report) {
  std::vector<std::string> files;
  ListFiles(path, kMostDepth, files);
  size_t base = path.find_last_not_of('/');
  base = path.rfind('/', base == path.npos ? 0 : base);
  base = base == path.npos ? 0 : base + 1;
  if (request.inputs) base = path.size() + 1;  // the folder's own name says nothing
  int64_t total = 0;
  size_t beyond = 0;
  for (const std::string& file : files) {
    std::string_view name = std::string_view(file).substr(file.rfind('/') + 1);
    std::string inside = StrCat("dump/", std::string_view(file).substr(base));
    if (request.inputs && !IsInput(file, name)) continue;
    if (IsData(name) && !request.data) {
      report.left_out.push_back(StrCat(inside, ": an array (--data puts it in)"));
      continue;
    }
    Result<std::string> contents = ReadFile(file, kMostFile, kMostFile);
    if (!contents || total + static_cast<int64_t>(contents->size()) > kMostDump) {
      ++beyond;
      continue;
    }
    total += static_cast<int64_t>(contents->size());
    report.Add(inside, WithoutPrivate(std::move(*contents), what), "of the dump");
  }
  if (beyond > 0) {
    report.left_out.push_back(StrCat(beyond, " files: too large or not readable"));
  }
}

// ---- The command

// The program and its first argument that is a file: others may be anything.
std::string ShowCommand(const std::vector<std::string>& words) {
  std::string out = ShortenPaths(words[0]);
  size_t shown = 1;
  if (words.size() > 1 && access(words[1].c_str(), F_OK) == 0) {
    StrAppend(out, " ", ShortenPaths(words[1]));
    ++shown;
  }
  if (words.size() > shown) StrAppend(out, " (and ", words.size() - shown, " arguments)");
  return out;
}

void RemoveTree(const std::string& path) {
  std::vector<std::string> words = {"rm", "-rf", "--", path};
  RunProgram(words, true, false);
}

// Runs it with dumps and lines about compilation, and keeps what it wrote. Returns a line on it.
std::string RunAndKeep(const std::vector<std::string>& words, const DumpRequest& request,
                       const Private& what, BugReport& report) {
  const char* temporary = std::getenv("TMPDIR");
  std::string folder =
      StrCat(temporary == nullptr ? P_tmpdir : temporary, "/weft-bug-report-XXXXXX");
  std::string dump = TheEnvironment().dump;
  const bool made = dump.empty() && mkdtemp(folder.data()) != nullptr;
  if (made) {
    dump = folder;
    setenv("WEFT_DUMP", folder.c_str(), 1);
  }
  const bool quiet = std::getenv("WEFT_DEBUG") == nullptr;
  if (quiet) setenv("WEFT_DEBUG", "1", 1);
  Ran ran = RunProgram(words, false, true);
  if (made) unsetenv("WEFT_DUMP");
  if (quiet) unsetenv("WEFT_DEBUG");
  if (ran.output.size() > kMostOutput) ran.output.erase(0, ran.output.size() - kMostOutput);
  report.Add("stderr.txt", WithoutPrivate(std::move(ran.output), what),
             "what the command wrote to standard error");
  AddDump(dump, {.data = request.data, .inputs = true}, what, report);
  if (made) RemoveTree(folder);
  return StrCat(ShowCommand(words), ": ", DescribeEnd(ran.status, 0), "\n");
}

std::string DefaultName(std::time_t now) {
  std::tm parts{};
  char text[64];
  if (localtime_r(&now, &parts) == nullptr) return "weft-bug-report.tar.gz";
  std::strftime(text, sizeof(text), "weft-bug-report-%Y%m%d-%H%M%S.tar.gz", &parts);
  return text;
}

void ShowContents(const BugReport& report) {
  std::printf("what goes in:\n");
  size_t width = 0;
  for (const ArchiveFile& file : report.files) width = std::max(width, file.name.size());
  for (size_t i = 0; i < report.files.size(); ++i) {
    std::printf("  %-*s %10s  %s\n", static_cast<int>(width), report.files[i].name.c_str(),
                ShowBytes(static_cast<int64_t>(report.files[i].contents.size())).c_str(),
                report.about[i].c_str());
  }
  if (!report.left_out.empty()) std::printf("what is left out:\n");
  for (const std::string& line : report.left_out) std::printf("  %s\n", line.c_str());
  std::printf(
      "not in: other variables of the environment, your sources, folders, user and host name\n");
  std::fflush(stdout);
}

Result<int> RunBugReport(Args args) {
  std::time_t now = std::time(nullptr);
  std::string name = args.Value("-o").value_or(DefaultName(now));
  const bool list = args.Flag("--list");
  const DumpRequest request{.data = args.Flag("--data")};
  std::vector<std::string> words = TRY(args.Finish(0));
  const Private what = WhatIsPrivate();
  BugReport report;
  std::string text = VersionLine(), command;
  // One word that is there and does not run is a dump.
  struct stat info{};
  bool is_dump = words.size() == 1 && stat(words[0].c_str(), &info) == 0 &&
                 (S_ISDIR(info.st_mode) || access(words[0].c_str(), X_OK) != 0);
  if (is_dump) {
    AddDump(words[0], request, what, report);
  } else if (!words.empty()) {
    command = RunAndKeep(words, request, what, report);
  }
  StrAppend(text, "\n[system]\n", AboutSystem(), "\n[python]\n", AboutPython(words),
            "\n[machine]\n", DescribeMachine(), "\n[variables]\n", AboutVariables());
  if (!command.empty()) StrAppend(text, "\n[command]\n", command);
  report.files.insert(report.files.begin(), {"report.txt", WithoutPrivate(text, what)});
  report.about.insert(report.about.begin(), "versions, machine, variables of Weft, JAX and XLA");
  ShowContents(report);
  if (list) return kOk;
  std::string archive = MakeTarGz(report.files, now);
  if (Status written = WriteFile(name, archive); !written) {
    std::fprintf(stderr, "weft bug-report: %s\n", written.error().ToString().c_str());
    return kFailed;
  }
  std::printf("written: %s, %s; nothing was sent to anybody\n", name.c_str(),
              ShowBytes(static_cast<int64_t>(archive.size())).c_str());
  std::printf("  hint: read it before you attach it: tar -xzOf %s report.txt\n", name.c_str());
  return kOk;
}

}  // namespace

constexpr Command kBugReportCommand = {
    "bug-report", "collects what a report of a bug needs",
    R"(usage: weft bug-report [-o FILE.tar.gz] [--list] [--data] [COMMAND...|DUMP]

Puts into one file what others need to look into a problem, lists it, and says where it is. Nothing
is sent anywhere. In it: the version, the system, the machine (`weft --machine`), the versions of
Python, JAX and NumPy, the variables WEFT_*, JAX_* and XLA_* with their values. Not in it: other
variables, sources, folders of paths, the names of user and machine.

A COMMAND is run with WEFT_DUMP and WEFT_DEBUG=1, and what it writes to standard error is put in, with
the programs that it compiled and the report of a crash; a command with flags goes behind `--`. A DUMP
is a file or folder that WEFT_DUMP, WEFT_CHECK or a crash left (weft-faults). Programs are shapes,
operations, file names with lines, and constants: look at them where these are secret.

  -o FILE    where to (default: weft-bug-report-DATE-TIME.tar.gz here)
  --list     lists what would go in and writes nothing
  --data     puts arrays of a dump (.npy) in too

examples:
  weft bug-report
  weft bug-report weft-faults/crash-4711.jit_step
  weft bug-report -o report.tar.gz -- python train.py --steps 10
)",
    RunBugReport};

}  // namespace weft::tools
