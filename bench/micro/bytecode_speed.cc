// How fast MLIR bytecode becomes a Tree: bytecode_speed [--print] FILE...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/file.h"
#include "hlo/import/readers.h"

namespace {

size_t CountOps(const weft::hlo::mlir::Operation& op) {
  size_t count = 1;
  for (const auto& region : op.regions) {
    for (const auto& block : region.blocks) {
      for (const auto* inner : block.operations) count += CountOps(*inner);
    }
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weft;
  bool print = argc > 1 && std::strcmp(argv[1], "--print") == 0;
  int failed = 0;
  for (int i = print ? 2 : 1; i < argc; ++i) {
    auto bytes = ReadFile(argv[i]);
    if (!bytes) {
      std::fprintf(stderr, "%s\n", bytes.error().ToString(argv[i]).c_str());
      return 1;
    }
    double best = 1e9;
    size_t ops = 0;
    for (int k = 0; k < (print ? 1 : 5); ++k) {
      std::string copy = *bytes;
      auto start = std::chrono::steady_clock::now();
      auto tree = hlo::mlir::ReadBytecode(std::move(copy));
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
      if (!tree) {
        std::fprintf(stderr, "%s\n", tree.error().ToString(argv[i]).c_str());
        ++failed;
        break;
      }
      ops = CountOps(*(*tree)->module);
      if (print) std::fputs(hlo::mlir::PrintTree(**tree).c_str(), stdout);
    }
    if (!print) {
      std::printf("%s: %zu bytes, %zu ops, %.3f ms, %.0f k ops/s, %.0f MB/s\n", argv[i],
                  bytes->size(), ops, best * 1e3, ops / best / 1e3, bytes->size() / best / 1e6);
    }
  }
  return failed > 0;
}
