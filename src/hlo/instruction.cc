#include "hlo/instruction.h"

#include <algorithm>

#include "hlo/computation.h"
#include "hlo/module.h"
#include "hlo/text.h"

namespace weft::hlo {

bool Instruction::IsRoot() const {
  return parent_ != nullptr && parent_->root() == this;
}

void Instruction::AddUser(Instruction* user) {
  // Operands of a new instruction are added one after the other, so a repeated one is the last.
  if (!users_.empty() && users_.back() == user) return;
  users_.push_back(user);
}

void Instruction::RemoveUser(Instruction* user) {
  // From the back: passes that remove instructions go backwards.
  auto it = std::find(users_.rbegin(), users_.rend(), user);
  if (it != users_.rend()) users_.erase(std::next(it).base());
}

bool Instruction::Reads(const Instruction* value) const {
  return std::find(operands_.begin(), operands_.end(), value) != operands_.end();
}

void Instruction::ReplaceOperand(int64_t i, Instruction* with) {
  Instruction* old = operands_[i];
  if (old == with) return;
  if (!Reads(with)) with->users_.push_back(this);
  operands_[i] = with;
  if (!Reads(old)) old->RemoveUser(this);
}

void Instruction::AppendOperand(Instruction* operand) {
  if (!Reads(operand)) operand->users_.push_back(this);
  operands_.push_back(operand);
}

InlineVec<Computation*, 4> Instruction::called_computations() const {
  InlineVec<Computation*, 4> called;
  if (!HasTrait(op_, kCalls)) return called;
  for (const FieldRef& field : attrs_.Fields()) {
    if (field.type == FieldType::kComputation) {
      if (Computation* c = field.As<Computation*>()) called.push_back(c);
    } else if (field.type == FieldType::kComputationList) {
      for (Computation* c : field.As<std::vector<Computation*>>()) called.push_back(c);
    }
  }
  return called;
}

void Instruction::ReplaceCalledComputation(Computation* from, Computation* to) {
  if (!HasTrait(op_, kCalls)) return;
  for (const FieldRef& field : attrs_.MutableFields()) {
    if (field.type == FieldType::kComputation) {
      Computation*& c = field.As<Computation*>();
      if (c == from) c = to;
    } else if (field.type == FieldType::kComputationList) {
      for (Computation*& c : field.As<std::vector<Computation*>>()) {
        if (c == from) c = to;
      }
    }
  }
}

const std::string* Instruction::FrontendAttributeValue(std::string_view key) const {
  if (!extras_) return nullptr;
  for (const FrontendAttribute& a : extras_->frontend_attributes) {
    if (a.key == key) return &a.value;
  }
  return nullptr;
}

void Instruction::AddControlPredecessor(Instruction* before) {
  std::vector<Instruction*>& predecessors = mutable_extras().control_predecessors;
  if (std::find(predecessors.begin(), predecessors.end(), before) != predecessors.end()) return;
  predecessors.push_back(before);
  before->mutable_extras().control_successors.push_back(this);
}

void Instruction::DropControlDependencies() {
  if (!extras_) return;
  for (Instruction* p : extras_->control_predecessors)
    std::erase(p->extras_->control_successors, this);
  for (Instruction* s : extras_->control_successors)
    std::erase(s->extras_->control_predecessors, this);
  extras_->control_predecessors.clear();
  extras_->control_successors.clear();
}

void Instruction::ReplaceAllUsesWith(Instruction* with) {
  CHECK(with != this) << name_;
  std::vector<Instruction*> users = std::move(users_);
  users_.clear();
  for (Instruction* user : users) {
    if (user == with) {  // `with` may read this instruction
      users_.push_back(user);
      continue;
    }
    // Operands are few, users may be very many.
    if (!user->Reads(with)) with->users_.push_back(user);
    std::replace(user->operands_.begin(), user->operands_.end(), this, with);
  }
  if (IsRoot()) parent_->set_root(with);
}

std::string Instruction::ToString() const {
  return PrintInstruction(*this, PrintOptions::Short());
}

std::string Instruction::SourceLocation() const {
  if (!metadata_) return "";
  const Metadata& m = *metadata_;
  if (m.stack_frame_id > 0 && parent_ != nullptr && parent_->module() != nullptr) {
    const StackFrames& sf = parent_->module()->stack_frames();
    auto at = [](const auto& list, int32_t id) {
      return id > 0 && id <= static_cast<int32_t>(list.size());
    };
    if (at(sf.frames, m.stack_frame_id)) {
      int32_t location = sf.frames[m.stack_frame_id - 1].location;
      if (at(sf.locations, location)) {
        const FileLocation& l = sf.locations[location - 1];
        if (at(sf.files, l.file)) {
          std::string out = StrCat(sf.files[l.file - 1], ":", l.line);
          if (at(sf.functions, l.function)) StrAppend(out, " (", sf.functions[l.function - 1], ")");
          return out;
        }
      }
    }
  }
  if (m.source_file.empty()) return "";
  std::string out = StrCat(m.source_file, ":", m.source_line);
  if (!m.op_name.empty()) StrAppend(out, " (", m.op_name, ")");
  return out;
}

}  // namespace weft::hlo
