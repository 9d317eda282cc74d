// weft parse, weft verify: many files in one process.
#include "check_files.h"
#include "commands.h"
#include "hlo/text.h"
#include "input.h"

namespace weft::tools {
namespace {

std::string PrintInput(const Input& input) {
  if (const auto* program = std::get_if<program::Program>(&input)) {
    return program::Print(*program);
  }
  return hlo::PrintModule(*std::get<0>(input));
}

// print -> parse -> print must give the same text.
Status CheckRoundtrip(const Input& input) {
  std::string once = PrintInput(input);
  Result<Input> again = ParseInput(once);
  if (!again) {
    again.error().Prefix("the printed text does not parse: ");
    return std::unexpected(again.error());
  }
  std::string twice = PrintInput(*again);
  if (once == twice) return {};
  size_t at = static_cast<size_t>(
      std::mismatch(once.begin(), once.end(), twice.begin(), twice.end()).first - once.begin());
  size_t start = at == 0 ? 0 : once.rfind('\n', at - 1) + 1;
  auto line_at = [&](const std::string& s) {
    return start < s.size() ? s.substr(start, std::min(s.find('\n', start) - start, size_t{300}))
                            : std::string("(end)");
  };
  Error error(Code::kInternal, "printing, parsing and printing again changes the text");
  error.Note("first:  " + line_at(once)).Note("second: " + line_at(twice)).At(1, 1, "");
  return std::unexpected(error);
}

struct CheckMode {
  bool roundtrip = false, verify = false;
};

std::string CheckFile(const std::string& path, CheckMode mode) {
  auto check = [&]() -> Status {
    std::string content = TRY(ReadInput(path));
    Input input = TRY(ParseInput(content));
    if (mode.verify) TRY(VerifyInput(input, content));
    if (mode.roundtrip) TRY(CheckRoundtrip(input));
    return {};
  };
  Status status = check();
  return status ? "" : status.error().At(1, 1, "").ToString(path == "-" ? "<stdin>" : path);
}

Result<int> CheckMany(Args args, bool verify) {
  CheckMode mode{.roundtrip = args.Flag("--roundtrip"), .verify = verify};
  std::vector<std::string> lists = args.Values("--files-from");
  std::vector<std::string> files = TRY(args.Finish(lists.empty() ? 1 : 0));
  for (const std::string& list : lists) {
    Result<std::vector<std::string>> more = ReadList(list);
    if (!more) {
      Report(more.error(), list);
      return kFailed;
    }
    files.insert(files.end(), more->begin(), more->end());
  }
  return PrintSummary(CheckAll(static_cast<int64_t>(files.size()), [&](int64_t i) {
    return CheckFile(files[static_cast<size_t>(i)], mode);
  }));
}

}  // namespace

constexpr Command kParseCommand = {"parse", "reads files and reports what does not parse",
                                   R"(usage: weft parse [--roundtrip] [--files-from LIST]... FILE...

Parses each file and reports errors as FILE:LINE:COLUMN: error: ..., then "N passed, M failed".
Only the text is looked at; `weft verify` also applies the rules that modules keep.

  --roundtrip        also print, parse and print again: the text must not change
  --files-from LIST  check the files named in LIST, one a line (`-`: standard input)

examples:
  weft parse model.hlo
  weft parse --roundtrip test/hlo/*.hlo
  find . -name '*.hlo' | weft parse --files-from -
)",
                                   [](Args args) { return CheckMany(std::move(args), false); }};

constexpr Command kVerifyCommand = {
    "verify", "reads files and checks every rule",
    R"(usage: weft verify [--roundtrip] [--files-from LIST]... FILE...

Parses each file and checks shapes, operand counts, called computations, channels, schedules,
aliasing and all other rules. Reports as `weft parse` does.

  --roundtrip        also print, parse and print again: the text must not change
  --files-from LIST  check the files named in LIST, one a line (`-`: standard input)

examples:
  weft verify model.hlo
  weft verify --files-from list.txt
)",
    [](Args args) { return CheckMany(std::move(args), true); }};

}  // namespace weft::tools
