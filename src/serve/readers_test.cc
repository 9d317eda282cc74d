// What comes from files and from outside: good input is read, bad input is an error that says what
// is wrong, and nothing crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/npy.h"
#include "serve/export_blob.h"
#include "serve/json.h"
#include "serve/signature.h"
#include "serve/weights.h"

namespace weft::serve {
namespace {

std::string ErrorOf(const auto& result) {
  return result ? "no error" : result.error().ToString();
}

TEST(Json, ReadsNumbersTextsAndTokens) {
  JsonReader json(
      R"({"a": [1, -2.5e3, NaN, -Infinity, 9007199254740993], "b": "x\u00e9\n\ud83d\ude00", "c": null})");
  std::string key;
  ASSERT_TRUE(json.BeginObject());
  ASSERT_TRUE(*json.NextKey(key));
  ASSERT_TRUE(json.BeginArray());
  double expected[] = {1, -2500};
  for (double e : expected) {
    ASSERT_TRUE(*json.NextElement());
    EXPECT_EQ(*json.Number(), e);
  }
  ASSERT_TRUE(*json.NextElement());
  EXPECT_TRUE(std::isnan(*json.Number()));
  ASSERT_TRUE(*json.NextElement());
  EXPECT_EQ(*json.Number(), -HUGE_VAL);
  ASSERT_TRUE(*json.NextElement());
  EXPECT_EQ(*json.Int(), 9007199254740993);
  EXPECT_FALSE(*json.NextElement());
  ASSERT_TRUE(*json.NextKey(key));
  EXPECT_EQ(*json.String(), "x\xc3\xa9\n\xf0\x9f\x98\x80");
  ASSERT_TRUE(*json.NextKey(key));
  EXPECT_EQ(key, "c");
  EXPECT_TRUE(json.Null());
  EXPECT_FALSE(*json.NextKey(key));
  EXPECT_TRUE(json.End());
}

TEST(Json, SaysWhereItIsWrong) {
  auto skip = [](std::string_view text) {
    JsonReader json(text);
    auto value = json.Skip();
    return value ? (json.End() ? "fine" : "more") : value.error().message();
  };
  EXPECT_EQ(skip(R"({"a": [1, {"b": []}]})"), "fine");
  EXPECT_EQ(skip("[1,]"), "json: line 1, column 4: expected a value");
  EXPECT_EQ(skip("[1 2]"), "json: line 1, column 4: expected ',' or ']'");
  EXPECT_EQ(skip("{\n \"a\" 1}"), "json: line 2, column 6: expected ':'");
  EXPECT_EQ(skip("01"), "json: line 1, column 1: expected a number");
  EXPECT_EQ(skip("\"\\ud800\""), "json: line 1, column 8: half of a surrogate pair");
  EXPECT_EQ(skip(std::string(100, '[')), "json: line 1, column 66: brackets nest deeper than 64");
  EXPECT_EQ(skip("1 1"), "more");
  EXPECT_EQ(skip("\"abc"), "json: line 1, column 2: the text ends in a string");
}

TEST(Json, Writes) {
  std::string out;
  for (float f : {1.0f, 0.1f, -1e20f, NAN, INFINITY}) AppendJsonNumber(out, f), out += ' ';
  EXPECT_EQ(out, "1.0 0.1 -1e+20 NaN Infinity ");
  EXPECT_EQ(*DecodeBase64("aGVsbG8="), "hello");
  EXPECT_FALSE(DecodeBase64("a*b"));
}

std::string Safetensors(std::string header, std::string data) {
  uint64_t size = header.size();
  std::string file(reinterpret_cast<const char*>(&size), 8);
  return file + header + data;
}

TEST(Weights, Safetensors) {
  std::string data(24, '\0');
  std::string file = Safetensors(
      R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{"a":"b"},)"
      R"("i":{"dtype":"I64","shape":[],"data_offsets":[16,24]}})",
      data);
  auto tensors = ParseSafetensors(file);
  ASSERT_TRUE(tensors) << ErrorOf(tensors);
  EXPECT_EQ(tensors->at("w").shape.ToString(), "f32[2,2]");
  EXPECT_EQ(tensors->at("i").size, 8);
  // Every prefix is an error or has less in it, none is read beyond its end.
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(ParseSafetensors(file.substr(0, n))) << n;
  EXPECT_NE(ErrorOf(ParseSafetensors(file.substr(0, file.size() - 1)))
                .find("tensor i: data_offsets [16, 24]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(ParseSafetensors(Safetensors(
                        R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})", data)))
                .find("tensor w: f32[3] does not take 16 bytes"),
            std::string::npos);
  EXPECT_FALSE(ParseSafetensors(Safetensors(
      R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", data)));
}

// A zip archive of one member, as NumPy writes it.
std::string Zip(const std::string& name, const std::string& contents, uint16_t method = 0) {
  auto put = [](std::string& out, uint64_t value, int bytes) {
    out.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
  };
  std::string local("PK\3\4", 4), central("PK\1\2", 4), end("PK\5\6", 4);
  auto common = [&](std::string& out) {
    put(out, 0, 2), put(out, method, 2), put(out, 0, 4), put(out, 0, 4);
    put(out, contents.size(), 4), put(out, contents.size(), 4), put(out, name.size(), 2),
        put(out, 0, 2);
  };
  put(local, 20, 2), common(local);
  local += name + contents;
  put(central, 20, 2), put(central, 20, 2), common(central);
  put(central, 0, 2), put(central, 0, 4), put(central, 0, 4), put(central, 0, 2);
  central.resize(42), put(central, 0, 4);
  central += name;
  put(end, 0, 4), put(end, 1, 2), put(end, 1, 2), put(end, central.size(), 4);
  put(end, local.size(), 4), put(end, 0, 2);
  return local + central + end;
}

TEST(Weights, Npz) {
  Literal value(Shape(DType::kF32, {2}));
  value.values<float>()[1] = 3;
  std::string file = Zip("w.npy", *FormatNpy(value));
  auto tensors = ParseNpz(file);
  ASSERT_TRUE(tensors) << ErrorOf(tensors);
  const StoredTensor& w = tensors->at("w");
  auto read = ParseNpy(
      std::string_view(file).substr(static_cast<size_t>(w.offset), static_cast<size_t>(w.size)));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, value);
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(ParseNpz(file.substr(0, n))) << n;
  EXPECT_NE(ErrorOf(ParseNpz(Zip("w.npy", "x", 8))).find("savez_compressed"), std::string::npos);
}

// A FlatBuffer, written from its root on: what is pointed at comes behind.
struct FlatWriter {
  std::string bytes = std::string(4, '\0');

  void Put(size_t at, uint32_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  }
  size_t Append(uint32_t value, size_t size) {
    bytes.resize(bytes.size() + size);
    Put(bytes.size() - size, value, size);
    return bytes.size() - size;
  }
  // The offset at `at` leads to what comes next.
  void Point(size_t at) {
    bytes.resize((bytes.size() + 3) / 4 * 4);
    Put(at, static_cast<uint32_t>(bytes.size() - at), 4);
  }
  // A table with these fields; where the first of them is, the others follow every four bytes.
  size_t Table(size_t from, const std::vector<uint16_t>& fields) {
    const size_t names = bytes.size();
    std::vector<uint16_t> places(fields.back() + size_t{1}, 0);
    for (size_t i = 0; i < fields.size(); ++i) places[fields[i]] = static_cast<uint16_t>(4 + 4 * i);
    Append(static_cast<uint32_t>(4 + 2 * places.size()), 2);
    Append(static_cast<uint32_t>(4 + 4 * fields.size()), 2);
    for (uint16_t place : places) Append(place, 2);
    Point(from);
    const size_t table = bytes.size();
    Append(static_cast<uint32_t>(table - names), 4);
    bytes.append(4 * fields.size(), '\0');
    return table + 4;
  }
  void Text(size_t from, std::string_view text) {
    Point(from);
    Append(static_cast<uint32_t>(text.size()), 4);
    bytes.append(text).append(1, '\0');
  }
  // A list of offsets; where the first is.
  size_t List(size_t from, size_t count) {
    Point(from);
    Append(static_cast<uint32_t>(count), 4);
    bytes.append(4 * count, '\0');
    return bytes.size() - 4 * count;
  }
  void Aval(size_t from, const std::vector<std::string>& dims, uint8_t type) {
    size_t table = Table(from, {1, 2});
    bytes[table + 4] = static_cast<char>(type);
    size_t sizes = List(table, dims.size());
    for (size_t i = 0; i < dims.size(); ++i) Text(sizes + 4 * i, dims[i]);
  }
};

// Before version 10 of the schema values had their types in the place itself, and the number of
// devices was short; later they are elsewhere. What is not there has its default.
TEST(ExportBlob, SchemasOfAllAges) {
  constexpr uint8_t kF32 = 10;
  for (bool old : {true, false}) {
    FlatWriter flat;
    std::vector<uint16_t> fields = {1, 3, 5, 6, 13, 14, 15};
    if (!old) fields = {1, 13, 14, 15, 18, 19, 22, 23};
    size_t root = flat.Table(0, fields);
    auto field = [&](uint16_t number) {
      auto at = std::ranges::find(fields, number) - fields.begin();
      return root + 4 * static_cast<size_t>(at);
    };
    flat.Text(field(1), "f");
    flat.Text(field(13), "ML\xefR");
    flat.Put(field(14), old ? 6 : 10, 2);
    flat.Put(field(old ? 6 : 18), 1, old ? 2 : 4);
    flat.Point(field(15));  // the second of two arguments is used
    flat.Append(1, 4);
    flat.Append(1, 2);
    size_t in = flat.List(field(old ? 3 : 19), old ? 2 : 1);
    flat.Aval(in, {"b", "4"}, kF32);
    if (old) flat.Aval(in + 4, {"b", "4"}, kF32);
    if (old) flat.Aval(flat.List(field(5), 1), {"b", "4"}, kF32);
    if (!old) flat.List(field(22), 2), flat.List(field(23), 1);  // all of them the first
    auto blob = ParseExportBlob(flat.bytes);
    ASSERT_TRUE(blob) << ErrorOf(blob);
    EXPECT_EQ(blob->function_name, "f");
    EXPECT_EQ(blob->module, "ML\xefR");
    EXPECT_EQ(blob->devices, 1);
    EXPECT_EQ(blob->calling_convention, old ? 6 : 10);
    EXPECT_EQ(blob->kept, std::vector<int64_t>{1});
    ASSERT_EQ(blob->inputs.size(), 2u);
    ASSERT_EQ(blob->outputs.size(), 1u);
    EXPECT_EQ(blob->inputs[1].dtype, DType::kF32);
    EXPECT_EQ(blob->outputs[0].dims, (std::vector<int64_t>{-1, 4}));
    EXPECT_EQ(blob->outputs[0].symbols[0], "b");
    EXPECT_FALSE(blob->outputs[0].IsStatic());
    // Nothing is read beyond an end.
    for (size_t n = 0; n < flat.bytes.size(); ++n) (void)ParseExportBlob(flat.bytes.substr(0, n));
  }
}

TEST(ExportBlob, DamagedOnesAreErrors) {
  EXPECT_FALSE(ParseExportBlob(""));
  EXPECT_FALSE(ParseExportBlob(std::string(64, '\0')));
  EXPECT_FALSE(ParseExportBlob(std::string(64, '\xff')));
  EXPECT_FALSE(ParseExportBlob(std::string("\4\0\0\0\0\0\0\0", 8)));
}

constexpr std::string_view kSignature =
    R"({"format": "weft-serve/1", "weights": "weights.safetensors",
  "variables": [{"name": "w", "dtype": "f32", "shape": [4, 3]}],
  "graphs": [{"name": "serving_default", "batch": "b",
    "arguments": [{"variable": "w"}, {"input": "x"}],
    "programs": [{"file": "b.mlirbc", "sizes": {"b": 8}}, {"file": "a.mlirbc", "sizes": {"b": 1}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["b", 4]}],
    "outputs": [{"name": "y", "dtype": "f32", "shape": ["b", 3]}]}]})";

TEST(Signature, Reads) {
  auto model = ParseSignature(kSignature);
  ASSERT_TRUE(model) << ErrorOf(model);
  const GraphSpec& graph = *model->Find("serving_default");
  EXPECT_TRUE(graph.IsBatched());
  EXPECT_EQ(graph.programs[0].file, "a.mlirbc");  // smaller first
  EXPECT_EQ(graph.inputs[0].ToString(graph.symbols), "f32[b,4]");
  Shape shape(DType::kF32, {5, 4}), wrong(DType::kF32, {5, 3}), type(DType::kS32, {5, 4});
  const Shape* shapes[] = {&shape};
  EXPECT_EQ(graph.SizesOf(shapes)->at(0), 5);
  shapes[0] = &wrong;
  EXPECT_EQ(ErrorOf(graph.SizesOf(shapes)), "input x: is f32[5,3], serving_default takes f32[b,4]");
  shapes[0] = &type;
  EXPECT_EQ(ErrorOf(graph.SizesOf(shapes)), "input x: is s32[5,4], serving_default takes f32[b,4]");
}

TEST(Signature, RefusesWhatCannotBe) {
  auto with = [](std::string_view from, std::string_view to) {
    std::string text(kSignature);
    size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return ErrorOf(ParseSignature(text.replace(at, from.size(), to)));
  };
  EXPECT_NE(with("a.mlirbc", "../a.mlirbc").find("not a file name: ../a.mlirbc"),
            std::string::npos);
  EXPECT_NE(with("{\"b\": 8}", "{\"b\": 1}").find("two programs for the same sizes"),
            std::string::npos);
  EXPECT_NE(with("{\"b\": 8}", "{}").find("b is 0"), std::string::npos);
  EXPECT_NE(with("{\"variable\": \"w\"}", "{\"variable\": \"v\"}").find("no variable v"),
            std::string::npos);
  EXPECT_NE(with("weft-serve/1", "weft-serve/9").find("this server reads weft-serve/1"),
            std::string::npos);
  EXPECT_NE(with("[\"b\", 4]", "[3, 4]").find("no input has the size b"), std::string::npos);
  EXPECT_NE(with("\"shape\": [4, 3]}",
                 "\"shape\": [4, 3]}, {\"name\": \"w\", \"dtype\": \"s32\", \"shape\": []}")
                .find("variable w: registered twice"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::serve
