#include "runtime/binding.h"

#include <algorithm>

#include "program/interpret.h"

namespace weft::runtime {

using program::Buffer;
using program::BufferKind;
using program::Program;

Status CheckCall(const Program& program, const Call& call) {
  int64_t parameters = 0, results = 0;
  for (const Buffer& b : program.buffers) {
    if (b.kind == BufferKind::kParameter) parameters = std::max(parameters, b.index + 1);
    if (b.kind == BufferKind::kResult) results = std::max(results, b.index + 1);
  }
  if (std::ssize(call.parameters) != parameters || std::ssize(call.results) != results) {
    return InvalidArgument("program ", program.name, " takes ", parameters, " parameters and ",
                           results, " results, not ", call.parameters.size(), " and ",
                           call.results.size());
  }
  for (const Buffer& b : program.buffers) {
    bool result = b.kind == BufferKind::kResult;
    if (!result && b.kind != BufferKind::kParameter) continue;
    std::byte* address = (result ? call.results : call.parameters)[b.index];
    int64_t bytes = *ByteSize(b);
    if (bytes > 0 && address == nullptr) {
      return InvalidArgument("program ", program.name, ": ", result ? "result " : "parameter ",
                             b.index, " has no memory");
    }
    int64_t align = bytes >= 64 ? 16 : std::min<int64_t>(16, ByteWidth(b.shape.dtype()));
    if (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(align) != 0) {
      return InvalidArgument("program ", program.name, ": ", result ? "result " : "parameter ",
                             b.index, " is not aligned to ", align, " bytes");
    }
    if (result && b.base >= 0 &&
        address != call.parameters[program.buffers[b.base].index] + b.offset) {
      return InvalidArgument("program ", program.name, ": result ", b.index, " lies in parameter ",
                             program.buffers[b.base].index, ", which is at another address");
    }
  }
  return {};
}

Status CheckSpaces(const Program& program) {
  for (const Buffer& b : program.buffers) {
    if (b.space != program::MemorySpace::kHost) continue;
    return Unimplemented("program ", program.name, ": buffer ", b.name,
                         " is in memory of the host that the device cannot reach");
  }
  return {};
}

ProgramBinding::ProgramBinding(const Program& program)
    : program_(program), offsets_(program.buffers.size()) {
  auto place = [](const Buffer& b, int64_t end) {
    int64_t align = std::max(b.align, kDeviceAlignment);
    return (end + align - 1) / align * align;
  };
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.base >= 0) continue;
    if (b.kind == BufferKind::kTemp) {
      offsets_[i] = place(b, temp_bytes_);
      temp_bytes_ = offsets_[i] + *ByteSize(b);
    } else if (b.kind == BufferKind::kConstant) {
      std::vector<std::byte> bytes = program::ConstantBytes(b);
      offsets_[i] = place(b, constant_bytes());
      constants_.resize(static_cast<size_t>(offsets_[i]));
      constants_.insert(constants_.end(), bytes.begin(), bytes.end());
    }
  }
}

std::vector<std::byte*> ProgramBinding::Bind(const Call& call, std::byte* temps,
                                             std::byte* constants) const {
  std::vector<std::byte*> addresses(program_.buffers.size());
  auto own = [&](size_t i) {
    const Buffer& b = program_.buffers[i];
    switch (b.kind) {
      case BufferKind::kParameter: return call.parameters[b.index];
      case BufferKind::kResult: return call.results[b.index];
      case BufferKind::kTemp: return temps + offsets_[i];
      case BufferKind::kConstant: return constants + offsets_[i];
    }
    return temps;
  };
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Buffer& b = program_.buffers[i];
    addresses[i] = b.base < 0 ? own(i) : own(static_cast<size_t>(b.base)) + b.offset;
  }
  return addresses;
}

}  // namespace weft::runtime
