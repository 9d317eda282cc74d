#include "serve/net/grpc_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "serve/net/grpc_connection.h"
#include "serve/net/inflate.h"
#include "serve/run_handler.h"

namespace weft::serve {
namespace {

constexpr uint32_t kMaxStreams = 10'000;         // calls of one connection at once
constexpr uint32_t kStreamWindow = 4 << 20;      // bytes of one call on the way to us
constexpr int32_t kConnectionWindow = 16 << 20;  // of all calls
constexpr uint32_t kFrameBytes = 256 << 10;      // that we take in one
constexpr std::string_view kContentType = "application/grpc";

uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
}

nghttp2_nv Field(std::string_view name, std::string_view value) {
  return {Bytes(name), Bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string_view View(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Of grpc-message: printable ASCII but for the percent sign, the rest escaped.
std::string EscapeMessage(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text) {
    if (c >= 0x20 && c < 0x7f && c != '%') {
      out += static_cast<char>(c);
    } else {
      out += {'%', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return out;
}

// "100m": a number of at most eight digits and a unit. Zero: it is none.
Time ParseTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return 0;
  std::optional<int64_t> number = ParseInt(text.substr(0, text.size() - 1));
  if (!number || *number < 0) return 0;
  constexpr std::string_view kUnits = "numSMH";
  constexpr Time kLengths[] = {1,       kMicrosecond, kMillisecond,
                               kSecond, 60 * kSecond, 3600 * kSecond};
  size_t unit = kUnits.find(text.back());
  return unit == kUnits.npos ? 0 : std::max<Time>(*number * kLengths[unit], 1);
}

uint32_t LengthIn(std::string_view prefix) {
  uint32_t length = 0;
  for (size_t i = 1; i < kMessagePrefix; ++i)
    length = length << 8 | static_cast<unsigned char>(prefix[i]);
  return length;
}

void WriteLength(Message& message) {
  size_t length = message.size() - kMessagePrefix;
  for (size_t i = 0; i < 4; ++i) message.text[4 - i] = static_cast<char>(length >> (8 * i) & 0xff);
}

}  // namespace

// What nghttp2 calls.
struct SessionCallbacks {
  using Stream = GrpcSession::Stream;
  static GrpcSession& Of(void* user) { return *static_cast<GrpcSession*>(user); }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) Of(user).Begin(frame->hd.stream_id);
    return 0;
  }
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user) {
    Stream* stream = Of(user).Find(frame->hd.stream_id);
    if (stream != nullptr && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
      Of(user).AddHeader(*stream, View(name, name_size), View(value, value_size));
    return 0;
  }
  static int OnData(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size,
                    void* user) {
    Stream* stream = Of(user).Find(id);
    if (stream != nullptr) Of(user).AddData(id, *stream, View(data, size));
    return 0;
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    GrpcSession& session = Of(user);
    session.opened_ = true;
    bool request = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!request) return 0;
    Stream* stream = session.Find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS)
      stream->kind = session.handler_.KindOf(stream->call->method());
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
      session.Complete(frame->hd.stream_id, *stream);
    return 0;
  }
  static int OnClose(nghttp2_session*, int32_t id, uint32_t, void* user) {
    Of(user).Close(id);
    return 0;
  }

  // How many bytes of the messages go out next, which SendData has then; behind the last one the
  // trailers.
  static ssize_t Read(nghttp2_session* session, int32_t id, uint8_t*, size_t size, uint32_t* flags,
                      nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const size_t count = std::min(size, stream.out_bytes);
    if (count > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (count < stream.out_bytes) return static_cast<ssize_t>(count);
    if (!stream.ended) {
      stream.deferred = count == 0;
      if (count == 0) return NGHTTP2_ERR_DEFERRED;
      return static_cast<ssize_t>(count);
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    std::vector<nghttp2_nv> fields;
    for (const auto& [name, value] : stream.trailers) fields.push_back(Field(name, value));
    nghttp2_submit_trailer(session, id, fields.data(), fields.size());
    return static_cast<ssize_t>(count);
  }

  static int SendData(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t size,
                      nghttp2_data_source* source, void* user) {
    constexpr size_t kFrameHead = 9;
    auto& stream = *static_cast<Stream*>(source->ptr);
    OutQueue& out = *Of(user).filling_;
    out.Append(View(head, kFrameHead));
    stream.out_bytes -= size;
    while (size > 0) {
      Stream::Part& part = stream.out.front();
      const std::string_view next = part.bytes.substr(0, size);
      out.Append(part.owner, next);
      size -= next.size();
      part.bytes.remove_prefix(next.size());
      if (part.bytes.empty()) stream.out.pop_front();
    }
    return 0;
  }

  static nghttp2_session_callbacks* Table() {
    static nghttp2_session_callbacks* const table = [] {
      nghttp2_session_callbacks* made = nullptr;
      CHECK(nghttp2_session_callbacks_new(&made) == 0);
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, OnBeginHeaders);
      nghttp2_session_callbacks_set_on_header_callback(made, OnHeader);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, OnData);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, OnFrame);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, OnClose);
      nghttp2_session_callbacks_set_send_data_callback(made, SendData);
      return made;
    }();
    return table;
  }
};

GrpcSession::GrpcSession(GrpcConnection& connection, const GrpcLimits& limits, CallHandler& handler)
    : connection_(connection), limits_(limits), handler_(handler) {
  nghttp2_option* option = nullptr;
  CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_no_closed_streams(option, 1);  // of no use, and memory
  CHECK(nghttp2_session_server_new2(&session_, SessionCallbacks::Table(), this, option) == 0);
  nghttp2_option_del(option);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
                                             {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrameBytes}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

GrpcSession::~GrpcSession() {
  nghttp2_session_del(session_);
}

bool GrpcSession::Feed(std::string_view bytes) {
  return nghttp2_session_mem_recv(session_, Bytes(bytes), bytes.size()) >= 0;
}

bool GrpcSession::Fill(OutQueue& out) {
  const size_t before = out.size();
  const uint8_t* data = nullptr;
  filling_ = &out;  // frames of messages go there themselves, before what this gives back
  ssize_t size = nghttp2_session_mem_send(session_, &data);
  filling_ = nullptr;
  if (size > 0) out.Append(View(data, static_cast<size_t>(size)));
  return out.size() > before;
}

bool GrpcSession::WantsMore() const {
  return nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0;
}

bool GrpcSession::idle() const {
  return std::ranges::none_of(
      streams_, [](const auto& entry) { return entry.second->kind == CallKind::kUnary; });
}

bool GrpcSession::Receiving() const {
  return std::ranges::any_of(streams_, [](const auto& entry) {
    return entry.second->kind == CallKind::kUnary && !entry.second->complete;
  });
}

void GrpcSession::RefuseCalls() {
  int32_t last = nghttp2_session_get_last_proc_stream_id(session_);
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
}

void GrpcSession::Abandon() {
  for (auto& [id, stream] : streams_) {
    if (!stream->ended && stream->cancel) cancelled_.push_back(std::move(stream->cancel));
  }
  streams_.clear();
}

GrpcSession::Stream* GrpcSession::Find(int32_t id) {
  auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

void GrpcSession::Begin(int32_t id) {
  auto stream = std::make_unique<Stream>();
  stream->call = std::make_shared<Call>(connection_.shared_from_this(), id);
  stream->call->received_ = Now();
  streams_[id] = std::move(stream);
}

void GrpcSession::AddHeader(Stream& stream, std::string_view name, std::string_view value) {
  Call& call = *stream.call;
  if (name == ":path") {
    call.method_ = value;
  } else if (name == "grpc-timeout") {
    if (Time timeout = ParseTimeout(value); timeout > 0) call.deadline_ = call.received_ + timeout;
  } else if (name == "grpc-encoding") {
    stream.encoding = value;
  } else if (!name.starts_with(':') && name != "te" && name != "user-agent" &&
             name != "content-type" && name != "grpc-accept-encoding") {
    call.metadata_.emplace_back(name, value);
  }
}

void GrpcSession::AddData(int32_t id, Stream& stream, std::string_view bytes) {
  if (stream.ended) return;
  MessageBody& body = stream.call->body_;
  if (body.empty() && bytes.size() >= kMessagePrefix)
    body.Expect(LengthIn(bytes) + kMessagePrefix, kMessagePrefix);
  if (!body.Append(bytes)) {
    return Refuse(id, stream, Error(Code::kResourceExhausted, "no memory for the request"));
  }
  if (static_cast<int64_t>(body.size()) > limits_.max_request_bytes + int64_t{kMessagePrefix}) {
    return Refuse(id, stream,
                  Error(Code::kResourceExhausted, StrCat("the request is larger than ",
                                                         limits_.max_request_bytes, " bytes")));
  }
  if (stream.kind != CallKind::kUnary) Converse(id, stream);
}

Result<bool> GrpcSession::TakeMessage(Stream& stream, std::string_view& bytes,
                                      std::string& unpacked, std::string_view& message) const {
  if (bytes.size() < kMessagePrefix) return false;
  const size_t length = LengthIn(bytes);
  if (bytes.size() < kMessagePrefix + length) return false;
  const bool packed = bytes[0] != 0;
  message = bytes.substr(kMessagePrefix, length);
  bytes.remove_prefix(kMessagePrefix + length);
  if (packed) {
    unpacked = TRY(Inflate(message, stream.encoding, limits_.max_request_bytes));
    message = unpacked;
  }
  return true;
}

// The client has said all: a unary call is there.
void GrpcSession::Complete(int32_t id, Stream& stream) {
  stream.complete = true;
  if (stream.ended || stream.kind == CallKind::kWatch) return;
  if (stream.kind == CallKind::kConversation) return Finish(id, {}, {}, {}, {});
  Call& call = *stream.call;
  std::string_view bytes = call.body_.view(), message;
  std::string unpacked;
  Result<bool> whole = TakeMessage(stream, bytes, unpacked, message);
  if (!whole) return Refuse(id, stream, whole.error());
  if (!*whole || !bytes.empty())
    return Refuse(id, stream, Error(Code::kInternal, "not one whole message"));
  if (message.data() == unpacked.data()) {
    call.body_ = {};
    if (!call.body_.Append(unpacked))
      return Refuse(id, stream, Error(Code::kResourceExhausted, "no memory for the request"));
    message = call.body_.view();
  }
  call.message_ = message;
  calls_.push_back(stream.call);
}

void GrpcSession::Converse(int32_t id, Stream& stream) {
  MessageBody body = std::exchange(stream.call->body_, {});
  std::string_view bytes = body.view(), message;
  for (;;) {
    std::string unpacked;
    Result<bool> whole = TakeMessage(stream, bytes, unpacked, message);
    if (!whole) return Refuse(id, stream, whole.error());
    if (!*whole) break;
    std::string answer = handler_.Converse(stream.call, message);
    if (!answer.empty()) Send(id, std::move(answer));
  }
  if (!stream.call->body_.Append(bytes))
    Refuse(id, stream, Error(Code::kResourceExhausted, "no memory for the request"));
}

void GrpcSession::Close(int32_t id) {
  auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  if (stream.cancel) cancelled_.push_back(std::move(stream.cancel));
  streams_.erase(found);
}

void GrpcSession::Refuse(int32_t id, Stream& stream, const Error& error) {
  bool complete = stream.complete;
  Finish(id, std::unexpected(error), {}, {}, {});
  // The rest of the request is not wanted.
  if (!complete) nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
}

void GrpcSession::SubmitHeaders(int32_t id, Stream& stream, const Call::Pairs& first, bool end) {
  std::vector<nghttp2_nv> fields = {Field(":status", "200"), Field("content-type", kContentType)};
  for (const auto& [name, value] : first) fields.push_back(Field(name, value));
  if (end) {
    for (const auto& [name, value] : stream.trailers) fields.push_back(Field(name, value));
  }
  nghttp2_data_provider provider = {{.ptr = &stream}, SessionCallbacks::Read};
  nghttp2_submit_response(session_, id, fields.data(), fields.size(), end ? nullptr : &provider);
  stream.begun = true;
}

void GrpcSession::Resume(int32_t id, Stream& stream) {
  if (std::exchange(stream.deferred, false)) nghttp2_session_resume_data(session_, id);
}

// Its tensors go out from where they lie.
void GrpcSession::Queue(Stream& stream, Message message) {
  WriteLength(message);
  stream.out_bytes += message.size();
  auto kept = std::make_shared<const Message>(std::move(message));
  Message::ForParts(kept, [&](std::shared_ptr<const void> owner, std::string_view bytes) {
    if (!bytes.empty()) stream.out.push_back({std::move(owner), bytes});
  });
}

void GrpcSession::Send(int32_t id, std::string message) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->ended) return;
  Queue(*stream, std::move(message));
  if (!stream->begun) return SubmitHeaders(id, *stream, {}, false);
  Resume(id, *stream);
}

void GrpcSession::Finish(int32_t id, const Status& status, Message message,
                         const Call::Pairs& first, const Call::Pairs& last) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->ended) return;
  stream->ended = true;
  stream->cancel = nullptr;
  stream->trailers = last;
  // The codes are gRPC's own numbers.
  int code = status ? 0 : static_cast<int>(status.error().code());
  stream->trailers.emplace_back("grpc-status", StrCat(code));
  if (!status)
    stream->trailers.emplace_back("grpc-message", EscapeMessage(status.error().ToString()));
  if (!message.empty()) Queue(*stream, std::move(message));
  // An end without messages is one frame.
  if (!stream->begun) return SubmitHeaders(id, *stream, first, stream->out.empty());
  Resume(id, *stream);
}

bool GrpcSession::OnCancel(int32_t id, std::function<void()>& cancel) {
  Stream* stream = Find(id);
  if (stream == nullptr) return false;
  if (!stream->ended) stream->cancel = std::move(cancel);
  return true;
}

}  // namespace weft::serve
