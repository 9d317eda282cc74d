#include "runtime/literals.h"

#include <algorithm>

#include "base/str.h"
#include "runtime/device_group.h"

namespace weft::runtime {

using program::BufferKind;

namespace {

struct alignas(64) AlignedSize {
  int32_t value = 0;
};

}  // namespace

LiteralRunner::LiteralRunner(const LoadedProgram& program) : program_(program) {
  std::vector<std::pair<int64_t, Size>> sizes[2];  // by number
  for (const program::Buffer& b : program.program().buffers) {
    size_t number = static_cast<size_t>(b.index) + 1;
    if (b.size_of >= 0) {
      bool given = b.kind == BufferKind::kParameter;
      sizes[given ? 0 : 1].push_back({b.index, {static_cast<size_t>(b.size_of), b.size_dim}});
    } else if (b.kind == BufferKind::kParameter) {
      if (parameters_.size() < number) parameters_.resize(number);
      parameters_[number - 1] = {b.shape, b.donation != program::Donation::kNone};
    } else if (b.kind == BufferKind::kResult) {
      if (results_.size() < number) results_.resize(number);
      results_[number - 1].shape = b.shape;
      if (b.base >= 0) results_[number - 1].parameter = program.program().buffers[b.base].index;
    }
  }
  for (int k = 0; k < 2; ++k) {
    std::ranges::sort(sizes[k], {}, [](const auto& size) { return size.first; });
    for (const auto& [number, size] : sizes[k]) {
      (k == 0 ? parameter_sizes_ : result_sizes_).push_back(size);
      if (k == 1) results_[size.array].shape.set_dynamic(size.dim, true);
    }
  }
}

Result<std::vector<Literal>> LiteralRunner::Run(std::span<Literal> arguments, Call call) const {
  if (arguments.size() != parameters_.size()) {
    return InvalidArgument("the program takes ", parameters_.size(), " arguments, got ",
                           arguments.size());
  }
  InlineVec<std::byte*, 16> in, out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].byte_size() != parameters_[i].shape.ByteSize()) {
      return InvalidArgument("argument ", i, " is ", arguments[i].shape().ToStringWithoutLayout(),
                             ", the program takes ", parameters_[i].shape.ToStringWithoutLayout());
    }
    // Only what is donated is written to; a copy is made when somebody else holds it.
    in.push_back(parameters_[i].donated ? arguments[i].mutable_data()
                                        : const_cast<std::byte*>(arguments[i].data()));
  }
  std::vector<AlignedSize> given(parameter_sizes_.size()), got(result_sizes_.size());
  for (size_t k = 0; k < given.size(); ++k) {
    const Size& size = parameter_sizes_[k];
    given[k].value = static_cast<int32_t>(arguments[size.array].dynamic_size(size.dim));
    in.push_back(reinterpret_cast<std::byte*>(&given[k]));
  }
  std::vector<Literal> results;
  results.reserve(results_.size());
  for (const Output& r : results_) {
    if (r.parameter >= 0) {
      Literal& from = arguments[static_cast<size_t>(r.parameter)];
      out.push_back(in[static_cast<size_t>(r.parameter)]);
      results.push_back(Literal::FromStorage(r.shape, from.TakeStorage()));
    } else {
      results.push_back(TRY(Literal::AllocateUnset(r.shape)));
      out.push_back(results.back().mutable_data());
    }
  }
  for (AlignedSize& size : got) out.push_back(reinterpret_cast<std::byte*>(&size));
  call.parameters = std::span(in.data(), in.size());
  call.results = std::span(out.data(), out.size());
  TRY(program_.Run(call));
  for (size_t k = 0; k < result_sizes_.size(); ++k) {
    results[result_sizes_[k].array].set_dynamic_size(result_sizes_[k].dim, got[k].value);
  }
  return results;
}

Result<std::vector<std::vector<Literal>>> LiteralRunner::RunOnDevices(
    std::span<std::vector<Literal>> arguments, const Call& call) const {
  std::vector<std::vector<Literal>> results(arguments.size());
  DeviceGroup group(std::ssize(arguments));
  TRY(group.RunAll([&](int64_t device) -> Status {
    Call own = call;
    own.device = device;
    own.group = &group;
    results[static_cast<size_t>(device)] = TRY(Run(arguments[static_cast<size_t>(device)], own));
    return {};
  }));
  return results;
}

}  // namespace weft::runtime
