// Speed of the CPU's library routines, best of several runs: routine_speed [threads] [filter].
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

#include "cpu/routines/routine.h"
#include "program/builder.h"

namespace weft::cpu {
namespace {

struct Timed {
  std::string name;
  std::string routine;
  std::vector<program::Attr> attrs;
  std::vector<Shape> inputs, outputs;
  double operations;  // reported as G/s
};

void Fill(Literal& literal, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < literal.size(); ++i) {
    literal.SetDouble(i, static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  }
}

// Of the wall, or of the processor when there is one thread: others may use the machine too.
double Seconds(int threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Run(const Timed& timed, int threads) {
  program::Program p;
  p.name = "speed";
  std::vector<program::Use> uses;
  std::vector<Literal> literals;
  auto add = [&](const Shape& shape, program::BufferKind kind, int64_t index) {
    auto id = program::AddBuffer(p, StrCat("b", literals.size()), shape, kind, index);
    literals.push_back(Literal(shape));
    bool in = kind == program::BufferKind::kParameter;
    if (in && shape.dtype() != DType::kU64) Fill(literals.back(), literals.size());
    uses.push_back(in ? program::In(p, id) : program::Out(p, id));
  };
  for (size_t i = 0; i < timed.inputs.size(); ++i) {
    add(timed.inputs[i], program::BufferKind::kParameter, static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < timed.outputs.size(); ++i) {
    add(timed.outputs[i], program::BufferKind::kResult, static_cast<int64_t>(i));
  }
  p.steps.push_back(
      program::MakeStep(program::LibraryStep{timed.routine, timed.attrs, false}, uses));
  const Routine* routine = FindRoutine(timed.routine);
  if (routine == nullptr) return;
  auto prepared = routine->prepare({p, p.steps[0], {}});
  if (!prepared) {
    std::printf("%s: %s\n", timed.name.c_str(), prepared.error().ToString().c_str());
    return;
  }
  std::vector<std::byte*> memory;
  for (Literal& literal : literals) memory.push_back(literal.mutable_data());
  ThreadPool pool(threads);
  double best = 1e9, spent = 0;
  for (int i = 0; i < 3000 && spent < 0.4; ++i) {
    double start = Seconds(threads);
    if (!(*prepared)->Run({pool, memory})) return;
    double time = Seconds(threads) - start;
    best = std::min(best, time);
    spent += time;
  }
  std::printf("%-28s %d threads %10.3f us %8.2f G/s\n", timed.name.c_str(), threads, best * 1e6,
              timed.operations / best * 1e-9);
}

Timed GemmOf(DType in, DType out, int64_t m, int64_t n, int64_t k, bool trans_b = false) {
  return {StrCat("gemm ", Name(in), " ", m, "x", n, "x", k, trans_b ? " trans_b" : ""),
          "gemm",
          {{"m", m}, {"n", n}, {"k", k}, {"trans_b", trans_b}},
          {Shape(in, {m, k}), Shape(in, {k, n})},
          {Shape(out, {m, n})},
          2.0 * static_cast<double>(m * n * k)};
}

Timed SortOf(std::vector<DType> dtypes, int64_t rows, int64_t n) {
  std::vector<Shape> shapes;
  std::string name = "sort";
  for (DType dtype : dtypes) {
    shapes.push_back(Shape(dtype, {rows, n}));
    name += StrCat(" ", Name(dtype));
  }
  return {StrCat(name, " ", rows, "x", n),
          "sort",
          {{"outer", rows}, {"n", n}, {"zeros_equal", true}, {"nans_equal", true}},
          shapes,
          shapes,
          static_cast<double>(rows * n)};
}

Timed ConvolutionOf(DType dtype, int64_t batch, int64_t size, int64_t in, int64_t out,
                    int64_t window, int64_t groups = 1) {
  std::vector<int64_t> input = {batch, size, size, in}, kernel = {window, window, in / groups, out},
                       output = {batch, size, size, out}, nhwc = {0, 3, 1, 2}, hwio = {2, 3, 0, 1};
  return {StrCat("convolution ", Name(dtype), " ", batch, "x", size, "x", size, "x", in, " ",
                 window, "x", window, "x", out, " /", groups),
          "convolution",
          {{"input_shape", input},
           {"kernel_shape", kernel},
           {"output_shape", output},
           {"input_layout", nhwc},
           {"kernel_layout", hwio},
           {"output_layout", nhwc},
           {"pads", std::vector<int64_t>{window / 2, window / 2}},
           {"feature_groups", groups}},
          {Shape(dtype, input), Shape(dtype, kernel)},
          {Shape(dtype, output)},
          2.0 * static_cast<double>(batch * size * size * out * window * window * in / groups)};
}

Timed FftOf(DType dtype, int64_t batch, std::vector<int64_t> lengths) {
  std::vector<int64_t> dims = {batch};
  std::string name = StrCat("fft ", Name(dtype), " ", batch);
  double n = static_cast<double>(batch), bits = 0;
  for (int64_t length : lengths) {
    dims.push_back(length);
    name += StrCat("x", length);
    n *= static_cast<double>(length);
    bits += std::log2(static_cast<double>(length));
  }
  Shape shape(dtype, dims);
  return {name,    "fft",   {{"type", std::string("fft")}, {"lengths", lengths}, {"batch", batch}},
          {shape}, {shape}, 5 * n * bits};
}

std::vector<Timed> All() {
  DType f32 = DType::kF32, f64 = DType::kF64, bf16 = DType::kBF16, s32 = DType::kS32;
  std::vector<Timed> all;
  for (DType dtype : {f32, f64}) {
    for (int64_t n : {16, 64, 128, 256, 1024}) all.push_back(GemmOf(dtype, dtype, n, n, n));
  }
  all.push_back(GemmOf(f32, f32, 1, 4096, 4096));
  all.push_back(GemmOf(f32, f32, 1, 4096, 4096, true));
  all.push_back(GemmOf(f32, f32, 4, 4096, 4096));
  all.push_back(GemmOf(f32, f32, 64, 64, 64, true));
  all.push_back(GemmOf(bf16, bf16, 1024, 1024, 1024));
  all.push_back(GemmOf(bf16, bf16, 1, 4096, 4096));
  all.push_back(GemmOf(DType::kS8, s32, 1024, 1024, 1024));
  all.push_back(GemmOf(DType::kC64, DType::kC64, 512, 512, 512));
  all.push_back(SortOf({f32}, 1, 1 << 20));
  all.push_back(SortOf({f32, s32}, 1, 1 << 20));
  all.push_back(SortOf({f64}, 1, 1 << 20));
  all.push_back(SortOf({s32}, 1, 1 << 20));
  all.push_back(SortOf({f32}, 8192, 128));
  all.push_back(SortOf({f32, s32}, 1024, 1024));
  all.push_back(ConvolutionOf(f32, 8, 56, 64, 64, 3));
  all.push_back(ConvolutionOf(f32, 8, 56, 64, 256, 1));
  all.push_back(ConvolutionOf(bf16, 8, 56, 64, 64, 3));
  all.push_back(ConvolutionOf(f32, 8, 56, 64, 64, 3, 64));
  DType c64 = DType::kC64;
  for (int64_t n : {256, 1000, 4096, 4099}) all.push_back(FftOf(c64, 64, {n}));
  all.push_back(FftOf(DType::kC128, 64, {4096}));
  all.push_back(FftOf(c64, 1, {1 << 20}));
  all.push_back(FftOf(c64, 4, {512, 512}));
  Shape state(DType::kU64, {2}), bits(DType::kU32, {1 << 20});
  for (std::string algorithm : {"three_fry", "philox"}) {
    all.push_back({"rng_bit_generator " + algorithm,
                   "rng_bit_generator",
                   {{"algorithm", algorithm}, {"dims", std::vector<int64_t>{1 << 20}}},
                   {state},
                   {state, bits},
                   1 << 20});
  }
  all.push_back({"topk f32 64x32000 k 40",
                 "topk",
                 {{"rows", int64_t{64}}, {"n", int64_t{32000}}, {"k", int64_t{40}}},
                 {Shape(f32, {64, 32000})},
                 {Shape(f32, {64, 40}), Shape(s32, {64, 40})},
                 64 * 32000.0});
  return all;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::string filter = argc > 2 ? argv[2] : "";
  for (const weft::cpu::Timed& timed : weft::cpu::All()) {
    if (timed.name.find(filter) != std::string::npos) weft::cpu::Run(timed, threads);
  }
}
