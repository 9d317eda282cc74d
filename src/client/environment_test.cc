// The variables: what each takes, what is said of the rest.
#include "client/environment.h"

#include <gtest/gtest.h>

#include "base/nearest.h"

namespace weft::client {
namespace {

Result<Environment> Read(std::vector<const char*> entries) {
  entries.push_back(nullptr);
  return ReadEnvironment(entries.data());
}

std::string WrongValue(const char* entry) {
  Result<Environment> read = Read({entry});
  return read ? "" : read.error().ToString();
}

TEST(EnvironmentTest, Bytes) {
  const std::pair<const char*, int64_t> good[] = {{"1", 1},
                                                  {"1048576", 1 << 20},
                                                  {"9007199254740993", 9007199254740993},
                                                  {"100b", 100},
                                                  {"1GB", 1'000'000'000},
                                                  {"8GiB", int64_t{8} << 30},
                                                  {"8 gib", int64_t{8} << 30},
                                                  {"512MB", 512'000'000},
                                                  {"512mib", 512 << 20},
                                                  {"1.5g", int64_t{3} << 29},
                                                  {"2K", 2048},
                                                  {"0.5k", 512},
                                                  {"1TB", 1'000'000'000'000},
                                                  {"1tib", int64_t{1} << 40}};
  for (const auto& [text, bytes] : good) {
    Result<int64_t> read = ParseBytes(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, bytes) << text;
  }
  for (const char* text : {"", "0", "-1", "-1GB", "GB", "1.5", "1XB", "1 giga", "1GiBs", "1.2.3g",
                           "8e9", "0x10", "9999999TB", "inf", "nan", "1i", "0.1k0"}) {
    EXPECT_FALSE(ParseBytes(text)) << text;
  }
}

TEST(EnvironmentTest, GoodValues) {
  Result<Environment> read =
      Read({"WEFT_CACHE=/some/where", "WEFT_CHECK=1", "WEFT_CPU_DEVICES=8", "WEFT_DEBUG=1,step=2",
            "WEFT_DUMP=d", "WEFT_MEMORY_LIMIT=2GiB", "WEFT_OPTIONS=cpu.native=false",
            "WEFT_REPORT=r.html", "WEFT_THREADS=3", "HOME=/home/me", "PATH=/bin"});
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->cache, "/some/where");
  EXPECT_TRUE(read->cache_chosen);
  EXPECT_TRUE(read->check);
  EXPECT_EQ(read->cpu_devices, 8);
  EXPECT_EQ(read->debug, "1,step=2");
  EXPECT_EQ(read->dump, "d");
  EXPECT_EQ(read->report, "r.html");
  EXPECT_EQ(read->memory_limit, int64_t{2} << 30);
  EXPECT_EQ(read->options, "cpu.native=false");
  EXPECT_EQ(read->threads, 3);
  EXPECT_EQ(Read({"WEFT_CACHE=0", "HOME=/home/me"})->cache, "");
}

TEST(EnvironmentTest, Defaults) {
  Result<Environment> read = Read({"WEFT_THREADS=", "WEFT_DEBUG=", "HOME=/home/me"});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->threads, 0);
  EXPECT_EQ(read->memory_limit, 0);
  EXPECT_EQ(read->cache, "/home/me/.cache/weft");
  EXPECT_FALSE(read->cache_chosen);
  EXPECT_EQ(Read({"XDG_CACHE_HOME=/c", "HOME=/home/me"})->cache, "/c/weft");
  EXPECT_EQ(Read({})->cache, "");
}

// Every variable refuses something, and says its name, the value and what it takes.
TEST(EnvironmentTest, WrongValues) {
  for (const char* entry :
       {"WEFT_AS=gpu", "WEFT_CACHE=off", "WEFT_CACHE=True", "WEFT_CHECK=yes", "WEFT_CPU_DEVICES=0",
        "WEFT_CPU_DEVICES=1025", "WEFT_CPU_DEVICES=two", "WEFT_CRASH_REPORT=no",
        "WEFT_DEBUG=verbose", "WEFT_DEBUG=step", "WEFT_DEBUG=10", "WEFT_DEFAULT=weft",
        "WEFT_DUMP=1", "WEFT_MEMORY_LIMIT=1XB", "WEFT_MEMORY_LIMIT=-5", "WEFT_THREADS=none",
        "WEFT_TRACE=1", "WEFT_THREADS=0", "WEFT_THREADS=1.5"}) {
    std::string text = entry, error = WrongValue(entry);
    std::string name = text.substr(0, text.find('=')), value = text.substr(text.find('=') + 1);
    EXPECT_TRUE(error.starts_with(StrCat(name, ": wrong value: ", value, ": expected "))) << error;
    for (const Variable& variable : Variables()) {
      if (variable.name == name) EXPECT_TRUE(error.contains(variable.takes)) << error;
    }
    EXPECT_TRUE(error.contains("weft help variables")) << error;
  }
  EXPECT_TRUE(WrongValue("WEFT_DEBUG=stpe=2").contains("unknown tag: stpe; did you mean `step`?"));
  std::string option = WrongValue("WEFT_OPTIONS=cpu.nativ=false");
  EXPECT_TRUE(option.contains("unknown option: cpu.nativ; did you mean `cpu.native`?")) << option;
  EXPECT_TRUE(WrongValue("WEFT_OPTIONS=cpu.native=maybe").contains("expected true or false"));
  EXPECT_TRUE(WrongValue("WEFT_OPTIONS=pipeline.disable=fues").contains("unknown pass: fues"));
}

TEST(EnvironmentTest, UnknownNames) {
  const char* entries[] = {"WEFT_DEBGU=1", "WEFT_ZEBRA_CROSSING=1",
                           "WEFT_DEBUG=1", "WEFT_BUILD_DIR=x",
                           "PATH=/bin",    nullptr};
  std::vector<std::string> unknown = UnknownVariables(entries);
  ASSERT_EQ(unknown.size(), 2u);
  EXPECT_EQ(unknown[0], "no such variable: WEFT_DEBGU; did you mean `WEFT_DEBUG`?");
  EXPECT_EQ(unknown[1], "no such variable: WEFT_ZEBRA_CROSSING; `weft help variables` lists them");
}

TEST(EnvironmentTest, TheTable) {
  for (size_t i = 0; i < Variables().size(); ++i) {
    const Variable& variable = Variables()[i];
    if (i > 0) EXPECT_LT(Variables()[i - 1].name, variable.name);
    EXPECT_FALSE(variable.takes.empty() || variable.otherwise.empty());
    EXPECT_TRUE(variable.doc.ends_with('.')) << variable.name;
  }
  for (const compiler::OptionInfo& option : compiler::ListOptions()) {
    EXPECT_TRUE(option.doc.ends_with('.')) << option.key;
    EXPECT_FALSE(option.takes.empty()) << option.key;
  }
}

TEST(NearestTest, Words) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", "abc"), 0);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("debgu", "debug"), 1);  // neighbours swapped
  const std::string_view words[] = {"parse", "print", "program"};
  EXPECT_EQ(Nearest("prase", words), "parse");
  EXPECT_EQ(Nearest("prints", words), "print");
  EXPECT_EQ(Nearest("zebra", words), "");
  EXPECT_EQ(Nearest(std::string(10'000, 'a'), words), "");
}

}  // namespace
}  // namespace weft::client
