// Collectives of activations that everything behind them waits for have nothing to hide behind:
// parts of the batch do not wait for each other, so that a transfer of one runs beside compute of
// another.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/collectives/split_ops.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

class Splitter {
 public:
  Splitter(Computation& computation, const SplitOps& split)
      : computation_(computation),
        split_(split),
        count_(split.parts()),
        ids_(*computation.module()) {}

  Status Run() {
    const std::vector<Instruction*> all = computation_.Snapshot();
    for (Instruction* i : all) {
      if (BarrierOf(*i) != nullptr || parts_.contains(i)) continue;
      const OpSplit* split = split_.Of(i);
      if (split != nullptr) {
        TRY(Split(i, *split));
      } else if (i->op() == Op::kOptBarrier && BarrierOf(*i->operand(0)) == i) {
        TRY(SplitBarrier(i));
      } else {
        TRY(ReadWhole(i));
      }
    }
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      if (parts_.contains(*it) || barriers_.contains(*it)) computation_.Remove(*it);
    }
    return {};
  }

 private:
  using Parts = std::vector<Instruction*>;
  struct Cut {
    int64_t dim = -1;
    Parts parts;
  };

  Shape PartOf(Shape shape, int64_t dim) const {
    shape.set_dim(dim, shape.dim(dim) / count_);
    return shape;
  }

  // The value for who reads all of it.
  Result<Instruction*> Whole(Instruction* value) {
    const auto made = parts_.find(value);
    if (made == parts_.end()) return value;
    Instruction*& whole = whole_[value];
    if (whole != nullptr) return whole;
    hlo::Builder b(computation_, value->next(), value);
    hlo::DimensionsAttrs along;
    along.dimensions = {made->second.dim};
    whole = TRY(
        b.Add(Op::kConcatenate, made->second.parts, hlo::Attrs(std::move(along)), &value->shape()));
    return whole;
  }

  Result<Parts> PartsOf(Instruction* value, int64_t dim) {
    const auto made = parts_.find(value);
    if (made != parts_.end() && made->second.dim == dim) return made->second.parts;
    Parts& cut = cut_[{value, dim}];
    if (!cut.empty()) return cut;
    Instruction* whole = TRY(Whole(value));
    hlo::Builder b(computation_, whole->next(), value);
    const Shape part = PartOf(whole->shape(), dim);
    for (int64_t k = 0; k < count_; ++k) {
      hlo::SliceAttrs slice;
      for (int64_t size : part.dims()) slice.slice.push_back({0, size, 1});
      hlo::SliceDim& own = slice.slice[static_cast<size_t>(dim)];
      own = {k * part.dim(dim), (k + 1) * part.dim(dim), 1};
      cut.push_back(TRY(b.Add(Op::kSlice, std::span(&whole, 1), hlo::Attrs(slice), &part)));
    }
    return cut;
  }

  Status ReadWhole(Instruction* i) {
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      Instruction* whole = TRY(Whole(i->operand(k)));
      if (whole != i->operand(k)) i->ReplaceOperand(k, whole);
    }
    return {};
  }

  // Whether element k of a barrier's tuple goes through it in parts: who reads it wants them.
  bool IsSplitElement(Instruction* barrier, int64_t k) const {
    const auto made = parts_.find(barrier->operand(0)->operand(k));
    if (made == parts_.end()) return false;
    for (const Instruction* element : barrier->users()) {
      if (element->tuple_index() == k && split_.DimOf(element) != made->second.dim) return false;
    }
    return true;
  }

  // A barrier for each part, so that none waits for another; whole elements go with the first.
  Status SplitBarrier(Instruction* barrier) {
    Instruction* tuple = barrier->operand(0);
    std::vector<Parts> operands(static_cast<size_t>(count_));
    std::vector<std::vector<int64_t>> places;  // by element: where it is, of each part
    bool is_split = false;
    for (int64_t k = 0; k < tuple->operand_count(); ++k) {
      Instruction* value = tuple->operand(k);
      const Parts parts =
          IsSplitElement(barrier, k) ? parts_.at(value).parts : Parts{TRY(Whole(value))};
      is_split |= parts.size() > 1;
      places.emplace_back();
      for (size_t p = 0; p < parts.size(); ++p) {
        places.back().push_back(static_cast<int64_t>(operands[p].size()));
        operands[p].push_back(parts[p]);
      }
    }
    if (!is_split) return ReadWhole(tuple);
    Parts barriers;
    for (const Parts& own : operands) {
      Instruction* all = TRY(hlo::Builder(computation_, barrier, tuple).Tuple(own));
      hlo::CloneMap map;
      hlo::CloneChanges changes{.name = {}, .shape = all->shape(), .operands = std::span(&all, 1)};
      barriers.push_back(hlo::CloneInstruction(*barrier, computation_, map, barrier, changes));
    }
    for (Instruction* element : std::vector(barrier->users())) {
      hlo::Builder b(computation_, element, element);
      const auto k = static_cast<size_t>(element->tuple_index());
      if (places[k].size() == 1) {
        element->ReplaceOperand(0, barriers[0]);
        element->mutable_attrs<hlo::GetTupleElementAttrs>().index = places[k][0];
        continue;
      }
      Parts parts;
      for (size_t p = 0; p < places[k].size(); ++p) {
        parts.push_back(TRY(b.GetTupleElement(barriers[p], places[k][p])));
      }
      parts_[element] = {split_.DimOf(element), parts};
    }
    barriers_.insert({barrier, tuple});
    return {};
  }

  Status Split(Instruction* i, const OpSplit& split) {
    std::vector<Parts> operands(static_cast<size_t>(count_));  // by part
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      const int64_t dim = split.operands[static_cast<size_t>(k)];
      const Parts parts = dim < 0 ? Parts(operands.size(), TRY(Whole(i->operand(k))))
                                  : TRY(PartsOf(i->operand(k), dim));
      for (size_t part = 0; part < parts.size(); ++part) operands[part].push_back(parts[part]);
    }
    Parts made;
    for (int64_t part = 0; part < count_; ++part) {
      made.push_back(Clone(*i, split, operands[static_cast<size_t>(part)], part));
    }
    if (split.result < 0) {
      hlo::Builder b(computation_, i, i);
      Instruction* sum = made[0];
      for (size_t part = 1; part < made.size(); ++part) {
        sum = TRY(b.Add(Op::kAdd, {sum, made[part]}));
      }
      hlo::ReplaceInstruction(i, sum);
      return {};
    }
    parts_[i] = {split.result, made};
    if (i->IsRoot()) computation_.set_root(TRY(Whole(i)));
    return {};
  }

  Instruction* Clone(Instruction& i, const OpSplit& split, const Parts& operands, int64_t part) {
    hlo::CloneMap map;
    hlo::CloneChanges changes;
    changes.operands = operands;
    changes.shape = split.result < 0 ? i.shape() : PartOf(i.shape(), split.result);
    Instruction* clone = hlo::CloneInstruction(i, computation_, map, &i, changes);
    if (clone->sharding() != nullptr) clone->mutable_extras().sharding = {};
    FixAttributes(*clone, split.result);
    if (IsCollective(clone->op())) {
      ids_.NextCopy();
      ids_.Rename(*clone);
      // Each part meets by itself: combined they would wait for each other again.
      clone->mutable_extras().frontend_attributes.push_back(
          {std::string(kPartOfBatch), StrCat(part)});
    }
    return clone;
  }

  static void FixAttributes(Instruction& i, int64_t dim) {
    const auto at = static_cast<size_t>(dim);
    switch (i.op()) {
      case Op::kSlice:
        i.mutable_attrs<hlo::SliceAttrs>().slice[at] = {0, i.shape().dim(dim), 1};
        return;
      case Op::kDynamicSlice:
        i.mutable_attrs<hlo::DynamicSliceAttrs>().dynamic_slice_sizes[at] = i.shape().dim(dim);
        return;
      case Op::kReshape: i.mutable_attrs<hlo::ReshapeAttrs>().inferred_dimension = {}; return;
      default: return;
    }
  }

  struct CutHash {
    size_t operator()(const std::pair<Instruction*, int64_t>& cut) const {
      return std::hash<Instruction*>()(cut.first) * 31 + static_cast<size_t>(cut.second);
    }
  };
  Computation& computation_;
  const SplitOps& split_;
  const int64_t count_;  // parts
  FreshIds ids_;
  // Lookups only.
  std::unordered_map<Instruction*, Cut> parts_;
  std::unordered_set<Instruction*> barriers_;  // and their tuples, which others have replaced
  std::unordered_map<Instruction*, Instruction*> whole_;
  std::unordered_map<std::pair<Instruction*, int64_t>, Parts, CutHash> cut_;
};

Result<bool> SplitInto(hlo::Module& module, int64_t parts) {
  if (module.config().is_scheduled || DeviceCount(module) < 2) return false;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    std::optional<SplitOps> split = SplitOps::Find(*computation, parts);
    if (!split) continue;
    TRY(Splitter(*computation, *split).Run());
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> SplitBatch(hlo::Module& module, const PassContext&) {
  return SplitInto(module, 2);
}

Result<bool> QuarterBatch(hlo::Module& module, const PassContext&) {
  return SplitInto(module, 4);
}

}  // namespace weft::compiler
