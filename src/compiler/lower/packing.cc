#include "compiler/lower/packing.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/packing.h"
#include "base/str.h"
#include "compiler/lower/packed_kernel.h"
#include "program/builder.h"
#include "program/library.h"

namespace weft::compiler {

using program::Buffer;
using program::BufferId;
using program::BufferKind;
using program::Kernel;
using program::KernelStep;
using program::Program;
using program::Reads;
using program::Step;
using program::Use;
using program::Writes;

namespace {

class Packer {
 public:
  explicit Packer(Program& program) : program_(program), ways_(program.buffers.size()) {
    for (const Kernel& kernel : program.kernels) names_.insert(kernel.name);
  }

  void Run() {
    bool any = false;
    for (const Buffer& b : program_.buffers) any |= IsPackable(b.shape.dtype());
    if (!any) return;
    FindCandidates();
    LookAtUses();
    DropTemporaries();
    for (size_t i = 0; i < ways_.size(); ++i) {
      if (ways_[i].outside || (ways_[i].candidate && ways_[i].direct)) {
        program_.buffers[i].packed = true;
      }
    }
    MakeCopies();
    Rewrite(program_.steps);
    UnpackAndPack();
  }

 private:
  // How a buffer is used.
  struct Way {
    bool candidate = false;  // may be packed
    bool outside = false;    // is: arguments and results
    bool direct = true;      // kernels and copies alone touch it, by whole bytes where they write
    bool others_read = false, written = false;
    BufferId copy = -1;  // unpacked, for what does not work on packed elements
  };

  BufferId Root(BufferId id) const {
    BufferId base = program_.buffers[static_cast<size_t>(id)].base;
    return base >= 0 ? base : id;
  }
  // Arguments and results that share memory are used in one way.
  Way& WayOf(BufferId id) {
    BufferId root = Root(id);
    return ways_[static_cast<size_t>(ways_[static_cast<size_t>(root)].outside ? root : id)];
  }
  bool IsCandidate(const Use& use) { return WayOf(use.slice.buffer).candidate; }
  bool IsWhole(const Use& use) const {
    Buffer plain = program_.buffers[static_cast<size_t>(use.slice.buffer)];
    plain.packed = false;
    return use.slice.offset == 0 && use.slice.size == program::ByteSize(plain);
  }

  void FindCandidates() {
    for (size_t i = 0; i < ways_.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      if (!IsPackable(b.shape.dtype()) || b.shape.elements() == 0) continue;
      bool argument = b.kind == BufferKind::kParameter || b.kind == BufferKind::kResult;
      ways_[i].candidate = true;
      ways_[i].outside = argument;
    }
    // Another view of an argument's bytes.
    for (size_t i = 0; i < ways_.size(); ++i) {
      BufferId base = program_.buffers[i].base;
      if (base >= 0 && ways_[static_cast<size_t>(base)].outside) ways_[i].outside = true;
    }
  }

  void LookAtUses() {
    ForEachStep(program_.steps, [&](const Step& step) {
      bool copies = std::holds_alternative<program::CopyStep>(step.op);
      const auto* launch = std::get_if<KernelStep>(&step.op);
      PackedParams stored(step.uses.size());
      for (size_t k = 0; k < step.uses.size(); ++k) {
        const Use& use = step.uses[k];
        if (!IsCandidate(use)) continue;
        Way& way = WayOf(use.slice.buffer);
        bool takes = IsWhole(use) &&
                     (copies || launch != nullptr || program::TakesPacked(step, k)) &&
                     use.access != program::Access::kReadWrite;
        way.written |= Writes(use.access);
        way.direct &= takes;
        if (!takes) way.others_read |= Reads(use.access);
        stored[k] = takes && launch != nullptr && Writes(use.access);
        if (copies && !way.outside) way.direct = false;  // stays as it is, with the copy
      }
      if (std::ranges::count(stored, true) == 0) return;
      if (WithPackedWrites(program_.kernels[static_cast<size_t>(launch->kernel)], stored)) return;
      for (size_t k = 0; k < step.uses.size(); ++k) {
        if (stored[k]) WayOf(step.uses[k].slice.buffer).direct = false;
      }
    });
  }

  // Temporaries at one place may be one value under two types, which is not told apart here.
  void DropTemporaries() {
    std::map<std::pair<BufferId, int64_t>, int> at;
    for (const Buffer& b : program_.buffers) {
      if (b.base >= 0) ++at[{b.base, b.offset}];
    }
    for (size_t i = 0; i < ways_.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      if (b.base >= 0 && !ways_[i].outside && at[{b.base, b.offset}] > 1)
        ways_[i].candidate = false;
    }
  }

  // Arguments that are only read are packed for those who take them so, whoever else reads them.
  bool IsPackedFor(const Use& use) {
    const Way& way = WayOf(use.slice.buffer);
    if (!program_.buffers[static_cast<size_t>(use.slice.buffer)].packed) return false;
    return way.direct || (!way.written && IsWhole(use));
  }

  void MakeCopies() {
    for (size_t i = 0; i < ways_.size(); ++i) {
      Way& way = ways_[i];
      const Buffer& b = program_.buffers[i];
      if (!way.outside || b.base >= 0 || way.direct) continue;
      way.copy = AddBuffer(program_, UniqueBuffer(b.name), b.shape, BufferKind::kTemp);
    }
  }
  std::string UniqueBuffer(const std::string& name) const { return StrCat(name, ".unpacked"); }

  void Rewrite(std::vector<Step>& steps) {
    for (Step& step : steps) {
      ForEachList(step, [&](std::vector<Step>& list) { Rewrite(list); });
      RewriteStep(step);
    }
  }

  void RewriteStep(Step& step) {
    PackedParams packed(step.uses.size());
    bool kernel = std::holds_alternative<KernelStep>(step.op);
    bool copies = std::holds_alternative<program::CopyStep>(step.op);
    for (size_t k = 0; k < step.uses.size(); ++k) {
      Use& use = step.uses[k];
      BufferId id = use.slice.buffer;
      if (!program_.buffers[static_cast<size_t>(id)].packed) continue;
      if ((kernel || copies || program::TakesPacked(step, k)) && IsPackedFor(use)) {
        packed[k] = true;
      } else {
        use.slice.buffer = WayOf(id).copy;
        use.slice.offset += program_.buffers[static_cast<size_t>(id)].offset;
      }
    }
    if (std::ranges::count(packed, true) == 0) return;
    if (copies && packed[0] != packed[1]) {  // the other one is not packed
      BufferId from = step.uses[0].slice.buffer;
      const Shape& shape = program_.buffers[static_cast<size_t>(from)].shape;
      step.op = KernelStep{AddKernelOnce(CopyKernel(shape.dtype(), shape.elements()))};
    }
    if (kernel || (copies && packed[0] != packed[1])) Launch(step, packed);
    for (size_t k = 0; k < step.uses.size(); ++k) {
      if (packed[k]) {
        step.uses[k].slice.size =
            *ByteSize(program_.buffers[static_cast<size_t>(step.uses[k].slice.buffer)]);
      }
    }
  }

  // Has the step launch the kernel that takes these packed.
  void Launch(Step& step, const PackedParams& packed) {
    auto& launch = std::get<KernelStep>(step.op);
    auto [it, added] = made_.try_emplace({launch.kernel, packed}, -1);
    if (added) {
      const Kernel& kernel = program_.kernels[static_cast<size_t>(launch.kernel)];
      PackedParams reads(packed.size()), writes(packed.size());
      for (size_t k = 0; k < packed.size(); ++k) {
        (Reads(kernel.memories[k].access) ? reads : writes)[k] = packed[k];
      }
      Kernel made = WithPackedReads(kernel, reads);
      if (std::ranges::count(writes, true) > 0) made = *WithPackedWrites(made, writes);
      made.name = UniqueKernel(kernel.name + "_packed");
      it->second = AddKernel(program_, std::move(made));
    }
    launch.kernel = it->second;
  }
  std::string UniqueKernel(std::string name) {
    std::string unique = name;
    for (int n = 1; !names_.insert(unique).second; ++n) unique = StrCat(name, "_", n);
    return unique;
  }
  int32_t AddKernelOnce(Kernel kernel) {
    auto [it, added] =
        copies_.try_emplace({kernel.memories[0].dtype, kernel.memories[0].count}, -1);
    if (added) {
      kernel.name = UniqueKernel(kernel.name);
      it->second = AddKernel(program_, std::move(kernel));
    }
    return it->second;
  }

  // What is read is unpacked before all steps, what is a result packed behind them.
  void UnpackAndPack() {
    std::vector<Step> before, after;
    for (size_t i = 0; i < ways_.size(); ++i) {
      BufferId copy = ways_[i].copy, id = static_cast<BufferId>(i);
      if (copy < 0) continue;
      const Shape shape = program_.buffers[i].shape;
      int32_t kernel = AddKernelOnce(CopyKernel(shape.dtype(), shape.elements()));
      if (program_.buffers[i].kind == BufferKind::kParameter) {
        Step step = MakeStep(KernelStep{kernel}, {In(program_, id), Out(program_, copy)},
                             StrCat("unpack.", program_.buffers[i].name));
        Launch(step, {true, false});
        before.push_back(std::move(step));
      }
      bool result = program_.buffers[i].kind == BufferKind::kResult;
      for (const Buffer& b : program_.buffers) {
        result |= b.kind == BufferKind::kResult && b.base == id;
      }
      if (result) {
        Step step = MakeStep(KernelStep{kernel}, {In(program_, copy), Out(program_, id)},
                             StrCat("pack.", program_.buffers[i].name));
        Launch(step, {false, true});
        after.push_back(std::move(step));
      }
    }
    std::vector<Step>& steps = program_.steps;
    steps.insert(steps.begin(), std::make_move_iterator(before.begin()),
                 std::make_move_iterator(before.end()));
    steps.insert(steps.end(), std::make_move_iterator(after.begin()),
                 std::make_move_iterator(after.end()));
    DropUnusedKernels();
  }

  // Those in whose place packed ones are launched now; routines name theirs.
  void DropUnusedKernels() {
    std::vector<int32_t> number(program_.kernels.size(), -1);
    auto use = [&](int32_t kernel) { number[static_cast<size_t>(kernel)] = 0; };
    ForEachStep(program_.steps, [&](const Step& step) {
      if (const auto* launch = std::get_if<KernelStep>(&step.op)) use(launch->kernel);
      const auto* call = std::get_if<program::LibraryStep>(&step.op);
      if (call == nullptr) return;
      for (const program::Attr& attr : call->attrs) {
        const auto* text = std::get_if<std::string>(&attr.value);
        for (size_t k = 0; text != nullptr && k < number.size(); ++k) {
          if (program_.kernels[k].name == *text) use(static_cast<int32_t>(k));
        }
      }
    });
    std::vector<Kernel> kept;
    for (size_t k = 0; k < number.size(); ++k) {
      if (number[k] < 0) continue;
      number[k] = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(program_.kernels[k]));
    }
    program_.kernels = std::move(kept);
    ForEachStep(program_.steps, [&](Step& step) {
      auto* launch = std::get_if<KernelStep>(&step.op);
      if (launch != nullptr) launch->kernel = number[static_cast<size_t>(launch->kernel)];
    });
  }

  Program& program_;
  std::vector<Way> ways_;  // by buffer
  std::unordered_set<std::string> names_;
  std::map<std::pair<int32_t, PackedParams>, int32_t> made_;
  std::map<std::pair<DType, int64_t>, int32_t> copies_;
};

}  // namespace

void PackNarrowElements(Program& program) {
  Packer(program).Run();
}

}  // namespace weft::compiler
