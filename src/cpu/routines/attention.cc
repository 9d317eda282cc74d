// attention: scaled dot-product attention without the scores in memory.
#include "cpu/routines/attention_ways.h"
#include "cpu/routines/prepare.h"

namespace weft::cpu {
namespace {

class Attention : public PreparedRoutine {
 public:
  explicit Attention(AttentionPlan plan) : plan_(std::move(plan)) {}

  Status Run(const RoutineContext& context) const override {
    const auto& form = plan_.form;
    size_t out = form.out_use();
    AttentionMemory memory = {context.memory[0],
                              context.memory[1],
                              context.memory[2],
                              form.has_bias ? context.memory[form.bias_use()] : nullptr,
                              form.has_mask ? context.memory[form.mask_use()] : nullptr,
                              context.memory[out]};
    if (context.memory.size() > out + 1) {
      memory.statistics = reinterpret_cast<float*>(context.memory[out + 1]);
    }
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
  program::AttentionForm form = program::AttentionFormOf(call);
  size_t out = form.out_use();
  bool has_statistics = inputs.step.uses.size() > out + 1;
  AttentionPlan plan = PlanAttention(form, !has_statistics);
  plan.q = UseDType(inputs, 0);
  plan.k = UseDType(inputs, 1);
  plan.v = UseDType(inputs, 2);
  plan.bias = UseDType(inputs, 3);
  plan.out = UseDType(inputs, out);
  return std::make_unique<Attention>(std::move(plan));
}

}  // namespace weft::cpu
