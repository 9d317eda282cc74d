// attention: scaled dot-product attention without the scores in memory.
#include "cpu/routines/attention_ways.h"
#include "cpu/routines/prepare.h"

namespace weft::cpu {
namespace {

class Attention : public PreparedRoutine {
 public:
  explicit Attention(AttentionPlan plan) : plan_(std::move(plan)) {}

  Status Run(const RoutineContext& context) const override {
    size_t uses = context.memory.size();
    AttentionMemory memory = {context.memory[0],
                              context.memory[1],
                              context.memory[2],
                              plan_.form.has_bias ? context.memory[3] : nullptr,
                              plan_.form.has_mask ? context.memory[uses - 2] : nullptr,
                              context.memory[uses - 1]};
    Means means = context.means();
    return plan_.few ? AttendFew(means, plan_, memory) : AttendByPanels(means, plan_, memory);
  }

  int64_t ScratchBytes(int64_t threads) const override {
    return plan_.few ? FewScratch(plan_, threads) : PanelsScratch(plan_, threads);
  }

 private:
  AttentionPlan plan_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareAttention(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "attention"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  AttentionPlan plan = PlanAttention(program::AttentionFormOf(call));
  plan.q = UseDType(inputs, 0);
  plan.k = UseDType(inputs, 1);
  plan.v = UseDType(inputs, 2);
  plan.bias = UseDType(inputs, 3);
  plan.out = UseDType(inputs, inputs.step.uses.size() - 1);
  return std::make_unique<Attention>(std::move(plan));
}

}  // namespace weft::cpu
