#include "program/combine.h"

#include <algorithm>
#include <bit>

#include "base/str.h"

namespace weft::program {
namespace {

class CombineExpander {
 public:
  explicit CombineExpander(const Kernel& kernel) : from_(kernel), out_(kernel) {
    blocks_ = MatchBlocks(kernel);
  }

  Kernel Run() && {
    out_.code.clear();
    for (size_t pc = 0; pc < from_.code.size(); ++pc) {
      const Instr& instr = from_.code[pc];
      bool combines = instr.op == Op::kLoop && blocks_.else_at[pc] != 0;
      if (!combines) {
        out_.code.push_back(instr);
        continue;
      }
      ExpandLoop(pc);
      pc = blocks_.end_at[pc];
    }
    return std::move(out_);
  }

 private:
  ValueId NewValue(Type type) {
    out_.values.push_back({type, ""});
    return static_cast<ValueId>(out_.values.size()) - 1;
  }
  ValueId Int(int64_t value) {
    out_.values.push_back({{DType::kS64, 1}, "", true, static_cast<uint64_t>(value)});
    return static_cast<ValueId>(out_.values.size()) - 1;
  }
  ValueId Emit(Op op, ValueId a, ValueId b) {
    Instr instr;
    instr.op = op;
    instr.type = {DType::kS64, 1};
    instr.args = {a, b};
    instr.results = {NewValue(instr.type)};
    out_.code.push_back(instr);
    return instr.results[0];
  }
  ValueId BeginSerial(ValueId end) {
    Instr loop;
    loop.op = Op::kLoop;
    loop.type = {DType::kS64, 1};
    loop.args = {Int(0), end, Int(1)};
    loop.results = {NewValue(loop.type)};
    out_.code.push_back(loop);
    return loop.results[0];
  }
  void End() {
    Instr end;
    end.op = Op::kEnd;
    out_.code.push_back(end);
  }
  void Load(int32_t memory, ValueId at, ValueId result) {
    Instr load;
    load.op = Op::kLoad;
    load.type = out_.type(result);
    load.memory = memory;
    load.args = {at};
    load.results = {result};
    out_.code.push_back(load);
  }
  void Store(int32_t memory, ValueId at, ValueId value) {
    Instr store;
    store.op = Op::kStore;
    store.type = out_.type(value);
    store.memory = memory;
    store.args = {at, value};
    out_.code.push_back(store);
  }

  void ExpandLoop(size_t pc) {
    const Instr& loop = from_.code[pc];
    const Instr& combine = from_.code[blocks_.else_at[pc]];
    const Instr& end = from_.code[blocks_.end_at[pc]];
    int64_t n = *TripCount(from_, loop);
    std::vector<int32_t> arrays;
    for (ValueId id : combine.args) arrays.push_back(DeclareArray(from_.type(id).dtype, n));
    Copy(pc, blocks_.else_at[pc]);
    for (size_t i = 0; i < arrays.size(); ++i) Store(arrays[i], loop.results[0], combine.args[i]);
    End();
    Halve(combine, end, arrays, n, blocks_.else_at[pc] + 1, blocks_.end_at[pc]);
    for (size_t i = 0; i < arrays.size(); ++i) Load(arrays[i], Int(0), end.results[i]);
  }

  // Round number l joins the values at distance 2^l.
  void Halve(const Instr& combine, const Instr& end, const std::vector<int32_t>& arrays, int64_t n,
             size_t body_begin, size_t body_end) {
    ValueId l = BeginSerial(Int(std::bit_width(static_cast<uint64_t>(n)) - 1));
    ValueId distance = Emit(Op::kShl, Int(1), l);
    ValueId p = BeginSerial(Emit(Op::kShr, Int(n / 2), l));
    ValueId left = Emit(Op::kMul, p, Emit(Op::kShl, Int(2), l));
    ValueId right = Emit(Op::kAdd, left, distance);
    for (size_t i = 0; i < arrays.size(); ++i) {
      Load(arrays[i], left, combine.results[i]);
      Load(arrays[i], right, combine.results[arrays.size() + i]);
    }
    Copy(body_begin, body_end);
    for (size_t i = 0; i < arrays.size(); ++i) Store(arrays[i], left, end.args[i]);
    End();
    End();
  }

  void Copy(size_t begin, size_t end) {
    out_.code.insert(out_.code.end(), from_.code.begin() + static_cast<int64_t>(begin),
                     from_.code.begin() + static_cast<int64_t>(end));
  }

  int32_t DeclareArray(DType dtype, int64_t count) {
    auto taken = [&](const std::string& name) {
      return std::any_of(out_.memories.begin(), out_.memories.end(),
                         [&](const Memory& m) { return m.name == name; });
    };
    std::string name;
    do {
      name = StrCat("combined", number_++);
    } while (taken(name));
    Memory memory;
    memory.name = name;
    memory.dtype = dtype;
    memory.count = count;
    out_.memories.push_back(memory);
    Instr instr;
    instr.op = Op::kArray;
    instr.memory = static_cast<int32_t>(out_.memories.size()) - 1;
    out_.code.push_back(instr);
    return instr.memory;
  }

  const Kernel& from_;
  Kernel out_;
  Blocks blocks_;
  int number_ = 0;
};

}  // namespace

bool HasCombine(const Kernel& kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(),
                     [](const Instr& instr) { return instr.op == Op::kCombine; });
}

Kernel ExpandCombines(const Kernel& kernel) {
  return CombineExpander(kernel).Run();
}

}  // namespace weft::program
