#include "gpu/routines_cases.h"

#include "base/str.h"

namespace weft::gpu {
namespace {

struct GemmTest {
  const char *a, *b, *c;
  int64_t m, n, k, batch = 1;
  bool trans_a = false, trans_b = false;
  const char* precision = "highest";
  bool beta = false;
};

RoutineCase GemmCase(const GemmTest& t) {
  std::string name = StrCat(t.a, "_", t.b, "_", t.c, "_", t.batch, "x", t.m, "x", t.n, "x", t.k,
                            t.trans_a ? "t" : "n", t.trans_b ? "t" : "n", "_", t.precision);
  auto shape = [&](const char* type, int64_t rows, int64_t columns, bool trans) {
    return StrCat(type, "[", t.batch, ",", trans ? columns : rows, ",", trans ? rows : columns,
                  "]");
  };
  std::string c = shape(t.c, t.m, t.n, false);
  std::string text =
      StrCat("program gemm\nbuffer a: ", shape(t.a, t.m, t.k, t.trans_a),
             " parameter 0\nbuffer b: ", shape(t.b, t.k, t.n, t.trans_b), " parameter 1\n");
  if (t.beta) {
    StrAppend(text, "buffer c: ", c, " parameter 2 must_donate\nbuffer out: ", c,
              " result 0 in c at 0\n");
  } else {
    StrAppend(text, "buffer out: ", c, " result 0\n");
  }
  StrAppend(text, "steps {\n  call \"gemm\"(read a, read b, ", t.beta ? "update" : "write",
            " out) {m = ", t.m, ", n = ", t.n, ", k = ", t.k, ", batch = ", t.batch,
            t.trans_a ? ", trans_a = true" : "", t.trans_b ? ", trans_b = true" : "",
            t.beta ? ", alpha = 2.0, beta = 3.0" : "", ", precision = \"", t.precision, "\"}\n}\n");
  // Sums in another order; TF32 keeps 10 bits of f32's 23.
  bool reduced = std::string_view(t.precision) != "highest" &&
                 (std::string_view(t.c) == "f32" || std::string_view(t.c) == "c64");
  return {name, text, reduced ? 40000.0 : 64.0, t.beta};
}

}  // namespace

std::vector<RoutineCase> GemmCases(bool few) {
  std::vector<RoutineCase> cases;
  auto add = [&](const GemmTest& t) { cases.push_back(GemmCase(t)); };
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      add({"f32", "f32", "f32", 70, 67, 33, 2, ta, tb});
      if (few) continue;
      for (const char* type : {"f64", "bf16", "f16", "c64", "c128"}) {
        add({type, type, type, 96, 160, 64, 3, ta, tb});
        add({type, type, type, 33, 7, 21, 1, ta, tb, "highest", true});
      }
      add({"f32", "f32", "f32", 128, 256, 512, 1, ta, tb, "default"});
      add({"c64", "c64", "c64", 64, 64, 64, 1, ta, tb, "default"});
      add({"s8", "s8", "s32", 64, 128, 256, 1, ta, tb});
      add({"f8e4m3fn", "f8e4m3fn", "f32", 64, 128, 256, 1, ta, tb});
      add({"f8e4m3fn", "f8e5m2", "bf16", 64, 128, 256, 1, ta, tb});
      add({"f8e5m2", "f8e5m2", "f32", 64, 128, 256, 1, ta, tb});
    }
  }
  add({"f32", "f32", "f32", 5, 6, 7, 1, false, false, "highest", true});
  add({"f32", "f32", "f32", 5, 6, 0});
  add({"f32", "f32", "f32", 1, 1000, 3});
  add({"f8e5m2", "f16", "bf16", 65, 66, 67});
  add({"c64", "c64", "c64", 9, 10, 11, 1, true, true, "highest", true});
  add({"u8", "s8", "s64", 9, 70, 11, 2, false, true});
  add({"s4", "s4", "s8", 9, 10, 11});
  if (few) return cases;
  add({"bf16", "bf16", "f32", 65, 66, 67});
  add({"f16", "f16", "f32", 17, 18, 19});
  add({"bf16", "f32", "f32", 9, 10, 11});
  add({"f8e5m2", "f8e4m3fn", "f16", 20, 21, 22});
  add({"f64", "f64", "f64", 20, 21, 22});
  add({"s32", "s32", "s32", 9, 70, 11, 2, false, true});
  add({"s8", "s8", "s32", 9, 10, 11, 1, false, false, "highest", true});
  add({"s64", "s64", "s64", 9, 10, 11, 1, true});
  add({"f4e2m1fn", "f4e2m1fn", "f32", 20, 21, 22});
  add({"f8e8m0fnu", "bf16", "bf16", 20, 21, 22});
  add({"bf16", "bf16", "f8e4m3fn", 20, 21, 22});
  add({"f16", "bf16", "f32", 20, 21, 22});
  add({"f32", "f32", "bf16", 20, 21, 22});
  add({"u32", "u32", "u32", 130, 129, 128});
  add({"c128", "c128", "c128", 130, 129, 128});
  add({"bf16", "bf16", "bf16", 512, 512, 4096});
  add({"f32", "f32", "f32", 512, 512, 4096});
  return cases;
}

}  // namespace weft::gpu
