#include "cpu/render/access.h"

#include <algorithm>

#include "cpu/render/ops.h"

namespace weft::cpu {

using program::Instr;
using program::Kernel;
using program::Memory;
using program::Op;
using program::Type;
using program::ValueId;

AccessRenderer::AccessRenderer(const Kernel& kernel, const RenderTarget& target, IrBody& ir,
                               const std::vector<std::string>& names)
    : kernel_(kernel), target_(target), ir_(ir), names_(names), defined_(kernel.values.size(), -1) {
  for (size_t i = 0; i < kernel.code.size(); ++i) {
    for (ValueId id : kernel.code[i].results) {
      defined_[static_cast<size_t>(id)] = static_cast<int32_t>(i);
    }
  }
}

const Instr* AccessRenderer::Definition(ValueId id) const {
  int32_t at = DefinedAt(id);
  return at < 0 ? nullptr : &kernel_.code[static_cast<size_t>(at)];
}

// The number of the thread, through the nested thread loops, as i64.
std::string AccessRenderer::ThreadNumber() {
  std::string number;
  for (const ThreadLoop& loop : threads_) {
    std::string counter = loop.counter;
    if (loop.type.dtype == DType::kS32) counter = ir_.Def("sext i32 ", counter, " to i64");
    if (loop.begin != 0) counter = ir_.Def("sub i64 ", counter, ", ", loop.begin);
    if (loop.step != 1) counter = ir_.Def("sdiv exact i64 ", counter, ", ", loop.step);
    if (!number.empty()) {
      number = ir_.Def("mul i64 ", number, ", ", loop.trips);
      counter = ir_.Def("add i64 ", number, ", ", counter);
    }
    number = counter;
  }
  return number;
}

// The address, or a vector of them.
std::string AccessRenderer::BaseOf(const Memory& m, int32_t number) {
  std::string base = StrCat("%p", number);
  if (!m.per_thread) return base;
  std::string offset = ir_.Def("mul i64 ", ThreadNumber(), ", ", m.count);
  return ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ", offset);
}

std::string AccessRenderer::Address(const Instr& instr) {
  if (indices_.HasAddress(instr)) {
    return indices_.Address(instr, StrCat("%p", instr.memory), ir_, names_);
  }
  const Memory& m = kernel_.memories[instr.memory];
  Type type = kernel_.type(instr.args[0]);
  std::string index = NameOf(instr.args[0]);
  std::string wide = IrVector("i64", type.lanes);
  if (BitWidth(type.dtype) < 64) {
    index =
        ir_.Def(IsSigned(type.dtype) ? "sext " : "zext ", IrType(type), " ", index, " to ", wide);
  }
  std::string base = BaseOf(m, instr.memory);
  // A lane that is masked off may have any index.
  std::string_view inbounds = HasMask(instr) ? "" : "inbounds ";
  return ir_.Def("getelementptr ", inbounds, StorageType(m.dtype), ", ptr ", base, ", ", wide, " ",
                 index);
}

// What masked intrinsics take: vectors, also of one lane.
std::string AccessRenderer::MaskOf(const Instr& instr) {
  int lanes = instr.type.lanes;
  std::string type = StrCat("<", lanes, " x i1>");
  if (!HasMask(instr)) return StrCat(type, " splat (i1 true)");
  std::string mask = NameOf(instr.args.back());
  if (lanes == 1) mask = ir_.Def("insertelement <1 x i1> poison, i1 ", mask, ", i64 0");
  return StrCat(type, " ", mask);
}
int64_t AccessRenderer::AlignOf(const Instr& instr) const {
  int64_t width = ByteWidth(kernel_.memories[instr.memory].dtype);
  return std::max<int64_t>(instr.align, width);
}
// What is known of an access.
std::string AccessRenderer::Facts(const Instr& instr) const {
  std::string text(scopes_.Of(instr));
  if (!group_.empty()) StrAppend(text, ", !llvm.access.group ", group_);
  return text;
}

std::optional<AccessRenderer::Spaced> AccessRenderer::FindSpaced(ValueId id) const {
  const Instr* sum = Definition(id);
  if (sum == nullptr || sum->op != Op::kAdd) return std::nullopt;
  for (int k = 0; k < 2; ++k) {
    const Instr *first = Definition(sum->args[k]), *rest = Definition(sum->args[1 - k]);
    if (first == nullptr || rest == nullptr || first->op != Op::kSplat) continue;
    if (kernel_.value(first->args[0]).is_constant) continue;
    int64_t distance = 1;
    if (rest->op == Op::kMul && kernel_.value(rest->args[1]).is_constant) {
      distance = kernel_.value(rest->args[1]).AsInt();
      rest = Definition(rest->args[0]);
    }
    if (rest != nullptr && rest->op == Op::kIota) return Spaced{first->args[0], distance};
  }
  return std::nullopt;
}

// Of what indices are made of: products and sums of what is not negative, and do not wrap around
// where the index does not.
bool AccessRenderer::IsNeverNegative(ValueId id) const {
  const program::Value& value = kernel_.value(id);
  if (value.is_constant) return value.AsInt() >= 0;
  const Instr* made = Definition(id);
  if (made == nullptr) return false;
  switch (made->op) {
    case Op::kMax: return IsNeverNegative(made->args[0]) || IsNeverNegative(made->args[1]);
    case Op::kMin:
    case Op::kMul: return IsNeverNegative(made->args[0]) && IsNeverNegative(made->args[1]);
    case Op::kCast: return IsUnsigned(kernel_.type(made->args[0]).dtype);
    default: return false;
  }
}

// The lanes of a vector of indices, none of them negative, one by one. Of 32 bits two at a time:
// few numbers a cycle go from vector registers to others.
std::vector<std::string> AccessRenderer::PlacesOf(Type type, std::string index) {
  std::vector<std::string> places;
  std::string pairs = StrCat("<", type.lanes / 2, " x i64>");
  bool paired = BitWidth(type.dtype) == 32 && type.lanes > 1;
  if (paired) index = ir_.Def("bitcast ", IrType(type), " ", index, " to ", pairs);
  for (int lane = 0; paired && lane < type.lanes; lane += 2) {
    std::string both = ir_.Def("extractelement ", pairs, " ", index, ", i64 ", lane / 2);
    places.push_back(ir_.Def("and i64 ", both, ", 4294967295"));
    places.push_back(ir_.Def("lshr i64 ", both, ", 32"));
  }
  for (int lane = 0; !paired && lane < type.lanes; ++lane) {
    std::string at = ir_.Def("extractelement ", IrType(type), " ", index, ", i64 ", lane);
    if (BitWidth(type.dtype) < 64) {
      at = ir_.Def("zext ", IrType({type.dtype, 1}), " ", at, " to i64");
    }
    places.push_back(at);
  }
  return places;
}

AccessRenderer::Stored AccessRenderer::IndicesInMemory(ValueId id) const {
  const Instr* made = Definition(id);
  Stored stored;
  for (int k = 0; k < 2 && made != nullptr && made->op == Op::kAdd && stored.more < 0; ++k) {
    const Instr* all = Definition(made->args[k]);
    if (all == nullptr || all->op != Op::kSplat) continue;
    if (kernel_.value(all->args[0]).is_constant) return {};
    stored.more = all->args[0];
    made = Definition(made->args[1 - k]);
  }
  if (made != nullptr && made->op == Op::kCast) made = Definition(made->args[0]);
  if (made == nullptr || made->op != Op::kLoad || HasMask(*made)) return {};
  const Memory& m = kernel_.memories[made->memory];
  bool indices = IsInteger(m.dtype) && !IsSubByte(m.dtype) && m.access == program::Access::kRead;
  if (indices && kernel_.type(made->args[0]).lanes == 1) stored.load = made;
  return stored;
}
// One of them, from the address of the first.
std::string AccessRenderer::PlaceInMemory(const Instr& load, const std::string& first, int lane) {
  DType dtype = kernel_.memories[load.memory].dtype;
  std::string_view type = StorageType(dtype);
  std::string address = ir_.Def("getelementptr inbounds ", type, ", ptr ", first, ", i64 ", lane);
  std::string at =
      ir_.Def("load ", type, ", ptr ", address, ", align ", ByteWidth(dtype), Facts(load));
  if (BitWidth(dtype) == 64) return at;
  return ir_.Def(IsSigned(dtype) ? "sext " : "zext ", type, " ", at, " to i64");
}

// A gather lane by lane: addresses are not put in vectors only to be taken out again.
std::string AccessRenderer::ScalarizeGather(const Instr& instr) {
  const Memory& m = kernel_.memories[instr.memory];
  Type type = kernel_.type(instr.args[0]);
  std::string index = NameOf(instr.args[0]), base = BaseOf(m, instr.memory), value = "poison";
  std::optional<Spaced> spaced = FindSpaced(instr.args[0]);
  Stored stored = target_.slow_gathers ? IndicesInMemory(instr.args[0]) : Stored();
  if (spaced || (stored.load != nullptr && stored.more >= 0)) {
    std::string first = NameOf(spaced ? spaced->first : stored.more);
    std::string number = IrType({type.dtype, 1});
    if (BitWidth(type.dtype) < 64) {
      first = ir_.Def(IsSigned(type.dtype) ? "sext " : "zext ", number, " ", first, " to i64");
    }
    base =
        ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ", first);
  }
  std::string vector = StrCat("<", type.lanes, " x ", StorageType(m.dtype), ">");
  std::vector<std::string> places;
  // Elements beside each other share the places that are taken out of the vector.
  if (const Instr* sum = Definition(instr.args[0]);
      !spaced && stored.load == nullptr && sum != nullptr && sum->op == Op::kAdd &&
      kernel_.value(sum->args[1]).is_constant && kernel_.value(sum->args[1]).AsInt() >= 0 &&
      IsNeverNegative(sum->args[0])) {
    base = ir_.Def("getelementptr ", StorageType(m.dtype), ", ptr ", base, ", i64 ",
                   kernel_.value(sum->args[1]).AsInt());
    index = NameOf(sum->args[0]);
  }
  std::string first;
  if (stored.load != nullptr) {
    first = Address(*stored.load);
  } else if (!spaced) {
    places = PlacesOf(type, index);
  }
  for (int lane = 0; lane < type.lanes; ++lane) {
    std::string at;
    if (stored.load != nullptr) {
      // LLVM would read them all at once, for which there are not enough registers.
      if (lane % 8 == 0) ir_.Line("call void asm sideeffect \"\", \"~{memory}\"()");
      at = PlaceInMemory(*stored.load, first, lane);
    } else {
      at = spaced ? StrCat(lane * spaced->distance) : places[static_cast<size_t>(lane)];
    }
    std::string address =
        ir_.Def("getelementptr inbounds ", StorageType(m.dtype), ", ptr ", base, ", i64 ", at);
    std::string element = ir_.Def("load ", StorageType(m.dtype), ", ptr ", address, ", align ",
                                  AlignOf(instr), Facts(instr));
    value = ir_.Def("insertelement ", vector, " ", value, ", ", StorageType(m.dtype), " ", element,
                    ", i64 ", lane);
  }
  return value;
}

std::string AccessRenderer::Load(const Instr& instr, std::string_view how) {
  DType dtype = kernel_.memories[instr.memory].dtype;
  int lanes = instr.type.lanes;
  bool gather = kernel_.type(instr.args[0]).lanes > 1;
  std::string type = IrVector(StorageType(dtype), lanes), value;
  std::string vector = StrCat("<", lanes, " x ", StorageType(dtype), ">");
  bool one_by_one = target_.scalar_gathers ||
                    (target_.slow_gathers && IndicesInMemory(instr.args[0]).load != nullptr);
  if (gather && !HasMask(instr) && one_by_one) {
    return FromStorage(ir_, dtype, lanes, ScalarizeGather(instr));
  }
  std::string address = Address(instr);
  if (gather) {
    value = ir_.Def("call ", vector, " @llvm.masked.gather.v", lanes, StorageSuffix(dtype), ".v",
                    lanes, "p0(<", lanes, " x ptr> ", address, ", i32 ", AlignOf(instr), ", ",
                    MaskOf(instr), ", ", vector, " zeroinitializer)", Facts(instr));
  } else if (HasMask(instr)) {
    value = ir_.Def("call ", vector, " @llvm.masked.load.v", lanes, StorageSuffix(dtype),
                    ".p0(ptr ", address, ", i32 ", AlignOf(instr), ", ", MaskOf(instr), ", ",
                    vector, " zeroinitializer)", Facts(instr));
    if (lanes == 1) value = ir_.Def("extractelement ", vector, " ", value, ", i64 0");
  } else {
    value =
        ir_.Def("load ", how, type, ", ptr ", address, ", align ", AlignOf(instr), Facts(instr));
  }
  return FromStorage(ir_, dtype, lanes, value);
}

bool AccessRenderer::IsRounded(ValueId id, DType format) const {
  const Instr* made = Definition(id);
  if (made == nullptr) return false;
  if (made->op == Op::kLoad) return kernel_.memories[made->memory].dtype == format;
  if (made->op == Op::kBitcast && format == DType::kBF16) {
    // The upper half of an f32 alone is set: a conversion would flush subnormal numbers.
    const Instr* bits = Definition(made->args[0]);
    if (bits == nullptr || bits->op != Op::kShl) return false;
    const program::Value& amount = kernel_.values[static_cast<size_t>(bits->args[1])];
    return amount.is_constant && amount.bits == 16;
  }
  return made->op == Op::kNarrow && made->format == format;
}

// A value as it is stored; of a bf16 that is rounded already, the upper half.
std::string AccessRenderer::StoredValue(ValueId id, DType dtype, int lanes) {
  if (dtype != DType::kBF16 || !IsRounded(id, dtype)) {
    return ToStorage(ir_, dtype, lanes, NameOf(id), target_);
  }
  std::string wide = IrVector("i32", lanes), real = IrVector("float", lanes);
  std::string bits = ir_.Def("bitcast ", real, " ", NameOf(id), " to ", wide);
  std::string upper = ir_.Def("lshr ", wide, " ", bits, ", ", IrSplat("i32", "16", lanes));
  return ir_.Def("trunc ", wide, " ", upper, " to ", IrVector("i16", lanes));
}

void AccessRenderer::Atomic(const Instr& instr) {
  DType dtype = kernel_.memories[instr.memory].dtype;
  std::string_view type = StorageType(dtype);
  std::string value = StoredValue(instr.args[1], dtype, 1), address = Address(instr);
  bool orders = instr.atomic == program::Op::kMin || instr.atomic == program::Op::kMax;
  if (!orders) {
    ir_.Def("atomicrmw ", Name(instr.atomic), " ptr ", address, ", ", type, " ", value,
            " monotonic, align ", ByteWidth(dtype));
    return;
  }
  // No processor has one for 64 bits: exchanged until nobody else came between.
  std::string before = ir_.block(), again = ir_.NewLabel(), after = ir_.NewLabel();
  std::string first =
      ir_.Def("load atomic ", type, ", ptr ", address, " monotonic, align ", ByteWidth(dtype));
  ir_.Branch(again);
  ir_.Begin(again);
  std::string seen = StrCat("%seen.", again);
  std::string old =
      ir_.Def("phi ", type, " [ ", first, ", %", before, " ], [ ", seen, ", %", again, " ]");
  std::string_view order = instr.atomic == program::Op::kMin ? "lt" : "gt";
  std::string keeps =
      ir_.Def("icmp ", IsSigned(dtype) ? "s" : "u", order, " ", type, " ", old, ", ", value);
  std::string next = ir_.Def("select i1 ", keeps, ", ", type, " ", old, ", ", type, " ", value);
  std::string both = ir_.Def("cmpxchg ptr ", address, ", ", type, " ", old, ", ", type, " ", next,
                             " monotonic monotonic, align ", ByteWidth(dtype));
  ir_.Line(seen, " = extractvalue { ", type, ", i1 } ", both, ", 0");
  std::string done = ir_.Def("extractvalue { ", type, ", i1 } ", both, ", 1");
  ir_.Branch(done, after, again);
  ir_.Begin(after);
}

void AccessRenderer::Store(const Instr& instr) {
  DType dtype = kernel_.memories[instr.memory].dtype;
  int lanes = instr.type.lanes;
  bool scatter = kernel_.type(instr.args[0]).lanes > 1;
  std::string value = StoredValue(instr.args[1], dtype, lanes);
  std::string type = IrVector(StorageType(dtype), lanes);
  std::string vector = StrCat("<", lanes, " x ", StorageType(dtype), ">");
  std::string address = Address(instr);
  if (!scatter && !HasMask(instr)) {
    ir_.Line("store ", type, " ", value, ", ptr ", address, ", align ", AlignOf(instr),
             Facts(instr));
    return;
  }
  if (lanes == 1) {
    value = ir_.Def("insertelement ", vector, " poison, ", type, " ", value, ", i64 0");
  }
  std::string pointers = scatter ? StrCat("<", lanes, " x ptr>") : "ptr";
  std::string name = scatter ? StrCat("scatter.v", lanes, StorageSuffix(dtype), ".v", lanes, "p0")
                             : StrCat("store.v", lanes, StorageSuffix(dtype), ".p0");
  std::string mask = MaskOf(instr);
  ir_.Line("call void @llvm.masked.", name, "(", vector, " ", value, ", ", pointers, " ", address,
           ", i32 ", AlignOf(instr), ", ", mask, ")", Facts(instr));
}

}  // namespace weft::cpu
