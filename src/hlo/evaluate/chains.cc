// Chains: elementwise steps on arrays of one size that are computed together.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "hlo/evaluate/plan.h"

namespace weft::hlo {
namespace {

// Whether a step can be part of a chain, and of how many elements.
struct ChainForm {
  bool fits = false;
  bool same = false;  // its operand under another shape
  int64_t size = 0;
};

ChainForm ChainFormOf(const EvalStep& step, const EvalPlan& plan) {
  const Instruction& i = *step.instruction;
  if (step.kind == EvalStep::Kind::kLanes) {
    bool one_type = true;  // a select leaves elements as they are
    for (const Instruction* o : i.operands().subspan(i.op() == Op::kSelect ? 1 : 0)) {
      one_type = one_type && o->shape().dtype() == i.shape().dtype();
    }
    return {i.op() != Op::kSelect || one_type, false, plan.lanes[step.lanes].size};
  }
  bool convert = i.op() == Op::kConvert, bitcast = i.op() == Op::kBitcastConvert;
  if (step.kind != EvalStep::Kind::kRow || step.too_large ||
      (!convert && !bitcast && i.op() != Op::kReshape)) {
    return {};
  }
  const Shape &to = i.shape(), &from = i.operand(0)->shape();
  if (!from.IsArray() || !from.IsStatic() || !to.IsStatic()) return {};
  std::optional<int64_t> count = to.CheckedElements();
  if (!count || count != from.CheckedElements()) return {};
  DType a = from.dtype(), b = to.dtype();
  if (bitcast && (ByteWidth(a) != ByteWidth(b) || IsSubByte(a) || IsSubByte(b) ||
                  a == DType::kPred || b == DType::kPred)) {
    return {};
  }
  if (!convert && !bitcast && a != b) return {};
  return {true, i.op() == Op::kReshape, *count};
}

constexpr size_t kMaxOpenChains = 4, kMaxLinks = 256;

// Joins elementwise steps to chains. A step that reads nothing of an open chain may pass it: chains
// are pure, so that only what reads them has to wait. Open chains do not read one another.
class ChainBuilder {
 public:
  explicit ChainBuilder(EvalPlan& plan)
      : plan_(plan), chain_of_(static_cast<size_t>(plan.slot_count), nullptr) {
    for (const EvalStep& step : plan.steps) {
      for (const EvalUse& use : UsesOf(step)) ++reads_[use.slot];
    }
    ++reads_[plan.root_slot];
  }

  void Build() {
    for (const EvalStep& step : plan_.steps) {
      const Instruction& i = *step.instruction;
      if (i.op() == Op::kBroadcast && reads_[step.slot] == 0) {  // its readers read its operand
        --reads_[plan_.uses[step.first_use].slot];
        continue;
      }
      ChainForm form = ChainFormOf(step, plan_);
      Open* joined = form.fits ? OpenOf(form.size, step, form.same) : nullptr;
      for (int32_t u = 0; u < step.use_count; ++u) {  // Close adds to the uses
        Open* from = chain_of_[plan_.uses[step.first_use + u].slot];
        if (from != nullptr && from != joined) Close(from);
      }
      if (joined == nullptr) {
        done_.push_back(step);
        continue;
      }
      joined->members.push_back(step);
      joined->same.push_back(form.same);
      chain_of_[step.slot] = joined;
      if (joined->members.size() >= kMaxLinks) Close(joined);
    }
    while (!open_.empty()) Close(open_.front().get());
    plan_.steps = std::move(done_);
  }

 private:
  struct Open {
    int64_t size;
    std::vector<EvalStep> members;
    std::vector<bool> same;
  };

  std::span<const EvalUse> UsesOf(const EvalStep& step) const {
    return std::span(plan_.uses).subspan(step.first_use, step.use_count);
  }

  // The chain that a step joins; a reshape only the one it reads.
  Open* OpenOf(int64_t size, const EvalStep& step, bool same) {
    if (same) return chain_of_[plan_.uses[step.first_use].slot];
    for (const auto& open : open_) {
      if (open->size == size) return open.get();
    }
    if (open_.size() >= kMaxOpenChains) Close(open_.front().get());
    open_.push_back(std::make_unique<Open>(Open{size, {}, {}}));
    return open_.back().get();
  }

  void Close(Open* open) {
    if (open->members.size() < 2 || !Emit(*open)) {
      done_.insert(done_.end(), open->members.begin(), open->members.end());
    }
    for (const EvalStep& member : open->members) chain_of_[member.slot] = nullptr;
    std::erase_if(open_, [&](const auto& o) { return o.get() == open; });
  }

  bool Emit(const Open& open) {
    std::unordered_map<int32_t, int32_t> values, inside;  // slot to value; reads within
    std::vector<EvalUse> inputs;
    std::vector<DType> types;
    std::vector<bool> broadcast;
    for (const EvalStep& member : open.members) inside[member.slot] = 0;
    for (const EvalStep& member : open.members) {
      for (int32_t u = 0; u < member.use_count; ++u) {
        int32_t slot = plan_.uses[member.first_use + u].slot;
        if (auto it = inside.find(slot); it != inside.end()) {
          ++it->second;
          continue;
        }
        if (!values.emplace(slot, static_cast<int32_t>(inputs.size())).second) continue;
        const Instruction* from = member.instruction->operand(u);
        bool lanes = member.kind == EvalStep::Kind::kLanes;
        inputs.push_back({slot});
        types.push_back(from->shape().dtype());
        broadcast.push_back(lanes && plan_.lanes[member.lanes].broadcast[u]);
      }
    }
    std::vector<ScalarFunction::Link> links;
    std::vector<int32_t> outputs, results;
    for (size_t m = 0; m < open.members.size(); ++m) {
      const EvalStep& member = open.members[m];
      ScalarFunction::Link link{member.instruction, {-1, -1, -1}, open.same[m]};
      for (int32_t u = 0; u < member.use_count; ++u) {
        link.in[u] = values[plan_.uses[member.first_use + u].slot];
      }
      int32_t value = static_cast<int32_t>(inputs.size() + m);
      values[member.slot] = value;
      links.push_back(link);
      if (reads_[member.slot] > inside[member.slot]) {
        outputs.push_back(static_cast<int32_t>(m));
        results.push_back(value);
      }
    }
    Result<ScalarFunction> function = ScalarFunction::Chain(types, links, results);
    if (!function) return false;
    EvalStep step;
    step.kind = EvalStep::Kind::kChain;
    step.instruction = open.members.back().instruction;
    step.slot = open.members.back().slot;
    step.lanes = static_cast<int32_t>(plan_.chains.size());
    step.first_use = static_cast<int32_t>(plan_.uses.size());
    step.use_count = static_cast<int32_t>(inputs.size());
    plan_.uses.insert(plan_.uses.end(), inputs.begin(), inputs.end());
    plan_.chains.push_back(
        {std::move(*function), open.members, std::move(broadcast), std::move(outputs), open.size});
    done_.push_back(step);
    return true;
  }

  EvalPlan& plan_;
  std::vector<Open*> chain_of_;  // by slot
  std::vector<std::unique_ptr<Open>> open_;
  std::unordered_map<int32_t, int32_t> reads_;  // by slot
  std::vector<EvalStep> done_;
};

}  // namespace

void JoinChains(EvalPlan& plan) {
  ChainBuilder(plan).Build();
}

}  // namespace weft::hlo
