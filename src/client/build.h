// Which build of Weft this is.
#pragma once

#include <string_view>

namespace weft::client {

std::string_view Version();  // "0.1.0"

// 16 hex digits for the sources of the compiler, the same in every checkout of them
// (cmake/source_hash.cmake). What one build keeps on disk is used by builds of the same sources
// alone.
std::string_view SourceHash();

}  // namespace weft::client
