// rng: random numbers of the program's own stream.
#include <algorithm>
#include <cstring>

#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

constexpr int64_t kNumbersAtOnce = program::TargetFacts::kLeastPageBytes / sizeof(float);

class RngNumbers : public PreparedRoutine {
 public:
  explicit RngNumbers(program::RngForm form) : form_(form) {}

  Status Run(const RoutineContext& context) const override {
    uint64_t counter;
    std::memcpy(&counter, context.memory[0], 8);
    bool bits = form_.kind == program::RngForm::kBits;
    const std::byte* a = bits ? nullptr : context.memory[1];
    const std::byte* b = bits ? nullptr : context.memory[2];
    int64_t blocks = (form_.elements + kNumbersAtOnce - 1) / kNumbersAtOnce;
    ForPieces(&context.pool, blocks, 20.0 * kNumbersAtOnce, [&](int64_t begin, int64_t end) {
      form_.Fill(counter, a, b, begin * kNumbersAtOnce,
                 std::min(end * kNumbersAtOnce, form_.elements), context.memory.back());
    });
    counter += form_.numbers();
    std::memcpy(context.memory[0], &counter, 8);
    return {};
  }

 private:
  program::RngForm form_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareRng(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "rng"));
  return std::make_unique<RngNumbers>(program::RngFormOf(inputs.program, inputs.step));
}

}  // namespace weft::cpu
