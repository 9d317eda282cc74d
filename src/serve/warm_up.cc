#include "serve/warm_up.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/str.h"

namespace weft::serve {

Result<std::vector<WarmUpRecord>> ReadWarmUpRecords(const std::string& folder) {
  const std::string path = folder + "/warmup.jsonl";
  std::vector<WarmUpRecord> records;
  if (access(path.c_str(), F_OK) != 0) return records;
  const std::string text = TRY(ReadFile(path));
  int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    Result<WarmUpRecord> record = ReadWarmUpRecord(line);
    if (!record) {
      return std::unexpected(record.error().Prefix(StrCat(path, ": line ", number, ": ")));
    }
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace weft::serve
