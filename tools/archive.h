// A .tar.gz in memory. Nothing is compressed (gzip's stored blocks): what goes in is small, and no
// library is needed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::tools {

struct ArchiveFile {
  std::string name;  // with folders: "dump/module.hlo"
  std::string contents;
};

std::string MakeTarGz(std::span<const ArchiveFile> files, long long seconds_since_1970);

}  // namespace weft::tools
