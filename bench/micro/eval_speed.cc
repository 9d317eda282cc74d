// Latency of prepared evaluations, and the throughput of what JAX programs are made of.
//   eval_speed [NAME_PART | FILE.hlo...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str.h"
#include "hlo/evaluator.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

struct Case {
  std::string name;
  std::string text;
  double work = 0;        // per run: elements, ops or flops
  bool donate = false;    // the first result is the first argument of the next run
  const char* unit = "";  // of work
};

std::string ManyParameters(int n) {
  std::string text = "HloModule m\nENTRY e {\n", shapes, names;
  for (int i = 0; i < n; ++i) StrAppend(text, "  p", i, " = f32[8] parameter(", i, ")\n");
  for (int i = 0; i < n; ++i) {
    StrAppend(text, "  r", i, " = f32[8] negate(p", i, ")\n");
    StrAppend(shapes, i == 0 ? "" : ", ", "f32[8]");
    StrAppend(names, i == 0 ? "" : ", ", "r", i);
  }
  StrAppend(text, "  ROOT t = (", shapes, ") tuple(", names, ")\n}\n");
  return text;
}

std::string Chain(const std::string& shape, int n) {
  std::string text = "HloModule m\nENTRY e {\n  x0 = " + shape + " parameter(0)\n  p1 = " + shape +
                     " parameter(1)\n";
  const char* ops[] = {"add", "multiply", "subtract", "maximum"};
  for (int i = 0; i < n; ++i) {
    StrAppend(text, i + 1 == n ? "  ROOT x" : "  x", i + 1, " = ", shape, " ", ops[i % 4], "(x", i,
              ", p1)\n");
  }
  return text + "}\n";
}

std::string Loop(int steps) {
  return StrCat(R"(HloModule m
body {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[] constant(0.5)
  y = f32[] multiply(x, c)
  z = f32[] add(y, c)
  f = f32[] convert(i)
  w = f32[] maximum(z, f)
  ROOT t = (s32[], f32[]) tuple(j, w)
}
condition {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant()",
                steps, R"()
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  i = s32[] constant(0)
  x = f32[] parameter(0)
  t = (s32[], f32[]) tuple(i, x)
  ROOT w = (s32[], f32[]) while(t), condition=condition, body=body
})");
}

std::string Calls(int n) {
  std::string text =
      "HloModule m\nf {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  x0 = f32[] parameter(0)\n";
  for (int i = 0; i < n; ++i) {
    StrAppend(text, i + 1 == n ? "  ROOT x" : "  x", i + 1, " = f32[] call(x", i,
              ", x0), to_apply=f\n");
  }
  return text + "}\n";
}

std::vector<Case> LatencyCases() {
  return {
      {"add_scalar",
       "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
       "  ROOT c = f32[] add(a, b)\n}\n"},
      {"params_50", ManyParameters(50)},
      {"dus_donated_1M",
       "HloModule m\nENTRY e {\n  a = f32[1000000] parameter(0)\n  u = f32[1] parameter(1)\n"
       "  i = s32[] constant(5)\n  ROOT c = f32[1000000] dynamic-update-slice(a, u, i)\n}\n",
       0, true},
      {"scalar_chain_1000", Chain("f32[]", 1000), 1000, false, "op"},
      {"small_chain_100", Chain("f32[64]", 100), 100, false, "op"},
      {"loop_1000", Loop(1000), 12000, false, "op"},
      {"calls_1000", Calls(1000), 1000, false, "call"},
      {"chain_1e5", Chain("f32[100000]", 10), 1e6, false, "element"},
      {"chain_1e6", Chain("f32[1000000]", 10), 1e7, false, "element"},
      {"chain_bf16_1e5", Chain("bf16[100000]", 10), 1e6, false, "element"},
      {"chain_s32_1e5", Chain("s32[100000]", 10), 1e6, false, "element"},
  };
}

// Seconds of one run: the best of several batches.
double TimeOf(const hlo::Evaluator& evaluator, const Case& c, std::vector<Literal> arguments) {
  double best = 1e9, total = 0;
  int64_t batch = 1;
  for (int round = 0; round < 1000 && (round < 3 || total < 0.3); ++round) {
    Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < batch; ++i) {
      std::vector<Literal> given;
      given.reserve(arguments.size());
      for (size_t a = 0; a < arguments.size(); ++a) {
        given.push_back(a == 0 && c.donate ? std::move(arguments[0]) : arguments[a]);
      }
      Result<Literal> result = evaluator.Run(given);
      if (!result) {
        std::printf("%s: %s\n", c.name.c_str(), result.error().ToString().c_str());
        return 0;
      }
      if (c.donate) arguments[0] = std::move(*result);
    }
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds / static_cast<double>(batch));
    total += seconds;
    if (seconds < 1e-3) batch *= 4;
  }
  return best;
}

void RunCase(const Case& c) {
  Result<std::unique_ptr<hlo::Module>> module = hlo::ParseModule(c.text);
  if (!module) {
    std::printf("%s: %s\n", c.name.c_str(), module.error().ToString().c_str());
    return;
  }
  hlo::EvalOptions options;
  Result<std::unique_ptr<hlo::Evaluator>> evaluator = hlo::Evaluator::Prepare(**module, options);
  Result<std::vector<Literal>> arguments = hlo::RandomArguments(*(*module)->entry(), 1);
  if (!evaluator || !arguments) {
    std::printf("%s: cannot prepare\n", c.name.c_str());
    return;
  }
  double seconds = TimeOf(**evaluator, c, *arguments);
  std::printf("%-24s %12.3f us", c.name.c_str(), seconds * 1e6);
  if (c.work > 0) std::printf("  %10.3f ns/%s", seconds * 1e9 / c.work, c.unit);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  bool files = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (!name.ends_with(".hlo")) continue;
    files = true;
    Result<std::string> text = ReadFile(argv[i]);
    if (!text) return 1;
    name.remove_prefix(name.rfind('/') + 1);
    RunCase({std::string(name), *text});
  }
  if (files) return 0;
  for (const Case& c : LatencyCases()) {
    if (argc < 2 || c.name.find(argv[1]) != std::string::npos) RunCase(c);
  }
  return 0;
}
