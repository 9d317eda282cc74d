// For tests: model folders with programs in HLO text, and a client without a cache.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str.h"
#include "serve/client_backend.h"
#include "serve/server.h"

namespace weft::serve::testing {

// A folder that is gone with the test.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void MakeFolder(const std::string& path);
void RenameFile(const std::string& from, const std::string& to);
void RemoveFolder(const std::string& path);

inline std::unique_ptr<Backend> TestBackend() {
  setenv("WEFT_CACHE", "0", 1);
  auto backend = MakeClientBackend();
  if (!backend) ADD_FAILURE() << backend.error().ToString();
  return backend ? std::move(*backend) : nullptr;
}

inline std::string SafetensorsScalars(const std::vector<std::pair<std::string, float>>& values) {
  std::string header = "{", data;
  for (const auto& [name, value] : values) {
    StrAppend(header, header.size() > 1 ? "," : "", "\"", name,
              "\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[", data.size(), ",",
              data.size() + 4, "]}");
    data.append(reinterpret_cast<const char*>(&value), 4);
  }
  header += "}";
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

// y = a * x + b for x of f32[b,2], in buckets; a graph `double` without weights beside it.
inline void WriteLinear(const std::string& folder, float a, float b,
                        const std::vector<int64_t>& buckets = {1, 4}) {
  MakeFolder(folder);
  auto write = [&](std::string name, std::string_view text) {
    ASSERT_TRUE(WriteFile(folder + "/" + name, text));
  };
  write("weights.safetensors", SafetensorsScalars({{"a", a}, {"b", b}}));
  std::string linear, twice;
  for (int64_t n : buckets) {
    std::string shape = StrCat("f32[", n, ",2]");
    write(StrCat("linear", n, ".hlo"),
          StrCat("ENTRY main {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  x = ", shape,
                 " parameter(2)\n  aa = ", shape, " broadcast(a), dimensions={}\n  bb = ", shape,
                 " broadcast(b), dimensions={}\n  m = ", shape,
                 " multiply(x, aa)\n  ROOT r = ", shape, " add(m, bb)\n}\n"));
    write(StrCat("double", n, ".hlo"),
          StrCat("ENTRY main {\n  x = ", shape, " parameter(0)\n  ROOT r = ", shape,
                 " add(x, x)\n}\n"));
    std::string comma = linear.empty() ? "" : ", ";
    StrAppend(linear, comma, "{\"file\": \"linear", n, ".hlo\", \"sizes\": {\"b\": ", n, "}}");
    StrAppend(twice, comma, "{\"file\": \"double", n, ".hlo\", \"sizes\": {\"b\": ", n, "}}");
  }
  auto graph = [](std::string_view name, std::string_view arguments, std::string_view programs) {
    return StrCat(
        "{\"name\": \"", name, "\", \"batch\": \"b\", \"inputs\": [{\"name\": \"x\", \"dtype\": ",
        "\"f32\", \"shape\": [\"b\", 2]}], \"outputs\": [{\"name\": \"y\", \"dtype\": \"f32\", ",
        "\"shape\": [\"b\", 2]}], \"arguments\": [", arguments, "], \"programs\": [", programs,
        "]}");
  };
  write("signature.json",
        StrCat(
            "{\"format\": \"weft-serve/1\", \"weights\": \"weights.safetensors\", \"variables\": [",
            "{\"name\": \"a\", \"dtype\": \"f32\", \"shape\": []}, {\"name\": \"b\", \"dtype\": ",
            "\"f32\", \"shape\": []}], \"graphs\": [",
            graph("serving_default",
                  "{\"variable\": \"a\"}, {\"variable\": \"b\"}, {\"input\": \"x\"}", linear),
            ", ", graph("double", "{\"input\": \"x\"}", twice), "]}"));
}

inline Literal Floats(std::vector<int64_t> dims, std::vector<float> values) {
  Literal literal{Shape(DType::kF32, dims)};
  EXPECT_EQ(static_cast<size_t>(literal.size()), values.size());
  std::memcpy(literal.mutable_data(), values.data(), values.size() * 4);
  return literal;
}

}  // namespace weft::serve::testing
