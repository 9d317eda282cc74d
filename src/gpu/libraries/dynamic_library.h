// Shared libraries that are loaded when they are found, and their functions by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::gpu {

class DynamicLibrary {
 public:
  // Tries the names in order: where the dynamic linker looks, then under the CUDA toolkit's usual
  // folders, then in `folders`, which are patterns of the shell. NOT_FOUND: there is none.
  static Result<std::unique_ptr<DynamicLibrary>> Open(std::span<const std::string_view> names,
                                                      std::span<const std::string> folders);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  const std::string& path() const { return path_; }
  void* Find(const char* symbol) const;  // null: it has none

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

// Fills in `name` of an object from the library's `symbol`; notes what is missing.
#define WEFT_FIND_SYMBOL(symbol, name, parameters)                    \
  name = reinterpret_cast<decltype(name)>(library_->Find(#symbol));   \
  if (name == nullptr) {                                              \
    return NotFound(library_->path(), ": has no function ", #symbol); \
  }
#define WEFT_DECLARE_SYMBOL(symbol, name, parameters) int(*name) parameters = nullptr;

}  // namespace weft::gpu
