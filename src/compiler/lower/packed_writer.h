// Writing a kernel anew over packed memory: elements from bytes, bytes of elements.
#pragma once

#include <bit>
#include <initializer_list>
#include <span>
#include <vector>

#include "program/kernel.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// Code of a kernel written anew, with operations between.
class PackedWriter {
 public:
  explicit PackedWriter(const program::Kernel& kernel)
      : kernel_(kernel), old_(kernel.code), defined_(kernel.values.size(), -1) {
    kernel_.code.clear();
    for (size_t i = 0; i < old_.size(); ++i) {
      for (program::ValueId id : old_[i].results)
        defined_[static_cast<size_t>(id)] = static_cast<int>(i);
    }
  }

  program::Kernel Take() { return std::move(kernel_); }
  const std::vector<program::Instr>& old_code() const { return old_; }
  const program::Memory& memory(int32_t id) const {
    return kernel_.memories[static_cast<size_t>(id)];
  }
  program::Type type(program::ValueId id) const { return kernel_.type(id); }
  void Keep(const program::Instr& instr) { kernel_.code.push_back(instr); }

  program::ValueId New(program::Type type) {
    program::Value value;
    value.type = type;
    kernel_.values.push_back(value);
    return static_cast<program::ValueId>(kernel_.values.size()) - 1;
  }
  program::ValueId Int(int64_t number, program::Type type) {
    program::ValueId id = New(type);
    kernel_.values[static_cast<size_t>(id)].is_constant = true;
    kernel_.values[static_cast<size_t>(id)].bits = static_cast<uint64_t>(number);
    return id;
  }
  program::ValueId F32(double number, int lanes) {
    return Int(std::bit_cast<int64_t>(number), {DType::kF32, lanes});
  }
  // Into a value that is there already, or a new one.
  program::ValueId Do(program::Op op, program::Type type,
                      std::initializer_list<program::ValueId> args, program::ValueId result = -1) {
    program::Instr instr;
    instr.op = op;
    instr.type = type;
    instr.args = std::span<const program::ValueId>(args.begin(), args.size());
    bool compares = Info(op).cls == program::OpClass::kCompare;
    program::Type made = compares ? program::Type{DType::kPred, type.lanes} : type;
    instr.results = {result >= 0 ? result : New(made)};
    kernel_.code.push_back(instr);
    return instr.results[0];
  }
  program::ValueId Lanes(program::Op op, program::Type type,
                         std::initializer_list<program::ValueId> args,
                         std::span<const int32_t> lanes) {
    program::ValueId result = Do(op, type, args);
    kernel_.code.back().lanes = lanes;
    return result;
  }
  program::ValueId LoadBytes(int32_t memory, program::ValueId at, int lanes,
                             program::ValueId mask) {
    program::ValueId result = Do(program::Op::kLoad, {DType::kU8, lanes}, {at});
    kernel_.code.back().memory = memory;
    if (mask >= 0) kernel_.code.back().args.push_back(mask);
    return result;
  }
  void StoreBytes(int32_t memory, program::ValueId at, program::ValueId bytes) {
    program::Instr instr;
    instr.op = program::Op::kStore;
    instr.memory = memory;
    instr.type = type(bytes);
    instr.args = {at, bytes};
    kernel_.code.push_back(instr);
  }
  void Block(program::Op op, std::span<const program::ValueId> args,
             std::span<const program::ValueId> results = {}) {
    program::Instr instr;
    instr.op = op;
    instr.args = args;
    instr.results = results;
    kernel_.code.push_back(instr);
  }

  // Whether an index is a multiple of a power of two, as far as its definition shows.
  bool IsMultiple(program::ValueId id, int64_t of, int depth = 0) const {
    constexpr int kDefinitions = program::WorkBounds::kTree;  // that are looked through
    const program::Value& value = kernel_.value(id);
    if (value.is_constant) return value.AsInt() % of == 0;
    int at = static_cast<size_t>(id) < defined_.size() ? defined_[static_cast<size_t>(id)] : -1;
    if (at < 0 || depth > kDefinitions) return false;
    const program::Instr& made = old_[static_cast<size_t>(at)];
    auto operand = [&](size_t i) { return IsMultiple(made.args[i], of, depth + 1); };
    switch (made.op) {
      case program::Op::kLoop: return made.results[0] == id && operand(0) && operand(2);
      case program::Op::kAdd:
      case program::Op::kMin:
      case program::Op::kMax:
      case program::Op::kSub: return operand(0) && operand(1);
      case program::Op::kMul: return operand(0) || operand(1);
      case program::Op::kCast: return IsInteger(type(made.args[0]).dtype) && operand(0);
      default: return false;
    }
  }

  // The place of element `index` in its byte, as a number of bits, and the number of the byte.
  program::ValueId ByteOf(program::ValueId index, DType dtype) {
    program::Type t = type(index);
    return Do(program::Op::kShr, t,
              {index, Int(std::countr_zero(8u / static_cast<unsigned>(BitWidth(dtype))), t)});
  }
  program::ValueId ShiftOf(program::ValueId index, DType dtype) {
    program::Type t = type(index), u8 = {DType::kU8, t.lanes};
    program::ValueId within = Do(program::Op::kAnd, t, {index, Int(8 / BitWidth(dtype) - 1, t)});
    if (t.dtype != DType::kU8) within = Do(program::Op::kCast, u8, {within});
    return Do(program::Op::kShl, u8,
              {within, Int(std::countr_zero(static_cast<unsigned>(BitWidth(dtype))), u8)});
  }
  program::ValueId Numbers(program::Type type) {
    return Do(program::Op::kIota, type, {});
  }  // 0, 1, ... of the lanes

  void Load(const program::Instr& load, DType dtype);
  program::ValueId Encode(program::ValueId value, DType dtype);
  program::ValueId JoinLanes(program::ValueId bits, DType dtype);
  void MakePacked(int32_t memory);

 private:
  void Decode(program::ValueId bits, DType dtype, program::ValueId result);

  program::Kernel kernel_;
  std::vector<program::Instr> old_;
  std::vector<int> defined_;  // by value: the instruction of the old code; -1: none
};

}  // namespace weft::compiler
