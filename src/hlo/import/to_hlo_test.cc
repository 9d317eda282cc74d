#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "hlo/evaluate.h"
#include "hlo/import/import.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

// Real payloads, where they are at hand.
std::vector<std::string> PayloadFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"lowered", "compile_payloads"}) {
    std::error_code error;
    std::filesystem::path root = std::filesystem::path("../shared/pjrt/artifacts") / folder;
    for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
      std::string name = entry.path().filename().string();
      if (name.starts_with("b_") || name.starts_with("t_") || name.starts_with("prog_")) {
        files.push_back(entry.path().string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(ToHlo, ImportsPayloads) {
  std::vector<std::string> files = PayloadFiles();
  if (files.empty()) GTEST_SKIP() << "../shared/pjrt is not here";
  EXPECT_EQ(files.size(), 300u);
  for (const std::string& file : files) {
    Result<std::string> contents = ReadFile(file);
    ASSERT_TRUE(contents.has_value());
    auto module = ImportStableHlo(std::move(*contents));
    EXPECT_TRUE(module.has_value()) << module.error().ToString(file);
    if (!module) continue;
    std::string text = PrintModule(**module);
    auto again = ParseModule(text);
    EXPECT_TRUE(again.has_value()) << again.error().ToString(file);
    if (again) EXPECT_EQ(text, PrintModule(**again)) << file;
  }
}

}  // namespace
}  // namespace weft::hlo
