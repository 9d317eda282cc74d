#include "runtime/literals.h"

#include "base/str.h"

namespace weft::runtime {

using program::BufferKind;

LiteralRunner::LiteralRunner(const LoadedProgram& program) : program_(program) {
  for (const program::Buffer& b : program.program().buffers) {
    size_t number = static_cast<size_t>(b.index) + 1;
    if (b.kind == BufferKind::kParameter) {
      if (parameters_.size() < number) parameters_.resize(number);
      parameters_[number - 1] = {b.shape, b.donation != program::Donation::kNone};
    } else if (b.kind == BufferKind::kResult) {
      if (results_.size() < number) results_.resize(number);
      results_[number - 1].shape = b.shape;
      if (b.base >= 0) results_[number - 1].parameter = program.program().buffers[b.base].index;
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
  call.parameters = std::span(in.data(), in.size());
  call.results = std::span(out.data(), out.size());
  TRY(program_.Run(call));
  return results;
}

}  // namespace weft::runtime
