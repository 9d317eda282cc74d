// Buffer assignment (liveness, coalescing): which value lives in which buffer. Tuples have no
// storage: a value is one leaf of what an instruction of an executed computation (the entry, loop
// bodies and conditions, branches) makes.
//
// Ops that only forward (tuple, get-tuple-element, reshape, copy, opt-barrier, loop state that the
// body passes through) have the values of their operands. Values that would have to be copied into
// each other (loop state and what the body makes for the next round, branch results, updated
// arrays, entry results) share a buffer whenever none is overwritten while another is still read;
// what is left is a copy, and each copy knows its reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "compiler/analysis/in_place.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "program/program.h"

namespace weft::compiler {

using MemValue = int32_t;  // -1: none (tokens)

class Memory {
 public:
  // `epilogues`: what products read is kept until their results are worked on (epilogue.h).
  static Result<Memory> Analyse(const hlo::Module& module, bool epilogues = false);

  // Values by leaf, depth first.
  const std::vector<MemValue>& Leaves(const hlo::Instruction& instruction) const;
  MemValue Leaf(const hlo::Instruction& instruction, int64_t leaf = 0) const {
    return Leaves(instruction)[static_cast<size_t>(leaf)];
  }
  // Loop state: the buffer that the k-th leaf lives in while the loop runs; -1: passed through.
  const std::vector<MemValue>& State(const hlo::Instruction& loop) const;
  // Double-buffered loop state, exchanged with what the body makes for the next round: two rounds
  // of the body, the buffers exchanged in the second, need no copy.
  const std::vector<size_t>& DoubleBuffered(const hlo::Instruction& loop) const;
  const std::vector<MemValue>& Results() const { return results_; }  // of the entry

  // Why two values do not share a buffer: what forbids it, and where in the program.
  std::string WhyInterfere(MemValue a, MemValue b) const;
  // The same buffer.
  bool Coalesced(MemValue a, MemValue b) const { return Group(a) == Group(b); }
  int32_t Group(MemValue value) const;
  const Shape& shape(MemValue value) const { return values_[static_cast<size_t>(value)].shape; }

  // Adds the buffers to the program: parameters, results, constants, temporaries in an arena.
  void Assign(program::Program& program);
  program::BufferId Buffer(program::Program& program, MemValue value);
  int64_t arena_bytes() const { return arena_bytes_; }

 private:
  // Slots of a moment, which is a position in the order: what an instruction reads, and what it
  // writes.
  enum Slot : int32_t { kReadSlot, kWriteSlot, kSlotsOfMoment };
  struct Segment {
    int32_t begin, end;  // slots, inclusive
    MemValue value;      // whose it is, in a group of several
  };
  struct Value {
    Shape shape;
    const hlo::Instruction* def = nullptr;
    int64_t parameter = -1, result = -1;  // of the entry
    bool donated = false;
    const hlo::Instruction* constant = nullptr;
    bool in_loop = false;
    int32_t scope = -1;  // of asynchronous computations; -1: none
    std::vector<Segment> live;
    // The last conditional that it is an operand of: it need not be there in branches that do not
    // read it, unless it is read behind the conditional.
    int32_t split = -1, split_end = -1;
    int32_t parent = -1;  // of the union-find forest
    // Of the group, at its root.
    program::BufferId buffer = -1;
  };
  // Two values that had better share. What the module insists on comes first, then what would be
  // copied at the end, results in the arguments that were given for them, what would be copied in
  // loops and branches, then updates in place; the larger ones first.
  enum class Why : uint8_t { kMustAlias, kResult, kMayAlias, kControl, kInPlace };
  struct Round {  // the next state of a loop, one element of it
    const hlo::Instruction* loop;
    size_t leaf;
    MemValue next, state;
    int32_t start, body, end;  // of the loop, of its body
  };
  // What an async-start calls. Its values are its own up to the done, whatever of their segments:
  // between the two its steps may come at any time.
  struct AsyncScope {
    int32_t outer = -1;  // the scope around it
    int32_t done = 0;    // the last moment
  };
  struct CoalescingCandidate {
    MemValue a, b;
    int64_t bytes;
    Why why;
  };

  void DefineParameters();
  MemValue Donate(int64_t parameter, const ShapeIndex& index);
  void DefineResults();
  Status Walk(const hlo::Computation& computation, bool in_loop);
  std::vector<MemValue> WalkStart(const hlo::Instruction& start, bool in_loop);
  Result<std::vector<MemValue>> WalkAsyncCall(const hlo::Instruction& start, bool in_loop);
  std::vector<MemValue> WalkDone(const hlo::Instruction& done);
  Status WalkWhile(const hlo::Instruction& loop, bool in_loop);
  Status WalkConditional(const hlo::Instruction& conditional, bool in_loop);
  MemValue NewValue(const Shape& shape, const hlo::Instruction* def, bool in_loop);
  int32_t NextMoment(const hlo::Instruction& at);
  void UseAt(MemValue value, int32_t at);
  void KeepForEpilogue(const hlo::Instruction& instruction, int32_t at);
  void DefineAt(MemValue value, int32_t at);
  void EnterBranch(MemValue value, int32_t at);
  int32_t Find(MemValue value);
  void CoalesceDonated();
  void FindDoubleBuffered();
  // Whether both hold something at once; `unit`: how many slots are one moment.
  bool Overlap(const std::vector<Segment>& a, const std::vector<Segment>& b,
               int32_t unit = 1) const;
  bool IsInside(int32_t scope, int32_t of) const;
  int32_t EndBeside(const Segment& segment, const Segment& other) const;
  void TryCoalesce(const CoalescingCandidate& candidate);
  std::string NameOf(MemValue value) const;
  std::string OverlapOf(const Value& x, const Value& y) const;
  struct Room;
  std::vector<Room> FindRooms() const;
  void Place(program::Program& program);

  const hlo::Module* module_ = nullptr;
  bool epilogues_ = false;
  std::vector<Value> values_;
  std::vector<CoalescingCandidate> candidates_;
  std::vector<Round> rounds_;
  std::unordered_map<const hlo::Instruction*, std::vector<size_t>> double_buffered_;
  std::unordered_map<const hlo::Instruction*, std::vector<MemValue>> leaves_, state_;
  std::vector<MemValue> results_;
  std::unordered_map<std::string, program::BufferId> views_;
  std::vector<AsyncScope> scopes_;
  std::unordered_map<const hlo::Instruction*, int32_t> scope_of_;  // by async-start
  int32_t scope_ = -1;                                             // of what is walked
  std::vector<const hlo::Instruction*> moments_;  // what happens at positions 2k and 2k + 1
  int64_t arena_bytes_ = 0;
};

}  // namespace weft::compiler
