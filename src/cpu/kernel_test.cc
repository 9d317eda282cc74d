// Kernels: every operation and storage format, for several numbers of lanes, against the
// interpreter.
#include "base/elements.h"
#include "cpu/native/testing.h"

namespace weft::cpu {
namespace {

using program::Access;
using program::BufferKind;
using program::KernelBuilder;
using program::LoopKind;
using program::Op;
using program::OpClass;
using program::Program;
using program::Type;
using program::ValueId;

constexpr DType kComputeTypes[] = {DType::kPred, DType::kS8,  DType::kS16, DType::kS32,
                                   DType::kS64,  DType::kU8,  DType::kU16, DType::kU32,
                                   DType::kU64,  DType::kF32, DType::kF64};
constexpr DType kStorageTypes[] = {DType::kPred,     DType::kS2,         DType::kS4,
                                   DType::kS8,       DType::kU2,         DType::kU4,
                                   DType::kU16,      DType::kF4E2M1FN,   DType::kF6E2M3FN,
                                   DType::kF6E3M2FN, DType::kF8E3M4,     DType::kF8E4M3,
                                   DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E4M3B11FNUZ,
                                   DType::kF8E5M2,   DType::kF8E5M2FNUZ, DType::kF8E8M0FNU,
                                   DType::kF16,      DType::kBF16,       DType::kF32,
                                   DType::kF64};
constexpr int kLaneCounts[] = {1, 2, 4, 8, 16};
constexpr int64_t kCount = 64;

// A program of many kernels over the same parameters, each with a result of its own.
struct Bench {
  Program program;
  std::vector<program::BufferId> parameters;
  std::vector<Literal> arguments;
  std::vector<std::string> names;  // of results
  std::vector<int64_t> ulps;
  using Body = std::function<ValueId(KernelBuilder&, const std::vector<ValueId>& loaded)>;

  Bench() { program.name = "bench"; }

  void Parameter(Literal value) {
    int64_t n = static_cast<int64_t>(arguments.size());
    parameters.push_back(
        AddBuffer(program, StrCat("p", n), value.shape(), BufferKind::kParameter, n));
    arguments.push_back(std::move(value));
  }

  // y[i] = body(parameters[i]...), in steps of `lanes`.
  void Add(const std::string& name, DType result, int lanes, const std::vector<size_t>& inputs,
           const Body& body, int64_t allowed = 0) {
    int64_t n = static_cast<int64_t>(names.size()), count = arguments[inputs[0]].size();
    program::BufferId y =
        AddBuffer(program, StrCat("y", n), Shape(result, {count}), BufferKind::kResult, n);
    KernelBuilder b(StrCat("k", n));
    std::vector<KernelBuilder::MemoryId> memories;
    std::vector<program::Use> uses;
    for (size_t i : inputs) {
      memories.push_back(
          b.Param(StrCat("p", memories.size()), arguments[i].dtype(), count, Access::kRead));
      uses.push_back(In(program, parameters[i]));
    }
    auto out = b.Param("out", result, count, Access::kWrite);
    uses.push_back(Out(program, y));
    b.For(
        LoopKind::kSerial, 0, count,
        [&](ValueId i) {
          std::vector<ValueId> loaded;
          for (auto m : memories) loaded.push_back(b.Load(m, i, lanes));
          b.Store(out, i, body(b, loaded));
        },
        lanes);
    program.steps.push_back(MakeStep(program::KernelStep{AddKernel(program, std::move(b).Build())},
                                     std::move(uses), name));
    names.push_back(name);
    ulps.push_back(allowed);
  }

  void Check() {
    auto expected = program::Interpret(program, arguments);
    ASSERT_TRUE(expected) << expected.error().ToString();
    auto loaded = LoadForTest(program);
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    auto native = RunLoaded(**loaded, arguments);
    ASSERT_TRUE(native) << native.error().ToString();
    for (size_t i = 0; i < names.size(); ++i) {
      ExpectSame((*native)[i], (*expected)[i], ulps[i], names[i]);
    }
  }
};

bool Takes(const program::OpInfo& info, Op op, DType d) {
  bool arith = IsInteger(d) || IsFloat(d);
  switch (info.cls) {
    case OpClass::kArith: return arith;
    case OpClass::kFloat: return IsFloat(d);
    case OpClass::kInteger: return IsInteger(d);
    case OpClass::kBits: return IsInteger(d) || d == DType::kPred;
    case OpClass::kCompare: return arith || op == Op::kEq || op == Op::kNe;
    default: return false;
  }
}

class OpTest : public testing::TestWithParam<DType> {};

TEST_P(OpTest, LikeInterpreter) {
  DType d = GetParam();
  for (int lanes : kLaneCounts) {
    Bench bench;
    for (uint64_t i = 0; i < 3; ++i) bench.Parameter(RandomLiteral(Shape(d, {kCount}), 10 + i));
    Literal small = RandomLiteral(Shape(d, {kCount}), 20);  // as amounts of shifts, as divisors
    for (int64_t i = 0; i < kCount; ++i) small.SetInt(i, d == DType::kPred ? i % 2 : i % 70 - 3);
    bench.Parameter(small);
    bench.Parameter(RandomLiteral(Shape(DType::kPred, {kCount}), 30));
    for (int n = 0; n < program::kOpCount; ++n) {
      Op op = static_cast<Op>(n);
      const program::OpInfo& info = program::Info(op);
      if (!Takes(info, op, d)) continue;
      bool compare = info.cls == OpClass::kCompare;
      int64_t ulps = op >= Op::kExp2 && op <= Op::kCos ? 2 : 0;
      for (size_t other : {1u, 3u}) {
        std::vector<size_t> inputs = {0};
        if (info.arity > 1) inputs.push_back(other);
        if (info.arity > 2) inputs.push_back(2);
        bench.Add(
            StrCat(info.name, " ", Name(d), "x", lanes), compare ? DType::kPred : d, lanes, inputs,
            [&](KernelBuilder& b, const std::vector<ValueId>& v) {
              if (v.size() == 1) return b.Emit(op, {v[0]});
              if (v.size() == 2) return b.Emit(op, {v[0], v[1]});
              return b.Emit(op, {v[0], v[1], v[2]});
            },
            ulps);
        if (info.arity == 1) break;
      }
      // The second operand a constant, which is a case of its own for divisions and shifts.
      if (info.arity != 2 || d == DType::kPred) continue;
      for (int64_t constant : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{-1}, int64_t{70}}) {
        if (constant < 0 && IsUnsigned(d)) continue;
        bench.Add(
            StrCat(info.name, " ", Name(d), "x", lanes, " by ", constant),
            compare ? DType::kPred : d, lanes, {0},
            [&](KernelBuilder& b, const std::vector<ValueId>& v) {
              return b.Emit(op, {v[0], b.Number(static_cast<double>(constant), {d, lanes})});
            },
            0);
      }
    }
    bench.Add(StrCat("select ", Name(d), "x", lanes), d, lanes, {4, 0, 1},
              [&](KernelBuilder& b, const std::vector<ValueId>& v) {
                return b.Select(v[0], v[1], v[2]);
              });
    bench.Add(StrCat("lanes ", Name(d), "x", lanes), d, lanes, {0, 1},
              [&](KernelBuilder& b, const std::vector<ValueId>& v) {
                std::vector<int32_t> order;
                for (int i = 0; i < lanes; ++i) order.push_back((i * 5 + lanes) % (2 * lanes));
                ValueId mixed = b.Shuffle(v[0], v[1], order);
                ValueId first = b.Splat(b.Extract(mixed, lanes - 1), lanes);
                std::vector<int32_t> twice;
                for (int i = 0; i < lanes; ++i) twice.push_back(i % 2 == 0 ? i : lanes + i);
                return b.Shuffle(mixed, first, twice);
              });
    bench.Check();
  }
}
INSTANTIATE_TEST_SUITE_P(Types, OpTest, testing::ValuesIn(kComputeTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(Cast, AllPairs) {
  for (DType from : kComputeTypes) {
    Bench bench;
    bench.Parameter(RandomLiteral(Shape(from, {kCount}), 3));
    Literal edges(Shape(from, {kCount}));
    for (int64_t i = 0; i < kCount; ++i) {
      double value = std::ldexp(1.0, static_cast<int>(i)) - (i % 3 == 0 ? 1 : 0);
      if (IsFloat(from)) {
        edges.SetDouble(i, i % 2 ? -value * 1.5 : value);
      } else {
        edges.SetInt(i,
                     from == DType::kPred ? i % 2 : static_cast<int64_t>(uint64_t{1} << i) - i % 2);
      }
    }
    bench.Parameter(edges);
    for (DType to : kComputeTypes) {
      for (int lanes : {1, 4, 16}) {
        for (size_t input : {0u, 1u}) {
          bench.Add(
              StrCat("cast ", Name(from), " to ", Name(to), "x", lanes), to, lanes, {input},
              [&](KernelBuilder& b, const std::vector<ValueId>& v) { return b.Cast(v[0], to); });
          if (from == DType::kPred || to == DType::kPred || BitWidth(from) != BitWidth(to))
            continue;
          bench.Add(
              StrCat("bitcast ", Name(from), " to ", Name(to), "x", lanes), to, lanes, {input},
              [&](KernelBuilder& b, const std::vector<ValueId>& v) { return b.Bitcast(v[0], to); });
        }
      }
    }
    bench.Check();
  }
}

// Every pattern of the format, read; then values between and around all of them, written.
TEST(Storage, EveryValue) {
  for (DType d : kStorageTypes) {
    DType compute = program::ComputeType(d);
    Bench bench;
    int64_t patterns = ByteWidth(d) == 1 ? 256 : 65536;
    Literal all(Shape(d, {patterns}));
    for (int64_t i = 0; i < patterns && ByteWidth(d) <= 2; ++i) {
      std::byte* at = all.mutable_data() + i * ByteWidth(d);
      if (IsFloat(d) || BitWidth(d) >= 8) {
        std::memcpy(at, &i, static_cast<size_t>(ByteWidth(d)));
      } else {
        all.SetInt(i, i);
      }
    }
    bench.Parameter(all);
    Literal values(Shape(compute, {4 * patterns}));
    for (int64_t i = 0; i < 4 * patterns; ++i) {
      if (!IsFloat(d)) {
        values.SetInt(i, i * 37 - 1000);
        continue;
      }
      if (d == DType::kF64) break;
      float base = static_cast<float>(all.GetDouble(i % patterns));
      float after = static_cast<float>(all.GetDouble((i + 1) % patterns));
      float middle = static_cast<float>((static_cast<double>(base) + after) / 2);
      float chosen = i < patterns       ? base
                     : i < 2 * patterns ? middle
                     : i < 3 * patterns ? std::nextafterf(middle, INFINITY)
                                        : std::nextafterf(middle, -INFINITY);
      values.SetDouble(i, chosen);
    }
    if (IsFloat(d)) {
      int64_t i = 0;
      for (double special : {0.0, -0.0, 1e-45, -1e-45, 1e38, -1e38, 1e-38, 0.7, -0.7}) {
        values.SetDouble(i++, special);
      }
      values.SetDouble(i++, INFINITY);
      values.SetDouble(i++, -INFINITY);
      values.SetNan(i++, false, std::nullopt);
      values.SetNan(i++, true, std::nullopt);
    }
    bench.Parameter(values);
    auto same = [](KernelBuilder&, const std::vector<ValueId>& v) { return v[0]; };
    for (int lanes : {1, 4, 16}) {
      bench.Add(StrCat("load ", Name(d), "x", lanes), compute, lanes, {0}, same);
      bench.Add(StrCat("store ", Name(d), "x", lanes), d, lanes, {1}, same);
      if (d == compute) continue;
      bench.Add(StrCat("narrow ", Name(d), "x", lanes), compute, lanes, {1},
                [&](KernelBuilder& b, const std::vector<ValueId>& v) { return b.Narrow(v[0], d); });
    }
    bench.Check();
  }
}

// Masks, gathers and scatters.
TEST(Memory, MasksAndIndices) {
  for (DType d :
       {DType::kF32, DType::kS8, DType::kBF16, DType::kPred, DType::kF64, DType::kF8E5M2}) {
    for (int lanes : kLaneCounts) {
      constexpr int64_t n = 32;
      KernelBuilder b("indices");
      auto x = b.Param("x", d, n, Access::kRead);
      auto m = b.Param("m", DType::kPred, n, Access::kRead);
      auto at = b.Param("at", DType::kS32, n, Access::kRead);
      auto masked = b.Param("masked", d, n, Access::kWrite);
      auto gathered = b.Param("gathered", d, n, Access::kWrite);
      auto both = b.Param("both", d, n, Access::kWrite);
      auto scattered = b.Param("scattered", d, n, Access::kWrite);
      b.For(
          LoopKind::kSerial, 0, n,
          [&](ValueId i) {
            ValueId zero = b.Number(0, {program::ComputeType(d), lanes});
            b.Store(scattered, i, zero);
            b.Store(both, i, zero);
            b.Store(masked, i, zero);
          },
          lanes);
      b.For(
          LoopKind::kSerial, 0, n,
          [&](ValueId i) {
            ValueId mask = b.Load(m, i, lanes), index = b.Load(at, i, lanes);
            ValueId v = b.Load(x, i, lanes, mask);
            b.Store(masked, i, v, b.Emit(Op::kNot, {mask}));
            b.Store(masked, i, v, mask);
            b.Store(gathered, i, b.Load(x, index, lanes));
            b.Store(both, i, b.Load(x, index, lanes, mask), mask);
            b.Store(scattered, index, b.Load(x, i, lanes), mask);
          },
          lanes);
      Program program;
      program.name = "indices";
      std::vector<program::Use> uses;
      auto parameter = [&](DType type, int64_t number) {
        auto id = AddBuffer(program, StrCat("p", number), Shape(type, {n}), BufferKind::kParameter,
                            number);
        uses.push_back(In(program, id));
      };
      parameter(d, 0);
      parameter(DType::kPred, 1);
      parameter(DType::kS32, 2);
      for (int64_t r = 0; r < 4; ++r) {
        auto id = AddBuffer(program, StrCat("r", r), Shape(d, {n}), BufferKind::kResult, r);
        uses.push_back(Out(program, id));
      }
      int32_t kernel = AddKernel(program, std::move(b).Build());
      program.steps.push_back(MakeStep(program::KernelStep{kernel}, std::move(uses)));
      Literal index(Shape(DType::kS32, {n}));
      for (int64_t i = 0; i < n; ++i) index.SetInt(i, (i * 13 + 5) % n);
      ExpectLikeInterpreter(
          program,
          {RandomLiteral(Shape(d, {n}), 1), RandomLiteral(Shape(DType::kPred, {n}), 2), index}, 0,
          StrCat("indices ", Name(d), "x", lanes));
    }
  }
}

const char kLoops[] = R"(
program loops
buffer n: s32[1] parameter 0
buffer y: s64[8] result 0
buffer big: f32[1] result 1
kernel loops(read n: s32[1], write y: s64[8], write big: f32[1]) {
  %n = load s32 n[0]
  serial %i: s32 = 0..%n carry %a: s64 = 1, %b: s64 = 2 {
    %s = add s64 %a, %b
  } yield %b, %s -> %fa, %fb
  store s64 y[0], %fa
  store s64 y[1], %fb
  serial %j: s32 = 3..%n step 7 carry %c: s64 = 0 {
    %w = cast s64 from s32 %j
    %d = add s64 %c, %w
  } yield %d -> %e
  store s64 y[2], %e
  unroll %u = 0..5 carry %p: s64 = 1 {
    %q = mul s64 %p, 3
    %r = add s64 %q, %u
  } yield %r -> %t
  store s64 y[3], %t
  %big = gt s32 %n, 10
  if %big {
    serial %k = 0..4 carry %x: s64 = 0 { %x1 = add s64 %x, %k } yield %x1 -> %x2
  } yield %x2, s64 7 else {
    %z = neg s64 %fa
  } yield %z, %fb -> %g, %h
  store s64 y[4], %g
  store s64 y[5], %h
  if %big { store s64 y[6], 1 }
  %small = not pred %big
  if %small { store s64 y[6], 2 }
  serial %v: s32 = 2147483640..2147483647 step 5 carry %o: s64 = 0 { %o1 = add s64 %o, 1 } yield %o1 -> %o2
  store s64 y[7], %o2
  array heap: f32[200000]
  serial %f = 0..200000 { %f1 = cast f32 from s64 %f  store f32 heap[%f], %f1 }
  %f2 = load f32 heap[199999]
  store f32 big[0], %f2
}
steps { launch loops(read n, write y, write big) }
)";

TEST(Loops, CarryAndBranch) {
  auto program = program::Parse(kLoops);
  ASSERT_TRUE(program) << program.error().ToString("loops");
  for (int64_t n : {-3, 0, 1, 9, 40}) {
    Literal argument(Shape(DType::kS32, {1}));
    argument.SetInt(0, n);
    ExpectLikeInterpreter(*program, {argument}, 0, StrCat("loops of ", n));
  }
}

}  // namespace
}  // namespace weft::cpu
