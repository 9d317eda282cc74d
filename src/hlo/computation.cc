#include "hlo/computation.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "hlo/module.h"

namespace weft::hlo {

Computation::~Computation() {
  for (Instruction* i = first_; i != nullptr;) {
    Instruction* next = i->next_;
    delete i;
    i = next;
  }
}

bool Computation::IsEntry() const {
  return module_ != nullptr && module_->entry() == this;
}

std::vector<Instruction*> Computation::Snapshot() const {
  std::vector<Instruction*> all;
  all.reserve(static_cast<size_t>(size_));
  for (Instruction* i : *this) all.push_back(i);
  return all;
}

void Computation::Link(Instruction* instruction, Instruction* before) {
  Instruction* after = before != nullptr ? before->prev_ : last_;
  instruction->prev_ = after;
  instruction->next_ = before;
  (after != nullptr ? after->next_ : first_) = instruction;
  (before != nullptr ? before->prev_ : last_) = instruction;
  ++size_;
}

void Computation::Unlink(Instruction* instruction) {
  (instruction->prev_ != nullptr ? instruction->prev_->next_ : first_) = instruction->next_;
  (instruction->next_ != nullptr ? instruction->next_->prev_ : last_) = instruction->prev_;
  --size_;
}

Instruction* Computation::Add(Op op, std::string name, Shape shape,
                              std::span<Instruction* const> operands, Attrs attrs,
                              Instruction* before) {
  auto* instruction = new Instruction();
  instruction->op_ = op;
  instruction->id_ = module_->NextId();
  instruction->name_ = std::move(name);
  instruction->shape_ = std::move(shape);
  instruction->operands_ = InlineVec<Instruction*, 2>(operands);
  instruction->attrs_ = std::move(attrs);
  instruction->parent_ = this;
  for (Instruction* operand : operands) operand->AddUser(instruction);
  Link(instruction, before);
  if (op == Op::kParameter) {
    size_t number = static_cast<size_t>(instruction->parameter_number());
    if (number >= parameters_.size()) parameters_.resize(number + 1, nullptr);
    parameters_[number] = instruction;
  }
  return instruction;
}

void Computation::Remove(Instruction* instruction) {
  CHECK(instruction->users_.empty() && root_ != instruction) << instruction->name();
  instruction->DropControlDependencies();
  for (Instruction* operand : instruction->operands_) operand->RemoveUser(instruction);
  if (instruction->IsParameter()) {
    size_t number = static_cast<size_t>(instruction->parameter_number());
    if (number < parameters_.size() && parameters_[number] == instruction)
      parameters_[number] = nullptr;
    while (!parameters_.empty() && parameters_.back() == nullptr) parameters_.pop_back();
  }
  Unlink(instruction);
  delete instruction;
}

void Computation::MoveBefore(Instruction* instruction, Instruction* before) {
  if (instruction == before) return;
  Unlink(instruction);
  Link(instruction, before);
}

bool Computation::SortTopologically() {
  // Repeatedly takes the first instruction in the old order whose predecessors are all placed, by a
  // depth-first walk in list order; iterative, since graphs are deep.
  std::vector<Instruction*> order;
  order.reserve(static_cast<size_t>(size_));
  enum : uint8_t { kNew, kOpen, kDone };
  std::unordered_map<const Instruction*, uint8_t> state;
  struct Frame {
    Instruction* instruction;
    size_t next;
  };
  std::vector<Frame> stack;
  for (Instruction* start : *this) {
    if (state[start] == kDone) continue;
    stack.push_back({start, 0});
    state[start] = kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      auto operands = frame.instruction->operands();
      auto control = frame.instruction->control_predecessors();
      if (frame.next < operands.size() + control.size()) {
        Instruction* p = frame.next < operands.size() ? operands[frame.next]
                                                      : control[frame.next - operands.size()];
        ++frame.next;
        uint8_t& s = state[p];
        if (s == kOpen) return false;
        if (s == kNew) {
          s = kOpen;
          stack.push_back({p, 0});
        }
        continue;
      }
      state[frame.instruction] = kDone;
      order.push_back(frame.instruction);
      stack.pop_back();
    }
  }
  first_ = last_ = nullptr;
  size_ = 0;
  for (Instruction* i : order) Link(i, nullptr);
  return true;
}

std::vector<Instruction*> Computation::PostOrder() const {
  std::unordered_set<const Instruction*> reached;
  std::vector<Instruction*> stack = {root_};
  reached.insert(root_);
  auto visit = [&](Instruction* i) {
    if (reached.insert(i).second) stack.push_back(i);
  };
  while (!stack.empty()) {
    Instruction* i = stack.back();
    stack.pop_back();
    for (Instruction* operand : i->operands()) visit(operand);
    for (Instruction* p : i->control_predecessors()) visit(p);
  }
  // The list is topologically ordered, so the reached part of it is a post-order.
  std::vector<Instruction*> order;
  for (Instruction* i : *this) {
    if (reached.contains(i)) order.push_back(i);
  }
  return order;
}

}  // namespace weft::hlo
