// A computation: a list of instructions in topological order, its parameters and its root.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/instruction.h"

namespace weft::hlo {

class Computation {
 public:
  ~Computation();
  Computation(const Computation&) = delete;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Module* module() const { return module_; }
  int64_t id() const { return id_; }
  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  bool IsEntry() const;
  const std::string& execution_thread() const {
    return execution_thread_;
  }  // "" is the main thread
  void set_execution_thread(std::string thread) { execution_thread_ = std::move(thread); }

  // parameters()[i] is parameter(i); null where a number is missing (the verifier rejects that).
  std::span<Instruction* const> parameters() const { return parameters_; }
  Instruction* parameter(int64_t i) const { return parameters_[static_cast<size_t>(i)]; }

  int64_t size() const { return size_; }  // number of instructions
  Instruction* first() const { return first_; }
  Instruction* last() const { return last_; }

  class Iterator {
   public:
    explicit Iterator(Instruction* at) : at_(at) {}
    Instruction* operator*() const { return at_; }
    Iterator& operator++() {
      at_ = at_->next();
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Instruction* at_;
  };
  // In list order. Do not remove the current instruction while iterating: use Snapshot() for that.
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(nullptr); }
  std::vector<Instruction*> Snapshot() const;

  // Adds an instruction before `before` (null: at the end). The name is used as it is; see
  // Module::UniqueName. A parameter takes its place in parameters(). Shapes are not checked here.
  Instruction* Add(Op op, std::string name, Shape shape, std::span<Instruction* const> operands,
                   Attrs attrs, Instruction* before = nullptr);
  // Removes an instruction without users that is not the root. Control dependencies through it are
  // dropped.
  void Remove(Instruction* instruction);
  void MoveBefore(Instruction* instruction, Instruction* before);  // null: to the end
  // Sorts the list again so that operands and control predecessors come first, else keeping the
  // order. False: cycle.
  bool SortTopologically();

  // Instructions of a post-order walk from the root alone (dead ones are left out).
  std::vector<Instruction*> PostOrder() const;

 private:
  friend class Module;
  Computation() = default;
  void Link(Instruction* instruction, Instruction* before);
  void Unlink(Instruction* instruction);

  std::string name_, execution_thread_;
  Module* module_ = nullptr;
  int64_t id_ = 0;
  Instruction* root_ = nullptr;
  Instruction* first_ = nullptr;
  Instruction* last_ = nullptr;
  int64_t size_ = 0;
  std::vector<Instruction*> parameters_;
};

}  // namespace weft::hlo
