#include "client/host_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/thread_pool.h"
#include "base/trace.h"

namespace weft::client {
namespace {

constexpr int64_t kCopyGrain = int64_t{1} << 17;  // bytes that a thread copies at least
// Less than this is mostly memory that malloc had before.
constexpr int64_t kFreshBytes = int64_t{1} << 18;
// From a few of them on. 2 MiB on x86_64 and on arm64 with pages of 4 KiB.
constexpr int64_t kLargePage = int64_t{2} << 20, kManyBytes = 2 * kLargePage;
#if defined(MADV_POPULATE_WRITE)
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23;  // Linux 5.14; older ones refuse it
#endif

// The whole pages of a range; advice is a hint, and who does not take it is as before.
void Advise(std::byte* to, int64_t bytes, int64_t page, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(to), size = static_cast<uintptr_t>(page);
  const uintptr_t first = (begin + size - 1) / size * size;
  const uintptr_t end = (begin + static_cast<uintptr_t>(bytes)) / size * size;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, advice);
}

// Whether memory is there already, by a look at its first, middle and last page: malloc gives what
// it had before again.
bool HasPages(std::byte* to, int64_t bytes, int64_t page) {
  for (int64_t at : {int64_t{0}, bytes / 2, bytes - 1}) {
    const auto address = reinterpret_cast<uintptr_t>(to + at) / static_cast<uintptr_t>(page);
    unsigned char there = 0;
    void* begin = reinterpret_cast<void*>(address * static_cast<uintptr_t>(page));
    if (mincore(begin, static_cast<size_t>(page), &there) != 0 || (there & 1) == 0) return false;
  }
  return true;
}

}  // namespace

void CopyOnHost(std::byte* to, const std::byte* from, int64_t bytes) {
  static const trace::CachedWhat copy;
  trace::Span span(copy.Get(trace::Kind::kTransfer,
                            [] { return trace::What{.name = "copy in memory of the host"}; }));
  span.Bytes(bytes);
  if (bytes < 2 * kCopyGrain) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  DefaultPool().ParallelFor(bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

void ExpectWrites(std::byte* to, int64_t bytes) {
  if (bytes < kFreshBytes) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  // Asking for the pages of a mebibyte takes 39 us, for nothing where they are there.
  if (bytes < kManyBytes && HasPages(to, bytes, page)) return;
  static const trace::CachedWhat expect;
  trace::Span span(expect.Get(trace::Kind::kTransfer,
                              [] { return trace::What{.name = "pages of the result"}; }));
  span.Bytes(bytes);
  if (bytes >= kManyBytes) Advise(to, bytes, kLargePage, MADV_HUGEPAGE);
  DefaultPool().ParallelFor(bytes, kFreshBytes, [&](int64_t begin, int64_t end) {
    Advise(to + begin, end - begin, page, kPopulateWrite);
  });
}

}  // namespace weft::client
