// The REST protocols, without a socket.
#include "serve/rest.h"

#include <gtest/gtest.h>

#include <future>

#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::TempFolder;
using testing::WriteLinear;

class RestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteLinear(folder_.path() + "/1", 0.5, 2);
    server_ = std::make_unique<Server>(testing::TestBackend(), DefaultServerOptions());
    ASSERT_TRUE(server_->models().SetConfig({{"half", folder_.path()}}));
  }
  HttpResponse Ask(std::string method, std::string target, std::string body = "",
                   std::vector<std::pair<std::string, std::string>> headers = {}) {
    std::promise<HttpResponse> promise;
    RestApi(*server_).Handle({method, target, std::move(headers), std::move(body), Now()},
                             [&](HttpResponse r) { promise.set_value(std::move(r)); });
    return promise.get_future().get();
  }
  // Status and body.
  std::string Post(std::string target, std::string body) {
    HttpResponse response = Ask("POST", std::move(target), std::move(body));
    return StrCat(response.status, " ", response.body);
  }
  std::string Get(std::string target) {
    HttpResponse response = Ask("GET", std::move(target));
    return StrCat(response.status, " ", response.body);
  }

  TempFolder folder_;
  std::unique_ptr<Server> server_;
};

TEST_F(RestTest, PredictByRowAndByColumn) {
  const std::string predict = "/v1/models/half:predict";
  EXPECT_EQ(Post(predict, R"({"instances": [[1, 2], [3, 4]]})"),
            "200 {\"predictions\":[[2.5,3.0],[3.5,4.0]]}");
  EXPECT_EQ(Post(predict, R"({"instances": [{"x": [1, 2]}]})"),
            "200 {\"predictions\":[[2.5,3.0]]}");
  EXPECT_EQ(Post(predict, R"({"inputs": {"x": [[1, NaN]]}})"), "200 {\"outputs\":[[2.5,NaN]]}");
  EXPECT_EQ(Post(predict, R"({"inputs": [[Infinity, 0]]})"), "200 {\"outputs\":[[Infinity,2.0]]}");
  EXPECT_EQ(Post("/v1/models/half/versions/1:predict",
                 R"({"inputs": [[0, 0]], "signature_name": "double"})"),
            "200 {\"outputs\":[[0.0,0.0]]}");
}

TEST_F(RestTest, PredictErrors) {
  const std::string predict = "/v1/models/half:predict";
  EXPECT_EQ(Post(predict, "{"), "400 {\"error\":\"json: line 1, column 2: expected a string\"}");
  EXPECT_EQ(
      Post(predict, "{}"),
      "400 {\"error\":\"predict takes either instances (row form) or inputs (column form)\"}");
  EXPECT_EQ(Post(predict, R"({"instances": [[1, 2], [3]]})"),
            "400 {\"error\":\"input x: json: line 1, column 4: lists of 2 and of 1 elements in one "
            "tensor\"}");
  EXPECT_EQ(
      Post(predict, R"({"instances": [[1, 2], 3]})"),
      "400 {\"error\":\"input x: json: line 1, column 1: a number where a list was before\"}");
  EXPECT_EQ(Post(predict, R"({"instances": [{"z": 1}]})"),
            "400 {\"error\":\"input z: serving_default has no such input\"}");
  EXPECT_EQ(Post("/v1/models/none:predict", R"({"instances": []})"),
            "404 {\"error\":\"model none: not served\"}");
  EXPECT_EQ(Post("/v1/models/half/versions/x:predict", "{}"),
            "400 {\"error\":\"version 'x': not a number\"}");
  EXPECT_EQ(Get(predict).substr(0, 3), "405");
  EXPECT_EQ(Get("/v3").substr(0, 3), "404");
  HttpResponse late =
      Ask("POST", predict, R"({"instances": [[1, 2]]})", {{"x-weft-timeout-ms", "0"}});
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(
      Ask("POST", predict, R"({"instances": [[1, 2]]})", {{"x-weft-priority", "urgent"}}).status,
      400);
  EXPECT_EQ(
      Ask("POST", predict, R"({"instances": [[1, 2]]})", {{"x-weft-priority", "high"}}).status,
      200);
}

TEST_F(RestTest, StatusAndMetadata) {
  EXPECT_EQ(Get("/v1/models/half"),
            "200 {\"model_version_status\":[{\"version\":\"1\",\"state\":\"AVAILABLE\",\"status\":"
            "{\"error_code\":\"OK\",\"error_message\":\"\"}}]}");
  std::string metadata = Get("/v1/models/half/metadata");
  EXPECT_NE(
      metadata.find("\"x\":{\"dtype\":\"DT_FLOAT\",\"tensor_shape\":{\"dim\":[{\"size\":\"-1\","),
      std::string::npos)
      << metadata;
  EXPECT_EQ(
      Get("/v2/models/half"),
      "200 {\"name\":\"half\",\"versions\":[\"1\"],\"platform\":\"weft_jax\",\"inputs\":[{\"name\":"
      "\"x\",\"datatype\":\"FP32\",\"shape\":[-1,2]}],\"outputs\":[{\"name\":\"y\",\"datatype\":"
      "\"FP32\",\"shape\":[-1,2]}]}");
  EXPECT_EQ(Get("/v2/health/live"), "200 {}");
  EXPECT_EQ(Get("/v2/health/ready"), "200 {}");
  EXPECT_EQ(Get("/v2/models/half/ready"), "200 {}");
  EXPECT_EQ(Get("/v2/models/other/ready"), "503 {}");
  EXPECT_NE(Get("/metrics").find("weft_serve_requests_total"), std::string::npos);
}

TEST_F(RestTest, InferWithJsonAndWithBytes) {
  const std::string infer = "/v2/models/half/infer";
  EXPECT_EQ(
      Post(infer, R"({"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2],
                           "data": [1, 2]}]})"),
      "200 "
      "{\"model_name\":\"half\",\"model_version\":\"1\",\"id\":\"7\",\"outputs\":[{\"name\":\"y\","
      "\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[2.5,3.0]}]}");
  std::string json = R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters":
      {"binary_data_size": 8}}], "outputs": [{"name": "y", "parameters": {"binary_data": true}}]})";
  float x[] = {1, 2}, y[2];
  HttpResponse response = Ask("POST", infer, json + std::string(reinterpret_cast<char*>(x), 8),
                              {{"inference-header-content-length", StrCat(json.size())}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers[0].first, "Inference-Header-Content-Length");
  size_t length = static_cast<size_t>(*ParseInt(response.headers[0].second));
  ASSERT_EQ(response.body.size(), length + 8);
  std::memcpy(y, response.body.data() + length, 8);
  EXPECT_EQ(y[0], 2.5f);
  EXPECT_EQ(y[1], 3.0f);
}

TEST_F(RestTest, InferErrors) {
  const std::string infer = "/v2/models/half/infer";
  auto input = [&](std::string fields) {
    return Post(infer, "{\"inputs\": [{\"name\": \"x\", " + fields + "}]}");
  };
  EXPECT_EQ(input(R"("datatype": "FP31", "shape": [1], "data": [1])"),
            "400 {\"error\":\"input x: unknown datatype FP31\"}");
  EXPECT_EQ(input(R"("datatype": "FP32", "shape": [1, 2], "data": [1])"),
            "400 {\"error\":\"input x: 1 elements for f32[1,2]\"}");
  EXPECT_EQ(input(R"("datatype": "INT8", "shape": [1], "data": [300])")
                .find("400 {\"error\":\"input x: json"),
            0u);
  EXPECT_EQ(input(R"("datatype": "FP32", "shape": [1, 2])"),
            "400 {\"error\":\"input x: neither data nor binary_data_size\"}");
  EXPECT_EQ(input(R"("datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8})"),
            "400 {\"error\":\"input x: the body ends before its 8 bytes\"}");
  EXPECT_EQ(
      input(
          R"("datatype": "FP32", "shape": [4611686018427387904, 8], "parameters": {"binary_data_size": 0})")
          .substr(0, 3),
      "400");
}

TEST(RestErrors, SayWhenToComeBack) {
  Error error(Code::kResourceExhausted, "overloaded");
  error.Hint("retry after 1200 ms");
  HttpResponse response = ErrorResponse(error);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers[0], std::pair(std::string("Retry-After"), std::string("2")));
}

}  // namespace
}  // namespace weft::serve
