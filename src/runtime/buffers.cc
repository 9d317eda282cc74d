#include "runtime/buffers.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/str.h"

namespace weft::runtime {
namespace {

using program::Buffer;
using program::BufferKind;
using program::Program;
using program::Step;

std::string_view KindOf(const Buffer& buffer) {
  switch (buffer.kind) {
    case BufferKind::kParameter: return "argument";
    case BufferKind::kResult: return "result";
    case BufferKind::kConstant: return "constant";
    default: return "temporary";
  }
}

void AppendSource(const Step& step, std::string& line) {
  if (!step.source.empty()) StrAppend(line, " at ", step.source);
}

std::string ScratchLine(const Scratch& scratch) {
  auto* call = std::get_if<program::LibraryStep>(&scratch.step->op);
  std::string line = StrCat(HumanBytes(scratch.bytes), " scratch of ",
                            call ? call->routine : std::string(KindName(*scratch.step)));
  if (!scratch.step->name.empty()) StrAppend(line, ", in ", scratch.step->name);
  AppendSource(*scratch.step, line);
  return line;
}

}  // namespace

MemoryUse MemoryOf(const Program& program, int64_t temp_bytes) {
  MemoryUse use;
  use.temps = temp_bytes;
  for (const Buffer& buffer : program.buffers) {
    int64_t bytes = program::ByteSize(buffer).value_or(0);
    switch (buffer.kind) {
      case BufferKind::kParameter: use.arguments += buffer.base < 0 ? bytes : 0; break;
      case BufferKind::kResult:
        use.results += bytes;
        if (buffer.base >= 0) use.alias += bytes;
        break;
      case BufferKind::kConstant: use.constants += buffer.base < 0 ? bytes : 0; break;
      default: break;
    }
  }
  return use;
}

std::string HumanBytes(int64_t bytes) {
  char text[32];
  double value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000'000) {
    std::snprintf(text, sizeof(text), "%.2f TB", value / 1e12);
  } else if (bytes >= 1'000'000'000) {
    std::snprintf(text, sizeof(text), "%.2f GB", value / 1e9);
  } else if (bytes >= 1'000'000) {
    std::snprintf(text, sizeof(text), "%.1f MB", value / 1e6);
  } else if (bytes >= 1'000) {
    std::snprintf(text, sizeof(text), "%.1f kB", value / 1e3);
  } else {
    return StrCat(bytes, bytes == 1 ? " byte" : " bytes");
  }
  return text;
}

std::vector<std::string> LargestBuffers(const Program& program, size_t count,
                                        const Scratch& scratch) {
  std::vector<const Step*> writer(program.buffers.size(), nullptr), reader = writer;
  ForEachStep(program.steps, [&](const Step& step) {
    for (const program::Use& use : step.uses) {
      auto& first = program::Writes(use.access) ? writer : reader;
      if (first[use.slice.buffer] == nullptr) first[use.slice.buffer] = &step;
    }
  });
  // Memory that others lie in is not a value itself.
  std::vector<bool> is_base(program.buffers.size(), false);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.base >= 0 && program.buffers[buffer.base].kind == BufferKind::kTemp) {
      is_base[buffer.base] = true;
    }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (!is_base[i]) order.push_back(i);
  }
  auto bytes = [&](size_t i) { return program::ByteSize(program.buffers[i]).value_or(0); };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : a < b; });
  if (order.size() > count) order.resize(count);
  std::vector<std::string> lines;
  bool shown = scratch.step == nullptr;
  for (size_t i : order) {
    if (!shown && scratch.bytes > bytes(i)) {
      lines.push_back(ScratchLine(scratch));
      shown = true;
    }
    const Buffer& buffer = program.buffers[i];
    const Step* step = writer[i] ? writer[i] : reader[i];
    std::string line = StrCat(HumanBytes(bytes(i)), " ", KindOf(buffer), " ",
                              buffer.shape.ToStringWithoutLayout(), " ", buffer.name);
    if (step && !step->name.empty() && step->name != buffer.name) {
      StrAppend(line, writer[i] ? ", made by " : ", read by ", step->name);
    }
    if (step) AppendSource(*step, line);
    lines.push_back(std::move(line));
  }
  if (!shown) lines.push_back(ScratchLine(scratch));
  if (lines.size() > count) lines.resize(count);
  return lines;
}

}  // namespace weft::runtime
