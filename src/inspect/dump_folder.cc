#include "inspect/dump_folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "base/log.h"
#include "base/npy.h"
#include "base/str.h"

namespace weft::inspect {
namespace {

constexpr int kMostFolders = 100'000;

std::string FourDigits(int number) {
  char text[16];
  std::snprintf(text, sizeof(text), "%04d", number);
  return text;
}

// Letters, digits and a few others; anything else would need quotes in a shell.
std::string FileName(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, 80)) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '-' || c == '.';
    out.push_back(plain ? c : '_');
  }
  return out.empty() ? "module" : out;
}

void MakeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0777);
  }
  mkdir(path.c_str(), 0777);
}

// One above the highest number that a name begins with.
int FirstFree(const std::string& directory) {
  int next = 0;
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return next;
  while (dirent* entry = readdir(dir)) {
    std::string_view name = entry->d_name;
    std::optional<int64_t> number = ParseInt(name.substr(0, name.find('.')));
    if (number && *number >= next && *number < kMostFolders) next = static_cast<int>(*number) + 1;
  }
  closedir(dir);
  return next;
}

}  // namespace

Result<DumpFolder> DumpFolder::Make(const std::string& directory, std::string_view name) {
  MakeFolders(directory);
  for (int number = FirstFree(directory); number < kMostFolders; ++number) {
    std::string path = StrCat(directory, "/", FourDigits(number), ".", FileName(name));
    if (mkdir(path.c_str(), 0777) == 0) return DumpFolder(std::move(path));
    if (errno != EEXIST) {
      return MakeError(Code::kPermissionDenied, "cannot make ", path, ": ", std::strerror(errno));
    }
  }
  return ResourceExhausted("more than ", kMostFolders, " folders in ", directory);
}

void DumpFolder::Write(std::string_view name, std::string_view text) const {
  if (Status written = WriteFile(StrCat(path_, "/", FileName(name)), text); !written) {
    LOG(warn) << "dump: " << written.error();
  }
}

void DumpFolder::WriteNumbered(std::string_view name, std::string_view text) {
  Write(StrCat(FourDigits(next_++), ".", name, ".hlo"), text);
}

std::string DumpFolder::WriteArguments(std::span<const Literal> leaves) const {
  std::string flags, types;
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::string file = StrCat("argument", i, ".npy");
    if (Status written = WriteNpy(StrCat(path_, "/", file), leaves[i]); !written) {
      LOG(warn) << "dump: " << written.error();
    }
    if (NumpyLacks(leaves[i].dtype())) {
      AppendNpyTypeLine(types, static_cast<int64_t>(i), leaves[i].shape());
    }
    StrAppend(flags, " --input ", file);
  }
  if (!types.empty()) Write("types.txt", types);
  return flags;
}

void DumpFolder::WriteRepro(std::string_view commands) const {
  Write("REPRO", StrCat(commands, "\n"));
}

void WriteOptimized(const std::string& directory, std::string_view name, std::string_view text,
                    std::string_view proto) {
  MakeFolders(directory);
  for (int number = 0; number < kMostFolders; ++number) {
    std::string path = StrCat(directory, "/module_", FourDigits(number), ".", FileName(name),
                              ".weft_after_optimizations");
    if (access((path + ".txt").c_str(), F_OK) == 0) continue;
    if (access((path + ".hlo.pb").c_str(), F_OK) == 0) continue;
    Status written;
    if (!text.empty()) written = WriteFile(path + ".txt", text);
    if (written && !proto.empty()) written = WriteFile(path + ".hlo.pb", proto);
    if (!written) {
      LOG(warn) << "dump: " << written.error();
    }
    return;
  }
}

}  // namespace weft::inspect
