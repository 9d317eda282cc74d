#include "serve/net/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace weft::serve {

Result<std::string> Inflate(std::string_view bytes, std::string_view encoding, int64_t limit) {
  if (encoding != "gzip" && encoding != "deflate")
    return Unimplemented("grpc-encoding '", encoding, "': gzip, deflate or identity");
  z_stream stream = {};
  constexpr int kWindowOfEither = 15 + 32;  // gzip's header or zlib's
  if (inflateInit2(&stream, kWindowOfEither) != Z_OK)
    return MakeError(Code::kInternal, "zlib: no memory");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int state = Z_OK;
  while (state == Z_OK && static_cast<int64_t>(out.size()) <= limit) {
    constexpr size_t kLeast = 16 << 10;
    size_t done = out.size();
    out.resize(std::max(2 * done, kLeast));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(out.size() - done);
    state = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (state == Z_BUF_ERROR && stream.avail_in == 0) break;  // cut off
  }
  inflateEnd(&stream);
  if (static_cast<int64_t>(out.size()) > limit)
    return MakeError(Code::kResourceExhausted, "the request is larger than ", limit, " bytes");
  if (state != Z_STREAM_END)
    return MakeError(Code::kInternal, "a message that is not compressed right");
  return out;
}

}  // namespace weft::serve
