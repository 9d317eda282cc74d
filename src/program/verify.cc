// Rules of a Program's buffers, and the verifier as a whole.
#include "program/verify.h"

#include <algorithm>
#include <unordered_set>

#include "base/packing.h"
#include "program/verify_program.h"

namespace weft::program {

namespace {

constexpr int64_t kMaxDevices = 1 << 20;

}  // namespace

Status ProgramVerifier::Run() {
  if (program_.devices < 1 || program_.devices > kMaxDevices) {
    return Fail(Position{}, "program has ", program_.devices, " devices");
  }
  TRY(CheckBuffers());
  TRY(CheckKernels());
  TRY(CheckSteps(program_.steps, 1));
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.kind != BufferKind::kResult) continue;
    Slice slice = Resolve(program_, {IdOf(buffer), 0, *ByteSize(buffer)});
    if (!written_[slice.buffer].Covers(slice.offset, slice.offset + slice.size)) {
      return Fail(buffer.pos, "result '", buffer.name, "' is not written");
    }
  }
  return {};
}

std::string ProgramVerifier::Show(const Slice& slice) const {
  std::string out = "'";
  AppendSlice(out, program_, slice);
  return out + "'";
}

Status ProgramVerifier::CheckBuffers() {
  std::unordered_set<std::string_view> names;
  std::vector<const Buffer*> numbered[2];  // parameters, results
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.name.empty() || !names.insert(buffer.name).second) {
      return Fail(buffer.pos, "buffer '", buffer.name, "' has no name or is defined twice");
    }
    TRY(CheckBuffer(buffer));
    if (buffer.kind == BufferKind::kParameter) numbered[0].push_back(&buffer);
    if (buffer.kind == BufferKind::kResult) numbered[1].push_back(&buffer);
    bool defined = buffer.kind == BufferKind::kParameter || buffer.kind == BufferKind::kConstant;
    if (defined) written_[IdOf(buffer)].Add(0, *ByteSize(buffer));
  }
  for (auto& list : numbered) {
    std::sort(list.begin(), list.end(),
              [](const Buffer* a, const Buffer* b) { return a->index < b->index; });
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i]->index != static_cast<int64_t>(i)) {
        return Fail(list[i]->pos, "buffer '", list[i]->name, "' is number ", list[i]->index,
                    ", expected ", i);
      }
    }
  }
  for (const auto& list : numbered) TRY(CheckSizes(list));
  return CheckTakenParameters(numbered[1]);
}

Status ProgramVerifier::CheckSizes(const std::vector<const Buffer*>& list) const {
  int64_t arrays = 0;
  for (const Buffer* buffer : list) {
    if (buffer->size_of < 0) {
      if (arrays < buffer->index) {
        return Fail(buffer->pos, "buffer '", buffer->name, "' comes behind sizes");
      }
      ++arrays;
      continue;
    }
    bool fits = buffer->shape.IsScalar() && buffer->shape.dtype() == DType::kS32 &&
                buffer->donation == Donation::kNone && buffer->base == -1 &&
                buffer->size_of < arrays &&
                buffer->size_dim < list[static_cast<size_t>(buffer->size_of)]->shape.rank();
    if (!fits) {
      return Fail(buffer->pos, "buffer '", buffer->name, "' is no size of dimension ",
                  buffer->size_dim, " of number ", buffer->size_of);
    }
  }
  return {};
}

Status ProgramVerifier::CheckTakenParameters(const std::vector<const Buffer*>& results) const {
  for (const Buffer* result : results) {
    if (result->base < 0) continue;
    for (const Buffer* other : results) {
      if (other == result) break;
      Slice a{result->base, result->offset, *ByteSize(*result)};
      Slice b{other->base, other->offset, *ByteSize(*other)};
      if (Overlap(a, b)) {
        return Fail(result->pos, "results '", other->name, "' and '", result->name, "' overlap");
      }
    }
  }
  return {};
}

Status ProgramVerifier::CheckBuffer(const Buffer& buffer) const {
  std::optional<int64_t> size = ByteSize(buffer);
  if (!size) return Fail(buffer.pos, "buffer '", buffer.name, "' has shape ", buffer.shape);
  if (buffer.packed && !IsPackable(buffer.shape.dtype())) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' cannot be packed: elements of ",
                weft::Name(buffer.shape.dtype()), " are not two or four to a byte");
  }
  if (buffer.packed && buffer.shape.layout() && !buffer.shape.layout()->IsRowMajor()) {
    return Fail(buffer.pos, "packed buffer '", buffer.name, "' is not row-major: ", buffer.shape);
  }
  if (!IsPowerOfTwo(buffer.align)) {
    return Fail(buffer.pos, "alignment ", buffer.align, " is not a power of two");
  }
  if (buffer.donation != Donation::kNone && buffer.kind != BufferKind::kParameter) {
    return Fail(buffer.pos, "only parameters can be donated, not '", buffer.name, "'");
  }
  if (buffer.size_of >= 0 && buffer.kind != BufferKind::kParameter &&
      buffer.kind != BufferKind::kResult) {
    return Fail(buffer.pos, "only parameters and results are sizes, not '", buffer.name, "'");
  }
  if (buffer.kind == BufferKind::kConstant) {
    bool same = buffer.value.IsValid() && buffer.value.dtype() == buffer.shape.dtype() &&
                buffer.value.shape().dims() == buffer.shape.dims();
    if (!same) {
      return Fail(buffer.pos, "constant '", buffer.name, "' has another shape than its value");
    }
  }
  return buffer.base == -1 ? Status() : CheckBase(buffer, *size);
}

Status ProgramVerifier::CheckBase(const Buffer& buffer, int64_t size) const {
  if (buffer.base < 0 || buffer.base >= static_cast<BufferId>(program_.buffers.size())) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' lies in an undefined buffer");
  }
  const Buffer& base = program_.buffers[buffer.base];
  if (base.base != -1) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' lies in '", base.name,
                "', which lies in another one");
  }
  if (buffer.kind == BufferKind::kParameter || buffer.kind == BufferKind::kConstant) {
    return Fail(buffer.pos, "parameter or constant '", buffer.name, "' cannot lie in another");
  }
  if (buffer.kind == BufferKind::kResult && base.donation == Donation::kNone) {
    return Fail(buffer.pos, "result '", buffer.name, "' lies in '", base.name,
                "', which is not a donated parameter");
  }
  int64_t room = ByteSize(base).value_or(0), end;
  if (buffer.offset < 0 || __builtin_add_overflow(buffer.offset, size, &end) || end > room) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' (", size, " bytes at ", buffer.offset,
                ") does not fit '", base.name, "' of ", room, " bytes");
  }
  if (buffer.offset % ByteWidth(buffer.shape.dtype()) != 0) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' is not aligned to its elements");
  }
  if (buffer.space != base.space) {
    return Fail(buffer.pos, "buffer '", buffer.name, "' and '", base.name,
                "' are in different memory spaces");
  }
  return {};
}

Status ProgramVerifier::CheckKernels() const {
  std::unordered_set<std::string_view> names;
  for (const Kernel& kernel : program_.kernels) {
    if (kernel.name.empty() || !names.insert(kernel.name).second) {
      return Fail(kernel.pos, "kernel '", kernel.name, "' has no name or is defined twice");
    }
    TRY(Verify(kernel, text_));
  }
  return {};
}

Status Verify(const Program& program, std::string_view text) {
  TRY(ProgramVerifier(program, text).Run());
  return VerifyRegions(program, text);
}

}  // namespace weft::program
