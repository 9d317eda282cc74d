#include "serve/test_model.h"

#include <filesystem>

namespace weft::serve::testing {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "weft-serve-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TempFolder::~TempFolder() {
  std::filesystem::remove_all(path_);
}

void MakeFolder(const std::string& path) {
  std::filesystem::create_directories(path);
}

void RenameFile(const std::string& from, const std::string& to) {
  std::filesystem::rename(from, to);
}

void RemoveFolder(const std::string& path) {
  std::filesystem::remove_all(path);
}

}  // namespace weft::serve::testing
