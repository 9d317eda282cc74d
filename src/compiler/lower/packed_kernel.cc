#include "compiler/lower/packed_kernel.h"

#include <algorithm>
#include <span>

#include "compiler/lower/packed_writer.h"
#include "program/builder.h"

namespace weft::compiler {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Op;
using program::Type;
using program::ValueId;

namespace {

bool Touches(const Instr& instr, const PackedParams& packed) {
  bool touches = instr.op == Op::kStore || instr.op == Op::kLoad || instr.op == Op::kAtomic;
  return touches && static_cast<size_t>(instr.memory) < packed.size() &&
         packed[static_cast<size_t>(instr.memory)];
}

// Every store is of whole bytes: of all the elements of one, or of the only one there is.
std::optional<Kernel> StoreWholeBytes(const Kernel& kernel, const PackedParams& packed) {
  PackedWriter writer(kernel);
  for (const Instr& instr : writer.old_code()) {
    if (!Touches(instr, packed)) {
      writer.Keep(instr);
      continue;
    }
    const program::Memory& m = kernel.memories[static_cast<size_t>(instr.memory)];
    int each = 8 / BitWidth(m.dtype), lanes = instr.type.lanes;
    bool only = m.count == 1 && lanes == 1;
    bool whole = lanes % each == 0 && kernel.type(instr.args[0]).lanes == 1 &&
                 writer.IsMultiple(instr.args[0], each);
    if (instr.op != Op::kStore || instr.args.size() > 2 || (!only && !whole)) return std::nullopt;
    ValueId bits = writer.Encode(instr.args[1], m.dtype);
    if (!only) bits = writer.JoinLanes(bits, m.dtype);
    writer.StoreBytes(instr.memory, only ? instr.args[0] : writer.ByteOf(instr.args[0], m.dtype),
                      bits);
  }
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    if (packed[static_cast<size_t>(i)]) writer.MakePacked(i);
  }
  return writer.Take();
}

// A grid of one loop, without threads, each iteration of which stores the element of its number.
struct ElementGrid {
  size_t loop = 0;              // in the code; the last instruction ends it
  std::vector<int32_t> stored;  // packed parameters
  int each = 0;                 // elements of a byte
};
std::optional<ElementGrid> FindElementGrid(const Kernel& kernel, const PackedParams& packed) {
  ElementGrid grid;
  size_t depth = 0, loops = 0;
  for (size_t i = 0; i < kernel.code.size(); ++i) {
    const Instr& instr = kernel.code[i];
    if (instr.op == Op::kEnd) --depth;
    if (instr.op == Op::kLoop && instr.loop == LoopKind::kThread) return std::nullopt;
    if (instr.op == Op::kLoop && instr.loop == LoopKind::kParallel) {
      if (++loops > 1 || depth > 0) return std::nullopt;
      grid.loop = i;
    }
    if (Touches(instr, packed)) {
      const program::Memory& m = kernel.memories[static_cast<size_t>(instr.memory)];
      int each = 8 / BitWidth(m.dtype);
      bool own = loops == 1 && depth == 1 && instr.op == Op::kStore && instr.args.size() == 2 &&
                 instr.type.lanes == 1 && instr.args[0] == kernel.code[grid.loop].results[0] &&
                 m.count == program::TripCount(kernel, kernel.code[grid.loop]) &&
                 std::ranges::find(grid.stored, instr.memory) == grid.stored.end();
      if (!own || (grid.each != 0 && each != grid.each)) return std::nullopt;
      grid.each = each;
      grid.stored.push_back(instr.memory);
    }
    if (instr.op == Op::kLoop || instr.op == Op::kIf) ++depth;
    if (depth == 0 && loops == 1 && i + 1 != kernel.code.size()) return std::nullopt;
  }
  const Instr* loop = loops == 1 ? &kernel.code[grid.loop] : nullptr;
  bool by_ones = loop != nullptr && kernel.value(loop->args[0]).AsInt() == 0 &&
                 kernel.value(loop->args[2]).AsInt() == 1 && loop->args.size() == 3;
  if (!by_ones || grid.stored.empty()) return std::nullopt;
  return grid;
}

// parallel b { unroll k carry bytes { i = b * each + k; if i < n { ... } }; store bytes }
Kernel StoreByteByByte(const Kernel& kernel, const PackedParams& packed, const ElementGrid& grid) {
  PackedWriter w(kernel);
  const std::vector<Instr>& old = w.old_code();
  Instr loop = old[grid.loop];
  Type counter = loop.type, u8 = {DType::kU8, 1};
  int64_t n = *program::TripCount(kernel, loop), each = grid.each;
  ValueId element = loop.results[0], zero = w.Int(0, counter), none = w.Int(0, u8);
  for (size_t i = 0; i < grid.loop; ++i) w.Keep(old[i]);
  ValueId byte = w.New(counter), k = w.New(counter);
  loop.args[1] = w.Int((n + each - 1) / each, counter);
  loop.results = {byte};
  w.Keep(loop);
  ValueId first = w.Do(Op::kMul, counter, {byte, w.Int(each, counter)});
  Instr inner = loop;
  inner.loop = LoopKind::kUnroll;
  inner.args = {zero, w.Int(each, counter), w.Int(1, counter)};
  inner.results = {k};
  for (size_t j = 0; j < grid.stored.size(); ++j) {
    inner.args.push_back(none);
    inner.results.push_back(w.New(u8));
  }
  w.Keep(inner);
  w.Do(Op::kAdd, counter, {first, k}, element);
  bool partial = n % each != 0;
  if (partial) {
    ValueId within = w.Do(Op::kLt, counter, {element, w.Int(n, counter)});
    w.Block(Op::kIf, std::span(&within, 1));
  }
  std::vector<ValueId> bits(grid.stored.size()), next, last;
  for (size_t i = grid.loop + 1; i + 1 < old.size(); ++i) {
    if (!Touches(old[i], packed)) {
      w.Keep(old[i]);
      continue;
    }
    size_t j =
        static_cast<size_t>(std::ranges::find(grid.stored, old[i].memory) - grid.stored.begin());
    bits[j] = w.Encode(old[i].args[1], w.memory(old[i].memory).dtype);
  }
  if (partial) {
    std::vector<ValueId> made, zeros(bits.size(), none);
    for (size_t j = 0; j < bits.size(); ++j) made.push_back(w.New(u8));
    w.Block(Op::kElse, bits);
    w.Block(Op::kEnd, zeros, made);
    bits = std::move(made);
  }
  for (size_t j = 0; j < bits.size(); ++j) {
    ValueId shift = w.ShiftOf(k, w.memory(grid.stored[j]).dtype);
    ValueId part = w.Do(Op::kShl, u8, {bits[j], shift});
    next.push_back(w.Do(Op::kOr, u8, {inner.results[j + 1], part}));
    last.push_back(w.New(u8));
  }
  w.Block(Op::kEnd, next, last);
  for (size_t j = 0; j < last.size(); ++j) w.StoreBytes(grid.stored[j], byte, last[j]);
  w.Keep(old.back());
  for (int32_t m : grid.stored) w.MakePacked(m);
  return w.Take();
}

}  // namespace

Kernel WithPackedReads(const Kernel& kernel, const PackedParams& packed) {
  PackedWriter writer(kernel);
  for (const Instr& instr : writer.old_code()) {
    if (instr.op == Op::kLoad && Touches(instr, packed)) {
      writer.Load(instr, kernel.memories[static_cast<size_t>(instr.memory)].dtype);
    } else {
      writer.Keep(instr);
    }
  }
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    if (packed[static_cast<size_t>(i)]) writer.MakePacked(i);
  }
  return writer.Take();
}

std::optional<Kernel> WithPackedWrites(const Kernel& kernel, const PackedParams& packed) {
  if (std::optional<Kernel> whole = StoreWholeBytes(kernel, packed)) return whole;
  std::optional<ElementGrid> grid = FindElementGrid(kernel, packed);
  if (!grid) return std::nullopt;
  // All that are to be packed are stored here.
  if (std::ssize(grid->stored) != std::ranges::count(packed, true)) return std::nullopt;
  return StoreByteByByte(kernel, packed, *grid);
}

Kernel CopyKernel(DType dtype, int64_t n) {
  program::KernelBuilder b("copy_elements");
  auto x = b.Param("x", dtype, n, program::Access::kRead);
  auto y = b.Param("y", dtype, n, program::Access::kWrite);
  b.For(LoopKind::kParallel, 0, n, [&](ValueId i) { b.Store(y, i, b.Load(x, i)); });
  return std::move(b).Build();
}

}  // namespace weft::compiler
