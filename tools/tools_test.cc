// What the command does in children: finding where a module dies, and making it smaller.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "args.h"
#include "child.h"
#include "crash_site.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "privacy.h"
#include "reduce_steps.h"

namespace weft::tools {
namespace {

using compiler::PassContext;
using hlo::Instruction;
using hlo::Module;

ModulePtr Parse(const std::string& text) {
  Result<ModulePtr> module = hlo::ParseModule(text);
  if (!module) ADD_FAILURE() << module.error().ToString("text");
  return module ? std::move(*module) : nullptr;
}

bool Has(const Module& module, hlo::Op op) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() == op) return true;
    }
  }
  return false;
}

// Planted passes: one makes sines of cosines, others do not live through a sine.
Result<bool> DoNothing(Module&, const PassContext&) {
  return false;
}
Result<bool> MakeSines(Module& module, const PassContext&) {
  bool changed = false;
  for (Instruction* i : module.entry()->Snapshot()) {
    if (i->op() != hlo::Op::kCosine) continue;
    Instruction* const operand = i->operand(0);
    i->ReplaceAllUsesWith(module.entry()->Add(hlo::Op::kSine, module.UniqueName("sine"), i->shape(),
                                              {&operand, 1}, i->attrs(), i));
    changed = true;
  }
  return changed;
}
Result<bool> CrashOnSine(Module& module, const PassContext&) {
  if (Has(module, hlo::Op::kSine)) std::abort();
  return false;
}
Result<bool> FailOnSine(Module& module, const PassContext&) {
  if (Has(module, hlo::Op::kSine)) return MakeError(Code::kInternal, "a sine, of all things");
  return false;
}
Result<bool> HangOnSine(Module& module, const PassContext&) {
  while (Has(module, hlo::Op::kSine)) usleep(1000);
  return false;
}
constexpr compiler::Pass kNothing{"do-nothing", DoNothing}, kMake{"make-sines", MakeSines},
    kCrash{"crash-on-sine", CrashOnSine}, kFail{"fail-on-sine", FailOnSine},
    kHang{"hang-on-sine", HangOnSine};

const char kCosine[] = "ENTRY main {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] cosine(x)\n}\n";
const char kSine[] = "ENTRY main {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] sine(x)\n}\n";

CrashSite SiteOf(const char* text, std::vector<const compiler::Pass*> passes, double seconds = 60,
                 bool crash_behind = false) {
  ModulePtr module = Parse(text);
  compiler::CompileOptions options;
  return FindCrashSite(
      {.module = *module,
       .options = options,
       .passes = passes,
       .rest =
           [&](const Module& now, const std::function<void(std::string_view)>& stage) {
             stage("lowering");
             if (crash_behind && Has(now, hlo::Op::kSine)) std::raise(SIGSEGV);
             stage("running");
             return 0;
           },
       .seconds = seconds});
}

TEST(CrashSiteTest, NamesThePassOnTheStackAndTheOneBefore) {
  CrashSite site = SiteOf(kCosine, {&kNothing, &kMake, &kNothing, &kNothing, &kCrash, &kNothing});
  EXPECT_EQ(site.status, kChildSignal + SIGABRT);
  EXPECT_EQ(site.stage, "pass crash-on-sine");
  EXPECT_EQ(site.pass, 4);
  EXPECT_EQ(site.made_by_name, "make-sines");
  EXPECT_EQ(site.made_by, 1);
  EXPECT_EQ(site.prefix, "do-nothing,make-sines");
  std::string text = DescribeCrash(site, 60, "m.hlo");
  EXPECT_TRUE(text.contains("crash in pass crash-on-sine (5 of 6): signal 6")) << text;
  EXPECT_TRUE(text.contains("pass make-sines (2 of 6) makes the module")) << text;
  EXPECT_TRUE(text.contains("weft opt --passes=do-nothing,make-sines m.hlo > before.hlo\n"))
      << text;
  EXPECT_TRUE(text.contains("weft opt --passes=crash-on-sine before.hlo\n")) << text;
}

TEST(CrashSiteTest, PassesThatMatter) {
  ModulePtr module = Parse(kCosine);
  compiler::CompileOptions options;
  std::vector<const compiler::Pass*> passes = {&kNothing, &kMake, &kNothing, &kCrash};
  // Disabling looks names up among the real passes, so these stand in for a planted one.
  const compiler::Pass make{"simplify", MakeSines}, nothing{"fuse", DoNothing};
  passes[0] = passes[2] = &nothing;
  passes[1] = &make;
  CrashRequest request{*module, options, passes, [](const Module&, const auto&) { return 0; }, 60};
  CrashSite site = FindCrashSite(request);
  EXPECT_EQ(site.made_by_name, "simplify");
  EXPECT_EQ(PassesThatMatter(request, site), std::vector<std::string>{"simplify"});
}

TEST(CrashSiteTest, TheModuleAsItCame) {
  CrashSite site = SiteOf(kSine, {&kNothing, &kMake, &kCrash});
  EXPECT_EQ(site.stage, "pass crash-on-sine");
  EXPECT_EQ(site.made_by, -1);
  EXPECT_EQ(site.prefix, "");
  EXPECT_TRUE(DescribeCrash(site, 60, "m.hlo").contains("on the module as it came"));
}

TEST(CrashSiteTest, ErrorsHangsAndWhatComesBehindThePasses) {
  CrashSite failed = SiteOf(kCosine, {&kMake, &kFail});
  EXPECT_EQ(failed.stage, "pass fail-on-sine");
  EXPECT_EQ(failed.error, "a sine, of all things");
  EXPECT_EQ(failed.made_by_name, "make-sines");
  EXPECT_TRUE(
      DescribeCrash(failed, 60, "m.hlo").starts_with("error in pass fail-on-sine (2 of 2)"));
  CrashSite hang = SiteOf(kCosine, {&kMake, &kHang}, 0.5);
  EXPECT_EQ(hang.status, kChildTimedOut);
  EXPECT_EQ(hang.stage, "pass hang-on-sine");
  EXPECT_EQ(hang.made_by_name, "make-sines");
  CrashSite behind = SiteOf(kCosine, {&kNothing, &kMake, &kNothing}, 60, true);
  EXPECT_EQ(behind.status, kChildSignal + SIGSEGV);
  EXPECT_EQ(behind.stage, "lowering");
  EXPECT_EQ(behind.pass, -1);
  EXPECT_EQ(behind.made_by_name, "make-sines");
  EXPECT_EQ(SiteOf(kCosine, {&kNothing}).status, 0);
}

TEST(ChildTest, TheFirstThatIsWanted) {
  auto sleep_then = [](size_t i) {
    usleep(i == 0 ? 100'000 : 1000);
    return static_cast<int>(i);
  };
  auto at_least = [](int least) { return [least](size_t, int status) { return status >= least; }; };
  EXPECT_EQ(FirstChild(5, sleep_then, at_least(0), {.at_once = 3}), 0);  // the slowest comes first
  EXPECT_EQ(FirstChild(5, sleep_then, at_least(3), {.at_once = 2}), 3);
  EXPECT_EQ(FirstChild(5, sleep_then, at_least(9), {.at_once = 2}), -1);
  EXPECT_EQ(FirstChild(0, sleep_then, at_least(0), {}), -1);
}

TEST(ChildTest, HowTheyEnd) {
  EXPECT_EQ(InChild([] { return 7; }, {}), 7);
  EXPECT_EQ(InChild([]() -> int { std::abort(); }, {}), kChildSignal + SIGABRT);
  auto start = std::chrono::steady_clock::now();
  // It and what it starts.
  EXPECT_EQ(InChild([] { return system("sleep 30"); }, {.seconds = 0.2}), kChildTimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ChildTest, InterruptsEndChildrenAndNothingElse) {
  InterruptScope scope;
  EXPECT_FALSE(Interrupted());
  int status = InChild(
      [] {
        kill(getppid(), SIGINT);
        sleep(30);
        return 0;
      },
      {.seconds = 60});
  EXPECT_TRUE(Interrupted());
  EXPECT_EQ(status, kChildStopped);
}

// Reduces in this process.
ModulePtr Reduce(const std::string& text, const std::function<bool(const Module&)>& fails) {
  ModulePtr module = Parse(text);
  return ReduceModule(std::move(module),
                      [&](size_t n, const std::function<ModulePtr(size_t)>& make) {
                        for (size_t i = 0; i < n; ++i) {
                          ModulePtr made = make(i);
                          if (made && hlo::Verify(*made) && fails(*made))
                            return static_cast<int>(i);
                        }
                        return -1;
                      });
}

TEST(ReduceTest, TakesBodiesBranchesAndCallsApart) {
  const char text[] = R"(HloModule deep
inner {
  a = f32[8] parameter(0)
  b = f32[8] exponential(a)
  c = f32[8] sine(b)
  ROOT d = f32[8] negate(c)
}
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  v = f32[8] get-tuple-element(s), index=1
  w = f32[8] call(v), to_apply=inner
  u = f32[8] multiply(w, v)
  ROOT t = (s32[], f32[8]) tuple(n, u)
}
condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT r = pred[] compare(i, ten), direction=LT
}
ENTRY main {
  z = s32[] constant(0)
  x = f32[8] parameter(0), metadata={op_name="f" source_file="a.py" source_line=3}
  t = (s32[], f32[8]) tuple(z, x)
  l = (s32[], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(l), index=1
}
)";
  ModulePtr small = Reduce(text, [](const Module& m) { return Has(m, hlo::Op::kSine); });
  EXPECT_LE(small->instruction_count(), 2) << hlo::PrintModule(*small);
  EXPECT_FALSE(hlo::PrintModule(*small).contains("a.py"));
  // Where the loop itself is the matter, what is in it goes.
  ModulePtr loop = Reduce(text, [](const Module& m) { return Has(m, hlo::Op::kWhile); });
  EXPECT_TRUE(Has(*loop, hlo::Op::kWhile));
  EXPECT_FALSE(Has(*loop, hlo::Op::kSine)) << hlo::PrintModule(*loop);
  EXPECT_FALSE(Has(*loop, hlo::Op::kExponential)) << hlo::PrintModule(*loop);
}

// Two operations that are far from each other in a long module, in few trials.
TEST(ReduceTest, FewTrials) {
  std::string text = "HloModule long\nENTRY main {\n  v0 = f32[64] parameter(0)\n";
  for (int i = 1; i < 1500; ++i) {
    const char* op = i == 300 ? "sine" : i == 1200 ? "cosine" : i % 3 == 0 ? "negate" : "abs";
    text += StrCat("  v", i, " = f32[64] ", op, "(v", i - 1, ")\n");
  }
  text += "  ROOT r = f32[64] exponential(v1499)\n}\n";
  int trials = 0;
  ModulePtr small = Reduce(text, [&](const Module& m) {
    ++trials;
    return Has(m, hlo::Op::kSine) && Has(m, hlo::Op::kCosine);
  });
  EXPECT_LE(small->instruction_count(), 4) << hlo::PrintModule(*small);
  EXPECT_LT(trials, 200);
}

std::string ErrorOf(std::vector<const char*> words) {
  Args args(words);
  args.Number("--tolerance", 0);
  args.Int("--bench", 1, 1);
  args.Int("--devices", 1, 1, 64);
  args.Int("--seed", 0);
  auto files = args.Finish(0, 1);
  return files ? "" : files.error().message();
}

TEST(ArgsTest, ErrorsSayWhatIsMeantAndWhatIsTaken) {
  EXPECT_EQ(ErrorOf({"--bench", "3", "a.hlo"}), "");
  EXPECT_EQ(ErrorOf({"--tolerence=3"}), "unknown flag: --tolerence=3; did you mean `--tolerance`?");
  EXPECT_EQ(ErrorOf({"--quickly"}), "unknown flag: --quickly");
  EXPECT_EQ(ErrorOf({"--bench", "0"}), "--bench: not a whole number of at least 1: 0");
  EXPECT_EQ(ErrorOf({"--devices", "99"}), "--devices: not a whole number from 1 to 64: 99");
  EXPECT_EQ(ErrorOf({"--seed", "x"}), "--seed: not a whole number: x");
}

TEST(Privacy, PathsLoseTheirFolders) {
  EXPECT_EQ(ShortenPaths("at /home/me/code/model.py:5 (step)"), "at .../model.py:5 (step)");
  EXPECT_EQ(ShortenPaths("source_file=\"/home/my name/m.py\" x"), "source_file=\".../m.py\" x");
  EXPECT_EQ(ShortenPaths("File '/a/venv/lib/site-packages/jax/core.py'"),
            "File '.../site-packages/jax/core.py'");
  EXPECT_EQ(ShortenPaths("A=~/secret/x:/data/y/,~me"), "A=.../x:.../y,~");
  EXPECT_EQ(ShortenPaths("it's /b/c 'd"), "it's .../c 'd");
}

TEST(Privacy, WhatIsNoPathStays) {
  for (std::string_view text :
       {"// test: run", "a/b.py", "https://example.org/a/b", "x / y", "f32[2]{1,0} ~ 3", "/tmp"}) {
    EXPECT_EQ(ShortenPaths(text), text);
  }
}

TEST(Privacy, NamesAreHiddenAsWords) {
  EXPECT_EQ(HideNames("ann, ann_ and anna on box7", {"ann", "box7"}),
            "xxxx, ann_ and anna on xxxx");
  EXPECT_EQ(HideNames("me", {"me", ""}), "me");
}

TEST(Privacy, MasksKeepTheLength) {
  EXPECT_EQ(MaskFolders("..\1/home/ann/code/m.py\2..", {"/home/ann", "/"}),
            "..\1/xxxx/xxx/xxxx/m.py\2..");
  EXPECT_EQ(MaskFolders("/home/ann", {"/home/ann"}), "/xxxx/xxx");
}

}  // namespace
}  // namespace weft::tools
