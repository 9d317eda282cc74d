#include <string>

#include "gtest/gtest.h"
#include "hlo/import/import.h"
#include "hlo/text.h"

namespace weft::hlo {
namespace {

std::string Number(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string Field(uint32_t field, uint64_t value) {
  return Number(field << 3) + Number(value);
}
std::string Field(uint32_t field, const std::string& bytes) {
  return Number(field << 3 | 2) + Number(bytes.size()) + bytes;
}

std::string VectorProto(uint64_t size) {  // f32[size]{0}
  return Field(2, 11) + Field(3, size) + Field(5, Field(1, std::string(1, '\0')));
}
std::string ScalarProto() {
  return Field(2, 11);
}
std::string Instr(const std::string& name, const std::string& opcode, const std::string& shape,
                  uint64_t id, const std::string& more) {
  return Field(2, Field(1, name) + Field(2, opcode) + Field(3, shape) + Field(35, id) + more);
}

std::string SumModule() {
  std::string add = Field(1, std::string("add")) +
                    Instr("x", "parameter", ScalarProto(), 1, Field(9, 0)) +
                    Instr("y", "parameter", ScalarProto(), 2, Field(9, 1)) +
                    Instr("s", "add", ScalarProto(), 3, Field(36, Number(1) + Number(2))) +
                    Field(5, 10) + Field(6, 3);
  std::string two = Field(1, ScalarProto()) + Field(8, std::string("\0\0\0\x40", 4));
  std::string main = Field(1, std::string("main")) +
                     Instr("a", "parameter", VectorProto(4), 4, Field(9, 0)) +
                     Instr("two", "constant", ScalarProto(), 5, Field(8, two)) +
                     Instr("r", "reduce", ScalarProto(), 6,
                           Field(36, Number(4) + Number(5)) + Field(14, 0) + Field(38, 10)) +
                     Field(5, 11) + Field(6, 6);
  return Field(1, std::string("m")) + Field(2, std::string("main")) + Field(3, add) +
         Field(3, main) + Field(6, 11);
}

TEST(HloProtoTest, SameAsText) {
  auto module = ReadModule(SumModule());
  ASSERT_TRUE(module) << module.error().ToString();
  auto text = ReadModule(
      "HloModule m\n"
      "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
      "ENTRY main { a = f32[4]{0} parameter(0) two = f32[] constant(2)\n"
      "  ROOT r = f32[] reduce(a, two), dimensions={0}, to_apply=add }");
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_EQ(PrintModule(**module), PrintModule(**text));
}

TEST(HloProtoTest, Wrapped) {
  auto module = ReadModule(Field(1, SumModule()));
  ASSERT_TRUE(module) << module.error().ToString();
  EXPECT_EQ((*module)->name(), "m");
}

TEST(HloProtoTest, EveryPrefixIsAnswered) {
  std::string whole = SumModule();
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(ImportHloProto(std::string_view(whole).substr(0, i))) << i;
  }
}

TEST(HloProtoTest, Formats) {
  EXPECT_EQ(DetectFormat(SumModule()), FileFormat::kHloProto);
  EXPECT_EQ(DetectFormat("ML\xefR\x0dStableHLO"), FileFormat::kStableHloBytecode);
  EXPECT_EQ(DetectFormat("// c\nmodule @f {}"), FileFormat::kStableHloText);
  EXPECT_EQ(DetectFormat("#loc = loc(unknown)"), FileFormat::kStableHloText);
  EXPECT_EQ(DetectFormat("HloModule m"), FileFormat::kHloText);
  EXPECT_EQ(DetectFormat("module_1 { ROOT a = f32[] parameter(0) }"), FileFormat::kHloText);
}

}  // namespace
}  // namespace weft::hlo
