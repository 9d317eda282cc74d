// The server in one process: folders in, answers out; versions come and go under load.
#include "serve/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/file.h"
#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::Floats;
using testing::TempFolder;
using testing::WriteLinear;

class ServerTest : public ::testing::Test {
 protected:
  void Start() {
    std::unique_ptr<Backend> backend = testing::TestBackend();
    const ServerOptions options = DefaultServerOptions(backend->Lanes());
    server_ = std::make_unique<Server>(std::move(backend), options);
  }
  void Start(const ServerOptions& options) {
    server_ = std::make_unique<Server>(testing::TestBackend(), options);
  }
  Status Serve(VersionPolicy policy = {}) {
    return server_->models().SetConfig({{"linear", base(), policy, {{"stable", 1}}}});
  }
  std::string base() const { return folder_.path() + "/linear"; }
  std::string version(int64_t v) const { return StrCat(base(), "/", v); }
  InferRequest Request(Literal x) {
    InferRequest request;
    request.model.name = "linear";
    request.inputs.push_back({"x", std::move(x)});
    return request;
  }
  std::string Answer(InferRequest request) {
    auto response = server_->InferAndWait(std::move(request));
    return response ? response->outputs[0].value.ToString() : response.error().ToString();
  }

  TempFolder folder_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, Answers) {
  WriteLinear(version(1), 0.5, 2);
  Start();
  ASSERT_TRUE(Serve());
  EXPECT_TRUE(server_->Ready());
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {2, 4}))), "{ { 3, 4 } }");
  // Padded up to 4 and cut back.
  EXPECT_EQ(Answer(Request(Floats({3, 2}, {0, 2, 4, 6, 8, 10}))),
            "{ { 2, 3 }, { 4, 5 }, { 6, 7 } }");
  // More rows than the largest program takes.
  EXPECT_EQ(Answer(Request(Floats({6, 2}, {0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10}))),
            "{ { 2, 2 }, { 3, 3 }, { 4, 4 }, { 5, 5 }, { 6, 6 }, { 7, 7 } }");
  InferRequest twice = Request(Floats({1, 2}, {2, 4}));
  twice.graph = "double";
  EXPECT_EQ(Answer(std::move(twice)), "{ { 4, 8 } }");
}

// Four gigabytes, nearly all of them a hole in the file: who reads them all is not ready soon.
TEST_F(ServerTest, ReadyWithoutTheWeightsThatNoGraphNeeds) {
  WriteLinear(version(1), 0.5, 2);
  constexpr int64_t kElements = int64_t{1} << 30;
  std::string header =
      StrCat(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)",
             R"("b":{"dtype":"F32","shape":[],"data_offsets":[4,8]},"c":{"dtype":"F32","shape":[)",
             kElements, R"(],"data_offsets":[8,)", 8 + 4 * kElements, "]}}");
  uint64_t size = header.size();
  const float scalars[] = {3, 1};
  std::string begin(reinterpret_cast<const char*>(&size), 8);
  begin += header;
  begin.append(reinterpret_cast<const char*>(scalars), sizeof(scalars));
  const std::string weights = version(1) + "/weights.safetensors";
  ASSERT_TRUE(WriteFile(weights, begin));
  ASSERT_EQ(truncate(weights.c_str(), static_cast<off_t>(begin.size()) + 4 * kElements), 0);
  std::string signature = *ReadFile(version(1) + "/signature.json");
  constexpr std::string_view kVariables = "\"variables\": [";
  signature.insert(signature.find(kVariables) + kVariables.size(),
                   StrCat(R"({"name": "c", "dtype": "f32", "shape": [)", kElements, "]}, "));
  ASSERT_TRUE(WriteFile(version(1) + "/signature.json", signature));
  Start();
  ASSERT_TRUE(Serve());
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {2, 4}))), "{ { 7, 13 } }");
  auto servable = server_->models().Find({"linear"});
  ASSERT_TRUE(servable);
  EXPECT_EQ((*servable)->variables().registered_bytes(), 4 * kElements + 8);
  EXPECT_EQ((*servable)->variables().loaded_bytes(), 8);
}

// Requests of the folder run before it is ready; one that cannot is an error of the version.
TEST_F(ServerTest, WarmUpRecordsAreReplayed) {
  WriteLinear(version(1), 0.5, 2);
  constexpr std::string_view kRecord =
      R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6]}]})";
  ASSERT_TRUE(WriteFile(version(1) + "/warmup.jsonl", StrCat(kRecord, "\n\n", kRecord, "\n")));
  Start();
  ASSERT_TRUE(Serve());
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {2, 4}))), "{ { 3, 4 } }");
  // They are no requests: nothing is counted, nothing compiled.
  EXPECT_NE(server_->PrometheusText().find("outcome=\"ok\"} 1\n"), std::string::npos);
  auto wrong = [&](int64_t number, std::string_view records, std::string_view says) {
    WriteLinear(version(number), 0.5, 2);
    ASSERT_TRUE(WriteFile(version(number) + "/warmup.jsonl", records));
    Status status = Serve();
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().ToString().find(says), std::string::npos) << status.error().ToString();
    EXPECT_TRUE(server_->Ready());  // what it had goes on
  };
  wrong(2, StrCat(kRecord, "\n{\"inputs\": 3}\n"), "warmup.jsonl: line 2: ");
  wrong(3, R"({"inputs": [{"name": "z", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})",
        "warmup.jsonl: request 1: ");
}

TEST_F(ServerTest, RunsWhatIsShortWhereItArrives) {
  WriteLinear(version(1), 0.5, 2);
  ServerOptions options = DefaultServerOptions();
  options.run_here_below = kSecond;  // whatever the machine is like
  options.run_wanted_below = kSecond / 2;
  Start(options);
  ASSERT_TRUE(Serve());
  // Where it ran.
  auto thread_of = [&](ThreadUse use) {
    InferRequest request = Request(Floats({1, 2}, {2, 4}));
    request.thread_use = use;
    std::promise<std::thread::id> where;
    server_->Infer(std::move(request), [&](auto response) {
      EXPECT_TRUE(response.has_value());
      where.set_value(std::this_thread::get_id());
    });
    return where.get_future().get();
  };
  EXPECT_EQ(thread_of(ThreadUse::kFree), std::this_thread::get_id());
  EXPECT_EQ(thread_of(ThreadUse::kWanted), std::this_thread::get_id());
}

TEST_F(ServerTest, HandsOnWhatIsLongerThanThat) {
  WriteLinear(version(1), 0.5, 2);
  ServerOptions options = DefaultServerOptions();
  options.run_here_below = kSecond;
  options.run_wanted_below = 0;
  Start(options);
  ASSERT_TRUE(Serve());
  InferRequest request = Request(Floats({1, 2}, {2, 4}));
  request.thread_use = ThreadUse::kWanted;
  std::promise<std::thread::id> where;
  server_->Infer(std::move(request), [&](auto) { where.set_value(std::this_thread::get_id()); });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

TEST_F(ServerTest, SaysWhatIsWrong) {
  WriteLinear(version(1), 0.5, 2);
  Start();
  ASSERT_TRUE(Serve());
  EXPECT_EQ(Answer(Request(Floats({2}, {1, 2}))),
            "input x: is f32[2], serving_default takes f32[b,2]");
  InferRequest request = Request(Floats({1, 2}, {1, 2}));
  request.inputs[0].name = "z";
  EXPECT_EQ(Answer(request), "input z: serving_default has no such input, it has x");
  request.inputs.clear();
  EXPECT_EQ(Answer(request), "input x: missing: serving_default takes x");
  request = Request(Floats({1, 2}, {1, 2}));
  request.outputs = {"q"};
  EXPECT_EQ(Answer(request), "output q: serving_default has no such output, it has y");
  request.model.version = 9;
  EXPECT_EQ(Answer(request), "model linear: version 9 is not available");
  request.model.name = "linaer";
  EXPECT_EQ(Answer(request), "model linaer: not served; did you mean `linear`?");
  request = Request(Floats({1, 2}, {1, 2}));
  request.deadline = Now() - 1;
  EXPECT_EQ(Answer(request), "the deadline passed before the request began");
}

TEST_F(ServerTest, NoRequestCompilesAndWhatIsPaddedIsCounted) {
  WriteLinear(version(1), 0.5, 2);
  Start();
  ASSERT_TRUE(Serve());
  auto servable = *server_->models().Find({"linear"});
  int64_t compiles = servable->compiles();
  EXPECT_EQ(compiles, 4);
  for (int rows = 1; rows < 7; ++rows) {
    Answer(Request(Floats({rows, 2}, std::vector<float>(static_cast<size_t>(2 * rows), 1))));
  }
  EXPECT_EQ(servable->compiles(), compiles);
  EXPECT_EQ(servable->stats().count(Priority::kNormal, Outcome::kOk), 8);  // two were split
  EXPECT_GT(servable->stats().padded_rows(), 0);
  std::string text = server_->PrometheusText();
  EXPECT_NE(
      text.find("weft_serve_requests_total{model=\"linear\",priority=\"normal\",outcome=\"ok\"} 8"),
      std::string::npos);
}

TEST_F(ServerTest, VersionsAndLabels) {
  WriteLinear(version(1), 1, 0);
  WriteLinear(version(2), 2, 0);
  Start();
  ASSERT_TRUE(Serve({VersionPolicy::Kind::kAll}));
  InferRequest request = Request(Floats({1, 2}, {1, 2}));
  EXPECT_EQ(Answer(request), "{ { 2, 4 } }");  // the latest
  request.model.version = 1;
  EXPECT_EQ(Answer(request), "{ { 1, 2 } }");
  request.model.version.reset();
  request.model.label = "stable";
  EXPECT_EQ(Answer(request), "{ { 1, 2 } }");
  ASSERT_TRUE(Serve({VersionPolicy::Kind::kSpecific, 1, {2}}));
  EXPECT_EQ(Answer(request), "model linear: version 1 is not available");
}

TEST_F(ServerTest, WhatIsServedStaysWhenANewVersionFails) {
  WriteLinear(version(1), 1, 0);
  Start();
  ASSERT_TRUE(Serve());
  WriteLinear(version(2), 2, 0);
  std::string weights = version(2) + "/weights.safetensors";
  std::string whole = *ReadFile(weights);
  ASSERT_TRUE(WriteFile(weights, whole.substr(0, whole.size() - 2)));
  Status status = server_->models().Poll();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find(weights + ": tensor b: data_offsets"), std::string::npos)
      << status.error().ToString();
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {1, 2}))), "{ { 1, 2 } }");
  EXPECT_TRUE(server_->Ready());
  auto states = *server_->models().StatusOf({"linear"});
  EXPECT_EQ(states[0].state, VersionState::kEnd);
  EXPECT_EQ(states[1].state, VersionState::kAvailable);
  // Repaired, it is served.
  ASSERT_TRUE(WriteFile(version(2) + "/new", whole));
  testing::RenameFile(version(2) + "/new", weights);
  ASSERT_TRUE(server_->models().Poll());
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {1, 2}))), "{ { 2, 4 } }");
}

TEST_F(ServerTest, ReloadsUnderLoadDropNothing) {
  WriteLinear(version(1), 1, 0);
  Start();
  ASSERT_TRUE(Serve());
  std::atomic<bool> stop = false;
  std::atomic<int64_t> answers = 0, wrong = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&] {
      while (!stop) {
        auto response = server_->InferAndWait(Request(Floats({1, 2}, {1, 1})));
        // y = version * x, by the version that says it answered.
        bool right = response && response->outputs[0].value.GetDouble(0) ==
                                     static_cast<double>(response->version);
        ++(right ? answers : wrong);
      }
    });
  }
  for (int64_t v = 2; v <= 12; ++v) {
    WriteLinear(version(v), static_cast<float>(v), 0);
    EXPECT_TRUE(server_->models().Poll());
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(answers, 0);
  // The thread that ran the last request of a version lets go of it after the answer.
  auto states = *server_->models().StatusOf({"linear"});
  auto unloads = [](const VersionStatus& v) { return v.state == VersionState::kUnloading; };
  for (int i = 0; i < 1000 && std::ranges::any_of(states, unloads); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    states = *server_->models().StatusOf({"linear"});
  }
  EXPECT_EQ(states[0].state, VersionState::kAvailable);
  for (size_t i = 1; i < states.size(); ++i) EXPECT_EQ(states[i].state, VersionState::kEnd);
  // Versions that ended are listed while their folders are there.
  for (int64_t v = 1; v < 12; ++v) testing::RemoveFolder(version(v));
  EXPECT_TRUE(server_->models().Poll());
  EXPECT_EQ(server_->models().StatusOf({"linear"})->size(), 1u);
}

TEST_F(ServerTest, AnswersAreBitForBitTheSameInABatchAndAlone) {
  WriteLinear(version(1), 0.1f, 0.3f, {1, 8, 32});
  ServerOptions options = DefaultServerOptions();
  options.batching.max_delay = 2 * kMillisecond;  // so that they meet
  Start(options);
  ASSERT_TRUE(Serve());
  std::vector<std::promise<std::string>> together(40);
  for (size_t i = 0; i < together.size(); ++i) {
    float x = static_cast<float>(i) * 0.7f;
    server_->Infer(Request(Floats({1, 2}, {x, -x})), [&, i](Result<InferResponse> response) {
      together[i].set_value(response ? response->outputs[0].value.ToString() : "error");
    });
  }
  for (size_t i = 0; i < together.size(); ++i) {
    float x = static_cast<float>(i) * 0.7f;
    std::string batched = together[i].get_future().get();
    EXPECT_EQ(batched, Answer(Request(Floats({1, 2}, {x, -x}))));
  }
  auto servable = *server_->models().Find({"linear"});
  EXPECT_LT(servable->stats().batches(), 80);
}

TEST_F(ServerTest, DrainsAndThenTakesNoMore) {
  WriteLinear(version(1), 1, 0);
  Start();
  ASSERT_TRUE(Serve());
  EXPECT_TRUE(server_->Drain(Now() + kSecond));
  EXPECT_FALSE(server_->Ready());
  EXPECT_EQ(Answer(Request(Floats({1, 2}, {1, 2}))), "the server shuts down");
}

}  // namespace
}  // namespace weft::serve
