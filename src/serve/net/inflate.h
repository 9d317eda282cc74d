// Messages of gRPC that came compressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::serve {

// `encoding`: "gzip" or "deflate". More than `limit` bytes are an error, before they are there.
Result<std::string> Inflate(std::string_view bytes, std::string_view encoding, int64_t limit);

}  // namespace weft::serve
