// Mask legalization. Predicates over more lanes than a vector register has, put together with each
// other.
//
// Without mask registers a comparison of 32-bit numbers leaves 32 bits a lane, and a choice between
// such numbers wants them so. A code generator that is given sixteen lanes of predicates at once
// packs them in bytes, and unpacks them for every choice. What is computed of predicates is
// therefore written in parts of one register each, from the comparisons to the choices.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "compiler/lower/draft.h"

namespace weft::compiler {
namespace {

using program::Instr;
using program::Kernel;
using program::Op;
using program::OpClass;
using program::Type;

bool IsLogic(const Instr& instr) {
  bool logic =
      instr.op == Op::kAnd || instr.op == Op::kOr || instr.op == Op::kXor || instr.op == Op::kNot;
  return logic && instr.type.dtype == DType::kPred;
}

class MaskSplitter {
 public:
  MaskSplitter(Kernel& kernel, int64_t register_bytes)
      : kernel_(kernel),
        register_bytes_(register_bytes),
        width_(kernel.values.size()),
        definition_(kernel.values.size(), -1),
        part_lanes_(kernel.code.size()),
        parts_(kernel.values.size()) {}

  void Run() {
    for (size_t at = 0; at < kernel_.code.size(); ++at) NoteWidth(at);
    bool found = false;
    for (size_t at = 0; at < kernel_.code.size(); ++at) found |= SplitLogic(at);
    if (!found) return;
    SplitOthers();
    FindWhole();
    std::vector<Instr> code = std::move(kernel_.code);
    kernel_.code.clear();
    for (size_t at = 0; at < code.size(); ++at) Write(code[at], part_lanes_[at]);
  }

 private:
  size_t Index(ValueId id) const { return static_cast<size_t>(id); }

  // Bytes a lane of what was compared.
  void NoteWidth(size_t at) {
    const Instr& instr = kernel_.code[at];
    if (instr.results.size() != 1 || Info(instr.op).cls == OpClass::kControl) return;
    size_t result = Index(instr.results[0]);
    definition_[result] = static_cast<int64_t>(at);
    bool compares = Info(instr.op).cls == OpClass::kCompare;
    if (compares && instr.type.dtype != DType::kPred) {
      width_[result] = ByteWidth(instr.type.dtype);
    } else if (IsLogic(instr)) {
      for (ValueId arg : instr.args) width_[result] = std::max(width_[result], width_[Index(arg)]);
    }
  }

  // How many lanes a part has; 0: it is in one register, or bytes a lane.
  int PartLanes(ValueId mask) const {
    int64_t width = width_[Index(mask)], lanes = kernel_.type(mask).lanes;
    if (width < 2 || lanes * width <= register_bytes_) return 0;
    return static_cast<int>(register_bytes_ / width);
  }

  bool SplitLogic(size_t at) {
    const Instr& instr = kernel_.code[at];
    if (!IsLogic(instr)) return false;
    part_lanes_[at] = PartLanes(instr.results[0]);
    return part_lanes_[at] > 0;
  }

  // Comparisons for such logic, and choices by it.
  void SplitOthers() {
    for (size_t at = 0; at < kernel_.code.size(); ++at) {
      const Instr& instr = kernel_.code[at];
      if (IsLogic(instr) && part_lanes_[at] > 0) {
        for (ValueId arg : instr.args) {
          int64_t from = definition_[Index(arg)];
          if (from < 0 || PartLanes(arg) != part_lanes_[at]) continue;
          part_lanes_[static_cast<size_t>(from)] = part_lanes_[at];
        }
      }
    }
    for (size_t at = 0; at < kernel_.code.size(); ++at) {
      const Instr& instr = kernel_.code[at];
      if (instr.op != Op::kSelect) continue;
      ValueId mask = instr.args[0];
      int64_t from = definition_[Index(mask)];
      if (from < 0 || part_lanes_[static_cast<size_t>(from)] == 0) continue;
      if (ByteWidth(instr.type.dtype) != width_[Index(mask)] || instr.type.dtype == DType::kPred) {
        continue;
      }
      part_lanes_[at] = part_lanes_[static_cast<size_t>(from)];
    }
  }

  // Which values that come in parts are also wanted whole.
  void FindWhole() {
    is_whole_.resize(kernel_.values.size());
    for (size_t at = 0; at < kernel_.code.size(); ++at) {
      for (ValueId arg : kernel_.code[at].args) {
        int64_t from = definition_[Index(arg)];
        if (from < 0) continue;
        if (part_lanes_[static_cast<size_t>(from)] != part_lanes_[at]) is_whole_[Index(arg)] = true;
      }
    }
  }

  ValueId NewValue(Type type) {
    kernel_.values.emplace_back().type = type;
    return static_cast<ValueId>(kernel_.values.size()) - 1;
  }

  ValueId Append(Instr instr, Type type) {
    ValueId result = NewValue(type);
    instr.results = {result};
    kernel_.code.push_back(std::move(instr));
    return result;
  }

  ValueId Shuffle(ValueId a, ValueId b, int first, int lanes, ValueId result = -1) {
    Instr instr;
    instr.op = Op::kShuffle;
    instr.type = {kernel_.type(a).dtype, lanes};
    instr.args = {a, b};
    for (int lane = 0; lane < lanes; ++lane) instr.lanes.push_back(first + lane);
    Type type = instr.type;
    if (result < 0) return Append(std::move(instr), type);
    instr.results = {result};
    kernel_.code.push_back(std::move(instr));
    return result;
  }

  std::vector<ValueId> PartsOf(ValueId id, int lanes) {
    Type type = kernel_.type(id);
    size_t count = static_cast<size_t>(type.lanes / lanes);
    if (Index(id) < parts_.size() && parts_[Index(id)].size() == count) return parts_[Index(id)];
    Type part{type.dtype, lanes};
    if (kernel_.value(id).is_constant) {
      program::Value value = kernel_.value(id);
      value.type = part;
      kernel_.values.push_back(value);
      return std::vector<ValueId>(count, static_cast<ValueId>(kernel_.values.size()) - 1);
    }
    auto known = taken_.find(id);
    if (known != taken_.end() && known->second.size() == count) return known->second;
    std::vector<ValueId> parts;
    for (size_t k = 0; k < count; ++k) {
      parts.push_back(Shuffle(id, id, static_cast<int>(k) * lanes, lanes));
    }
    return taken_[id] = parts;
  }

  // In parts, and whole again where that is wanted.
  void Write(const Instr& instr, int lanes) {
    if (lanes == 0) {
      if (Info(instr.op).cls == OpClass::kControl) taken_.clear();
      kernel_.code.push_back(instr);
      return;
    }
    std::vector<std::vector<ValueId>> args;
    for (ValueId arg : instr.args) {
      bool spread = kernel_.type(arg).lanes > 1;
      args.push_back(spread ? PartsOf(arg, lanes) : std::vector<ValueId>{arg});
    }
    ValueId result = instr.results[0];
    int all = kernel_.type(result).lanes;
    std::vector<ValueId> parts;
    for (int k = 0; k < all / lanes; ++k) {
      Instr part = instr;
      part.type.lanes = lanes;
      for (size_t a = 0; a < args.size(); ++a) {
        part.args[a] = args[a][args[a].size() == 1 ? 0 : static_cast<size_t>(k)];
      }
      parts.push_back(Append(std::move(part), {kernel_.type(result).dtype, lanes}));
    }
    parts_[Index(result)] = parts;
    if (!is_whole_[Index(result)]) return;
    for (int size = lanes; parts.size() > 1; size *= 2) {
      std::vector<ValueId> joined;
      for (size_t k = 0; k < parts.size(); k += 2) {
        joined.push_back(
            Shuffle(parts[k], parts[k + 1], 0, 2 * size, parts.size() == 2 ? result : -1));
      }
      parts = std::move(joined);
    }
  }

  Kernel& kernel_;
  int64_t register_bytes_;
  std::vector<int64_t> width_;       // by value; 0: not known
  std::vector<int64_t> definition_;  // by value: the instruction, -1: none or a block
  std::vector<int> part_lanes_;      // by instruction; 0: written whole
  std::vector<bool> is_whole_;
  std::vector<std::vector<ValueId>> parts_;
  std::unordered_map<ValueId, std::vector<ValueId>> taken_;  // from whole ones, in the open block
};

}  // namespace

void SplitMasks(Kernel& kernel, const program::TargetInfo& target) {
  if (target.LaneBits() == 0 || target.HasMaskRegisters()) return;
  MaskSplitter(kernel, target.vector_bits / 8).Run();
}

}  // namespace weft::compiler
