// What a report for others must not tell: folders, the user's and the machine's name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

// Absolute paths, and those of the home folder, become ".../file.py"; behind site-packages/ they
// are kept, as they are everybody's.
std::string ShortenPaths(std::string_view text);

// Words that are one of `names` become "xxxx".
std::string HideNames(std::string text, const std::vector<std::string>& names);

// The same number of bytes, so that offsets in a binary format still hold: where one of `folders`
// begins a path, the letters of all its folders become x.
std::string MaskFolders(std::string bytes, const std::vector<std::string>& folders);

}  // namespace weft::tools
