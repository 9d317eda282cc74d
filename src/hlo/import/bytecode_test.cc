#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "hlo/import/import.h"
#include "hlo/import/readers.h"
#include "hlo/import/vhlo_table.h"

namespace weft::hlo::mlir {
namespace {

// Writes the little bytecode the tests need. Numbers stay below 128: one byte each.
class Writer {
 public:
  Writer& Int(uint64_t value) {
    bytes_ += static_cast<char>(value << 1 | 1);
    return *this;
  }
  Writer& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Writer& Section(uint8_t id, const Writer& body) {
    bytes_ += static_cast<char>(id);
    // Nine-byte form, so that any length will do.
    bytes_ += '\0';
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(body.bytes_.size() >> (8 * i));
    bytes_ += body.bytes_;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A file with one module whose body is `ops`, on these strings, entries and properties.
struct TestFile {
  std::string producer = "StableHLO_v1.16.0";
  std::vector<std::string> strings = {"builtin", "vhlo", "sdy", "module"};
  std::vector<std::string> op_names;                               // of vhlo
  std::vector<std::pair<int, std::string>> attrs = {{0, "\x1f"}};  // dialect, bytes; 0: unknown loc
  std::vector<std::pair<int, std::string>> types;
  std::vector<std::string> properties;
  Writer ops;
  int op_count = 0, values = 0;

  std::string Bytes() const {
    std::vector<std::string> all = strings;
    for (const std::string& name : op_names) all.push_back(name);
    Writer string_section, dialects, data, offsets, ir, props, body;
    string_section.Int(all.size());
    for (size_t i = all.size(); i-- > 0;) string_section.Int(all[i].size() + 1);
    for (const std::string& s : all) string_section.Raw(s).Raw(std::string_view("", 1));
    dialects.Int(3).Int(0 << 1).Int(1 << 1).Int(2 << 1).Int(1 + op_names.size());
    dialects.Int(0).Int(1).Int(3 << 1 | 1);
    if (!op_names.empty()) dialects.Int(1).Int(op_names.size());
    for (size_t i = 0; i < op_names.size(); ++i) dialects.Int((strings.size() + i) << 1 | 1);
    offsets.Int(attrs.size()).Int(types.size());
    for (const auto* list : {&attrs, &types}) {
      for (const auto& [dialect, bytes] : *list) {
        offsets.Int(static_cast<uint64_t>(dialect)).Int(1).Int(bytes.size() << 1 | 1);
        data.Raw(bytes);
      }
    }
    body.Int(1).Int(static_cast<uint64_t>(values)).Int(static_cast<uint64_t>(op_count) << 1);
    body.Raw(ops.bytes());
    ir.Int(1 << 1).Int(0).Raw("\x10").Int(0).Int(1 << 1 | 1).Section(4, body);
    props.Int(properties.size());
    for (const std::string& blob : properties) props.Int(blob.size()).Raw(blob);
    Writer file;
    file.Raw(kBytecodeMagic).Int(6).Raw(producer).Raw(std::string_view("", 1));
    file.Section(0, string_section).Section(1, dialects).Section(2, data).Section(3, offsets);
    return file.Section(4, ir).Section(8, props).bytes();
  }
};

std::string Ints(std::initializer_list<uint64_t> values) {
  Writer w;
  for (uint64_t v : values) w.Int(v);
  return w.bytes();
}

std::string ErrorOf(const TestFile& file) {
  auto tree = ReadBytecode(file.Bytes());
  return tree ? "" : tree.error().message();
}

TEST(Bytecode, EmptyModule) {
  auto tree = ReadBytecode(TestFile().Bytes());
  ASSERT_TRUE(tree) << tree.error().ToString();
  EXPECT_EQ((*tree)->module->name, "builtin.module");
  EXPECT_EQ((*tree)->producer, "StableHLO_v1.16.0");
}

TEST(Bytecode, OldAndUnknownVersions) {
  TestFile file;
  file.producer = "StableHLO_v0.14.0";
  EXPECT_NE(ErrorOf(file).find("VHLO 0.14.0 is older than 0.15.0"), std::string::npos);
  file.producer = "StableHLO_v1.33.0";
  file.op_names = {"frobnicate_v3"};
  file.ops.Int(1).Raw(std::string_view("\0", 1)).Int(0);
  file.op_count = 1;
  EXPECT_NE(ErrorOf(file).find("vhlo.frobnicate_v3 is not known"), std::string::npos);
  EXPECT_NE(ErrorOf(file).find("StableHLO_v1.33.0"), std::string::npos);
}

// Every version of every operation reads; older ones get what the newest has.
TEST(Bytecode, EveryVersionOfEveryOperation) {
  for (const BytecodeOp& row : VhloOps()) {
    TestFile file;
    file.op_names = {StrCat(row.name, "_v", row.version)};
    file.strings.push_back("text");
    file.attrs.push_back({1, Ints({14, 4})});  // 1: "text"
    std::string blob;
    for (char c : StrCat(row.attrs, row.attrs.empty() ? "" : " ")) {
      if (c == ' ') blob += Ints({1});
    }
    file.properties = {blob};
    file.ops.Int(1).Raw("\x40").Int(0).Int(0);
    file.op_count = 1;
    auto tree = ReadBytecode(file.Bytes());
    ASSERT_TRUE(tree) << row.name << ": " << tree.error().ToString();
    const Operation& op = *(*tree)->module->regions[0].blocks[0].operations.at(0);
    EXPECT_EQ(op.name, row.name);
    if (row.name == "gather" || row.name == "dynamic_gather") {
      EXPECT_NE(op.Find("operand_batching_dims"), nullptr);
      EXPECT_NE(op.Find("start_indices_batching_dims"), nullptr);
    }
    if (row.name == "collective_broadcast") EXPECT_NE(op.Find("has_dynamic_root"), nullptr);
    if (row.name == "custom_call") EXPECT_NE(op.Find("result_tilings"), nullptr);
    if (row.name == "dynamic_conv") EXPECT_EQ(op.Find("padding"), nullptr);
    if (row.name == "call") EXPECT_EQ(op.Find("callee")->kind, Attr::Kind::kSymbol);
  }
}

// The discardable attributes of one op: {a = attribute `index`}.
Result<std::string> PrintAttr(TestFile file, uint64_t index) {
  file.op_names = {"create_token_v1"};
  uint64_t name = file.attrs.size();
  file.strings.push_back("a");
  file.attrs.push_back({0, Ints({2, file.strings.size() - 1})});
  file.attrs.push_back({0, Ints({1, 1, name, index})});
  file.ops.Int(1).Raw("\x01").Int(0).Int(name + 1);
  file.op_count = 1;
  auto tree = TRY(ReadBytecode(file.Bytes()));
  std::string out;
  AppendAttr(out, *tree->module->regions[0].blocks[0].operations.at(0)->attrs.at(0).value);
  return out;
}

TEST(Bytecode, Attributes) {
  TestFile file;
  file.types = {{1, Ints({0})},                         // 0: i1
                {1, Ints({14})},                        // 1: i64
                {1, Ints({20, 1, 3 << 1, 0})},          // 2: tensor<3xi1>
                {1, Ints({20, 2, 1 << 1, 2 << 1, 6})},  // 3: tensor<1x2xi4>
                {1, Ints({20, 1, 20 << 1, 0})},         // 4: tensor<20xi1>
                {1, Ints({16})},                        // 5: ui8
                {1, Ints({10})},                        // 6: i4
                {1, Ints({34})},                        // 7: tf32
                {1, Ints({33})},                        // 8: none
                {1, Ints({2})}};                        // 9: bf16
  auto add = [&](int dialect, std::string bytes) {
    file.attrs.push_back({dialect, std::move(bytes)});
    return file.attrs.size() - 1;
  };
  auto check = [&](int dialect, std::string bytes, std::string_view want) {
    size_t index = add(dialect, std::move(bytes));
    auto got = PrintAttr(file, index);
    ASSERT_TRUE(got) << got.error().ToString();
    EXPECT_EQ(*got, want);
  };
  check(1, Ints({15, 2, 1}) + "\x05", "dense<[true, false, true]> : tensor<3xi1>");
  check(1, Ints({15, 2, 1}) + "\xff", "dense<true> : tensor<3xi1>");
  check(1, Ints({15, 4, 1}) + std::string(1, '\0'), "dense<false> : tensor<20xi1>");
  check(1, Ints({15, 3, 2}) + "\x0f\x07", "dense<[[-1, 7]]> : tensor<1x2xi4>");
  check(1, Ints({9, 1, 5}), "-3 : i64");
  check(1, Ints({9, 5}) + "\xff", "255 : ui8");
  check(1, Ints({9, 6}) + "\x0f", "-1 : i4");
  check(1, Ints({17, 7}), "tf32");
  check(1, Ints({17, 8}), "none");
  check(1, Ints({2, 1}), "true");
  check(1, Ints({3, 5}), "#stablehlo<LT>");
  check(1, Ints({13, 2}), "#stablehlo<NORMAL>");
  check(2, Ints({3, 4, 8}), "#sub_axis_info<{pre_size = 2 : i64, size = 4 : i64}>");
  for (const std::string& bad : {Ints({13, 0}), Ints({3, 6}), Ints({99}), Ints({9, 1})}) {
    size_t index = add(1, bad);
    EXPECT_FALSE(PrintAttr(file, index));
  }
}

TEST(Bytecode, CyclesAndDepth) {
  TestFile file;
  size_t self = file.attrs.size();
  file.attrs.push_back({0, Ints({0, 1, self + 1})});
  file.attrs.push_back({0, Ints({0, 1, self})});
  auto cycle = PrintAttr(file, self);
  ASSERT_FALSE(cycle);
  EXPECT_NE(cycle.error().message().find("refers to itself"), std::string::npos);

  // [x, x] of [x, x] of ...: two bytes a level, and twice as large with each.
  TestFile bomb;
  bomb.attrs.push_back({0, Ints({0, 0})});
  for (size_t i = 1; i < 40; ++i) bomb.attrs.push_back({0, Ints({0, 2, i, i})});
  auto large = PrintAttr(bomb, 39);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message().find("too large"), std::string::npos);
}

TEST(Bytecode, ValueBeforeDefinition) {
  TestFile file;
  file.op_names = {"create_token_v1", "return_v1"};
  file.types = {{1, Ints({22})}};
  file.values = 1;
  file.ops.Int(2).Raw("\x04").Int(0).Int(1).Int(0);
  file.ops.Int(1).Raw("\x02").Int(0).Int(1).Int(0);
  file.op_count = 2;
  EXPECT_NE(ErrorOf(file).find("used before it is defined"), std::string::npos) << ErrorOf(file);
}

// What JAX sends, recorded: every file reads, and every beginning of one is answered.
TEST(Bytecode, RecordedPrograms) {
  std::filesystem::path root = "../shared/pjrt/artifacts";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no recorded programs at " << root;
  int files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(root)) {
    std::string name = item.path().filename();
    if (!name.starts_with("prog_") && !name.starts_with("b_")) continue;
    auto bytes = ReadFile(item.path().string());
    ASSERT_TRUE(bytes);
    auto tree = ReadBytecode(*bytes);
    ASSERT_TRUE(tree) << name << ": " << tree.error().ToString();
    ++files;
    size_t step = bytes->size() / 100 + 1;
    for (size_t size = 0; size < bytes->size(); size += step) {
      EXPECT_FALSE(ReadBytecode(bytes->substr(0, size))) << name << " cut to " << size;
    }
    for (size_t i = 0; i < bytes->size(); i += step) {
      std::string broken = *bytes;
      broken[i] = static_cast<char>(broken[i] ^ (1 << (i % 8)));
      (void)ReadBytecode(std::move(broken));
    }
  }
  EXPECT_GT(files, 100);
}

// All beginnings of all of them, through the whole import.
TEST(Bytecode, EveryPrefix) {
  std::filesystem::path root = "../shared/pjrt/artifacts";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no recorded programs at " << root;
  int64_t files = 0, prefixes = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(root)) {
    std::string name = item.path().filename();
    if (!name.starts_with("prog_") && !name.starts_with("b_")) continue;
    auto bytes = ReadFile(item.path().string());
    ASSERT_TRUE(bytes);
    for (size_t size = 0; size < bytes->size(); ++size) {
      EXPECT_FALSE(ReadModule(bytes->substr(0, size))) << name << " cut to " << size;
    }
    prefixes += static_cast<int64_t>(bytes->size());
    ++files;
  }
  std::printf("%lld prefixes of %lld files\n", static_cast<long long>(prefixes),
              static_cast<long long>(files));
}

}  // namespace
}  // namespace weft::hlo::mlir
