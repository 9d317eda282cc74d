#include "reduce_steps.h"

#include <algorithm>
#include <set>

#include "compiler/pipeline.h"
#include "hlo/clone.h"
#include "hlo/verify.h"

namespace weft::tools {
namespace {

using hlo::Instruction;
using hlo::Module;
using Roots = std::vector<const Instruction*>;

// Facts about parameters and results that no longer hold.
void ClearBoundary(Module& module) {
  hlo::ModuleConfig& config = module.config();
  config.is_scheduled = false;
  config.input_output_alias.clear();
  config.buffer_donors.clear();
  config.entry_layout.reset();
  config.propagate_sharding_to_parameters.clear();
  config.propagate_sharding_to_output.clear();
  config.frontend_attributes.clear();
}

std::unordered_set<int64_t> Needed(const Roots& roots, const std::unordered_set<int64_t>& cut) {
  std::unordered_set<int64_t> needed;
  std::vector<const Instruction*> work(roots.begin(), roots.end());
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    if (!needed.insert(i->id()).second || cut.contains(i->id())) continue;
    for (const Instruction* operand : i->operands()) work.push_back(operand);
  }
  return needed;
}

Roots RootsOf(const Module& module) {
  const Instruction* root = module.entry()->root();
  if (root->op() == hlo::Op::kTuple && root->operand_count() > 0) {
    return Roots(root->operands().begin(), root->operands().end());
  }
  return {root};
}

bool MayBeParameter(const Instruction& i) {
  return !i.IsParameter() && (i.shape().IsArray() || i.shape().IsTuple());
}

void RemoveDeadCode(Module& module) {
  compiler::CompileOptions options;
  options.pipeline.verify = false;
  if (auto passes = compiler::FindPasses("eliminate-dead-code")) {
    (void)compiler::RunPasses(module, *passes, options);
  }
}

class Reducer {
 public:
  Reducer(std::unique_ptr<Module> now, const StillFails& still_fails)
      : now_(std::move(now)), still_fails_(still_fails) {}

  std::unique_ptr<Module> Run() {
    for (bool progress = true; progress;) {
      int64_t before = now_->instruction_count();
      DropRoots();
      MoveRoot();
      CutChunks();
      MakeConstants();
      for (bool again = true; again;) again = Bypass();
      ShrinkDimensions();
      TakeOneDevice();
      progress = now_->instruction_count() < before;
    }
    return std::move(now_);
  }

 private:
  bool Try(std::unique_ptr<Module> candidate) {
    if (candidate == nullptr || !hlo::Verify(*candidate) || !still_fails_(*candidate)) return false;
    now_ = std::move(candidate);
    return true;
  }

  // One device, where nothing needs several any more.
  void TakeOneDevice() {
    if (now_->config().replica_count <= 1 && now_->config().num_partitions <= 1) return;
    std::unique_ptr<Module> candidate = hlo::CloneModule(*now_);
    candidate->config().replica_count = candidate->config().num_partitions = 1;
    Try(std::move(candidate));
  }

  // Results one after the other, halves first.
  void DropRoots() {
    for (size_t chunk = std::max<size_t>(RootsOf(*now_).size() / 2, 1);; chunk /= 2) {
      for (size_t at = 0; at < RootsOf(*now_).size() && RootsOf(*now_).size() > 1;) {
        Roots roots = RootsOf(*now_);
        auto begin = roots.begin() + static_cast<std::ptrdiff_t>(at);
        auto end = begin + static_cast<std::ptrdiff_t>(std::min(chunk, roots.size() - at));
        roots.erase(begin, end);
        if (roots.empty() || !Try(CutEntry(*now_, roots, {}))) at += chunk;
      }
      if (chunk <= 1) return;
    }
  }

  // Something further up as the only result: far ones first, then the operands of the root.
  void MoveRoot() {
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<Instruction*> all = now_->entry()->Snapshot();
      for (size_t parts = 2; parts <= 16 && !moved; parts *= 2) {
        for (size_t k = 1; k < parts && !moved; k += 2)
          moved = TryRoot(*all[all.size() * k / parts]);
      }
      Roots roots = RootsOf(*now_);
      std::vector<const Instruction*> closer;
      for (const Instruction* root : roots) {
        closer.insert(closer.end(), root->operands().begin(), root->operands().end());
      }
      for (size_t k = 0; k < closer.size() && !moved; ++k) moved = TryRoot(*closer[k]);
    }
  }
  bool TryRoot(const Instruction& root) {
    if (!MayBeParameter(root)) return false;
    auto candidate = CutEntry(*now_, {&root}, {});
    if (candidate && candidate->instruction_count() >= now_->instruction_count()) return false;
    return Try(std::move(candidate));
  }

  // Instructions become parameters, and what only they need goes: halves, quarters, single ones.
  void CutChunks() {
    size_t n = static_cast<size_t>(now_->entry()->size());
    for (size_t chunk = std::max<size_t>(n / 2, 1);; chunk /= 2) {
      for (size_t at = 0; at < static_cast<size_t>(now_->entry()->size());) {
        std::unordered_set<int64_t> cut;
        size_t number = 0;
        for (const Instruction* i : *now_->entry()) {
          if (number >= at && number < at + chunk && MayBeParameter(*i) && !i->IsRoot()) {
            cut.insert(i->id());
          }
          ++number;
        }
        int64_t before = now_->instruction_count();
        bool done = !cut.empty() && Try(CutEntry(*now_, RootsOf(*now_), cut));
        if (!done || now_->instruction_count() >= before) at += chunk;
      }
      if (chunk <= 1) return;
    }
  }

  // Scalars of the entry's parameters as constants of 1: fewer random values to look at.
  void MakeConstants() {
    for (size_t k = 0; k < now_->entry()->parameters().size(); ++k) {
      const Instruction* parameter = now_->entry()->parameter(static_cast<int64_t>(k));
      if (!parameter->shape().IsArray() || parameter->shape().rank() != 0) continue;
      auto candidate = hlo::CloneModule(*now_);
      Instruction* old = candidate->entry()->parameter(static_cast<int64_t>(k));
      Literal one{old->shape()};
      one.SetDouble(0, 1);
      Instruction* constant =
          candidate->entry()->Add(hlo::Op::kConstant, candidate->UniqueName("one"), old->shape(),
                                  {}, hlo::ConstantAttrs{one}, candidate->entry()->first());
      old->ReplaceAllUsesWith(constant);
      auto smaller = CutEntry(*candidate, RootsOf(*candidate), {});
      if (Try(std::move(smaller))) --k;
    }
  }

  // In every computation: an operand of the same shape in the place of an instruction.
  bool Bypass() {
    bool any = false;
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& computation : now_->computations()) {
      for (const Instruction* i : *computation) names.emplace_back(computation->name(), i->name());
    }
    for (const auto& [computation, name] : names) {
      for (int64_t k = 0; TryBypass(computation, name, k, any); ++k) continue;
    }
    return any;
  }
  // False: there is no such instruction or operand (any more).
  bool TryBypass(const std::string& computation, const std::string& name, int64_t k, bool& any) {
    auto candidate = hlo::CloneModule(*now_);
    hlo::Computation* in = candidate->FindComputation(computation);
    if (in == nullptr) return false;
    for (Instruction* i : *in) {
      if (i->name() != name) continue;
      if (k >= i->operand_count()) return false;
      if (!Shape::CompatibleIgnoringDynamic(i->shape(), i->operand(k)->shape())) return true;
      i->ReplaceAllUsesWith(i->operand(k));
      RemoveDeadCode(*candidate);
      if (in->IsEntry()) candidate = CutEntry(*candidate, RootsOf(*candidate), {});
      if (candidate == nullptr) return true;
      if (candidate->instruction_count() >= now_->instruction_count()) return true;
      if (!Try(std::move(candidate))) return true;
      any = true;
      return false;
    }
    return false;
  }

  // Every dimension of one size becomes smaller, where that leaves a valid module.
  void ShrinkDimensions() {
    std::set<int64_t, std::greater<>> sizes;
    for (const auto& computation : now_->computations()) {
      for (const Instruction* i : *computation) CollectSizes(i->shape(), sizes);
    }
    for (int64_t size : sizes) {
      for (int64_t smaller : {int64_t{2}, size / 8, size / 2}) {
        if (smaller < 2 || smaller >= size) continue;
        auto candidate = hlo::CloneModule(*now_);
        bool possible = true;
        for (const auto& computation : candidate->computations()) {
          for (Instruction* i : *computation) {
            bool changed = Resize(i->mutable_shape(), size, smaller);
            possible = possible && !(changed && i->IsConstant());
          }
        }
        ClearBoundary(*candidate);
        if (possible && Try(std::move(candidate))) break;
      }
    }
  }
  static void CollectSizes(const Shape& shape, std::set<int64_t, std::greater<>>& sizes) {
    if (shape.IsTuple()) {
      for (const Shape& element : shape.elements_of_tuple()) CollectSizes(element, sizes);
    } else if (shape.IsArray()) {
      for (int64_t dim : shape.dims()) {
        if (dim > 2) sizes.insert(dim);
      }
    }
  }
  static bool Resize(Shape& shape, int64_t from, int64_t to) {
    bool changed = false;
    if (shape.IsTuple()) {
      std::vector<Shape> elements(shape.elements_of_tuple().begin(),
                                  shape.elements_of_tuple().end());
      for (Shape& element : elements) changed |= Resize(element, from, to);
      if (changed) shape = Shape::Tuple(std::move(elements));
    } else if (shape.IsArray()) {
      Dims dims = shape.dims();
      for (int64_t& dim : dims) {
        if (dim == from) {
          dim = to;
          changed = true;
        }
      }
      if (changed) shape = Shape(shape.dtype(), dims);
    }
    return changed;
  }

  std::unique_ptr<Module> now_;
  const StillFails& still_fails_;
};

}  // namespace

std::unique_ptr<Module> CutEntry(const Module& module, const Roots& roots,
                                 const std::unordered_set<int64_t>& parameters) {
  std::unordered_set<int64_t> needed = Needed(roots, parameters);
  std::unique_ptr<Module> out = hlo::CloneModule(module);  // keeps ids
  hlo::Computation* old = out->entry();
  hlo::Computation* entry = out->AddComputation(old->name());
  hlo::CloneMap map;
  int64_t next = 0;
  for (const Instruction* i : *old) {
    if (!needed.contains(i->id())) continue;
    if (i->IsParameter() || parameters.contains(i->id())) {
      map.instructions[i] =
          entry->Add(hlo::Op::kParameter, i->name(), i->shape(), {}, hlo::ParameterAttrs{next++});
    } else {
      hlo::CloneInstruction(*i, *entry, map, nullptr,
                            {.name = i->name(), .shape = {}, .operands = {}});
    }
  }
  std::vector<Instruction*> results;
  for (const Instruction* root : roots) {
    for (const Instruction* i : *old) {
      if (i->id() == root->id()) results.push_back(map.instructions.at(i));
    }
  }
  if (results.size() == 1) {
    entry->set_root(results[0]);
  } else {
    std::vector<Shape> shapes;
    for (const Instruction* i : results) shapes.push_back(i->shape());
    entry->set_root(entry->Add(hlo::Op::kTuple, out->UniqueName("results"),
                               Shape::Tuple(std::move(shapes)), results, {}));
  }
  out->set_entry(entry);
  out->RemoveComputation(old);
  out->RemoveUnusedComputations();
  ClearBoundary(*out);
  return out;
}

std::unique_ptr<Module> ReduceModule(std::unique_ptr<Module> now, const StillFails& still_fails) {
  return Reducer(std::move(now), still_fails).Run();
}

}  // namespace weft::tools
