// rng_bit_generator, rng and device_id.
#include <algorithm>
#include <cstring>

#include "base/str.h"
#include "gpu/library_text.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

// As kernels/random.cu declares it.
struct BitsForm {
  int64_t n, words, wide, size, half, inner, used;
};

// Storage of bits: narrower types keep the low ones, integers in storage form.
std::string BitsElementText(DType dtype) {
  int width = BitWidth(dtype);
  std::string storage = StrCat("u", ByteWidth(dtype) * 8), store = StrCat(storage, "(x)");
  if (width < 8) store = StrCat("u8(x & ", (1 << width) - 1, ")");
  if (IsSigned(dtype) && width < 8) {
    store = StrCat("u8(s8(u8(x << ", 8 - width, ")) >> ", 8 - width, ")");
  }
  return StrCat("struct Out {\n  typedef ", storage,
                " Storage;\n  static __device__ inline Storage Store(u64 x) { return ", store,
                "; }\n};\n");
}

class BitGenerator : public PreparedRoutine {
 public:
  BitGenerator(RoutineKernel kernel, BitsForm form) : kernel_(std::move(kernel)), form_(form) {}
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override {
    return LaunchWith(call, kernel_, std::max<int64_t>(BlocksFor(form_.n), 1), kRoutineThreads,
                      call.memory[0], call.memory[1], call.memory[2], form_);
  }

 private:
  RoutineKernel kernel_;
  BitsForm form_;
};

class Numbers : public PreparedRoutine {
 public:
  Numbers(RoutineKernel fill, RoutineKernel advance, program::RngForm form)
      : fill_(std::move(fill)), advance_(std::move(advance)), form_(form) {}
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override {
    bool bits = form_.kind == program::RngForm::kBits;
    // Where there are no bounds, any address will do: they are not read.
    std::byte *a = call.memory[bits ? 0 : 1], *b = call.memory[bits ? 0 : 2];
    TRY(LaunchWith(call, fill_, BlocksFor(form_.elements), kRoutineThreads, call.memory[0], a, b,
                   call.memory.back(), form_.elements));
    return LaunchWith(call, advance_, 1, 1, call.memory[0], form_.numbers());
  }

 private:
  RoutineKernel fill_, advance_;
  program::RngForm form_;
};

class DeviceId : public PreparedRoutine {
 public:
  DeviceId(int64_t divide, int64_t modulo) : divide_(divide), modulo_(modulo) {}
  Status Enqueue(const RoutineCall& call) const override {
    int64_t number = call.device / divide_;
    if (modulo_ > 0) number %= modulo_;
    auto value = static_cast<uint32_t>(number);
    return call.stream.Fill(call.memory[0], 4, std::as_bytes(std::span(&value, 1)));
  }

 private:
  int64_t divide_, modulo_;
};

// Floats are rounded once: to an odd f32 first where they have less than f32.
std::string RoundedElementText(std::string_view name, DType dtype) {
  std::string text = ElementText(name, dtype, "f64");
  if (dtype == DType::kF64 || dtype == DType::kF32) return text;
  std::string from = "f32(x)", to = "OddF32(x)";
  if (size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return StrCat(
      "__device__ inline f32 OddF32(f64 x) {\n  f32 r = f32(x);\n  f64 back = r;\n  u32 "
      "bits = __float_as_uint(r);\n  if (back == x || x != x) return r;\n  if "
      "(fabs(back) > fabs(x)) bits -= 1;\n  return __uint_as_float(bits | 1);\n}\n",
      text);
}

}  // namespace

Result<PreparedPtr> PrepareBitGeneratorKernel(const RoutineInputs& inputs) {
  DType dtype = inputs.type(2);
  if (ByteWidth(dtype) > 8) return Unimplemented("bits of ", Name(dtype));
  const program::LibraryStep& call = inputs.call();
  bool threefry = StringAttr(call, "algorithm", "default") == "three_fry";
  std::vector<int64_t> dims = *IntsAttr(call, "dims");
  BitsForm f = {
      inputs.elements(2), inputs.step.uses[0].slice.size / 8, BitWidth(dtype) == 64, 1, 1, 1, 0};
  // The first dimension of even size is cut, else the first of the largest size.
  size_t split = 0;
  while (split < dims.size() && dims[split] % 2 != 0) ++split;
  if (split == dims.size() && !dims.empty()) {
    split = static_cast<size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
  }
  int64_t outer = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d < split) outer *= dims[d];
    if (d == split) f.size = dims[d];
    if (d > split) f.inner *= dims[d];
  }
  f.half = f.size / 2 + f.size % 2;
  int64_t each = f.wide ? 2 : 4;
  f.used = !threefry ? BlocksFor(f.n, each) : f.wide ? f.n : outer * f.half * f.inner;
  std::string text =
      StrCat(kRandomText, BitsElementText(dtype),
             "extern \"C\" __global__ void bits(const u32* state, u32* next, Out::Storage* out, "
             "BitsForm f) {\n  FillBits<Out>(",
             threefry ? "true" : "false", ", state, next, out, f);\n}\n");
  return std::make_unique<BitGenerator>(TRY(MakeKernel(inputs, text, "bits")), f);
}

Result<PreparedPtr> PrepareRngKernel(const RoutineInputs& inputs) {
  program::RngForm form = program::RngFormOf(inputs.program, inputs.step);
  bool bits = form.kind == program::RngForm::kBits, floats = !bits && IsFloat(form.type);
  std::string_view value = floats ? "f64" : "u64";
  DType a = bits ? DType::kU32 : form.a_type, b = bits ? DType::kU32 : form.b_type;
  if (!floats && (IsFloat(a) || IsFloat(b))) return Unimplemented("integers between floats");
  std::string out =
      floats ? RoundedElementText("Out", form.type) : ElementText("Out", form.type, "u64");
  if (form.type == DType::kPred) {
    out =
        "struct Out {\n  typedef u8 Storage;\n  static __device__ inline u8 Store(u64 x) { return "
        "x != 0; }\n};\n";
  }
  std::string arguments =
      floats ? StrCat("counter, ", form.kind == program::RngForm::kNormal ? "true" : "false")
             : StrCat("counter, ", bits ? "false, " : "true, ",
                      form.type == DType::kU64 ? "true" : "false");
  std::string text =
      StrCat(kRandomText, ElementText("A", a, value), ElementText("B", b, value), out,
             "extern \"C\" __global__ void fill(const u32* counter, const A::Storage* a, const "
             "B::Storage* "
             "b, Out::Storage* out, s64 n) {\n  ",
             floats ? "FillFloats" : "FillIntegers", "<A, B, Out>(", arguments,
             ", a, b, out, n);\n}\nextern \"C\" __global__ void advance(u32* counter, u64 by) {\n  "
             "Advance(counter, by);\n}\n");
  return std::make_unique<Numbers>(TRY(MakeKernel(inputs, text, "fill")),
                                   TRY(MakeKernel(inputs, text, "advance")), form);
}

Result<PreparedPtr> PrepareDeviceId(const RoutineInputs& inputs) {
  return std::make_unique<DeviceId>(IntAttr(inputs.call(), "divide", 1),
                                    IntAttr(inputs.call(), "modulo", 0));
}

}  // namespace weft::gpu
