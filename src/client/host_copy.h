// Copies between memory of the host, on the way to and from a device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::client {

// By several threads where it takes one longer than waking another.
void CopyOnHost(std::byte* to, const std::byte* from, int64_t bytes);

// `to` may be memory that was never touched, as NumPy's is for a result: the system gives it page
// by page as it is written, which takes several times as long as writing. Says that it will be
// written, so that pages are large and come many at a time.
void ExpectWrites(std::byte* to, int64_t bytes);

}  // namespace weft::client
