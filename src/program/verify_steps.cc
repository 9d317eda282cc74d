// Rules of steps: what they may use and when it is written, events, forms of each kind.
#include <algorithm>
#include <unordered_set>

#include "base/stack.h"
#include "program/library.h"
#include "program/verify_program.h"

namespace weft::program {

Status ProgramVerifier::CheckSteps(const std::vector<Step>& steps, int depth) {
  if (depth > kMaxProgramNesting || IsStackShort()) {
    return Fail(Position{}, "steps are nested more than ", depth - 1, " deep");
  }
  size_t outer = started_.size();
  for (const Step& step : steps) {
    TRY(CheckUses(step));
    TRY(CheckEffects(step));
    if (auto* wait = std::get_if<WaitStep>(&step.op)) {
      TRY(EndEvent(step, wait->event, outer));
      continue;
    }
    TRY(std::visit([&](const auto& op) { return Check(step, op, depth); }, step.op));
    for (const Use& use : step.uses) {
      if (!Writes(use.access)) continue;
      Slice s = Resolve(program_, use.slice);
      written_[s.buffer].Add(s.offset, s.offset + s.size);
    }
    if (!step.event.empty()) TRY(BeginEvent(step));
  }
  if (started_.size() > outer) {
    const Step& step = *started_.back().step;
    return Fail(step, "event '", step.event, "' is not waited for in its list");
  }
  return {};
}

Status ProgramVerifier::BeginEvent(const Step& step) {
  if (std::holds_alternative<WhileStep>(step.op) ||
      std::holds_alternative<ConditionalStep>(step.op)) {
    return Fail(step, "cannot be asynchronous but inside of a list");
  }
  for (const Started& other : started_) {
    if (other.step->event == step.event) {
      return Fail(step, "event '", step.event, "' is already started");
    }
  }
  Status nested;
  ForEachList(step, [&](const std::vector<Step>& list) {
    ForEachStep(list, [&](const Step& inside) {
      if (nested && inside.event == step.event) {
        nested = Fail(inside, "event '", step.event, "' is that of the list around it");
      }
    });
  });
  TRY(nested);
  Started started{&step, AllUses(step)};
  for (Use& use : started.uses) use.slice = Resolve(program_, use.slice);
  started_.push_back(std::move(started));
  return {};
}

Status ProgramVerifier::EndEvent(const Step& step, const std::string& event, size_t outer) {
  if (!step.uses.empty() || !step.event.empty()) return Fail(step, "uses no buffers or events");
  for (size_t i = outer; i < started_.size(); ++i) {
    if (started_[i].step->event != event) continue;
    started_.erase(started_.begin() + static_cast<ptrdiff_t>(i));
    return {};
  }
  return Fail(step, "event '", event, "' is not started in this list");
}

Status ProgramVerifier::CheckUses(const Step& step) const {
  for (const Use& use : step.uses) {
    const Slice& s = use.slice;
    if (s.buffer < 0 || s.buffer >= static_cast<BufferId>(program_.buffers.size())) {
      return Fail(step, "undefined buffer");
    }
    int64_t size = *ByteSize(program_.buffers[s.buffer]), end;
    if (s.offset < 0 || s.size < 0 || __builtin_add_overflow(s.offset, s.size, &end) ||
        end > size) {
      return Fail(step, "slice ", Show(s), " does not fit its buffer of ", size, " bytes");
    }
    bool by_bytes = std::holds_alternative<KernelStep>(step.op) ||
                    std::holds_alternative<CopyStep>(step.op) ||
                    std::holds_alternative<FillStep>(step.op);
    by_bytes = by_bytes || TakesPacked(step, static_cast<size_t>(&use - step.uses.data()));
    if (program_.buffers[s.buffer].packed && !by_bytes) {
      return Fail(step, Show(s), " is packed, which the step does not take");
    }
    Slice resolved = Resolve(program_, s);
    const Buffer& root = program_.buffers[resolved.buffer];
    if (Writes(use.access) && root.kind == BufferKind::kConstant) {
      return Fail(step, "writes constant ", Show(s));
    }
    if (Writes(use.access) && root.kind == BufferKind::kParameter &&
        root.donation == Donation::kNone) {
      return Fail(step, "writes ", Show(s), " of a parameter that is not donated");
    }
    if (Reads(use.access) &&
        !written_[resolved.buffer].Covers(resolved.offset, resolved.offset + resolved.size)) {
      // A while reads its pred after the nested condition.
      if (!std::holds_alternative<WhileStep>(step.op)) {
        return Fail(step, "reads ", Show(s), ", which nothing has written");
      }
    }
    TRY(CheckRaces(step, use.access, resolved));
  }
  return CheckOverlaps(step);
}

// Those of a list may come at any time up to its wait, and effects keep their order.
Status ProgramVerifier::CheckEffects(const Step& step) const {
  const bool simple = !HasLists(step) || IsAsyncList(step);
  if (!simple || !HasEffects(step)) return {};
  for (const Started& started : started_) {
    if (!HasLists(*started.step) || !HasEffects(*started.step)) continue;
    return Fail(step, "has effects while those of event '", started.step->event, "' are under way");
  }
  return {};
}

Status ProgramVerifier::CheckRaces(const Step& step, Access access, const Slice& slice) const {
  for (const Started& started : started_) {
    for (const Use& other : started.uses) {
      if (!Writes(access) && !Writes(other.access)) continue;
      if (!Overlap(slice, other.slice)) continue;
      return Fail(step, Writes(access) ? "writes " : "reads ", Show(slice), " while event '",
                  started.step->event, "', which ", Writes(other.access) ? "writes" : "reads",
                  " it, is under way");
    }
  }
  return {};
}

Status ProgramVerifier::CheckOverlaps(const Step& step) const {
  size_t n = step.uses.size();
  std::vector<Slice> slices;
  for (const Use& use : step.uses) slices.push_back(Resolve(program_, use.slice));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      bool writes = Writes(step.uses[i].access) || Writes(step.uses[j].access);
      if (!writes || !Overlap(slices[i], slices[j])) continue;
      bool in_place = std::holds_alternative<CollectiveStep>(step.op) && j + n / 2 == i &&
                      slices[i].offset == slices[j].offset && slices[i].size == slices[j].size;
      if (in_place) continue;
      return Fail(step, Show(step.uses[j].slice), " and ", Show(step.uses[i].slice),
                  " overlap and one is written");
    }
  }
  return {};
}

Status ProgramVerifier::CheckForm(const Step& step, std::initializer_list<Access> form) const {
  bool same = std::equal(step.uses.begin(), step.uses.end(), form.begin(), form.end(),
                         [](const Use& use, Access access) { return use.access == access; });
  if (same) return {};
  std::string wanted;
  for (Access access : form) StrAppend(wanted, wanted.empty() ? "" : ", ", Name(access));
  return Fail(step, "takes (", wanted, ")");
}

Status ProgramVerifier::Check(const Step& step, const KernelStep& op, int) const {
  if (op.kernel < 0 || op.kernel >= static_cast<int32_t>(program_.kernels.size())) {
    return Fail(step, "undefined kernel");
  }
  const Kernel& kernel = program_.kernels[op.kernel];
  if (static_cast<int32_t>(step.uses.size()) != kernel.num_params) {
    return Fail(step, "kernel '", kernel.name, "' takes ", kernel.num_params, " buffers, has ",
                step.uses.size());
  }
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    TRY(CheckArgument(step, step.uses[i], kernel.memories[i]));
  }
  return {};
}

Status ProgramVerifier::CheckArgument(const Step& step, const Use& use, const Memory& param) const {
  // Of packed elements a kernel has the bytes.
  DType dtype = BufferOf(use).packed ? DType::kU8 : BufferOf(use).shape.dtype();
  if (use.access != param.access) {
    return Fail(step, "parameter '", param.name, "' is a ", Name(param.access), ", ",
                Show(use.slice), " a ", Name(use.access));
  }
  if (RealType(dtype) != param.dtype) {
    return Fail(step, "parameter '", param.name, "' has type ", weft::Name(param.dtype), ", ",
                Show(use.slice), " has ", weft::Name(dtype));
  }
  if (param.count * ByteWidth(param.dtype) != use.slice.size) {
    return Fail(step, "parameter '", param.name, "' has ", param.count * ByteWidth(param.dtype),
                " bytes, ", Show(use.slice), " has ", use.slice.size);
  }
  Slice slice = Resolve(program_, use.slice);
  const Buffer& root = program_.buffers[slice.buffer];
  int64_t align = std::max(param.align, ByteWidth(param.dtype));
  if (root.align % align != 0 || slice.offset % align != 0) {
    return Fail(step, "parameter '", param.name, "' needs alignment ", align, ", ", Show(use.slice),
                " has less");
  }
  if (root.space == MemorySpace::kHost) {
    return Fail(step, Show(use.slice), " is in host memory");
  }
  return {};
}

Status ProgramVerifier::Check(const Step& step, const CopyStep&, int) const {
  TRY(CheckForm(step, {Access::kRead, Access::kWrite}));
  if (step.uses[0].slice.size == step.uses[1].slice.size) return {};
  return Fail(step, "sizes differ: ", step.uses[0].slice.size, " and ", step.uses[1].slice.size);
}

Status ProgramVerifier::Check(const Step& step, const FillStep& op, int) const {
  TRY(CheckForm(step, {Access::kWrite}));
  int64_t n = static_cast<int64_t>(op.pattern.size());
  if (!IsPowerOfTwo(n) || n > 16 || step.uses[0].slice.size % n != 0) {
    return Fail(step, "cannot fill ", step.uses[0].slice.size, " bytes with ", n, " at a time");
  }
  return {};
}

Status ProgramVerifier::Check(const Step& step, const LibraryStep& op, int) const {
  std::unordered_set<std::string_view> names;
  for (const Attr& attr : op.attrs) {
    if (!names.insert(attr.name).second) {
      return Fail(step, "attribute '", attr.name, "' is given twice");
    }
  }
  const Routine* routine = FindRoutine(op.routine);
  Status status = routine ? routine->verify(program_, step) : Status();
  return status ? status : Fail(step, status.error().message());
}

Status ProgramVerifier::Check(const Step& step, const WhileStep& op, int depth) {
  size_t counts = op.count_step == 0 ? 0 : op.count_limit ? 1 : 2;
  if (counts == 0) TRY(CheckForm(step, {Access::kRead}));
  if (counts == 1) TRY(CheckForm(step, {Access::kRead, Access::kRead}));
  if (counts == 2) TRY(CheckForm(step, {Access::kRead, Access::kRead, Access::kRead}));
  const Use& use = step.uses[0];
  if (BufferOf(use).shape.dtype() != DType::kPred || use.slice.size != 1) {
    return Fail(step, "condition ", Show(use.slice), " is not one pred");
  }
  for (size_t k = 1; k <= counts; ++k) {
    const Use& number = step.uses[k];
    DType type = BufferOf(number).shape.dtype();
    bool counts_in = type == DType::kS32 || type == DType::kS64;
    if (!counts_in || number.slice.size != ByteWidth(type)) {
      return Fail(step, Show(number.slice), " is not one s32 or s64");
    }
    if (type != BufferOf(step.uses[1]).shape.dtype()) {
      return Fail(step, Show(number.slice), " is not of the counter's type");
    }
  }
  if (op.count_step < 0 || (op.count_step == 0 && op.count_limit)) {
    return Fail(step, "counts by nothing");
  }
  if (op.trip_count && *op.trip_count < 0) return Fail(step, "negative trip count");
  if (op.region) {
    // What it copies is copied whole, whatever of it is used.
    for (const RegionLocal& local : op.region->locals) {
      if (local.buffer < 0 || local.buffer >= std::ssize(program_.buffers)) continue;
      const Slice whole = {local.buffer, 0, *ByteSize(program_.buffers[local.buffer])};
      if (local.copy_in) TRY(CheckRaces(step, Access::kRead, Resolve(program_, whole)));
      if (local.copy_out) TRY(CheckRaces(step, Access::kWrite, Resolve(program_, whole)));
    }
  }
  TRY(CheckSteps(op.condition, depth + 1));
  Slice slice = Resolve(program_, use.slice);
  if (!written_[slice.buffer].Covers(slice.offset, slice.offset + 1)) {
    return Fail(step, "reads ", Show(use.slice), ", which nothing has written");
  }
  return CheckSteps(op.body, depth + 1);
}

Status ProgramVerifier::Check(const Step& step, const ConditionalStep& op, int depth) {
  TRY(CheckForm(step, {Access::kRead}));
  const Use& use = step.uses[0];
  DType dtype = BufferOf(use).shape.dtype();
  bool pred = dtype == DType::kPred && use.slice.size == 1;
  bool index = dtype == DType::kS32 && use.slice.size == 4;
  if (!pred && !index) return Fail(step, "selector ", Show(use.slice), " is not one pred or s32");
  if (op.branches.empty() || (pred && op.branches.size() > 2)) {
    return Fail(step, "has ", op.branches.size(), " branches");
  }
  for (const std::vector<Step>& branch : op.branches) TRY(CheckSteps(branch, depth + 1));
  return {};
}

Status ProgramVerifier::Check(const Step& step, const ListStep& op, int depth) {
  TRY(CheckForm(step, {}));
  return CheckSteps(op.steps, depth + 1);
}

// Groups name every device once, and are of one size but for all_reduce; pairs name a device once
// as target at most.
Status ProgramVerifier::CheckGroups(const Step& step, const CollectiveStep& op) const {
  bool permute = op.kind == CollectiveKind::kPermute;
  bool any_size = op.kind == CollectiveKind::kAllReduce;
  std::unordered_set<int64_t> seen;
  for (const std::vector<int64_t>& group : op.groups) {
    if (group.empty() || (permute && group.size() != 2) ||
        (!permute && !any_size && group.size() != op.groups[0].size())) {
      return Fail(step, "a group has ", group.size(), " devices");
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i] < 0 || group[i] >= program_.devices) {
        return Fail(step, "device ", group[i], " of ", program_.devices);
      }
      if ((!permute || i == 1) && !seen.insert(group[i]).second) {
        return Fail(step, "device ", group[i], " is named twice");
      }
    }
  }
  if (!permute && !op.groups.empty() && static_cast<int64_t>(seen.size()) != program_.devices) {
    return Fail(step, "groups leave out a device");
  }
  return {};
}

Status ProgramVerifier::Check(const Step& step, const CollectiveStep& op, int) const {
  TRY(CheckGroups(step, op));
  size_t n = step.uses.size() / 2;
  if (n == 0 || step.uses.size() % 2 != 0) return Fail(step, "takes (read..., write...)");
  int64_t group = op.groups.empty() ? program_.devices : static_cast<int64_t>(op.groups[0].size());
  for (size_t i = 0; i < n; ++i) {
    const Use &in = step.uses[i], &out = step.uses[i + n];
    if (in.access != Access::kRead || out.access != Access::kWrite) {
      return Fail(step, "takes (read..., write...)");
    }
    DType dtype = BufferOf(in).shape.dtype();
    if (dtype != BufferOf(out).shape.dtype()) {
      return Fail(step, "types of ", Show(in.slice), " and ", Show(out.slice), " differ");
    }
    bool bitwise = op.reduce == ReduceOp::kAnd || op.reduce == ReduceOp::kOr;
    bool ordered = op.reduce == ReduceOp::kMin || op.reduce == ReduceOp::kMax;
    if ((bitwise && !IsInteger(dtype) && dtype != DType::kPred) || (ordered && IsComplex(dtype))) {
      return Fail(step, "cannot reduce ", weft::Name(dtype), " with ", Name(op.reduce));
    }
    int64_t from = in.slice.size, to = out.slice.size, width = ByteWidth(dtype), product;
    bool gather = op.kind == CollectiveKind::kAllGather;
    bool scatter = op.kind == CollectiveKind::kReduceScatter;
    bool fits = from == to;
    if (gather || scatter) {
      bool overflow = __builtin_mul_overflow(gather ? from : to, group, &product);
      fits = !overflow && product == (gather ? to : from);
    }
    if (op.kind == CollectiveKind::kAllToAll) fits = fits && (from / width) % group == 0;
    if (!fits || from % width != 0 || to % width != 0) {
      return Fail(step, "sizes of ", Show(in.slice), " (", from, " bytes) and ", Show(out.slice),
                  " (", to, " bytes) do not go together in a group of ", group);
    }
  }
  return {};
}

}  // namespace weft::program
