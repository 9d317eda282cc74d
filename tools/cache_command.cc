// weft cache: the compiled programs on disk.
#include <cstdio>
#include <ctime>

#include "base/str.h"
#include "client/cache.h"
#include "commands.h"
#include "units.h"

namespace weft::tools {
namespace {

std::string ShowTime(int64_t seconds) {
  std::time_t time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32];
  if (localtime_r(&time, &parts) == nullptr) return "?";
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string ShowContents(const client::CacheContents& contents) {
  std::string out = StrCat("place:    ", contents.folder, "\n");
  StrAppend(out, "entries:  ", contents.entries, " (", contents.code, " code, ", contents.programs,
            " modules, ", contents.facts, " histories)\n");
  StrAppend(out, "size:     ", ShowBytes(contents.bytes), " of at most ",
            ShowBytes(client::Cache::kDefaultLimit), "\n");
  if (contents.entries > 0) {
    StrAppend(out, "used:     ", ShowTime(contents.oldest), " to ", ShowTime(contents.newest),
              "\n");
  }
  StrAppend(out, "found:    ", contents.hits, " times, not found ", contents.misses,
            " times (by processes that ended in order)\n");
  return out;
}

Result<int> RunCache(Args args) {
  std::string directory = args.Value("--dir").value_or(TheEnvironment().cache);
  std::vector<std::string> words = TRY(args.Finish(0, 1));
  std::string what = words.empty() ? "stats" : words[0];
  if (what != "stats" && what != "clear") {
    return InvalidArgument("unknown action: ", what, ": expected stats or clear");
  }
  if (directory.empty()) {
    std::printf("no cache: WEFT_CACHE=0, or there is no home folder; --dir names one\n");
    return kOk;
  }
  if (what == "stats") {
    std::fputs(ShowContents(client::LookIntoCache(directory)).c_str(), stdout);
    return kOk;
  }
  client::CacheCleared cleared = client::ClearCache(directory);
  std::printf("removed %lld files, %s, from %s\n", static_cast<long long>(cleared.files),
              ShowBytes(cleared.bytes).c_str(), directory.c_str());
  for (const std::string& left : cleared.left) {
    std::fprintf(stderr, "weft cache: not removed: %s\n", left.c_str());
  }
  return cleared.left.empty() ? kOk : kFailed;
}

}  // namespace

constexpr Command kCacheCommand = {"cache", "what is kept of compiled programs",
                                   R"(usage: weft cache [stats|clear] [--dir DIR]

Shows where compiled programs are kept between processes, how many and how much, when they were
last used, and how often something was found. `clear` removes them, and nothing else that lies
there. A process that runs goes on; it compiles again what it does not find.

  --dir DIR   the directory, as WEFT_CACHE names it (default: WEFT_CACHE, else weft in
              XDG_CACHE_HOME, else in .cache of the home folder)

examples:
  weft cache
  weft cache clear --dir /var/tmp/weft
)",
                                   RunCache};

}  // namespace weft::tools
