// Tokens, the access log, and W3C trace context.
#include "serve/gate.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::TempFolder;

TEST(Gate, TakesItsTokensOnly) {
  TempFolder folder;
  std::string path = folder.path() + "/tokens";
  ASSERT_TRUE(WriteFile(path, "# of the front end\n  first \r\n\nsecond\n"));
  Gate gate;
  EXPECT_TRUE(gate.Check(""));  // nobody asked for one
  ASSERT_TRUE(gate.ReadTokens(path));
  EXPECT_TRUE(gate.Check("Bearer first"));
  EXPECT_TRUE(gate.Check("bearer  second "));
  for (const char* wrong : {"Bearer", "Bearer ", "Bearer firs", "Bearer firstt", "first",
                            "Basic first", "Bearer # of the front end"}) {
    Status status = gate.Check(wrong);
    ASSERT_FALSE(status) << wrong;
    EXPECT_EQ(status.error().code(), Code::kUnauthenticated);
  }
  EXPECT_EQ(gate.Check("").error().message(), "no token: send Authorization: Bearer TOKEN");
  ASSERT_TRUE(WriteFile(path, "\n# none\n"));
  EXPECT_EQ(gate.ReadTokens(path).error().message(), path + ": no token");
  EXPECT_TRUE(gate.Check("Bearer first"));  // what was there stays
}

TEST(AccessLog, WritesALineForEachAndOpensAnew) {
  TempFolder folder;
  std::string path = folder.path() + "/access.log";
  {
    auto log = AccessLog::Open(path);
    ASSERT_TRUE(log);
    AccessEntry entry{"http", "POST", "/v2/models/\"m\"/infer", "127.0.0.1"};
    entry.status = 200;
    entry.took = 1500 * kMicrosecond;
    entry.request_bytes = 10;
    entry.trace = ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    (*log)->Write(entry);
  }
  std::string text = *ReadFile(path);
  EXPECT_NE(text.find("\"protocol\":\"http\",\"method\":\"POST\",\"target\":"
                      "\"/v2/models/\\\"m\\\"/infer\",\"peer\":\"127.0.0.1\",\"status\":200,"
                      "\"micros\":1500,\"request_bytes\":10,\"response_bytes\":0,\"trace_id\":"
                      "\"0af7651916cd43dd8448eb211c80319c\"}\n"),
            std::string::npos)
      << text;
  EXPECT_FALSE(AccessLog::Open(folder.path() + "/none/access.log"));
}

TEST(TraceContext, AsTheStandardSays) {
  const std::string text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  auto context = ParseTraceparent(text);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->ToString(), text);
  EXPECT_EQ(context->flags, 1);
  TraceContext child = context->Child();
  EXPECT_EQ(child.TraceId(), context->TraceId());
  EXPECT_NE(child.span, context->span);
  EXPECT_TRUE(ParseTraceparent("01" + text.substr(2) + "-more"));  // later versions may go on
  for (const std::string& wrong :
       {std::string(), text.substr(1), text + "x", "ff" + text.substr(2), text + "-more",
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
        std::string("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01")}) {
    EXPECT_FALSE(ParseTraceparent(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace weft::serve
