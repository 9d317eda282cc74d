// What a report says, as JSON, and that nothing in a module becomes part of the page.
#include "inspect/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "hlo/text.h"
#include "inspect/compile_watch.h"
#include "inspect/json.h"
#include "inspect/memory_timeline.h"
#include "inspect/report_notes.h"
#include "inspect/report_sections.h"
#include "runtime/step_trace.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kStepModule = R"(HloModule step
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] tanh(x), metadata={op_name="jit(step)/tanh" source_file="model.py" source_line=5}
  zero = f32[] constant(0)
  gone = f32[64,64] add(y, y)
  s = f32[64] reduce(y, zero), dimensions={1}, to_apply=sum, metadata={source_file="model.py" source_line=6}
  d = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="model.py" source_line=7}
  e = f32[64,64] exponential(d), metadata={source_file="model.py" source_line=8}
  ROOT t = (f32[64,64], f32[64], f32[64,64]) tuple(e, s, y)
}
)";

// What CompileWatch keeps of a module.
std::shared_ptr<ProgramRecord> RecordOf(std::string_view text) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  auto record = std::make_shared<ProgramRecord>();
  record->AddInput(**module);
  compiler::RunnerHooks hooks;
  hooks.after = [&](const compiler::PassRun& run, const hlo::Module& now) {
    record->AddPass(run, now);
  };
  auto compiled = compiler::Compile(**module, {}, program::TargetInfo::GenericCpu(), hooks);
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  record->AddLowered(*compiled);
  return record;
}

std::string AllLines(const ProgramRecord& record, const LineRuns& runs) {
  std::string text;
  for (size_t i = 0; i < runs.size(); i += 2) {
    for (int64_t k = 0; k < runs[i + 1]; ++k) {
      StrAppend(text, *record.texts.texts()[static_cast<size_t>(runs[i] + k)], "\n");
    }
  }
  return text;
}

const PassRecord* FindPass(const ProgramRecord& record, std::string_view name, bool changed) {
  for (const PassRecord& pass : record.passes) {
    if (pass.name == name && pass.changed == changed) return &pass;
  }
  return nullptr;
}

TEST(JsonTest, Strings) {
  auto quoted = [](std::string_view text) {
    std::string out;
    AppendJsonString(out, text);
    return out;
  };
  EXPECT_EQ(quoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(quoted("</script><!--&"), "\"\\u003c/script\\u003e\\u003c!--\\u0026\"");
  EXPECT_EQ(quoted("µ €  𝄞"), "\"µ €  𝄞\"");
  // No UTF-8: a lone byte, a sequence that is cut off, a long form of '/', half a surrogate.
  EXPECT_EQ(quoted("\xff"), "\"\\ufffd\"");
  EXPECT_EQ(quoted("a\xe2\x82"), "\"a\\ufffd\\ufffd\"");
  EXPECT_EQ(quoted("\xc0\xaf"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
}

TEST(JsonTest, Nesting) {
  Json json;
  json.Open('{');
  json.Key("a", int64_t{1});
  json.Key("b");
  json.Open('[');
  json.Number(0.5);
  json.Null();
  json.Open('[');
  json.Close(']');
  json.Text("x");
  json.Close(']');
  json.Key("c", 1.0 / 0.0);
  json.Close('}');
  EXPECT_EQ(json.Take(), R"({"a":1,"b":[0.5,null,[],"x"],"c":null})");
}

TEST(ReportTest, PassesHaveOnlyWhatTheyChange) {
  std::shared_ptr<ProgramRecord> record = RecordOf(kStepModule);
  ASSERT_FALSE(record->passes.empty());
  EXPECT_EQ(record->passes[0].name, "input");
  EXPECT_EQ(record->passes[0].changes.size(), 2u);
  EXPECT_NE(AllLines(*record, record->passes[0].changes[1].lines).find("tanh(x)  // model.py:5"),
            std::string::npos);
  const PassRecord* cleaned = FindPass(*record, "eliminate-dead-code", true);
  ASSERT_NE(cleaned, nullptr);
  ASSERT_EQ(cleaned->changes.size(), 1u);  // the entry alone
  EXPECT_EQ(AllLines(*record, cleaned->changes[0].lines).find("gone"), std::string::npos);
  const PassRecord* same = FindPass(*record, "recognize-scans", false);
  ASSERT_NE(same, nullptr);
  EXPECT_TRUE(same->changes.empty());
}

TEST(ReportTest, TextsAreStoredOnce) {
  TextPool pool;
  LineRuns first = RunsOf(pool, "a\nb\nc\nd\n"), second = RunsOf(pool, "a\nb\nx\nc\nd\n");
  EXPECT_EQ(first, (LineRuns{0, 4}));
  EXPECT_EQ(second, (LineRuns{0, 2, 4, 1, 2, 2}));
  EXPECT_EQ(pool.texts().size(), 5u);
}

TEST(ReportTest, FusionsAndReasons) {
  std::shared_ptr<ProgramRecord> record = RecordOf(kStepModule);
  EXPECT_FALSE(record->fusions.empty());
  bool found = false;
  for (const compiler::FusionNote& note : record->not_fused) {
    found |= note.name == "y" && note.op == "tanh" && note.source.starts_with("model.py:5") &&
             !note.reason.empty() && note.readers.find("d") != std::string::npos;
  }
  EXPECT_TRUE(found);
}

TEST(ReportTest, ProgramJson) {
  std::shared_ptr<ProgramRecord> record = RecordOf(kStepModule);
  int64_t steps = 0;
  program::ForEachStep(record->program->steps, [&](const program::Step&) { ++steps; });
  record->times.assign(static_cast<size_t>(steps), StepTime{.seconds = 0.25, .count = 2});
  std::string json = ReportProgramJson(*record, nullptr);
  for (const char* key : {"\"passes\":[", "\"steps\":[", "\"kernels\":[", "\"memory\":{",
                          "\"fusions\":[", "\"apart\":[", "\"copies\":[", "\"lines\":[",
                          "\"words\":[", "\"measured\":1", ",0.25,2]"}) {
    EXPECT_NE(json.find(key), std::string::npos) << key;
  }
  EXPECT_NE(json.find("model.py:7"), std::string::npos);
}

// Times of steps come from what the recorder saw, by run.
TEST(ReportTest, TimesFromEvents) {
  std::shared_ptr<ProgramRecord> record = RecordOf(kStepModule);
  trace::Session session;
  {
    trace::Span compile(trace::Kind::kCompile,
                        [&] { return trace::What{.name = "compile step", .program = "step"}; });
    trace::Span phase(trace::Kind::kPhase,
                      [&] { return trace::What{.name = "lower", .program = "step"}; });
    record->begin =
        std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    usleep(1000);
    record->end = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  // Two steps that look the same.
  record->program->steps.push_back(record->program->steps[0]);
  trace::What what = runtime::DescribeStep(*record->program, record->program->steps[0]);
  for (int run = 0; run < 4; ++run) {
    trace::Span execute(trace::Kind::kExecute,
                        [&] { return trace::What{.name = "step", .program = "step"}; });
    for (int step = 0; step < 2; ++step) {
      trace::Span span(trace::Intern(what));
      usleep(1000);
    }
  }
  trace::Capture capture = session.Take();
  CaptureFacts facts(capture);
  EXPECT_EQ(facts.RunsOf(*record).count, 4);
  EXPECT_GE(facts.RunsOf(*record).seconds, 0.008);
  auto times = StepTimesOf(*record, &facts);
  ASSERT_TRUE(times[0]);
  EXPECT_EQ(times[0]->count, 1);
  EXPECT_GE(times[0]->seconds, 0.001);
  ASSERT_TRUE(times.back());
  EXPECT_EQ(times.back()->count, 1);
  EXPECT_FALSE(times[1]);
  EXPECT_NE(ReportProgramJson(*record, &facts).find("\"phases\":[[\"lower\","), std::string::npos);
  EXPECT_NE(ReportTimelineJson(capture).find("\"left_out\":0"), std::string::npos);
}

TEST(ReportTest, SourcesAreQuotedFromPythonFilesAlone) {
  char folder[] = "/tmp/weft-report-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = StrCat(folder, "/m.py"), other = StrCat(folder, "/secret");
  ASSERT_TRUE(WriteFile(path, "first\n    y = tanh(x)\n"));
  ASSERT_TRUE(WriteFile(other, "first\nsecond\n"));
  SourceTexts sources;
  EXPECT_EQ(sources.Line(path + ":2"), "y = tanh(x)");
  EXPECT_EQ(sources.Line(path + ":3"), "");
  EXPECT_EQ(sources.Line(path + ":0"), "");
  EXPECT_EQ(sources.Line(path), "");
  EXPECT_EQ(sources.Line(other + ":1"), "");
  EXPECT_EQ(sources.Line("/no/such.py:1"), "");
  unlink(path.c_str());
  unlink(other.c_str());
  rmdir(folder);
}

TEST(ReportTest, NotesAreReadBack) {
  std::vector<compiler::PassRun> passes = {{"fuse", true, 0.5, 3, 4}, {"schedule", false, 1, 4, 4}};
  std::vector<compiler::CopyNote> copies = {{"w\tx", "a.py:1", "why\nnot", 64, true}};
  std::vector<compiler::FusionNote> apart = {
      {"y", "tanh", "a.py:2", "z", "several kernels use it"}};
  ProgramRecord record;
  ReadNotes(PrintNotes(passes, copies, apart) + "nonsense\n\npass\tshort\n", record);
  ASSERT_EQ(record.passes.size(), 2u);
  EXPECT_EQ(record.passes[0].name, "fuse");
  EXPECT_EQ(record.passes[0].milliseconds, 0.5);
  EXPECT_FALSE(record.passes[1].changed);
  ASSERT_EQ(record.copies.size(), 1u);
  EXPECT_EQ(record.copies[0].name, "w x");
  EXPECT_EQ(record.copies[0].reason, "why not");
  EXPECT_EQ(record.copies[0].bytes, 64);
  EXPECT_TRUE(record.copies[0].in_loop);
  ASSERT_EQ(record.not_fused.size(), 1u);
  EXPECT_EQ(record.not_fused[0].reason, apart[0].reason);
}

// A dump says the same of a module as its compilation does.
TEST(ReportTest, DumpsAreReadBack) {
  char folder[] = "/tmp/weft-report-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto module = hlo::ParseModule(kStepModule);
  ASSERT_TRUE(module);
  {
    CompileWatch watch(**module, folder, "");
    auto compiled =
        compiler::Compile(**module, {}, program::TargetInfo::GenericCpu(), watch.Hooks());
    ASSERT_TRUE(compiled);
    watch.Lowered(*compiled);
  }
  auto read = ReadDump(folder);
  ASSERT_TRUE(read) << read.error().ToString();
  ASSERT_EQ(read->size(), 1u);
  const ProgramRecord& dumped = *(*read)[0];
  std::shared_ptr<ProgramRecord> compiled = RecordOf(kStepModule);
  ASSERT_EQ(dumped.passes.size(), compiled->passes.size());
  for (size_t i = 0; i < dumped.passes.size(); ++i) {
    EXPECT_EQ(dumped.passes[i].name, compiled->passes[i].name);
    EXPECT_EQ(dumped.passes[i].changed, compiled->passes[i].changed);
    EXPECT_EQ(dumped.passes[i].changes.size(), compiled->passes[i].changes.size());
  }
  EXPECT_EQ(dumped.fusions.size(), compiled->fusions.size());
  EXPECT_EQ(dumped.not_fused.size(), compiled->not_fused.size());
  EXPECT_EQ(dumped.program->steps.size(), compiled->program->steps.size());
  EXPECT_FALSE(ReadDump(std::string(folder) + "/nothing"));
  ASSERT_EQ(std::system((std::string("rm -r ") + folder).c_str()), 0);
}

TEST(ReportTest, NamesStayData) {
  auto record = std::make_shared<ProgramRecord>();
  const std::string bad = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
  record->name = bad;
  record->copies.push_back({bad, bad, bad, 1, false});
  record->code.emplace_back("a.ll", bad);
  ReportInput input;
  input.title = bad;
  input.programs.push_back(record);
  std::string page = ReportPage(input);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  size_t scripts = 0;
  for (size_t at = page.find("<script"); at != page.npos; at = page.find("<script", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 4u);  // index, program, code, the page's own
}

TEST(ReportTest, WrittenInOneGo) {
  char path[] = "/tmp/weft-report-test-XXXXXX";
  int file = mkstemp(path);
  ASSERT_GE(file, 0);
  close(file);
  ReportFile report(path, "test", "0");
  report.Add(RecordOf(kStepModule));
  ASSERT_TRUE(report.Write());
  std::string first = *ReadFile(path);
  ASSERT_TRUE(report.Write());
  EXPECT_GT(first.size(), 10'000u);
  unlink(path);
  EXPECT_FALSE(ReportFile("/no/such/folder/page.html", "test", "0").Write());
}

TEST(MemoryTimelineTest, LivesAndPeak) {
  auto program = program::Parse(R"(program p
buffer x: f32[256] parameter 0
buffer r: f32[256] result 0
buffer arena: u8[2048] temp
buffer a: f32[256] temp in arena at 0
buffer b: f32[256] temp in arena at 1024
buffer v: f32[16,16] temp in arena at 1024
buffer c: f32[256] temp in arena at 0
steps {
  s0: copy(read x, write a) source "m.py:1"
  s1: copy(read a, write b) source "m.py:2"
  s2: copy(read b, write c) source "m.py:3"
  s3: copy(read v, write r)
}
)");
  ASSERT_TRUE(program) << program.error().ToString();
  MemoryTimeline timeline = TimelineOf(*program);
  EXPECT_EQ(timeline.steps, 4);
  EXPECT_EQ(timeline.peak, 2048);
  EXPECT_EQ(timeline.peak_at, 1);
  ASSERT_EQ(timeline.lives.size(), 3u);  // v is b in another shape
  EXPECT_EQ(timeline.lives[0].first, 0);
  EXPECT_EQ(timeline.lives[0].last, 1);
  EXPECT_EQ(timeline.lives[1].last, 3);
  EXPECT_EQ(timeline.lives[1].maker->source, "m.py:2");
}

TEST(MemoryTimelineTest, WhatALoopLeavesLivesFromItsBegin) {
  auto program = program::Parse(R"(program p
buffer x: f32[256] parameter 0
buffer r: f32[256] result 0
buffer go: pred[] temp
buffer a: f32[256] temp
buffer b: f32[256] temp
steps {
  s0: fill(write go) hex "01"
  s1: while(read go) {
    s2: copy(read x, write b)
  } do {
    s3: copy(read b, write a)
    s4: fill(write go) hex "00"
  }
  s5: copy(read a, write r)
}
)");
  ASSERT_TRUE(program) << program.error().ToString();
  MemoryTimeline timeline = TimelineOf(*program);
  ASSERT_EQ(timeline.lives.size(), 3u);
  EXPECT_EQ(timeline.lives[0].first, 0);  // go: of the loop as a whole
  EXPECT_EQ(timeline.lives[0].last, 4);
  EXPECT_EQ(timeline.lives[1].first, 1);  // a: until behind it
  EXPECT_EQ(timeline.lives[1].last, 5);
  EXPECT_EQ(timeline.lives[2].first, 2);  // b: within a round
  EXPECT_EQ(timeline.lives[2].last, 3);
}

TEST(MemoryTimelineTest, LoopStateLivesAsLongAsTheLoop) {
  std::shared_ptr<ProgramRecord> record = RecordOf(R"(HloModule loop
body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  w = f32[1024] cosine(v)
  ROOT t = (s32[], f32[1024]) tuple(n, w)
}
cond {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  end = s32[] constant(10)
  ROOT c = pred[] compare(i, end), direction=LT
}
ENTRY main {
  x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[1024]) tuple(zero, x)
  w = (s32[], f32[1024]) while(t), condition=cond, body=body
  ROOT r = f32[1024] get-tuple-element(w), index=1
}
)");
  MemoryTimeline timeline = TimelineOf(*record->program);
  for (const BufferLife& life : timeline.lives) {
    EXPECT_LE(life.first, life.last);
    EXPECT_LT(life.last, timeline.steps);
  }
  EXPECT_LE(timeline.peak, 8192 + 64);
}

}  // namespace
}  // namespace weft::inspect
