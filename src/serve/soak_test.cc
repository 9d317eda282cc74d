// Everything at once, in one process: requests of all classes, some with deadlines, some cancelled,
// while versions come and go, models are unloaded and loaded, and somebody looks at status, metrics
// and traces. A second by default; SOAK_SECONDS=3600 for an hour, under TSan or ASan by hand.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include "serve/rest.h"
#include "serve/status.h"
#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::Floats;
using testing::TempFolder;
using testing::WriteLinear;

double SoakSeconds() {
  const char* text = std::getenv("SOAK_SECONDS");
  return text != nullptr ? std::max(std::atof(text), 0.1) : 1;
}

class Soak : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteLinear(Path("steady", 1), 1, 0);
    WriteLinear(Path("moving", 1), 1, 0);
    WriteLinear(Path("guest", 1), 1, 0);
    ServerOptions options = DefaultServerOptions();
    options.scheduler.max_queue = 50;
    options.models.repository = folder_.path();
    server_ = std::make_unique<Server>(testing::TestBackend(), options);
    ASSERT_TRUE(server_->models().SetConfig(
        {{"steady", folder_.path() + "/steady"}, {"moving", folder_.path() + "/moving"}}));
  }
  std::string Path(std::string_view model, int64_t version) const {
    return StrCat(folder_.path(), "/", model, "/", version);
  }

  // y = version * x by the version that says it answered; or an error that may be.
  bool Right(const Result<InferResponse>& response) {
    if (response) {
      ++answers_;
      return response->outputs[0].value.GetDouble(0) == static_cast<double>(response->version);
    }
    switch (response.error().code()) {
      case Code::kResourceExhausted:
      case Code::kDeadlineExceeded:
      case Code::kCancelled: return true;
      case Code::kNotFound:
      case Code::kUnavailable: return true;  // the guest is not there now
      default: return false;
    }
  }

  void Ask(uint64_t seed) {
    std::mt19937_64 random(seed);
    constexpr const char* kModels[] = {"steady", "moving", "guest"};
    while (!stop_) {
      InferRequest request{.model = {kModels[random() % 3]}};
      int64_t rows = 1 + static_cast<int64_t>(random() % 6);
      request.inputs.push_back(
          {"x", Floats({rows, 2}, std::vector<float>(static_cast<size_t>(rows) * 2, 1))});
      request.priority = static_cast<Priority>(random() % kPriorities);
      if (random() % 4 == 0)
        request.deadline = Now() + static_cast<Time>(random() % (2 * kMillisecond));
      auto promise = std::make_shared<std::promise<Result<InferResponse>>>();
      Server::Ticket ticket = server_->Infer(
          std::move(request),
          [promise](Result<InferResponse> response) { promise->set_value(std::move(response)); });
      if (random() % 8 == 0) ticket.Cancel();
      Result<InferResponse> response = promise->get_future().get();
      if (!Right(response)) {
        ++wrong_;
        ADD_FAILURE() << (response ? "a wrong answer" : response.error().ToString());
      }
    }
  }

  void Reload() {
    for (int64_t v = 2; !stop_; ++v) {
      WriteLinear(folder_.path() + "/new", static_cast<float>(v), 0);
      testing::MakeFolder(folder_.path() + "/moving");
      testing::RenameFile(folder_.path() + "/new", Path("moving", v));
      EXPECT_TRUE(server_->models().Poll());
      testing::RemoveFolder(Path("moving", v - 1));
    }
  }

  void Look() {
    RestApi rest(*server_);
    auto get = [&](std::string method, std::string target) {
      std::promise<int> status;
      rest.Handle({std::move(method), std::move(target)},
                  [&](HttpResponse r) { status.set_value(r.status); });
      return status.get_future().get();
    };
    while (!stop_) {
      EXPECT_EQ(get("POST", "/v2/repository/models/guest/load"), 200);
      EXPECT_EQ(get("GET", "/metrics"), 200);
      EXPECT_EQ(get("GET", "/v2/debug/status"), 200);
      EXPECT_EQ(get("GET", "/v2/debug/trace?seconds=0.05"), 200);
      EXPECT_EQ(get("POST", "/v2/repository/models/guest/unload"), 200);
    }
  }

  TempFolder folder_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> answers_ = 0, wrong_ = 0;
};

TEST_F(Soak, MixedLoadGetsRightAnswersOnly) {
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([this, i] { Ask(i + 1); });
  threads.emplace_back([this] { Reload(); });
  threads.emplace_back([this] { Look(); });
  std::this_thread::sleep_for(std::chrono::duration<double>(SoakSeconds()));
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(answers_, 0);
  EXPECT_TRUE(server_->Drain(Now() + 10 * kSecond));
  // The thread that ran the last batch lets go of it after the answers.
  for (int i = 0; i < 1000 && server_->inflight_bytes() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server_->inflight_bytes(), 0);
  EXPECT_EQ(server_->load().running, 0);
}

}  // namespace
}  // namespace weft::serve
