// Bytes of the protocols: requests of HTTP/1.1 as they come, and ModelInfer of Open Inference.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/wire.h"
#include "serve/http_parser.h"
#include "serve/infer_message.h"
#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::Floats;
using State = HttpParser::State;

// Fed in pieces of that size.
HttpParser Parsed(std::string_view text, size_t piece, int64_t most = 1000) {
  HttpParser parser(most);
  for (size_t at = 0; at < text.size(); at += piece) {
    std::string_view bytes = text.substr(at, piece);
    State state = parser.Feed(bytes);
    if (state == State::kDone || state == State::kWrong) break;
    EXPECT_TRUE(bytes.empty());
  }
  return parser;
}

int StatusOf(std::string_view text) {
  HttpParser parser = Parsed(text, 7);
  return parser.state() == State::kWrong ? parser.status() : 0;
}

TEST(HttpParser, ReadsRequestsHoweverTheyAreCut) {
  for (size_t piece : {1, 2, 3, 5, 1000}) {
    HttpParser parser = Parsed(
        "\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nX-Weft-Priority:  high \r\nContent-Length: 5\r\n\r\n"
        "hello",
        piece);
    ASSERT_EQ(parser.state(), State::kDone) << piece;
    EXPECT_TRUE(parser.keep_alive());
    HttpRequest request = parser.TakeRequest();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/a?b");
    EXPECT_EQ(request.Header("x-weft-priority"), "high");
    EXPECT_EQ(request.body, "hello");
    HttpParser chunked = Parsed(
        "PUT / HTTP/1.1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n"
        "Trailer: 1\r\n\r\n",
        piece);
    ASSERT_EQ(chunked.state(), State::kDone) << piece << chunked.why();
    EXPECT_EQ(chunked.TakeRequest().body, "abc0123456789");
  }
}

TEST(HttpParser, LeavesWhatComesBehind) {
  HttpParser parser(1000);
  std::string_view bytes = "GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
  EXPECT_EQ(parser.Feed(bytes), State::kDone);
  EXPECT_FALSE(parser.keep_alive());
  EXPECT_EQ(bytes, "GET /b HTTP/1.1\r\n\r\n");
}

TEST(HttpParser, TellsThoseWhoWaitToGoOn) {
  HttpParser parser(1000);
  std::string_view bytes = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(parser.Feed(bytes), State::kBody);
  EXPECT_TRUE(parser.TakeExpects());
  EXPECT_FALSE(parser.TakeExpects());
}

TEST(HttpParser, RefusesWhatServersWereFooledWith) {
  EXPECT_EQ(StatusOf("garbage\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET  / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nA : b\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n"), 413);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nA: " + std::string(70'000, 'x')), 431);
}

WireWriter TensorX(std::string_view type, std::vector<int64_t> dims) {
  WireWriter tensor;
  tensor.Bytes(1, "x");
  tensor.Bytes(2, type);
  tensor.Ints(3, dims);
  return tensor;
}

Status ReadBytes(const WireWriter& message, InferRequest& infer, InferReply& reply) {
  SharedMemory memory;
  return ReadInferRequest(message.str(), memory, infer, reply);
}

std::string ErrorOfMessage(const WireWriter& message) {
  InferRequest infer;
  InferReply reply;
  Status status = ReadBytes(message, infer, reply);
  return status ? "no error" : status.error().ToString();
}

TEST(InferMessage, ReadsRawAndTypedTensors) {
  const float values[] = {1, 2};
  WireWriter priority, number, message;
  number.IntAlways(2, 1);
  priority.Bytes(1, "priority");
  priority.Message(2, number);
  // Bytes of tensors may come before what they belong to.
  message.Bytes(7, std::string_view(reinterpret_cast<const char*>(values), sizeof(values)));
  message.Bytes(1, "m");
  message.Bytes(2, "3");
  message.Bytes(3, "me");
  message.Message(4, priority);
  message.Message(5, TensorX("FP32", {1, 2}));
  InferRequest infer;
  InferReply reply;
  ASSERT_TRUE(ReadBytes(message, infer, reply));
  EXPECT_EQ(infer.model.name, "m");
  EXPECT_EQ(infer.model.version, 3);
  EXPECT_EQ(infer.priority, Priority::kHigh);
  EXPECT_EQ(reply.id, "me");
  ASSERT_EQ(infer.inputs.size(), 1u);
  EXPECT_EQ(infer.inputs[0].value.values<float>()[1], 2);

  WireWriter typed, contents, tensor = TensorX("INT8", {2});
  contents.Ints(2, std::vector<int64_t>{-3, 4});
  tensor.Message(5, contents);
  typed.Message(5, tensor);
  InferRequest other;
  ASSERT_TRUE(ReadBytes(typed, other, reply));
  EXPECT_EQ(other.inputs[0].value.values<int8_t>()[0], -3);
}

TEST(InferMessage, SaysWhatIsWrong) {
  auto raw = [](WireWriter tensor, std::string_view bytes) {
    WireWriter message;
    message.Message(5, tensor);
    message.Bytes(7, bytes);
    return ErrorOfMessage(message);
  };
  EXPECT_EQ(raw(TensorX("FP32", {2}), "1234"), "input x: 4 bytes for f32[2]");
  EXPECT_EQ(raw(TensorX("FP32", {-2}), "1234"), "input x: a dimension of -2");
  EXPECT_EQ(raw(TensorX("BYTES", {1}), "1234"), "input x: unknown datatype BYTES");
  EXPECT_NE(raw(TensorX("FP32", {int64_t{1} << 40, int64_t{1} << 40}), "1234").find("4 bytes for"),
            std::string::npos);
  WireWriter message;
  message.Message(5, TensorX("FP32", {1'000'000'000}));
  EXPECT_NE(ErrorOfMessage(message).find("too few elements"), std::string::npos);
  SharedMemory memory;
  InferRequest infer;
  InferReply reply;
  EXPECT_FALSE(ReadInferRequest("\x0a\xff", memory, infer, reply));
}

// A large tensor of a message is read where it lies, whatever is in front of it, and what a program
// wrote goes out from there.
TEST(InferMessage, LargeTensorsAreNotCopied) {
  constexpr int64_t kElements = 5000;
  for (size_t name : {1u, 2u, 17u, 40u}) {
    std::vector<float> values(kElements, 3);
    WireWriter message;
    message.Bytes(1, std::string(name, 'm'));
    message.Message(5, TensorX("FP32", {1, kElements}));
    message.Bytes(7, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    const std::string sent = "01234" + message.str();
    MessageBody body;
    body.Expect(sent.size(), 5);
    for (size_t at = 0; at < sent.size(); at += 1000)
      ASSERT_TRUE(body.Append(std::string_view(sent).substr(at, 1000)));
    ASSERT_EQ(body.view(), sent);
    SharedMemory memory;
    InferRequest infer;
    InferReply reply;
    ASSERT_TRUE(ReadInferRequest(body.view().substr(5), memory, infer, reply, body.storage()));
    const Literal& input = infer.inputs.at(0).value;
    const auto* begin = reinterpret_cast<const std::byte*>(body.view().data());
    EXPECT_TRUE(input.data() > begin && input.data() < begin + body.size()) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(input.data()) % 64, 0u) << name;
    EXPECT_EQ(input.values<float>()[kElements - 1], 3);

    InferResponse response{"m", "g", 7, {{"y", input}}};
    Result<Message> answer = WriteInferResponse(response, {}, memory, 5);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->slices.size(), 1u);
    EXPECT_EQ(answer->slices[0].bytes.data(), reinterpret_cast<const char*>(input.data()));
    EXPECT_EQ(answer->Joined().size(), answer->size());
    std::string parts;
    Message::ForParts(std::make_shared<const Message>(std::move(*answer)),
                      [&](const auto&, std::string_view bytes) { parts += bytes; });
    EXPECT_TRUE(parts.ends_with(message.str().substr(message.str().size() - 4 * kElements)));
  }
  EXPECT_EQ(LongestFieldIn(""), 0u);
  EXPECT_EQ(LongestFieldIn("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0u);
  EXPECT_EQ(LongestFieldIn(std::string("\x0a\x01m\x12\x05", 5)), 5u);  // the bytes are to come
}

// Grows beyond what was announced, and keeps what it has.
TEST(MessageBody, TakesMoreThanWasAnnounced) {
  MessageBody body;
  body.Expect(3, 0);
  std::string all;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(body.Append("abcdefg"));
    all += "abcdefg";
  }
  EXPECT_EQ(body.view(), all);
}

TEST(InferMessage, WritesWhatClientsRead) {
  InferResponse response{"m", "g", 7, {{"y", Floats({1, 2}, {3, 4})}}};
  SharedMemory memory;
  Result<Message> message = WriteInferResponse(response, {.id = "me", .shared = {}}, memory, 5);
  ASSERT_TRUE(message);
  const std::string bytes = message->Joined();
  WireReader reader(std::string_view(bytes).substr(5));
  std::string seen;
  while (reader.Next()) {
    if (reader.field() == 5) {
      WireReader tensor(reader.Bytes());
      std::vector<int64_t> dims;
      while (tensor.Next()) {
        if (tensor.field() == 3) tensor.Ints(dims);
      }
      StrAppend(seen, dims.size(), "d ");
    } else {
      std::string_view text = reader.Bytes();
      StrAppend(seen, reader.field(), ":", reader.field() == 6 ? StrCat(text.size()) : text, " ");
    }
  }
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(seen, "1:m 2:7 3:me 2d 6:8 ");
}

}  // namespace
}  // namespace weft::serve
