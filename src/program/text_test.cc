// Everything under test/program: valid programs read, verify and print to a fixed point; those in
// error/ fail on the line of their `// error: message` comment.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "program/interpret.h"
#include "program/program.h"

namespace weft::program {
namespace {

std::vector<std::filesystem::path> ProgramFiles(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".program") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ProgramText, ValidProgramsRoundTrip) {
  auto files = ProgramFiles("test/program");
  ASSERT_GE(files.size(), 8u) << "run from the root of the repository";
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    std::string text = ReadText(file);
    auto program = Parse(text);
    ASSERT_TRUE(program) << program.error().ToString(file.string());
    Status status = Verify(*program, text);
    ASSERT_TRUE(status) << status.error().ToString(file.string());
    std::string printed = Print(*program);
    auto again = Parse(printed);
    ASSERT_TRUE(again) << again.error().ToString(file.string()) << printed;
    EXPECT_EQ(Print(*again), printed);
    EXPECT_TRUE(Verify(*again, printed));
    // The files are written as the printer writes them, after their comment.
    size_t body = text.find("program ");
    while (body != 0 && text[body - 1] != '\n') body = text.find("program ", body + 1);
    EXPECT_EQ(printed, text.substr(body));
  }
}

TEST(ProgramText, WrongProgramsFailWhereTheySay) {
  auto files = ProgramFiles("test/program/error");
  ASSERT_GE(files.size(), 100u) << "run from the root of the repository";
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    std::string text = ReadText(file);
    constexpr std::string_view kMark = "// error: ";
    size_t mark = text.find(kMark);
    ASSERT_NE(mark, text.npos);
    size_t begin = mark + kMark.size();
    std::string message = text.substr(begin, text.find('\n', begin) - begin);
    int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + mark, '\n'));
    auto program = Parse(text);
    Status status = program ? Verify(*program, text) : Status(std::unexpected(program.error()));
    ASSERT_FALSE(status);
    std::string full = status.error().ToString(file.string());
    EXPECT_NE(status.error().message().find(message), std::string::npos) << full;
    // At the end of the text there is no line to stand on.
    if (message.find("end of text") == std::string::npos) {
      EXPECT_EQ(status.error().line(), line) << full;
    }
  }
}

// Whatever verifies runs, to the end or into a limit.
void RunBriefly(const Program& program) {
  int64_t bytes = 0;
  std::vector<Literal> arguments;
  for (const Buffer& buffer : program.buffers) {
    bytes = std::max(bytes, ByteSize(buffer).value_or(0));
    if (buffer.kind != BufferKind::kParameter || bytes > 1 << 16) continue;
    if (buffer.index >= static_cast<int64_t>(arguments.size())) arguments.resize(buffer.index + 1);
    arguments[buffer.index] = Literal(buffer.shape);
  }
  InterpretOptions options;
  options.max_instructions = 100000;
  options.max_bytes = 1 << 20;
  options.check_races = true;
  if (bytes <= 1 << 16) (void)Interpret(program, arguments, options).has_value();
}

// Cut and changed texts must end in an error or a program, nothing else.
TEST(ProgramText, DamagedTextsAreHandled) {
  uint32_t seed = 1;
  auto random = [&](size_t n) {
    seed = seed * 1664525 + 1013904223;
    return static_cast<size_t>(seed >> 8) % n;
  };
  for (const auto& file : ProgramFiles("test/program")) {
    const std::string text = ReadText(file);
    for (int i = 0; i < 300; ++i) {
      std::string damaged = text;
      for (size_t n = random(3) + 1; n > 0; --n) {
        size_t at = random(damaged.size()), length = std::min(random(12), damaged.size() - at);
        size_t from = random(text.size() - 12);
        damaged.replace(at, length, text.substr(from, random(12)));
      }
      auto program = Parse(damaged);
      if (!program) continue;
      if (Verify(*program, damaged)) RunBriefly(*program);
      std::string printed = Print(*program);
      auto again = Parse(printed);
      ASSERT_TRUE(again) << again.error().ToString(file.string()) << "\n" << printed;
      EXPECT_EQ(Print(*again), printed);
    }
  }
}

// Step names that are words of the grammar, and names that need quotes.
TEST(ProgramText, AwkwardNames) {
  Program program;
  program.name = "devices";
  for (std::string name : {"buffer", "", "read", "temp", "a b", "in", "x\"\n", "a..b", "1", "-"}) {
    if (name.empty()) continue;
    BufferId id = static_cast<BufferId>(program.buffers.size());
    Buffer buffer;
    buffer.name = name;
    buffer.shape = Shape(DType::kU8, {3});
    program.buffers.push_back(buffer);
    for (std::string step_name : {"stream", "source", "else", "do", "wait", "async", "copy",
                                  "groups", "channel", "pairs", "effects", "{", "steps", ""}) {
      Step step;
      step.op = FillStep{{std::byte{1}}};
      step.name = step_name;
      step.uses = {{Access::kWrite, {id, 0, 3}}};
      program.steps.push_back(step);
      step.op = SendStep{-3};
      step.uses = {{Access::kRead, {id, 1, 2}}};
      step.event = step_name.empty() ? "e" : step_name;
      program.steps.push_back(step);
      Step wait;
      wait.op = WaitStep{step.event};
      program.steps.push_back(wait);
    }
  }
  ASSERT_TRUE(Verify(program)) << Verify(program).error().ToString();
  std::string text = Print(program);
  auto again = Parse(text);
  ASSERT_TRUE(again) << again.error().ToString("text");
  EXPECT_EQ(Print(*again), text);
  ASSERT_EQ(again->steps.size(), program.steps.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    EXPECT_EQ(again->steps[i].name, program.steps[i].name);
  }
}

}  // namespace
}  // namespace weft::program
