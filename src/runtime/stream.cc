#include "runtime/stream.h"

namespace weft::runtime {

std::string_view NameOf(StreamKind kind) {
  switch (kind) {
    case StreamKind::kCompute: return "compute";
    case StreamKind::kToDevice: return "to device";
    case StreamKind::kToHost: return "to host";
  }
  return "";
}

const trace::What* TracedCopy(CopyKind kind) {
  static const trace::CachedWhat copies[3];
  return copies[static_cast<size_t>(kind)].Get(
      kind == CopyKind::kOnDevice ? trace::Kind::kCopy : trace::Kind::kTransfer, [kind] {
        return trace::What{.name = kind == CopyKind::kToDevice ? "copy to device"
                                   : kind == CopyKind::kToHost ? "copy to host"
                                                               : "copy on device"};
      });
}

Status CheckCopy(const std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes < 0) return InvalidArgument("copy: ", bytes, " bytes");
  if (bytes == 0) return {};
  if (to == nullptr || from == nullptr) {
    return InvalidArgument("copy: ", bytes, " bytes ", to ? "from" : "to", " no memory");
  }
  if (to < from + bytes && from < to + bytes && to != from) {
    return InvalidArgument("copy: source and destination of ", bytes, " bytes overlap");
  }
  return {};
}

Status CheckFill(const std::byte* to, int64_t bytes, size_t pattern) {
  if (pattern != 1 && pattern != 2 && pattern != 4 && pattern != 8 && pattern != 16) {
    return InvalidArgument("fill: a pattern of ", pattern, " bytes: 1, 2, 4, 8 and 16 are known");
  }
  if (bytes < 0 || bytes % static_cast<int64_t>(pattern) != 0) {
    return InvalidArgument("fill: ", bytes, " bytes are no multiple of the pattern's ", pattern);
  }
  if (bytes > 0 && to == nullptr) return InvalidArgument("fill: ", bytes, " bytes of no memory");
  return {};
}

void FillBytes(std::span<std::byte> to, std::span<const std::byte> pattern) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = pattern[i % pattern.size()];
}

}  // namespace weft::runtime
