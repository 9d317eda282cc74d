// Requests of HTTP/1.1 out of bytes as they come. Strict where servers were fooled: one length
// only, no folded lines, no space before a colon.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace weft::serve {

class HttpParser {
 public:
  explicit HttpParser(int64_t max_body) : max_body_(max_body) {}

  enum class State : uint8_t { kNothing, kHeader, kBody, kDone, kWrong };
  // Takes what it needs of the bytes.
  State Feed(std::string_view& bytes);
  State state() const { return state_; }
  // Where it is wrong: the status, and what to say.
  int status() const { return status_; }
  const std::string& why() const { return why_; }
  bool keep_alive() const { return keep_alive_; }
  bool is_head() const { return is_head_; }
  // The client waits to be told before it sends the body; once.
  bool TakeExpects();
  HttpRequest TakeRequest();

 private:
  enum class Chunk : uint8_t { kSize, kBytes, kEnd, kTrailer };
  State Fail(int status, std::string why);
  State ReadHeader(std::string_view& bytes);
  State ReadFields(std::string_view text);
  State ReadField(std::string_view line);
  State Begin();
  State ReadBody(std::string_view& bytes);
  State ReadChunked(std::string_view& bytes);
  State ReadChunkSize(std::string_view line);
  bool TakeLine(std::string_view& bytes);

  const int64_t max_body_;
  State state_ = State::kNothing;
  HttpRequest request_;
  std::string header_;  // as far as it came; of chunked bodies: a line
  int64_t left_ = -1;   // bytes of the body, or of a chunk; -1: no length was given
  Chunk chunk_ = Chunk::kSize;
  bool chunked_ = false, keep_alive_ = true, expects_ = false, is_head_ = false;
  int status_ = 0;
  std::string why_;
};

}  // namespace weft::serve
