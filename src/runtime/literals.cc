#include "runtime/literals.h"

#include <algorithm>

#include "base/packing.h"
#include "base/str.h"
#include "runtime/device_group.h"

namespace weft::runtime {

using program::BufferKind;

namespace {

struct alignas(64) AlignedSize {
  int32_t value = 0;
};

Literal ResultIn(const LiteralSignature::Output& result, std::shared_ptr<std::byte[]> storage) {
  if (!result.packed) return Literal::FromStorage(result.shape, std::move(storage));
  return Literal::FromPackedStorage(result.shape, std::move(storage));
}

}  // namespace

LiteralSignature::LiteralSignature(const program::Program& program) {
  std::vector<std::pair<int64_t, Size>> sizes[2];  // by number
  for (const program::Buffer& b : program.buffers) {
    size_t number = static_cast<size_t>(b.index) + 1;
    if (b.size_of >= 0) {
      bool given = b.kind == BufferKind::kParameter;
      sizes[given ? 0 : 1].push_back({b.index, {static_cast<size_t>(b.size_of), b.size_dim}});
    } else if (b.kind == BufferKind::kParameter) {
      if (parameters.size() < number) parameters.resize(number);
      parameters[number - 1] = {b.shape, b.donation != program::Donation::kNone, b.packed};
    } else if (b.kind == BufferKind::kResult) {
      if (results.size() < number) results.resize(number);
      results[number - 1].shape = b.shape;
      results[number - 1].packed = b.packed;
      if (b.base >= 0) results[number - 1].parameter = program.buffers[b.base].index;
    }
  }
  for (int k = 0; k < 2; ++k) {
    std::ranges::sort(sizes[k], {}, [](const auto& size) { return size.first; });
    for (const auto& [number, size] : sizes[k]) {
      (k == 0 ? parameter_sizes : result_sizes).push_back(size);
      if (k == 1) results[size.array].shape.set_dynamic(size.dim, true);
    }
  }
}

bool LiteralSignature::IsPlain() const {
  auto is_plain = [](const Shape& shape, bool packed) {
    return !packed && !IsPackable(shape.dtype()) && shape.IsStatic();
  };
  for (const Parameter& p : parameters) {
    if (p.donated || !is_plain(p.shape, p.packed)) return false;
  }
  for (const Output& r : results) {
    if (r.parameter >= 0 || !is_plain(r.shape, r.packed)) return false;
  }
  return parameter_sizes.empty() && result_sizes.empty();
}

int64_t LiteralSignature::BytesOf(const Shape& shape, bool packed) {
  return packed ? PackedBytes(shape.dtype(), shape.elements()) : shape.ByteSize();
}

Status LiteralSignature::Check(std::span<const Literal> arguments) const {
  if (arguments.size() != parameters.size()) {
    return InvalidArgument("the program takes ", parameters.size(), " arguments, got ",
                           arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (BytesOf(arguments[i].shape(), false) == parameters[i].shape.ByteSize()) continue;
    return InvalidArgument("argument ", i, " is ", arguments[i].shape().ToStringWithoutLayout(),
                           ", the program takes ", parameters[i].shape.ToStringWithoutLayout());
  }
  return {};
}

LiteralRunner::LiteralRunner(const LoadedProgram& program, Results results)
    : program_(program), signature_(program.program()), results_(results) {
  for (const program::Buffer& b : program.program().buffers) {
    any_packed_ |= IsPackable(b.shape.dtype());  // arguments may be, where the program's are not
  }
}

Status LiteralRunner::TakeAsInMemory(std::span<Literal> arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool packed = signature_.parameters[i].packed;
    if (packed == arguments[i].packed()) continue;
    arguments[i] = TRY(packed ? arguments[i].Packed() : arguments[i].Unpacked());
  }
  return {};
}

Result<std::vector<Literal>> LiteralRunner::Run(std::span<Literal> arguments, Call call) const {
  TRY(signature_.Check(arguments));
  if (any_packed_) TRY(TakeAsInMemory(arguments));
  InlineVec<std::byte*, 16> in, out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // Only what is donated is written to; a copy is made when somebody else holds it.
    in.push_back(signature_.parameters[i].donated ? arguments[i].mutable_data()
                                                  : const_cast<std::byte*>(arguments[i].data()));
  }
  std::vector<AlignedSize> given(signature_.parameter_sizes.size()),
      got(signature_.result_sizes.size());
  for (size_t k = 0; k < given.size(); ++k) {
    const LiteralSignature::Size& size = signature_.parameter_sizes[k];
    given[k].value = static_cast<int32_t>(arguments[size.array].dynamic_size(size.dim));
    in.push_back(reinterpret_cast<std::byte*>(&given[k]));
  }
  std::vector<Literal> results;
  results.reserve(signature_.results.size());
  for (const LiteralSignature::Output& r : signature_.results) {
    if (r.parameter >= 0) {
      Literal& from = arguments[static_cast<size_t>(r.parameter)];
      out.push_back(in[static_cast<size_t>(r.parameter)]);
      results.push_back(ResultIn(r, from.TakeStorage()));
    } else if (r.packed) {
      results.push_back(ResultIn(r, Literal::NewStorage(LiteralSignature::BytesOf(r.shape, true))));
      if (results.back().data() == nullptr) {
        return ResourceExhausted("no memory for a result of ", r.shape.ToStringWithoutLayout());
      }
      out.push_back(results.back().mutable_data());
    } else {
      results.push_back(TRY(Literal::AllocateUnset(r.shape)));
      out.push_back(results.back().mutable_data());
    }
  }
  for (AlignedSize& size : got) out.push_back(reinterpret_cast<std::byte*>(&size));
  call.parameters = std::span(in.data(), in.size());
  call.results = std::span(out.data(), out.size());
  TRY(program_.Run(call));
  for (size_t k = 0; k < signature_.result_sizes.size(); ++k) {
    results[signature_.result_sizes[k].array].set_dynamic_size(signature_.result_sizes[k].dim,
                                                               got[k].value);
  }
  if (any_packed_ && results_ == Results::kUnpacked) {
    for (Literal& result : results) result = TRY(result.Unpacked());
  }
  return results;
}

Result<std::vector<std::vector<Literal>>> LiteralRunner::RunOnDevices(
    std::span<std::vector<Literal>> arguments, const Call& call) const {
  std::vector<std::vector<Literal>> results(arguments.size());
  DeviceGroup group(std::ssize(arguments));
  auto run = [&](int64_t device) -> Status {
    Call own = call;
    own.device = device;
    own.group = &group;
    results[static_cast<size_t>(device)] = TRY(Run(arguments[static_cast<size_t>(device)], own));
    return {};
  };
  TRY(group.RunAll(run, nullptr, 0, HasAsyncCollectives(program_.program())));
  return results;
}

}  // namespace weft::runtime
