#include "base/npy.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file.h"

namespace weft {
namespace {

std::string NpyFile(std::string_view dict, std::string_view data, char version = 1) {
  std::string out = "\x93NUMPY";
  out.append(
      {version, '\0', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)});
  if (version > 1) out.append(2, '\0');
  return out.append(dict).append(data);
}

TEST(Npy, RoundTripOfEveryType) {
  for (int i = 1; i < static_cast<int>(DType::kToken); ++i) {
    DType t = static_cast<DType>(i);
    for (const Shape& shape :
         {Shape::Scalar(t), Shape(t, {5}), Shape(t, {2, 3}), Shape(t, {2, 0})}) {
      Literal l(shape);
      for (int64_t j = 0; j < l.size(); ++j) {
        IsInteger(t) ? l.SetInt(j, j - 2) : l.SetDouble(j, static_cast<double>(j) + 1.5);
      }
      Result<std::string> bytes = FormatNpy(l);
      ASSERT_TRUE(bytes.has_value());
      Result<Literal> back = ParseNpy(*bytes, t);
      ASSERT_TRUE(back.has_value()) << Name(t) << back.error().ToString();
      EXPECT_TRUE(*back == l) << l.ToStringWithShape() << " " << back->ToStringWithShape();
      EXPECT_EQ((bytes->size() - static_cast<size_t>(l.byte_size())) % 64, 0u);
      if (!NumpyLacks(t)) {
        EXPECT_TRUE(*ParseNpy(*bytes) == l) << Name(t);
      }
    }
  }
}

TEST(Npy, Files) {
  std::string path = testing::TempDir() + "weft_npy_test.npy";
  Literal l(Shape(DType::kBF16, {2, 2}));
  l.SetDouble(3, 1.5);
  ASSERT_TRUE(WriteNpy(path, l).has_value());
  EXPECT_TRUE(*ReadNpyAs(path, l.shape()) == l);
  EXPECT_EQ(ReadNpy(path)->dtype(), DType::kU16);
  EXPECT_EQ(ReadNpyAs(path, Shape(DType::kBF16, {4})).error().message(),
            path + ": npy: the array is bf16[2,2], not bf16[4]");
  EXPECT_EQ(ReadNpy(path, DType::kF32).error().message(),
            path + ": npy: the elements are '<u2', not f32");
  EXPECT_EQ(ReadNpy(path + ".none").error().code(), Code::kNotFound);
  std::remove(path.c_str());
}

TEST(Npy, FortranOrder) {
  std::string data("\0\1\2\3\4\5", 6);
  std::string file = NpyFile("{'descr':'|u1', 'shape':(2,3), 'fortran_order':True}", data);
  EXPECT_EQ(ParseNpy(file)->ToString(), "{ { 0, 2, 4 }, { 1, 3, 5 } }");
  file = NpyFile("{'descr': '|i1', 'fortran_order': True, 'shape': (1L, 2, 3), }\n", data, 2);
  EXPECT_EQ(ParseNpy(file)->ToString(), "{ { { 0, 2, 4 }, { 1, 3, 5 } } }");
}

TEST(Npy, TypesNumpyLacks) {
  std::string file = NpyFile("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }",
                             std::string_view("\xc0\x3f", 2), 3);
  EXPECT_EQ(ParseNpy(file, DType::kBF16)->ToString(), "{1.5}");
  EXPECT_EQ(ParseNpy(file).error().message(),
            "npy: what type the elements '<V2' have is not known");
  EXPECT_FALSE(ParseNpy(file, DType::kF8E5M2).has_value());
  file = NpyFile("{'descr': 'bfloat16', 'fortran_order': False, 'shape': (), }",
                 std::string_view("\xc0\x3f", 2));
  EXPECT_EQ(ParseNpy(file, DType::kBF16)->ToString(), "1.5");
  file = NpyFile("{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }", "\xff\x0f");
  EXPECT_EQ(ParseNpy(file, DType::kS4)->ToString(), "{-1, -1}");
  EXPECT_EQ(ParseNpy(file, DType::kU4).error().message(), "npy: element 0 is 255, which is no u4");
  EXPECT_EQ(ParseNpy(file, DType::kPred)->ToString(), "{true, true}");
}

TEST(Npy, TypesFile) {
  std::string text;
  AppendNpyTypeLine(text, 0, Shape(DType::kF8E4M3FN, {256}));
  AppendNpyTypeLine(text, 2, Shape::Scalar(DType::kBF16));
  EXPECT_EQ(text, "0 f8e4m3fn[256]\n2 bf16[]\n");
  auto types = ParseNpyTypes(text);
  ASSERT_TRUE(types.has_value());
  ASSERT_EQ(types->size(), 2u);
  EXPECT_EQ((*types)[1].first, 2);
  EXPECT_EQ((*types)[0].second.ToString(), "f8e4m3fn[256]");
  for (const char* bad : {"0", "0 f32", "x f32[]", "0 f31[]", "0 f32[-1]", "0 f32[1", "-1 f32[]",
                          "0 f32[a]", "0 token[]", "[0 f32]"}) {
    EXPECT_FALSE(ParseNpyTypes(bad).has_value()) << bad;
  }
}

TEST(Npy, Errors) {
  auto message = [](std::string_view dict, std::string_view data) {
    return ParseNpy(NpyFile(dict, data)).error().message();
  };
  EXPECT_EQ(ParseNpy("").error().message(), "npy: not an .npy file");
  EXPECT_EQ(message("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "1234"),
            "npy: f32[3] does not match the 4 bytes after the header");
  EXPECT_EQ(message("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "1234"),
            "npy: big-endian elements ('>f4') are not supported");
  EXPECT_EQ(message("{'descr': '<f4', 'fortran_order': False}", "1234"),
            "npy: the header lacks descr, fortran_order or shape");
  EXPECT_EQ(message("{'descr': '<f4', 'shape': (4611686018427387904,4)}", ""),
            "npy: the header lacks descr, fortran_order or shape");
  EXPECT_EQ(
      message("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", ""),
      "npy: f32[9223372036854775807] does not match the 0 bytes after the header");
  EXPECT_EQ(message("{'descr': '|O', 'fortran_order': False, 'shape': ()}", ""),
            "npy: the elements are Python objects ('|O'), no numbers");
  EXPECT_EQ(message("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ""),
            "npy: structured types are not supported");
}

// Every truncation and many corrupted files: an error or a value, never a crash.
TEST(Npy, Corrupted) {
  Literal l(Shape(DType::kF32, {3, 4}));
  std::string good = *FormatNpy(l);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(ParseNpy(good.substr(0, n)).has_value());
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int j = 0; j < 3; ++j) bad[random() % 90] = static_cast<char>(random());
    if (Result<Literal> r = ParseNpy(bad, i % 2 ? DType::kInvalid : DType::kS4)) r->ToString();
  }
}

}  // namespace
}  // namespace weft
