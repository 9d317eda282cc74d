#include "gpu/libraries/dynamic_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <utility>

#include "base/str.h"

namespace weft::gpu {
namespace {

constexpr std::string_view kUsualFolders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                              "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/lib",
                                              "/usr/local/cuda-*/targets/*/lib"};

// Files that a pattern names, the last in order first: newer versions before older ones.
std::vector<std::string> FilesLike(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::reverse(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<std::unique_ptr<DynamicLibrary>> DynamicLibrary::Open(
    std::span<const std::string_view> names, std::span<const std::string> folders) {
  auto open = [](std::string path) -> std::unique_ptr<DynamicLibrary> {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    return std::unique_ptr<DynamicLibrary>(new DynamicLibrary(handle, std::move(path)));
  };
  for (std::string_view name : names) {
    if (auto library = open(std::string(name))) return library;
  }
  std::vector<std::string> all(std::begin(kUsualFolders), std::end(kUsualFolders));
  all.insert(all.end(), folders.begin(), folders.end());
  for (const std::string& folder : all) {
    for (std::string_view name : names) {
      for (std::string& path : FilesLike(StrCat(folder, "/", name))) {
        if (auto library = open(std::move(path))) return library;
      }
    }
  }
  return NotFound(names[0], " was not found");
}

DynamicLibrary::~DynamicLibrary() {
  dlclose(handle_);
}

void* DynamicLibrary::Find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace weft::gpu
