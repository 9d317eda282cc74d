#include "compiler/lower/packed_writer.h"

#include "base/packing.h"

namespace weft::compiler {

using program::Instr;
using program::Op;
using program::Type;
using program::ValueId;

void PackedWriter::MakePacked(int32_t memory) {
  program::Memory& m = kernel_.memories[static_cast<size_t>(memory)];
  m.count = PackedBytes(m.dtype, m.count);
  m.dtype = DType::kU8;
}

void PackedWriter::Load(const Instr& load, DType dtype) {
  int lanes = load.type.lanes, each = 8 / BitWidth(dtype);
  ValueId index = load.args[0], mask = load.args.size() > 1 ? load.args[1] : -1, bytes, shift;
  Type at = type(index), u8 = {DType::kU8, lanes};
  bool consecutive = lanes > 1 && at.lanes == 1;
  if (consecutive && mask < 0 && lanes % each == 0 && IsMultiple(index, each)) {
    ValueId whole = LoadBytes(load.memory, ByteOf(index, dtype), lanes / each, -1);
    std::vector<int32_t> spread(static_cast<size_t>(lanes));
    for (int i = 0; i < lanes; ++i) spread[static_cast<size_t>(i)] = i / each;
    bytes = lanes == each ? Do(Op::kSplat, u8, {whole})
                          : Lanes(Op::kShuffle, u8, {whole, whole}, spread);
    shift = ShiftOf(Numbers(u8), dtype);
  } else {
    if (consecutive) {
      at.lanes = lanes;
      ValueId first = Do(Op::kSplat, at, {index});
      index = Do(Op::kAdd, at, {first, Numbers(at)});
    }
    bytes = LoadBytes(load.memory, ByteOf(index, dtype), lanes, mask);
    shift = ShiftOf(index, dtype);
  }
  Decode(Do(Op::kShr, u8, {bytes, shift}), dtype, load.results[0]);
}

// The value of an element from the lowest bits of a byte.
void PackedWriter::Decode(ValueId byte, DType dtype, ValueId result) {
  Type u8 = type(byte), f32 = {DType::kF32, u8.lanes}, s8 = {DType::kS8, u8.lanes};
  int64_t bits = BitWidth(dtype);
  if (IsSigned(dtype)) {
    ValueId unused = Int(8 - bits, s8);
    Do(Op::kShr, s8, {Do(Op::kShl, s8, {Do(Op::kCast, s8, {byte}), unused}), unused}, result);
    return;
  }
  if (!IsFloat(dtype)) {
    Do(Op::kAnd, u8, {byte, Int((1 << bits) - 1, u8)}, result);
    return;
  }
  // f4e2m1fn: 0 to 1.5 by halves, 2 and 3, 4 and 6; behind a sign.
  ValueId number = Do(Op::kAnd, u8, {byte, Int(7, u8)});
  ValueId x = Do(Op::kCast, f32, {number});
  ValueId halves = Do(Op::kMul, f32, {x, F32(0.5, u8.lanes)});
  ValueId ones = Do(Op::kSub, f32, {x, F32(2, u8.lanes)});
  ValueId twos = Do(Op::kMul, f32, {Do(Op::kSub, f32, {x, F32(4, u8.lanes)}), F32(2, u8.lanes)});
  ValueId upper = Do(Op::kSelect, f32, {Do(Op::kLt, u8, {number, Int(6, u8)}), ones, twos});
  ValueId size = Do(Op::kSelect, f32, {Do(Op::kLt, u8, {number, Int(4, u8)}), halves, upper});
  ValueId sign = Do(Op::kAnd, u8, {byte, Int(8, u8)});
  ValueId below = Do(Op::kNe, u8, {sign, Int(0, u8)});
  Do(Op::kSelect, f32, {below, Do(Op::kNeg, f32, {size}), size}, result);
}

// The bits that an element is stored as, in the lowest ones of a byte.
ValueId PackedWriter::Encode(ValueId value, DType dtype) {
  Type own = type(value), u8 = {DType::kU8, own.lanes}, u32 = {DType::kU32, own.lanes};
  int64_t mask = (1 << BitWidth(dtype)) - 1;
  if (!IsFloat(dtype)) {
    ValueId bits = own.dtype == DType::kU8 ? value : Do(Op::kCast, u8, {value});
    return Do(Op::kAnd, u8, {bits, Int(mask, u8)});
  }
  ValueId rounded = Do(Op::kNarrow, own, {value});
  kernel_.code.back().format = dtype;
  ValueId size = Do(Op::kAbs, own, {rounded});
  ValueId halves = Do(Op::kMul, own, {size, F32(2, own.lanes)});
  ValueId ones = Do(Op::kAdd, own, {size, F32(2, own.lanes)});
  ValueId half = Do(Op::kMul, own, {size, F32(0.5, own.lanes)});
  ValueId twos = Do(Op::kAdd, own, {half, F32(4, own.lanes)});
  ValueId upper = Do(Op::kSelect, own, {Do(Op::kLt, own, {size, F32(4, own.lanes)}), ones, twos});
  ValueId number =
      Do(Op::kSelect, own, {Do(Op::kLt, own, {size, F32(2, own.lanes)}), halves, upper});
  ValueId bits = Do(Op::kBitcast, u32, {rounded});
  ValueId sign = Do(Op::kAnd, u32, {Do(Op::kShr, u32, {bits, Int(28, u32)}), Int(8, u32)});
  ValueId low = Do(Op::kCast, u8, {number});
  return Do(Op::kOr, u8, {low, Do(Op::kCast, u8, {sign})});
}

// Bytes of what neighbouring lanes hold.
ValueId PackedWriter::JoinLanes(ValueId bits, DType dtype) {
  Type u8 = type(bits);
  int each = 8 / BitWidth(dtype), bytes = u8.lanes / each;
  ValueId shifted = Do(Op::kShl, u8, {bits, ShiftOf(Numbers(u8), dtype)}), all = -1;
  for (int part = 0; part < each; ++part) {
    std::vector<int32_t> lanes;
    for (int i = 0; i < bytes; ++i) lanes.push_back(i * each + part);
    Type some = {DType::kU8, bytes};
    ValueId mine = bytes == 1 ? Lanes(Op::kExtract, some, {shifted}, lanes)
                              : Lanes(Op::kShuffle, some, {shifted, shifted}, lanes);
    all = all < 0 ? mine : Do(Op::kOr, some, {all, mine});
  }
  return all;
}

}  // namespace weft::compiler
