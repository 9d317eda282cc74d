#include <algorithm>
#include <deque>
#include <set>

#include "base/log.h"
#include "compiler/passes.h"
#include "compiler/spmd/factors.h"
#include "compiler/spmd/form.h"
#include "compiler/spmd/values.h"

namespace weft::compiler {
namespace spmd {
namespace {

using hlo::FactorKind;
using hlo::Instruction;
using Axes = AxisList;

bool StartsWith(AxisSpan list, AxisSpan prefix) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

// Shardings spread over constraints until nothing changes: dimensions only ever get more axes.
class Propagation {
 public:
  Propagation(ValueTable& table, const DeviceMesh& mesh) : table_(table), mesh_(mesh) {
    readers_.resize(table.values().size());
    for (size_t c = 0; c < table.constraints().size(); ++c) {
      for (int value : table.constraints()[c].values) {
        if (value >= 0) readers_[static_cast<size_t>(value)].push_back(c);
      }
    }
  }

  void Run() {
    std::set<int64_t> rounds = {0};
    for (const ShardedValue& value : table_.values()) {
      for (const DimForm& dim : value.form.dims) rounds.insert(dim.priority);
    }
    for (int64_t round : rounds) {
      Spread(round, /*all=*/false);
      Spread(round, /*all=*/true);
    }
  }

 private:
  // To a fixed point; not `all`: only where every dimension goes through, so that what is stated
  // reaches the values that are nearest to it before ops that choose between operands decide.
  void Spread(int64_t priority, bool all) {
    std::deque<size_t> work;
    std::vector<bool> queued(table_.constraints().size(), true);
    for (size_t c = 0; c < queued.size(); ++c) {
      if (all || table_.constraints()[c].passes) work.push_back(c);
    }
    while (!work.empty()) {
      const size_t c = work.front();
      work.pop_front();
      queued[c] = false;
      for (int value : Apply(table_.constraints()[c], priority)) {
        for (size_t other : readers_[static_cast<size_t>(value)]) {
          if (queued[other] || (!all && !table_.constraints()[other].passes)) continue;
          queued[other] = true;
          work.push_back(other);
        }
      }
    }
  }

  static bool IsOperand(const Constraint& c, size_t tensor) {
    return tensor < c.rule.operands.size();
  }
  ShardedValue& value(int id) { return table_.values()[static_cast<size_t>(id)]; }

  // The axes that each factor should be cut by: the longest list that a tensor has for it. Where
  // tensors disagree the largest one wins, the first of equal ones.
  FactorAxes Decide(const Constraint& c, int64_t priority) {
    FactorAxes best(c.rule.factors.size(), AxisList()), own;
    std::vector<int64_t> bytes(c.rule.factors.size(), -1);
    for (size_t t = 0; t < c.values.size(); ++t) {
      if (c.values[t] < 0 || !(IsOperand(c, t) ? c.forward : c.backward)) continue;
      const ShardedValue& from = value(c.values[t]);
      ReadFactors(c.rule, c.tensor(t), from.form, mesh_, priority, own);
      const int64_t size = from.shape->ByteSize();
      for (size_t f = 0; f < own.size(); ++f) {
        if (own[f].empty() || c.rule.factors[f].kind == FactorKind::kWhole) continue;
        if (StartsWith(best[f], own[f])) continue;
        const bool longer = StartsWith(own[f], best[f]);
        if (!longer && size <= bytes[f]) {
          VLOG("compiler", 2) << c.at->name() << ": " << mesh_.NameOf(own[f]) << " and "
                              << mesh_.NameOf(best[f])
                              << " cut the same dimension: the latter stays";
          continue;
        }
        best[f] = own[f];
        bytes[f] = size;
      }
    }
    return best;
  }

  // Values that have changed.
  std::vector<int> Apply(const Constraint& c, int64_t priority) {
    const FactorAxes axes = Decide(c, priority);
    std::vector<int> changed;
    if (std::ranges::all_of(axes, [](const Axes& list) { return list.empty(); })) return changed;
    for (size_t t = 0; t < c.values.size(); ++t) {
      if (!(IsOperand(c, t) ? c.backward : c.forward)) continue;
      if (c.values[t] >= 0 && Extend(c, c.tensor(t), axes, value(c.values[t]))) {
        changed.push_back(c.values[t]);
      }
    }
    return changed;
  }

  bool Extend(const Constraint& c, const hlo::DimRule::Tensor& tensor, const FactorAxes& axes,
              ShardedValue& to) {
    bool changed = false;
    for (size_t d = 0; d < tensor.size(); ++d) {
      DimForm& dim = to.form.dims[d];
      const int64_t size = to.shape->dim(static_cast<int64_t>(d));
      Axes wanted = AxesOfDim(c.rule, tensor[d], axes, mesh_);
      if (!dim.open || wanted.size() <= dim.axes.size() || !StartsWith(wanted, dim.axes)) continue;
      if (to.shape->HasDynamicDims()) continue;
      while (wanted.size() > dim.axes.size() && !MayTake(c, tensor[d], to, dim, size, wanted)) {
        wanted.pop_back();
      }
      if (wanted.size() == dim.axes.size()) continue;
      VLOG("compiler", 3) << c.at->name() << ": dimension " << static_cast<int64_t>(d) << " of "
                          << to.instruction->name() << " gets " << mesh_.NameOf(wanted);
      dim.axes = std::move(wanted);
      changed = true;
    }
    return changed;
  }

  bool MayTake(const Constraint& c, const hlo::DimRule::Dim& factors, const ShardedValue& to,
               const DimForm& dim, int64_t size, const Axes& wanted) {
    const AxisSet used = to.form.used() | to.banned;
    for (size_t k = dim.axes.size(); k < wanted.size(); ++k) {
      if ((used & BitOf(wanted[k])) == 0) continue;
      VLOG("compiler", 2) << c.at->name() << ": " << mesh_.NameOf(AxisSpan(wanted).subspan(k, 1))
                          << " would cut " << to.instruction->name() << " twice";
      return false;
    }
    const int64_t parts = mesh_.SizeOf(wanted);
    if (to.even) return size % parts == 0 && mesh_.AreWholeAxes(wanted);
    if (size % parts == 0) return true;
    // Padding goes along where the dimension is the same one. Where elements move, parts have to be
    // more than their padding: x[1:] lies as x does, x[:3] had better be whole.
    if (parts > size || factors.size() != 1) return false;
    const bool moves =
        c.rule.factors[static_cast<size_t>(factors[0])].kind == FactorKind::kPermuted;
    return !moves || size >= 2 * parts;
  }

  ValueTable& table_;
  const DeviceMesh& mesh_;
  std::vector<std::vector<size_t>> readers_;  // by value: constraints it is part of
};

// The forms as shardings of the instructions; open dimensions are settled.
bool WriteShardings(const ValueTable& table, std::vector<ShardedValue>& values,
                    const DeviceMesh& mesh) {
  bool changed = false;
  for (const hlo::Computation* computation : table.computations()) {
    for (Instruction* i : *computation) {
      const std::span<const int> ids = table.ValuesOf(i);
      if (ids.empty() || IsCallOf(*i, kFullToShard)) continue;
      hlo::Sharding sharding;
      std::vector<hlo::Sharding> leaves;
      for (size_t leaf = 0; leaf < ids.size(); ++leaf) {
        const int id = ids[leaf];
        const hlo::Sharding* stated = LeafSharding(i->sharding(), i->shape(), leaf);
        if (stated != nullptr && stated->kind == hlo::Sharding::Kind::kMaximal) {
          leaves.push_back(*stated);  // where it runs, too
          continue;
        }
        Form form = values[static_cast<size_t>(id)].form;
        for (DimForm& dim : form.dims) dim.open = false, dim.priority = 0;
        const bool array = values[static_cast<size_t>(id)].shape->IsArray();
        leaves.push_back(array ? PrintForm(form, mesh) : hlo::Sharding());
      }
      if (i->shape().IsTuple()) {
        sharding.kind = hlo::Sharding::Kind::kTuple;
        sharding.elements = std::move(leaves);
      } else {
        sharding = std::move(leaves[0]);
      }
      if (i->sharding() != nullptr && *i->sharding() == sharding) continue;
      i->mutable_extras().sharding.Make() = std::move(sharding);
      changed = true;
    }
  }
  return changed;
}

// Bitcasts mean what layouts say; the parts that they would be made of have none.
bool DependsOnLayouts(const hlo::Module& module) {
  auto ordered = [](const Shape& shape) {
    return shape.IsArray() && shape.layout() != nullptr && !shape.layout()->IsRowMajor();
  };
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (i->op() != hlo::Op::kBitcast) continue;
      if (ordered(i->shape()) || ordered(i->operand(0)->shape())) return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace spmd

Result<bool> PropagateShardings(hlo::Module& module, const PassContext& context) {
  bool separated = TRY(SeparateComputations(module, context));
  if (spmd::DependsOnLayouts(module)) separated |= TRY(NormalizeLayouts(module, context));
  const spmd::DeviceMesh mesh = TRY(spmd::DeviceMesh::Of(module));
  if (mesh.devices == 1) return separated;
  spmd::ValueTable table = TRY(spmd::ValueTable::Of(module, mesh));
  spmd::Propagation(table, mesh).Run();
  bool written = spmd::WriteShardings(table, table.values(), mesh);
  return separated || written;
}

}  // namespace weft::compiler
