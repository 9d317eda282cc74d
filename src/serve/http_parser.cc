#include "serve/http_parser.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/str.h"

namespace weft::serve {
namespace {

constexpr size_t kMaxHttpHeader = 64 << 10;
constexpr size_t kMaxLine = 256;  // of a chunk's size
constexpr size_t kReserveBody = 16 << 20;

bool IsToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != kMarks.npos;
  });
}

std::string_view Trim(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Digits and nothing else; -1: it is none.
int64_t ReadLength(std::string_view text) {
  bool digits = !text.empty() && text.size() <= 18 &&
                std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? ParseInt(text).value_or(-1) : -1;
}

}  // namespace

HttpParser::State HttpParser::Fail(int status, std::string why) {
  status_ = status;
  why_ = std::move(why);
  keep_alive_ = false;
  return state_ = State::kWrong;
}

HttpParser::State HttpParser::Feed(std::string_view& bytes) {
  // Line ends between requests are of no meaning.
  while (state_ == State::kNothing && !bytes.empty() && (bytes[0] == '\r' || bytes[0] == '\n'))
    bytes.remove_prefix(1);
  if (state_ == State::kNothing && !bytes.empty()) state_ = State::kHeader;
  if (state_ == State::kHeader) ReadHeader(bytes);
  if (state_ == State::kBody) ReadBody(bytes);
  return state_;
}

HttpParser::State HttpParser::ReadHeader(std::string_view& bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t before = header_.size();
  header_.append(bytes.substr(0, kMaxHttpHeader + 1));
  size_t end = header_.find(kEnd, before < kEnd.size() ? 0 : before - kEnd.size() + 1);
  if (end == header_.npos) {
    bytes.remove_prefix(header_.size() - before);
    if (header_.size() <= kMaxHttpHeader) return state_;
    return Fail(431, StrCat("a header of more than ", kMaxHttpHeader, " bytes"));
  }
  bytes.remove_prefix(end + kEnd.size() - before);
  header_.resize(end + 2);
  std::string text = std::exchange(header_, {});
  return ReadFields(text);
}

HttpParser::State HttpParser::ReadFields(std::string_view text) {
  std::string_view line = text.substr(0, text.find("\r\n"));
  text.remove_prefix(line.size() + 2);
  size_t first = line.find(' '), last = line.rfind(' ');
  std::string_view version = last == line.npos ? "" : line.substr(last + 1);
  if (first == last || (version != "HTTP/1.1" && version != "HTTP/1.0") ||
      !IsToken(line.substr(0, first))) {
    return Fail(400, "not HTTP: bad request line");
  }
  request_.method = line.substr(0, first);
  request_.target = line.substr(first + 1, last - first - 1);
  if (request_.target.empty() || request_.target.find(' ') != std::string::npos)
    return Fail(400, "not HTTP: bad target");
  keep_alive_ = version == "HTTP/1.1";
  while (!text.empty()) {
    std::string_view field = text.substr(0, text.find("\r\n"));
    text.remove_prefix(field.size() + 2);
    if (ReadField(field) == State::kWrong) return state_;
  }
  return Begin();
}

HttpParser::State HttpParser::ReadField(std::string_view line) {
  size_t colon = line.find(':');
  if (colon == line.npos || !IsToken(line.substr(0, colon)))
    return Fail(400, "not HTTP: bad field");
  std::string name = Lower(line.substr(0, colon));
  std::string_view value = Trim(line.substr(colon + 1));
  bool clean = std::ranges::all_of(value, [](unsigned char c) { return c >= 0x20 || c == '\t'; });
  if (!clean) return Fail(400, "not HTTP: bad value");
  if (name == "content-length") {
    int64_t length = ReadLength(value);
    if (length < 0 || (left_ >= 0 && left_ != length))
      return Fail(400, "not HTTP: bad content-length");
    left_ = length;
  } else if (name == "transfer-encoding") {
    if (chunked_ || Lower(value) != "chunked")
      return Fail(501, "a transfer-encoding other than chunked");
    chunked_ = true;
  } else if (name == "connection") {
    std::string wish = Lower(value);
    if (wish.find("close") != wish.npos) keep_alive_ = false;
    if (wish.find("keep-alive") != wish.npos) keep_alive_ = true;
  } else if (name == "expect") {
    expects_ = Lower(value) == "100-continue";
  }
  request_.headers.emplace_back(std::move(name), value);
  return state_;
}

// The header is there: what follows.
HttpParser::State HttpParser::Begin() {
  if (chunked_ && left_ >= 0) return Fail(400, "not HTTP: two lengths");
  is_head_ = request_.method == "HEAD";
  if (is_head_) request_.method = "GET";
  if (left_ > max_body_)
    return Fail(413, StrCat("the request is larger than ", max_body_, " bytes"));
  if (!chunked_ && left_ <= 0) return state_ = State::kDone;
  if (!chunked_) request_.body.reserve(std::min(static_cast<size_t>(left_), kReserveBody));
  return state_ = State::kBody;
}

HttpParser::State HttpParser::ReadBody(std::string_view& bytes) {
  expects_ = expects_ && bytes.empty();
  if (chunked_) return ReadChunked(bytes);
  size_t count = std::min(bytes.size(), static_cast<size_t>(left_));
  request_.body.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  left_ -= static_cast<int64_t>(count);
  return state_ = left_ == 0 ? State::kDone : State::kBody;
}

// Up to the end of a line, which is in header_ then.
bool HttpParser::TakeLine(std::string_view& bytes) {
  while (!bytes.empty()) {
    header_ += bytes.front();
    bytes.remove_prefix(1);
    if (header_.ends_with("\r\n")) {
      header_.resize(header_.size() - 2);
      return true;
    }
    if (header_.size() > kMaxLine) {
      Fail(400, "not HTTP: a line of a chunk is too long");
      return false;
    }
  }
  return false;
}

HttpParser::State HttpParser::ReadChunkSize(std::string_view line) {
  std::string_view digits = Trim(line.substr(0, line.find(';')));
  bool hex = !digits.empty() && digits.size() <= 15 &&
             std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!hex) return Fail(400, "not HTTP: bad size of a chunk");
  left_ = 0;
  for (char c : digits)
    left_ =
        left_ * 16 + (c <= '9' ? c - '0' : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10);
  if (static_cast<int64_t>(request_.body.size()) + left_ > max_body_)
    return Fail(413, StrCat("the request is larger than ", max_body_, " bytes"));
  chunk_ = left_ == 0 ? Chunk::kTrailer : Chunk::kBytes;
  return state_;
}

HttpParser::State HttpParser::ReadChunked(std::string_view& bytes) {
  while (!bytes.empty() && state_ == State::kBody) {
    if (chunk_ == Chunk::kBytes) {
      size_t count = std::min(bytes.size(), static_cast<size_t>(left_));
      request_.body.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      left_ -= static_cast<int64_t>(count);
      if (left_ == 0) chunk_ = Chunk::kEnd;
      continue;
    }
    if (!TakeLine(bytes)) break;
    std::string line = std::exchange(header_, {});
    if (chunk_ == Chunk::kSize) {
      ReadChunkSize(line);
    } else if (chunk_ == Chunk::kEnd) {
      if (!line.empty()) return Fail(400, "not HTTP: bad end of a chunk");
      chunk_ = Chunk::kSize;
    } else if (line.empty()) {
      state_ = State::kDone;
    }
  }
  return state_;
}

bool HttpParser::TakeExpects() {
  return std::exchange(expects_, false);
}

HttpRequest HttpParser::TakeRequest() {
  return std::move(request_);
}

}  // namespace weft::serve
