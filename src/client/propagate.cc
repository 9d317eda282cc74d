// How results lie on the devices where the program does not say: as the operands that they are made
// from do. Programs are computed in whole shapes, so that this decides nothing but how results are
// cut up; what is not followed here ends up whole on every device.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/str.h"
#include "client/shards.h"
#include "hlo/attrs.h"
#include "hlo/computation.h"

namespace weft::client {
namespace {

using hlo::Instruction;
using hlo::Op;
using Leaves = std::vector<Shards>;  // of a value: one for an array, several for a tuple

constexpr int kMaxPropagateDepth = 64;  // of calls

// Every block is held by equally many devices.
bool IsEven(const Shards& shards) {
  int64_t tiles = 1, devices = static_cast<int64_t>(shards.blocks.size());
  for (int64_t n : shards.counts) {
    if (n < 1 || tiles > devices / n) return false;
    tiles *= n;
  }
  std::vector<int64_t> holders(static_cast<size_t>(tiles), 0);
  for (const Dims& block : shards.blocks) {
    int64_t tile = 0;
    for (size_t d = 0; d < block.size(); ++d) tile = tile * shards.counts[d] + block[d];
    ++holders[static_cast<size_t>(tile)];
  }
  return std::ranges::all_of(holders, [&](int64_t n) { return n == devices / tiles; });
}

int64_t TilesOf(const Shards& shards) {
  int64_t tiles = 1;
  for (int64_t n : shards.counts) tiles *= n;
  return tiles;
}

// Numbers of groups whose members lie alike (sdy.sharding_group).
std::vector<int64_t> GroupsOf(const Instruction& i) {
  std::vector<int64_t> groups;
  const std::string* text = i.FrontendAttributeValue("sharding.groups");
  for (size_t at = 0; text != nullptr && at < text->size();) {
    size_t end = std::min(text->find(',', at), text->size());
    if (std::optional<int64_t> id = ParseInt(std::string_view(*text).substr(at, end - at))) {
      groups.push_back(*id);
    }
    at = end + 1;
  }
  return groups;
}

class Propagation {
 public:
  using Groups = std::map<int64_t, Shards>;  // how the member lies that is cut most

  // `groups`: as found by an earlier run.
  Propagation(int64_t devices, ShardsOfCalls* calls, Groups groups = {})
      : devices_(devices), calls_(calls), groups_(std::move(groups)) {}

  Groups& found() { return found_; }

  Leaves Of(const hlo::Computation& computation, std::span<const Leaves> parameters, int depth) {
    std::unordered_map<const Instruction*, Leaves> values;
    for (const Instruction* i : computation) {
      Leaves leaves;
      if (i->IsParameter()) {
        size_t number = static_cast<size_t>(i->parameter_number());
        if (number < parameters.size()) leaves = parameters[number];
      } else {
        leaves = Follow(*i, values, depth);
      }
      if (calls_ != nullptr && i->op() == Op::kCustomCall) {
        std::vector<Shards>& operands = (*calls_)[i];
        operands.clear();
        for (const Instruction* operand : i->operands()) {
          const Leaves& value = values[operand];
          operands.push_back(value.size() == 1 ? value[0] : Shards());
        }
      }
      const std::vector<const Shape*> shapes = LeafShapes(i->shape());
      leaves.resize(shapes.size());
      for (size_t k = 0; k < shapes.size(); ++k) Settle(*i, k, *shapes[k], leaves[k]);
      values[i] = std::move(leaves);
    }
    return std::move(values[computation.root()]);
  }

 private:
  using Values = std::unordered_map<const Instruction*, Leaves>;

  static std::vector<const Shape*> LeafShapes(const Shape& shape) {
    if (!shape.IsTuple()) return {&shape};
    std::vector<const Shape*> shapes;
    for (const Shape& element : shape.elements_of_tuple()) shapes.push_back(&element);
    return shapes;
  }

  // A member of a group lies as the group does, or else also as those that read it want it.
  void JoinGroups(const Instruction& i, const Shape& shape, Shards& shards) {
    for (int64_t id : GroupsOf(i)) {
      auto group = groups_.find(id);
      if (group != groups_.end()) shards = group->second;
    }
    if (static_cast<int64_t>(shards.counts.size()) != shape.rank()) {
      shards = Shards::Replicated(shape.rank(), devices_);
    }
    for (const Instruction* user : i.users()) {
      if (user->op() != Op::kCustomCall || user->operand_count() != 1 || !user->sharding())
        continue;
      Result<Shards> wanted = Shards::Of(user->sharding(), shape, devices_);
      for (int64_t d = 0; wanted && d < shape.rank(); ++d) Take(*wanted, d, shards, d);
    }
  }

  void NoteGroups(std::span<const int64_t> groups, const Shards& shards) {
    for (int64_t id : groups) {
      auto [found, added] = found_.try_emplace(id, shards);
      if (!added && TilesOf(shards) > TilesOf(found->second)) found->second = shards;
    }
  }

  // What is stated wins; what does not fit the shape is dropped.
  void Settle(const Instruction& i, size_t leaf, const Shape& shape, Shards& shards) {
    const std::vector<int64_t> groups = shape.IsArray() ? GroupsOf(i) : std::vector<int64_t>();
    if (!groups.empty()) JoinGroups(i, shape, shards);
    const hlo::Sharding* stated = i.sharding();
    if (stated != nullptr && stated->kind == hlo::Sharding::Kind::kTuple) {
      stated = leaf < stated->elements.size() ? &stated->elements[leaf] : nullptr;
    }
    if (stated != nullptr && !i.shape().IsTuple() && !i.IsParameter()) {
      if (Result<Shards> said = Shards::Of(stated, shape, devices_)) shards = std::move(*said);
    }
    shards.parts = 1;
    shards.part_of.clear();
    const int64_t rank = shape.IsArray() ? shape.rank() : 0;
    bool fits = static_cast<int64_t>(shards.counts.size()) == rank;
    for (int64_t d = 0; fits && d < rank; ++d) fits = shape.dim(d) % shards.counts[d] == 0;
    if (!fits || !IsEven(shards)) shards = Shards::Replicated(rank, devices_);
    NoteGroups(groups, shards);
  }

  // Dimension `to` of the result is cut as dimension `from` of an operand, if nothing cut it yet
  // and the devices allow it.
  void Take(const Shards& operand, int64_t from, Shards& result, int64_t to) const {
    if (operand.counts[from] == 1 || result.counts[to] != 1) return;
    Shards tried = result;
    tried.counts[to] = operand.counts[from];
    for (size_t i = 0; i < tried.blocks.size(); ++i) tried.blocks[i][to] = operand.blocks[i][from];
    if (IsEven(tried)) result = std::move(tried);
  }

  // Dimensions of the result by those of an operand; -1: none.
  void TakeAll(const Leaves& operand, std::span<const int64_t> to, Shards& result) const {
    if (operand.size() != 1) return;
    size_t rank = std::min(to.size(), operand[0].counts.size());
    for (size_t d = 0; d < rank; ++d) {
      if (to[d] >= 0 && to[d] < static_cast<int64_t>(result.counts.size())) {
        Take(operand[0], static_cast<int64_t>(d), result, to[d]);
      }
    }
  }

  static std::vector<int64_t> Iota(int64_t n) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < n; ++d) dims.push_back(d);
    return dims;
  }

  // Where each dimension of the operand ends up that is neither split nor merged.
  static std::vector<int64_t> MapReshape(const Shape& from, const Shape& to) {
    std::vector<int64_t> map(static_cast<size_t>(from.rank()), -1);
    int64_t a = 0, b = 0;
    while (a < from.rank() && b < to.rank()) {
      if (from.dim(a) == to.dim(b)) {
        map[static_cast<size_t>(a++)] = b++;
      } else if (from.dim(a) == 1) {
        ++a;
      } else if (to.dim(b) == 1) {
        ++b;
      } else {
        return map;
      }
    }
    return map;
  }

  // Dimensions that an op leaves as they are.
  static std::vector<int64_t> SameSizes(const Shape& from, const Shape& to) {
    std::vector<int64_t> map(static_cast<size_t>(from.rank()), -1);
    if (from.rank() != to.rank()) return map;
    for (int64_t d = 0; d < from.rank(); ++d) {
      if (from.dim(d) == to.dim(d)) map[static_cast<size_t>(d)] = d;
    }
    return map;
  }

  void Dot(const Instruction& i, const Values& values, Shards& result) const {
    const auto& a = i.attrs<hlo::DotAttrs>();
    int64_t next = static_cast<int64_t>(a.lhs_batch_dims.size());
    for (int64_t side = 0; side < 2; ++side) {
      const auto& batch = side == 0 ? a.lhs_batch_dims : a.rhs_batch_dims;
      const auto& contracting = side == 0 ? a.lhs_contracting_dims : a.rhs_contracting_dims;
      std::vector<int64_t> to(static_cast<size_t>(i.operand(side)->shape().rank()), -1);
      for (size_t k = 0; k < batch.size(); ++k) {
        to[static_cast<size_t>(batch[k])] = static_cast<int64_t>(k);
      }
      for (int64_t d = 0; d < static_cast<int64_t>(to.size()); ++d) {
        bool free = std::ranges::find(batch, d) == batch.end() &&
                    std::ranges::find(contracting, d) == contracting.end();
        if (free) to[static_cast<size_t>(d)] = next++;
      }
      TakeAll(values.at(i.operand(side)), to, result);
    }
  }

  void Reduce(const Instruction& i, const Values& values, Shards& result) const {
    const auto& reduced = i.attrs<hlo::ReduceAttrs>().dimensions;
    std::vector<int64_t> to;
    int64_t next = 0;
    for (int64_t d = 0; d < i.operand(0)->shape().rank(); ++d) {
      to.push_back(std::ranges::find(reduced, d) != reduced.end() ? -1 : next++);
    }
    TakeAll(values.at(i.operand(0)), to, result);
  }

  Shards FollowArray(const Instruction& i, const Values& values) const {
    const Shape& shape = i.shape();
    Shards result = Shards::Replicated(shape.rank(), devices_);
    switch (i.op()) {
      case Op::kTranspose: {
        const auto& from = i.attrs<hlo::DimensionsAttrs>().dimensions;
        std::vector<int64_t> to(from.size(), -1);
        for (size_t d = 0; d < from.size(); ++d) {
          to[static_cast<size_t>(from[d])] = static_cast<int64_t>(d);
        }
        TakeAll(values.at(i.operand(0)), to, result);
        break;
      }
      case Op::kBroadcast: {
        const auto& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
        TakeAll(values.at(i.operand(0)), std::vector<int64_t>(dims.begin(), dims.end()), result);
        break;
      }
      case Op::kReshape:
        TakeAll(values.at(i.operand(0)), MapReshape(i.operand(0)->shape(), shape), result);
        break;
      case Op::kReduce: Reduce(i, values, result); break;
      case Op::kDot: Dot(i, values, result); break;
      case Op::kConcatenate:
      case Op::kCopy:
      case Op::kDynamicSlice:
      case Op::kDynamicUpdateSlice:
      case Op::kPad:
      case Op::kReduceWindow:
      case Op::kReverse:
      case Op::kScatter:
      case Op::kSlice:
      case Op::kSort:
      case Op::kCustomCall:
        if (i.operand_count() > 0 && i.operand(0)->shape().IsArray()) {
          TakeAll(values.at(i.operand(0)), SameSizes(i.operand(0)->shape(), shape), result);
        }
        break;
      default:
        if (!hlo::IsElementwise(i.op())) break;
        for (const Instruction* operand : i.operands()) {
          if (operand->shape().rank() == shape.rank()) {
            TakeAll(values.at(operand), Iota(shape.rank()), result);
          }
        }
    }
    return result;
  }

  Leaves Follow(const Instruction& i, const Values& values, int depth) {
    switch (i.op()) {
      case Op::kTuple: {
        Leaves leaves;
        for (const Instruction* operand : i.operands()) {
          const Leaves& value = values.at(operand);
          leaves.push_back(value.size() == 1 ? value[0] : Shards());
        }
        return leaves;
      }
      case Op::kGetTupleElement: {
        const Leaves& tuple = values.at(i.operand(0));
        size_t at = static_cast<size_t>(i.tuple_index());
        return at < tuple.size() ? Leaves{tuple[at]} : Leaves();
      }
      case Op::kWhile:
      case Op::kOptBarrier: return values.at(i.operand(0));
      case Op::kCall: {
        const auto called = i.called_computations();
        if (called.size() != 1 || depth >= kMaxPropagateDepth || --calls_left_ < 0) return {};
        std::vector<Leaves> arguments;
        for (const Instruction* operand : i.operands()) arguments.push_back(values.at(operand));
        return Of(*called[0], arguments, depth + 1);
      }
      default: break;
    }
    return i.shape().IsArray() ? Leaves{FollowArray(i, values)} : Leaves();
  }

  int64_t devices_;
  ShardsOfCalls* calls_;
  Groups groups_, found_;
  int64_t calls_left_ = 10'000;  // a called computation is looked at once for every call
};

}  // namespace

std::vector<Shards> PropagateShards(const hlo::Computation& entry,
                                    std::span<const Shards> parameters, int64_t devices,
                                    ShardsOfCalls* calls) {
  std::vector<Leaves> arguments;
  for (const Shards& shards : parameters) arguments.push_back({shards});
  Propagation first(devices, calls);
  std::vector<Shards> results = first.Of(entry, arguments, 0);
  if (first.found().empty()) return results;
  return Propagation(devices, calls, std::move(first.found())).Of(entry, arguments, 0);
}

}  // namespace weft::client
