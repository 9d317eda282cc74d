// What gemm and convolution compute from their result, slowly.
#include "program/interpret.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

// The use of the step that is the kernel's parameter.
size_t UseOf(const EpilogueForm& form, size_t parameter) {
  if (parameter == form.result) return 2;
  return 3 + parameter - (parameter > form.result ? 1 : 0);
}

}  // namespace

EpilogueForm EpilogueFormOf(const Program& program, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  EpilogueForm form;
  form.kernel = FindKernel(program, StringAttr(call, "epilogue", ""));
  if (form.kernel == nullptr) return form;
  form.result = static_cast<size_t>(IntAttr(call, "epilogue_result", 0));
  for (int64_t n : Extents(*form.kernel).grid) form.rounds *= n;
  int64_t elements = step.uses[2].slice.size / ByteWidth(DTypeOf(program, step.uses[2]));
  form.elements = form.rounds > 0 ? elements / form.rounds : 0;
  return form;
}

Status VerifyEpilogue(const Program& program, const Step& step, std::string_view routine) {
  std::string_view precision = StringAttr(std::get<LibraryStep>(step.op), "precision", "highest");
  if (precision != "highest" && precision != "default" && precision != "bf16" &&
      precision != "fast_accum") {
    return InvalidArgument(routine, ": unknown precision ", precision);
  }
  std::string_view name = StringAttr(std::get<LibraryStep>(step.op), "epilogue", "");
  if (name.empty()) {
    if (step.uses.size() == 3) return {};
    return InvalidArgument(routine, ": takes three buffers, has ", step.uses.size());
  }
  EpilogueForm form = EpilogueFormOf(program, step);
  if (form.kernel == nullptr) return InvalidArgument(routine, ": there is no kernel '", name, "'");
  size_t parameters = static_cast<size_t>(form.kernel->num_params);
  if (form.result >= parameters || parameters + 2 != step.uses.size()) {
    return InvalidArgument(routine, ": kernel '", name, "' takes ", parameters,
                           " buffers, has the result and ", step.uses.size() - 3, " more");
  }
  for (size_t i = 0; i < parameters; ++i) {
    const Memory& memory = form.kernel->memories[i];
    const Use& use = step.uses[UseOf(form, i)];
    bool access = i == form.result ? Reads(memory.access) : memory.access == use.access;
    if (!access || memory.dtype != RealType(DTypeOf(program, use)) ||
        memory.align > ByteWidth(memory.dtype) ||
        memory.count * ByteWidth(memory.dtype) != use.slice.size) {
      return InvalidArgument(routine, ": parameter '", memory.name, "' of kernel '", name,
                             "' is not like the buffer for it");
    }
  }
  DType dtype = DTypeOf(program, step.uses[2]);
  if (form.elements < 1 ||
      form.rounds * form.elements * ByteWidth(dtype) != step.uses[2].slice.size) {
    return InvalidArgument(routine, ": kernel '", name, "' has ", form.rounds,
                           " rounds, which are no equal parts of the result");
  }
  return {};
}

Status InterpretEpilogue(const Program& program, const Step& step,
                         std::span<const std::span<std::byte>> memory) {
  EpilogueForm form = EpilogueFormOf(program, step);
  if (form.kernel == nullptr) return {};
  std::vector<std::span<std::byte>> parameters;
  for (size_t i = 0; i < static_cast<size_t>(form.kernel->num_params); ++i) {
    parameters.push_back(memory[UseOf(form, i)]);
  }
  detail::Budget budget = {INT64_MAX, INT64_MAX};
  return detail::RunKernel(*form.kernel, parameters, budget, false);
}

int64_t EpilogueCost(const Program& program, const Step& step) {
  EpilogueForm form = EpilogueFormOf(program, step);
  if (form.kernel == nullptr) return 0;
  return SaturatingCost(
      {form.rounds, form.elements, static_cast<int64_t>(form.kernel->code.size())});
}

}  // namespace weft::program
