// Command-line arguments, the same way for every sub-command. A command takes the flags it knows
// out of the list, then calls Finish, which gives what is left as positional arguments.
//
//   Args args(argv);
//   bool roundtrip = args.Flag("--roundtrip");
//   int64_t seed = args.Int("--seed", 0);
//   std::vector<std::string> files = TRY(args.Finish(1, 1));
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::tools {

// Exit statuses.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // bad input or a failed comparison
inline constexpr int kUsage = 2;   // wrong usage

class Args {
 public:
  explicit Args(std::span<const char* const> argv) : left_(argv.begin(), argv.end()) {}

  bool Flag(std::string_view name);                         // --name
  std::optional<std::string> Value(std::string_view name);  // --name V or --name=V, last one
  std::vector<std::string> Values(std::string_view name);   // all of them
  int64_t Int(std::string_view name, int64_t otherwise,     // a wrong number fails Finish
              int64_t min = std::numeric_limits<int64_t>::min(),
              int64_t max = std::numeric_limits<int64_t>::max());
  double Number(std::string_view name, double otherwise);  // finite, not negative

  // Positional arguments, `min` to `max` of them. `-` is one; after `--` everything is. An error
  // names the first flag that nobody took, and the one that was meant.
  Result<std::vector<std::string>> Finish(size_t min,
                                          size_t max = std::numeric_limits<size_t>::max());
  // All that nobody took, flags too: for another program.
  std::vector<std::string> TakeRest() { return std::move(left_); }

 private:
  std::vector<std::string> left_;
  std::vector<std::string> known_;  // flags that were asked for
  std::optional<Error> error_;
};

}  // namespace weft::tools
