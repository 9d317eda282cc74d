#include "gpu/routines_cases.h"

#include "base/elements.h"
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
  // Matrix units add up products of 8 bits with fewer bits than f32 has.
  if (std::string_view(t.a).starts_with("f8")) return {name, text, 8000, t.beta};
  return {name, text, reduced ? 40000.0 : 64.0, t.beta};
}

}  // namespace

RoutineCase CallCase(std::string name, std::string_view routine, const std::vector<OneUse>& uses,
                     std::string_view attrs, double slack, std::string_view kernels) {
  std::string buffers, list;
  int64_t parameters = 0, results = 0;
  bool donates = false;
  for (size_t i = 0; i < uses.size(); ++i) {
    std::string_view access = uses[i].access;
    if (access != "write") {
      StrAppend(buffers, "buffer b", i, ": ", uses[i].shape, " parameter ", parameters++,
                access == "update" ? " must_donate" : "", "\n");
    }
    if (access == "update") {
      StrAppend(buffers, "buffer r", i, ": ", uses[i].shape, " result ", results++, " in b", i,
                " at 0\n");
      donates = true;
    }
    if (access == "write") {
      StrAppend(buffers, "buffer b", i, ": ", uses[i].shape, " result ", results++, "\n");
    }
    StrAppend(list, i > 0 ? ", " : "", access, " ", access == "update" ? "r" : "b", i);
  }
  return {name,
          StrCat("program p\n", buffers, kernels, "steps {\n  call \"", routine, "\"(", list, ") {",
                 attrs, "}\n}\n"),
          slack, donates};
}

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
  add({"bf16", "bf16", "bf16", 64, 96, 4096});
  add({"f32", "f32", "f32", 64, 96, 4096});
  return cases;
}

namespace {

constexpr std::string_view kLess =
    "kernel less(read a0: f32[1], read b0: f32[1], read a1: s32[1], read b1: s32[1], write out: "
    "pred[1]) {\n  %0 = load s32 a1[0]\n  %1 = load s32 b1[0]\n  %2 = and s32 %0, 15\n  %3 = and "
    "s32 "
    "%1, 15\n  %4 = lt s32 %2, %3\n  store pred out[0], %4\n}\n";

RoutineCase SortCase(const char* type, int64_t outer, int64_t n, int64_t inner,
                     const char* attrs = "") {
  std::string shape = StrCat("[", outer, ",", n, ",", inner, "]");
  std::string x = StrCat(type, shape), y = StrCat("s32", shape);
  return CallCase(StrCat(x, attrs), "sort", {{"read", x}, {"read", y}, {"write", x}, {"write", y}},
                  StrCat("outer = ", outer, ", n = ", n, ", inner = ", inner, attrs), 0);
}

// One operand: elements are moved themselves.
RoutineCase SortAloneCase(const char* type, int64_t rows, int64_t n, const char* attrs = "") {
  std::string x = StrCat(type, "[", rows, ",", n, "]");
  return CallCase(StrCat(x, attrs), "sort", {{"read", x}, {"write", x}},
                  StrCat("outer = ", rows, ", n = ", n, ", inner = 1", attrs), 0);
}

// Keys of so few bits.
RoutineCase FewBitsCase(RoutineCase c, const char* type, uint64_t bits) {
  c.text.insert(c.text.rfind("}\n}"), StrCat(", bits = ", bits));
  StrAppend(c.name, " of ", bits, " bits");
  c.prepare = [dtype = *ParseDType(type), bits](Literal& keys, int64_t number) {
    if (number > 0) return;
    std::byte* at = keys.mutable_data();
    for (int64_t i = 0; i < keys.shape().elements(); ++i, at += ByteWidth(dtype)) {
      int64_t x;
      LoadI64(dtype, at, 1, &x);
      x &= (int64_t{1} << bits) - 1;
      StoreI64(dtype, &x, 1, at);
    }
  };
  return c;
}

RoutineCase ComparatorCase(int64_t outer, int64_t n, int64_t inner) {
  RoutineCase c = SortCase("f32", outer, n, inner, ", comparator = \"less\"");
  c.text.insert(c.text.find("steps {"), kLess);
  return c;
}

}  // namespace

std::vector<RoutineCase> SortCases(bool few) {
  std::vector<RoutineCase> cases = {
      SortCase("f32", 3, 100, 2),
      SortCase("f32", 1, 1, 1),
      SortCase("f32", 2, 5000, 1, ", order = \"desc\", zeros_equal = true, nans_equal = true"),
      ComparatorCase(2, 2500, 2),
      SortCase("s8", 2, 1500, 2, ", keys = 2"),
      SortCase("f64", 1, 3000, 2, ", order = \"desc\""),
      SortAloneCase("f32", 1, 4099, ", zeros_equal = true, nans_equal = true"),
      SortAloneCase("s8", 2, 1300),
      SortAloneCase("u64", 1, 2100, ", order = \"desc\""),
      FewBitsCase(SortCase("s32", 1, 5000, 1), "s32", 11),
      FewBitsCase(SortCase("s32", 2, 1500, 3, ", order = \"desc\""), "s32", 7),
      FewBitsCase(SortAloneCase("u64", 1, 4099), "u64", 13),
      FewBitsCase(SortAloneCase("s16", 2, 2100), "s16", 3),
      FewBitsCase(SortCase("s32", 1, 600, 1), "s32", 9),
      FewBitsCase(SortAloneCase("u64", 1, 70000), "u64",
                  8)};  // counts are scanned by several blocks
  auto topk = [&](const char* type, int64_t rows, int64_t n, int64_t k, bool largest) {
    cases.push_back(CallCase(
        StrCat("topk_", type, rows, "x", n, "of", k), "topk",
        {{"read", StrCat(type, "[", rows, ",", n, "]")},
         {"write", StrCat(type, "[", rows, ",", k, "]")},
         {"write", StrCat("s32[", rows, ",", k, "]")}},
        StrCat("rows = ", rows, ", n = ", n, ", k = ", k, largest ? "" : ", largest = false"), 0));
  };
  topk("bf16", 3, 200, 7, true);
  topk("s8", 2, 1500, 3, true);      // many that are equal
  topk("f32", 1, 9001, 200, false);  // by several stages
  if (few) return cases;
  for (const char* type : {"pred", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64",
                           "f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f64"}) {
    cases.push_back(SortCase(type, 3, 777, 2));
    cases.push_back(SortCase(type, 2, 9000, 1, ", order = \"desc\""));
    cases.push_back(SortAloneCase(type, 3, 12289));
    topk(type, 4, 3000, 17, true);
    topk(type, 4, 300, 300, false);
  }
  cases.push_back(SortCase("f32", 1, 300000, 1, ", zeros_equal = true, nans_equal = true"));
  cases.push_back(SortCase("u64", 5, 20000, 1));
  cases.push_back(SortAloneCase("f32", 1, 3000001, ", zeros_equal = true, nans_equal = true"));
  cases.push_back(SortAloneCase("bf16", 2, 100000, ", order = \"desc\""));
  cases.push_back(SortCase("s16", 7, 4097, 3, ", keys = 2, order = \"desc\""));
  cases.push_back(ComparatorCase(1, 40000, 1));
  cases.push_back(ComparatorCase(30, 37, 1));
  return cases;
}

std::vector<RoutineCase> FftCases() {
  std::vector<RoutineCase> cases;
  for (bool wide : {false, true}) {
    std::string real = wide ? "f64" : "f32", complex = wide ? "c128" : "c64";
    for (const char* type : {"fft", "ifft", "rfft", "irfft"}) {
      std::string_view kind = type;
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{16}, {15}, {1}, {1000}, {8, 6}, {5, 7}, {4, 3, 10}, {3, 5, 7}}) {
        auto shape = [&](bool half) {
          std::string text = "[3";
          for (size_t i = 0; i < lengths.size(); ++i) {
            bool last = i + 1 == lengths.size();
            StrAppend(text, ",", last && half ? lengths[i] / 2 + 1 : lengths[i]);
          }
          return text + "]";
        };
        std::string in = StrCat(kind == "rfft" ? real : complex, shape(kind == "irfft"));
        std::string out = StrCat(kind == "irfft" ? real : complex, shape(kind == "rfft"));
        cases.push_back(CallCase(
            StrCat(type, in), "fft", {{"read", in}, {"write", out}},
            StrCat("type = \"", type, "\", lengths = [", StrJoin(lengths, ", "), "], batch = 3"),
            16));
      }
    }
  }
  return cases;
}

std::vector<RoutineCase> RandomCases(bool few) {
  std::vector<RoutineCase> cases;
  auto bits = [&](const char* type, const char* dims, const char* algorithm, int words) {
    std::string state = StrCat("u64[", words, "]");
    cases.push_back(CallCase(StrCat(type, dims, algorithm, words), "rng_bit_generator",
                             {{"read", state}, {"write", state}, {"write", StrCat(type, dims)}},
                             StrCat("dims = ", dims, ", algorithm = \"", algorithm, "\""), 0));
  };
  auto numbers = [&](const char* type, const char* distribution) {
    std::vector<OneUse> uses = {{"update", "u64[1]"}};
    bool is_bits = std::string_view(distribution) == "bits";
    if (!is_bits) uses.push_back({"read", StrCat(type, "[1]")});
    if (!is_bits) uses.push_back({"read", StrCat(type, "[1]")});
    uses.push_back({"write", StrCat(type, "[1000]")});
    double slack = std::string_view(distribution) == "normal" ? 4 : 0;
    cases.push_back(CallCase(StrCat(type, distribution), "rng", uses,
                             StrCat("distribution = \"", distribution, "\""), slack));
  };
  bits("u32", "[5, 6, 7]", "three_fry", 2);
  bits("u64", "[33]", "philox", 3);
  bits("s4", "[5, 7]", "philox", 2);
  numbers("f32", "uniform");
  numbers("bf16", "normal");
  numbers("s32", "uniform");
  cases.push_back(
      CallCase("device_id", "device_id", {{"write", "u32[]"}}, "divide = 2, modulo = 3", 0));
  if (few) return cases;
  for (const char* type : {"pred", "u8", "s16", "u32", "s64", "f32", "f64", "bf16", "f8e4m3fn"}) {
    for (const char* algorithm : {"three_fry", "philox", "default"}) {
      bits(type, "[5, 7, 9]", algorithm, 2);
      bits(type, "[3, 100]", algorithm, 3);
    }
  }
  for (const char* type : {"f64", "f16", "bf16", "u8", "u64", "s64", "pred"}) {
    numbers(type, "uniform");
  }
  for (const char* type : {"f32", "f64", "f16"}) numbers(type, "normal");
  for (const char* type : {"u8", "s32", "u64"}) numbers(type, "bits");
  return cases;
}

namespace {

struct ConvTest {
  const char* type;
  const char *input, *kernel, *output;  // shapes
  const char *input_layout, *kernel_layout, *output_layout;
  const char* attrs = "";
  const char* out_type = nullptr;
};
RoutineCase ConvCase(const ConvTest& t) {
  std::string_view out = t.out_type != nullptr ? t.out_type : t.type;
  return CallCase(
      StrCat(t.type, t.input, t.kernel, t.attrs), "convolution",
      {{"read", StrCat(t.type, t.input)},
       {"read", StrCat(t.type, t.kernel)},
       {"write", StrCat(out, t.output)}},
      StrCat("input_shape = ", t.input, ", kernel_shape = ", t.kernel,
             ", output_shape = ", t.output, ", input_layout = ", t.input_layout,
             ", kernel_layout = ", t.kernel_layout, ", output_layout = ", t.output_layout, t.attrs),
      64);
}
// Layouts of images by channels last and first.
#define WEFT_NHWC "[0, 3, 1, 2]", "[2, 3, 0, 1]", "[0, 3, 1, 2]"
#define WEFT_NCHW "[0, 1, 2, 3]", "[1, 0, 2, 3]", "[0, 1, 2, 3]"

}  // namespace

std::vector<RoutineCase> ConvolutionCases(bool few) {
  std::vector<RoutineCase> cases;
  auto add = [&](const ConvTest& t) { cases.push_back(ConvCase(t)); };
  add({"f32", "[2, 8, 9, 4]", "[3, 3, 4, 8]", "[2, 8, 9, 8]", WEFT_NHWC, ", pads = [1, 1]"});
  add({"bf16", "[2, 4, 8, 8]", "[6, 2, 3, 2]", "[2, 6, 3, 4]", WEFT_NCHW,
       ", strides = [2, 2], feature_groups = 2"});
  add({"f32", "[2, 8, 9, 4]", "[3, 3, 4, 8]", "[2, 15, 17, 8]", WEFT_NHWC,
       ", pads = [1, 1], base_dilation = [2, 2], reversal = [1, 1]"});
  if (few) return cases;
  for (const char* type : {"f32", "f64", "bf16", "f16", "c64", "c128", "s32", "s8"}) {
    add({type, "[2, 16, 18, 8]", "[3, 3, 8, 16]", "[2, 16, 18, 16]", WEFT_NHWC, ", pads = [1, 1]"});
    add({type, "[2, 8, 16, 18]", "[16, 8, 3, 3]", "[2, 16, 7, 8]", WEFT_NCHW,
         ", strides = [2, 2]"});
    add({type, "[2, 16, 18, 8]", "[3, 3, 1, 16]", "[2, 12, 14, 16]", WEFT_NHWC,
         ", feature_groups = 8, window_dilation = [2, 2]"});
    // The gradient by the kernel: batches and features change places.
    add({type, "[4, 9, 9, 6]", "[4, 7, 7, 8]", "[3, 3, 6, 8]", "[3, 0, 1, 2]", "[0, 3, 1, 2]",
         "[2, 3, 0, 1]", ""});
    // That by the input of a strided one.
    add({type, "[2, 5, 5, 8]", "[3, 3, 6, 8]", "[2, 11, 11, 6]", "[0, 3, 1, 2]", "[3, 2, 0, 1]",
         "[0, 3, 1, 2]", ", pads = [2, 2], base_dilation = [2, 2], reversal = [1, 1]"});
    add({type, "[8, 6, 4]", "[3, 4, 6]", "[4, 4, 6]", "[0, 2, 1]", "[1, 2, 0]", "[0, 2, 1]",
         ", batch_groups = 2"});
    add({type, "[2, 5, 6, 7, 4]", "[2, 3, 2, 4, 4]", "[2, 4, 4, 6, 4]", "[0, 4, 1, 2, 3]",
         "[3, 4, 0, 1, 2]", "[0, 4, 1, 2, 3]", ""});
    add({type, "[5, 4]", "[4, 3]", "[5, 3]", "[0, 1]", "[0, 1]", "[0, 1]", ""});
  }
  for (const char* precision : {", precision = \"default\"", ", precision = \"bf16\""}) {
    add({"f32", "[2, 16, 18, 32]", "[3, 3, 32, 64]", "[2, 14, 16, 64]", WEFT_NHWC, precision});
    add({"f32", "[2, 32, 16, 18]", "[64, 32, 3, 3]", "[2, 64, 14, 16]", WEFT_NCHW, precision});
    for (size_t i = cases.size() - 2; i < cases.size(); ++i) cases[i].slack = 40000;
  }
  add({"s8", "[2, 16, 18, 8]", "[3, 3, 8, 16]", "[2, 14, 16, 16]", WEFT_NHWC, "", "s32"});
  add({"bf16", "[2, 16, 18, 8]", "[3, 3, 8, 16]", "[2, 14, 16, 16]", WEFT_NHWC, "", "f32"});
  add({"f8e4m3fn", "[2, 16, 18, 8]", "[3, 3, 8, 16]", "[2, 14, 16, 16]", WEFT_NHWC, "", "bf16"});
  return cases;
}

}  // namespace weft::gpu
