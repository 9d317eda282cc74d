#include "cpu/routines/epilogue.h"

#include "cpu/native/call.h"
#include "program/library.h"

namespace weft::cpu {

Result<Epilogue> EpilogueOf(const RoutineInputs& inputs) {
  program::EpilogueForm form = program::EpilogueFormOf(inputs.program, inputs.step);
  if (form.kernel == nullptr) return Epilogue();
  KernelTask task = inputs.task ? inputs.task(form.kernel->name) : nullptr;
  if (task == nullptr) return InvalidArgument("there is no kernel '", form.kernel->name, "'");
  return Epilogue{task, form.result, form.rounds, std::max<int64_t>(form.elements, 1)};
}

EpilogueRun::EpilogueRun(const Epilogue& epilogue, const RoutineContext& context)
    : epilogue_(epilogue) {
  if (epilogue.task == nullptr) return;
  parameters_.assign(context.memory.begin() + 3, context.memory.end());
  parameters_.insert(parameters_.begin() + static_cast<int64_t>(epilogue.result),
                     context.memory[2]);
}

void EpilogueRun::Rounds(int64_t begin, int64_t end) const {
  CallNative(epilogue_.task, parameters_.data(), begin, end);
}

RowsDone EpilogueRun::OnRows(int64_t first, int64_t n) const {
  return [this, first, n](int64_t begin, int64_t end) {
    Rounds((first + begin * n) / epilogue_.elements, (first + end * n) / epilogue_.elements);
  };
}

void EpilogueRun::OnAll(ThreadPool* pool) const {
  if (epilogue_.task == nullptr) return;
  ForPieces(pool, epilogue_.rounds, static_cast<double>(epilogue_.elements),
            [&](int64_t begin, int64_t end) { Rounds(begin, end); });
}

}  // namespace weft::cpu
