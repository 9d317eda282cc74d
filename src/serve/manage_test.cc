// REST beside inference: repository, shared memory, configuration, status, traces, tokens; limits
// of memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>

#include "serve/rest.h"
#include "serve/status.h"
#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::Floats;
using testing::TempFolder;
using testing::WriteLinear;

class ManageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteLinear(folder_.path() + "/half/1", 0.5, 2);
    WriteLinear(folder_.path() + "/other/1", 1, 0);
    ServerOptions options = DefaultServerOptions();
    options.models.repository = folder_.path();
    server_ = std::make_unique<Server>(testing::TestBackend(), options);
    rest_ = std::make_unique<RestApi>(*server_, &gate_);
    ASSERT_TRUE(server_->models().SetConfig({{"half", folder_.path() + "/half"}}));
  }
  HttpResponse Ask(std::string method, std::string target, std::string body = "",
                   std::vector<std::pair<std::string, std::string>> headers = {}) {
    std::promise<HttpResponse> promise;
    rest_->Handle({method, target, std::move(headers), std::move(body), Now()},
                  [&](HttpResponse r) { promise.set_value(std::move(r)); });
    return promise.get_future().get();
  }
  std::string Post(std::string target, std::string body = "") {
    HttpResponse response = Ask("POST", std::move(target), std::move(body));
    return StrCat(response.status, " ", response.body);
  }
  std::string Get(std::string target) {
    HttpResponse response = Ask("GET", std::move(target));
    return StrCat(response.status, " ", response.body);
  }

  TempFolder folder_;
  Gate gate_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<RestApi> rest_;
};

TEST_F(ManageTest, ModelsComeAndGoByName) {
  EXPECT_EQ(Post("/v2/repository/models/other/load"), "200 {}");
  EXPECT_EQ(Get("/v2/models/other/ready"), "200 {}");
  EXPECT_EQ(Post("/v2/repository/models/other/unload"), "200 {}");
  EXPECT_EQ(Get("/v2/models/other/ready"), "503 {}");
  EXPECT_TRUE(server_->Ready());  // what was unloaded is not missed
  EXPECT_EQ(Post("/v2/repository/index", R"({"ready": true})"),
            "200 [{\"name\":\"half\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"}]");
  EXPECT_NE(Post("/v2/repository/index").find("\"name\":\"other\""), std::string::npos);
  EXPECT_EQ(Post("/v2/repository/models/other/load"), "200 {}");
  EXPECT_EQ(Get("/v2/models/other/ready"), "200 {}");
  EXPECT_EQ(Post("/v2/repository/models/..%2fhalf/load").substr(0, 3), "404");
  EXPECT_EQ(Post("/v2/repository/models/none/load").substr(0, 3), "404");
  EXPECT_EQ(Post("/v2/repository/models/none/unload").substr(0, 3), "404");
  EXPECT_EQ(Get("/v2/repository/models/half/load").substr(0, 3), "405");
}

TEST_F(ManageTest, ConfigurationAsTritonHasIt) {
  EXPECT_EQ(Get("/v2/models/half/config"),
            "200 {\"name\":\"half\",\"platform\":\"weft_jax\",\"backend\":\"weft\","
            "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":4,"
            "\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],\"output\":"
            "[{\"name\":\"y\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],"
            "\"dynamic_batching\":{}}");
}

TEST_F(ManageTest, TensorsInSharedMemory) {
  const std::string regions = "/v2/systemsharedmemory/";
  EXPECT_EQ(Post(regions + "region/r/register", R"({"key": "/x", "offset": 0, "byte_size": 1})")
                .find("501 {\"error\":\"shared memory: not enabled"),
            0u);
  server_->shared_memory().Enable();
  std::string key = StrCat("/weft-manage-test-", getpid());
  int file = shm_open(key.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  float x[] = {1, 2}, y[2] = {};
  ASSERT_EQ(ftruncate(file, 64), 0);
  ASSERT_EQ(pwrite(file, x, 8, 16), 8);
  auto registered = [&](int offset, int size) {
    return Post(
        regions + "region/r/register",
        StrCat("{\"key\": \"", key, "\", \"offset\": ", offset, ", \"byte_size\": ", size, "}"));
  };
  EXPECT_EQ(registered(8, 64).substr(0, 3), "400");  // beyond its end
  EXPECT_EQ(registered(8, 56), "200 {}");
  EXPECT_EQ(registered(8, 56).substr(0, 3), "409");
  EXPECT_EQ(Get(regions + "region/r/status"),
            StrCat("200 [{\"name\":\"r\",\"key\":\"", key, "\",\"offset\":8,\"byte_size\":56}]"));
  auto infer = [&](int from, int to) {
    return Post("/v2/models/half/infer",
                StrCat(R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2],
      "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8,
      "shared_memory_offset": )",
                       from, R"(}}], "outputs": [{"name": "y", "parameters": {
      "shared_memory_region": "r", "shared_memory_byte_size": 8, "shared_memory_offset": )",
                       to, "}}]}"));
  };
  EXPECT_EQ(infer(8, 32),
            "200 {\"model_name\":\"half\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"y\","
            "\"datatype\":\"FP32\",\"shape\":[1,2]}]}");
  ASSERT_EQ(pread(file, y, 8, 40), 8);
  EXPECT_EQ(y[0], 2.5f);
  EXPECT_EQ(y[1], 3.0f);
  EXPECT_EQ(infer(50, 32).substr(0, 3), "400");
  EXPECT_EQ(infer(-1, 32).substr(0, 3), "400");
  // A client that takes its memory away gets an error; a mapping would have ended the server.
  ASSERT_EQ(ftruncate(file, 20), 0);
  EXPECT_EQ(infer(8, 32).substr(0, 3), "400");
  EXPECT_EQ(Post(regions + "unregister"), "200 {}");
  EXPECT_EQ(infer(8, 32).substr(0, 3), "404");
  EXPECT_EQ(Post("/v2/cudasharedmemory/unregister"), "200 {}");
  shm_unlink(key.c_str());
  close(file);
}

TEST_F(ManageTest, TokensAndTraces) {
  const std::string predict = "/v1/models/half:predict", body = R"({"instances": [[1, 2]]})";
  gate_.SetTokens({"secret"});
  HttpResponse refused = Ask("POST", predict, body);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers[0].first, "WWW-Authenticate");
  EXPECT_EQ(Get("/metrics").substr(0, 3), "401");
  EXPECT_EQ(Get("/v2/health/live"), "200 {}");  // for probes
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  HttpResponse good =
      Ask("POST", predict, body, {{"authorization", "Bearer secret"}, {"traceparent", parent}});
  EXPECT_EQ(good.status, 200);
  ASSERT_EQ(good.headers.size(), 1u);
  EXPECT_EQ(good.headers[0].second.substr(0, 36), parent.substr(0, 36));
  EXPECT_NE(good.headers[0].second, parent);
}

TEST_F(ManageTest, StatusPageAndTrace) {
  EXPECT_EQ(Post("/v1/models/half:predict", R"({"instances": [[1, 2]]})").substr(0, 3), "200");
  EXPECT_NE(Get("/").find("<title>weft-serve</title>"), std::string::npos);
  std::string status = Get("/v2/debug/status");
  EXPECT_NE(status.find("\"name\":\"half\",\"versions\":[{\"version\":1,\"state\":\"AVAILABLE\""),
            std::string::npos)
      << status;
  EXPECT_NE(status.find("\"normal\":{\"outcomes\":{\"ok\":1,"), std::string::npos) << status;
  EXPECT_NE(status.find("\"rank\":\"SCHED_OTHER, slices of 400 us\",\"cores\":\"any core\""),
            std::string::npos)
      << status;
  EXPECT_EQ(Get("/v2/debug/trace?seconds=x").substr(0, 3), "400");
  std::promise<std::string> trace;
  rest_->Handle({"GET", "/v2/debug/trace?seconds=0.2"},
                [&](HttpResponse r) { trace.set_value(std::move(r.body)); });
  std::future<std::string> text = trace.get_future();
  EXPECT_EQ(Get("/v2/debug/trace").substr(0, 3), "409");  // one at a time
  while (text.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    Post("/v1/models/half:predict", R"({"instances": [[1, 2]]})");
  }
  std::string json = text.get();
  for (const char* name : {"\"request half\"", "\"admission\"", "\"run\"", "\"serve half\""}) {
    EXPECT_NE(json.find(name), std::string::npos) << name;
  }
}

TEST_F(ManageTest, LimitsOfMemory) {
  // Room for the 8 bytes of one model, not for those of two.
  ServerOptions options = DefaultServerOptions();
  options.models.weights_bytes = 12;
  options.max_inflight_bytes = 10;
  Server small(testing::TestBackend(), options);
  Status status = small.models().SetConfig(
      {{"half", folder_.path() + "/half"}, {"other", folder_.path() + "/other"}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(small.models().weights_bytes(), 8);
  InferRequest request{.model = {"half"}};
  request.inputs.push_back({"x", Floats({2, 2}, {1, 2, 3, 4})});
  EXPECT_TRUE(small.InferAndWait(request));  // alone it may be any size
  for (int i = 0; i < 1000 && small.inflight_bytes() != 0; ++i) usleep(1000);
  EXPECT_EQ(small.inflight_bytes(), 0);
}

}  // namespace
}  // namespace weft::serve
