#include "compiler/spmd/reshard.h"

#include <algorithm>
#include <map>
#include <queue>

#include "base/dtype.h"
#include "program/target_links.h"
#include "program/work_bounds.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Instruction;
using Axes = AxisList;

constexpr int64_t kMaxForms = program::WorkBounds::kVisits;  // looked at in one search

bool IsPrefix(AxisSpan a, AxisSpan b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

AxisSet SetOfAxes(AxisSpan axes) {
  AxisSet set = 0;
  for (int axis : axes) set |= BitOf(axis);
  return set;
}

// A search over forms, cheapest first.
class Search {
 public:
  Search(const Shape& shape, const Form& to, const DeviceMesh& mesh, const LinkModel& link)
      : shape_(shape), to_(to), mesh_(mesh), link_(link) {}

  ReshardPlan Run(const Form& from) {
    Push(from, 0, -1, {});
    int64_t looked_at = 0;
    while (!queue_.empty()) {
      const auto [cost, at] = queue_.top();
      queue_.pop();
      if (nodes_[at].done) continue;
      nodes_[at].done = true;
      if (IsGoal(nodes_[at].form)) return PathTo(at);
      if (++looked_at > kMaxForms) break;
      Expand(at);
    }
    return GatherAndCut(from);
  }

 private:
  struct Node {
    Form form;
    double cost = 0;
    int64_t parent = -1;
    ReshardStep step;
    bool done = false;
  };
  using Key = std::pair<AxisSet, std::vector<int>>;  // axes of the dimensions, -1 behind each

  static Key KeyOf(const Form& form) {
    Key key{form.unreduced, {}};
    for (const DimForm& dim : form.dims) {
      key.second.insert(key.second.end(), dim.axes.begin(), dim.axes.end());
      key.second.push_back(-1);
    }
    return key;
  }
  bool IsGoal(const Form& form) const { return KeyOf(form) == KeyOf(to_); }

  void Push(Form form, double cost, int64_t parent, ReshardStep step) {
    auto [it, added] = known_.try_emplace(KeyOf(form), nodes_.size());
    if (!added) {
      Node& node = nodes_[it->second];
      if (node.done || node.cost <= cost) return;
      node = Node{std::move(form), cost, parent, std::move(step)};
    } else {
      nodes_.push_back(Node{std::move(form), cost, parent, std::move(step)});
    }
    queue_.emplace(cost, it->second);
  }

  ReshardPlan PathTo(size_t at) const {
    ReshardPlan plan{.steps = {}, .seconds = nodes_[at].cost};
    for (int64_t n = static_cast<int64_t>(at); nodes_[static_cast<size_t>(n)].parent >= 0;
         n = nodes_[static_cast<size_t>(n)].parent) {
      plan.steps.push_back(nodes_[static_cast<size_t>(n)].step);
    }
    std::ranges::reverse(plan.steps);
    return plan;
  }

  double BytesOf(const Form& form) const {
    return static_cast<double>(LocalShape(shape_, form, mesh_).ByteSize());
  }
  bool Divides(int64_t dim, AxisSpan axes) const {
    return shape_.dim(dim) % mesh_.SizeOf(axes) == 0;
  }

  // The time of a step from one form to another.
  double CostOf(ReshardStep::Kind kind, const Form& from, const Form& after, AxisSpan axes) const {
    const double n = static_cast<double>(mesh_.SizeOf(axes));
    const double part = (n - 1) / std::max(n, 1.0);
    double bytes = 0;
    switch (kind) {
      case ReshardStep::Kind::kCut: return BytesOf(after) * 1e-12;  // nearly free
      case ReshardStep::Kind::kAllGather: bytes = BytesOf(after) * part; break;
      case ReshardStep::Kind::kAllToAll:
      case ReshardStep::Kind::kReduceScatter: bytes = BytesOf(from) * part; break;
      case ReshardStep::Kind::kAllReduce: bytes = 2 * BytesOf(from) * part; break;
      case ReshardStep::Kind::kPermute: bytes = BytesOf(from); break;
    }
    return link_.seconds + bytes / link_.bytes_per_second;
  }

  void Step(size_t at, ReshardStep::Kind kind, int64_t dim, int64_t to_dim, Axes axes, Form after) {
    const double cost = nodes_[at].cost + CostOf(kind, nodes_[at].form, after, axes);
    ReshardStep step{kind, dim, to_dim, std::move(axes), after};
    Push(std::move(after), cost, static_cast<int64_t>(at), std::move(step));
  }

  void Expand(size_t at) {
    const Form form = nodes_[at].form;
    ExpandReductions(at, form);
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      ExpandCuts(at, form, d);
      ExpandMoves(at, form, d);
    }
    ExpandPermute(at, form);
  }

  const Axes& AxesAt(const Form& form, int64_t dim) const {
    return form.dims[static_cast<size_t>(dim)].axes;
  }

  // Summands are added up, whole or for the part that is wanted.
  void ExpandReductions(size_t at, const Form& form) {
    const AxisSet gone = form.unreduced & ~to_.unreduced;
    if (gone == 0) return;
    Form after = form;
    after.unreduced &= ~gone;
    Axes axes;
    for (int k = 0; k < static_cast<int>(mesh_.pieces.size()); ++k) {
      if ((gone & BitOf(k)) != 0) axes.push_back(k);
    }
    Step(at, ReshardStep::Kind::kAllReduce, 0, 0, axes, after);
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      const Axes& have = AxesAt(form, d);
      const Axes& want = AxesAt(to_, d);
      if (!IsPrefix(have, want)) continue;
      Axes taken;
      Form scattered = form;
      for (size_t k = have.size(); k < want.size() && (gone & BitOf(want[k])) != 0; ++k) {
        taken.push_back(want[k]);
        scattered.unreduced &= ~BitOf(want[k]);
        scattered.dims[static_cast<size_t>(d)].axes.push_back(want[k]);
      }
      const bool even = have.empty() || Divides(d, AxesAt(scattered, d));
      if (!taken.empty() && even) {
        Step(at, ReshardStep::Kind::kReduceScatter, d, 0, taken, scattered);
      }
    }
  }

  // Copies are cut down to the part that is wanted.
  void ExpandCuts(size_t at, const Form& form, int64_t d) {
    const Axes& have = AxesAt(form, d);
    const Axes& want = AxesAt(to_, d);
    if (!IsPrefix(have, want) || have.size() == want.size()) return;
    const AxisSet busy = form.cut() | form.unreduced;
    Axes taken;
    for (size_t k = have.size(); k < want.size() && (busy & BitOf(want[k])) == 0; ++k) {
      taken.push_back(want[k]);
      Form after = form;
      Axes& axes = after.dims[static_cast<size_t>(d)].axes;
      Append(axes, taken);
      const bool last = k + 1 == want.size();
      if (Divides(d, axes) || (have.empty() && last)) {
        Step(at, ReshardStep::Kind::kCut, d, 0, taken, std::move(after));
      }
    }
  }

  // Axes that cut `d` wrongly go elsewhere (all-to-all), or everywhere (all-gather).
  void ExpandMoves(size_t at, const Form& form, int64_t d) {
    const Axes& have = AxesAt(form, d);
    if (IsPrefix(have, AxesAt(to_, d))) return;
    for (size_t keep = 0; keep < have.size(); ++keep) {
      if (keep > 0 && !Divides(d, have)) continue;
      const Axes moved(AxisSpan(have).subspan(keep));
      Form after = form;
      after.dims[static_cast<size_t>(d)].axes.resize(keep);
      for (int64_t e = 0; e < shape_.rank(); ++e) {
        if (e == d) continue;
        Form there = after;
        Axes& axes = there.dims[static_cast<size_t>(e)].axes;
        const bool even = axes.empty();
        Append(axes, moved);
        if (!IsPrefix(axes, AxesAt(to_, e)) || !(even || Divides(e, axes))) continue;
        // A part of a dimension that does not divide is not a part of its parts.
        if (!Divides(e, axes) && axes != AxesAt(to_, e)) continue;
        Step(at, ReshardStep::Kind::kAllToAll, d, e, moved, std::move(there));
      }
      Step(at, ReshardStep::Kind::kAllGather, d, 0, moved, std::move(after));
    }
  }

  // The same parts on other devices.
  void ExpandPermute(size_t at, const Form& form) {
    Form after = form;
    Axes moved;
    AxisSet used = 0;
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      Axes& have = after.dims[static_cast<size_t>(d)].axes;
      const Axes& want = AxesAt(to_, d);
      bool alike = have.size() <= want.size();
      for (size_t k = 0; alike && k < have.size(); ++k) {
        alike = mesh_.size(have[k]) == mesh_.size(want[k]);
      }
      if (alike) have = AxisList(AxisSpan(want).first(have.size()));
      if ((used & SetOfAxes(have)) != 0) return;
      used |= SetOfAxes(have);
      Append(moved, have);
    }
    if ((used & form.unreduced) != 0 || KeyOf(after) == KeyOf(form)) return;
    Step(at, ReshardStep::Kind::kPermute, 0, 0, moved, std::move(after));
  }

  // What always works: gather what differs, then cut.
  ReshardPlan GatherAndCut(Form form) {
    ReshardPlan plan;
    auto add = [&](ReshardStep::Kind kind, int64_t dim, const Axes& axes, Form after) {
      plan.seconds += CostOf(kind, form, after, axes);
      form = after;
      plan.steps.push_back({kind, dim, 0, axes, std::move(after)});
    };
    if ((form.unreduced & ~to_.unreduced) != 0) {
      Form after = form;
      after.unreduced &= to_.unreduced;
      Axes axes;
      for (int k = 0; k < static_cast<int>(mesh_.pieces.size()); ++k) {
        if (((form.unreduced & ~to_.unreduced) & BitOf(k)) != 0) axes.push_back(k);
      }
      add(ReshardStep::Kind::kAllReduce, 0, axes, after);
    }
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      const Axes have = AxesAt(form, d);
      if (have.empty() || have == AxesAt(to_, d)) continue;
      Form after = form;
      after.dims[static_cast<size_t>(d)].axes.clear();
      add(ReshardStep::Kind::kAllGather, d, have, after);
    }
    for (int64_t d = 0; d < shape_.rank(); ++d) {
      const Axes want = AxesAt(to_, d);
      if (want == AxesAt(form, d)) continue;
      Form after = form;
      after.dims[static_cast<size_t>(d)].axes = want;
      add(ReshardStep::Kind::kCut, d, want, after);
    }
    return plan;
  }

  const Shape& shape_;
  const Form& to_;
  const DeviceMesh& mesh_;
  const LinkModel& link_;
  std::vector<Node> nodes_;
  std::map<Key, size_t> known_;
  using Entry = std::pair<double, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

// Who sends to whom so that parts that lay by `from`'s axes lie by `to`'s. Axes at the same place
// of a dimension take each other's role; the others keep theirs as far as they can.
hlo::IntPairs PermutePairs(const Form& from, const Form& to, const DeviceMesh& mesh) {
  const size_t count = mesh.pieces.size();
  std::vector<int> source(count, -1);  // the axis of `from` whose role an axis of `to` takes
  AxisSet taken = 0;
  for (size_t d = 0; d < to.dims.size(); ++d) {
    for (size_t k = 0; k < to.dims[d].axes.size(); ++k) {
      source[static_cast<size_t>(to.dims[d].axes[k])] = from.dims[d].axes[k];
      taken |= BitOf(from.dims[d].axes[k]);
    }
  }
  for (size_t a = 0; a < count; ++a) {
    if (source[a] < 0 && (taken & BitOf(static_cast<int>(a))) == 0) {
      source[a] = static_cast<int>(a);
      taken |= BitOf(static_cast<int>(a));
    }
  }
  for (size_t a = 0; a < count; ++a) {
    for (int s = 0; source[a] < 0 && s < static_cast<int>(count); ++s) {
      if ((taken & BitOf(s)) != 0 || mesh.size(s) != mesh.size(static_cast<int>(a))) continue;
      source[a] = s;
      taken |= BitOf(s);
    }
  }
  hlo::IntPairs pairs;
  for (int64_t place = 0; place < mesh.devices; ++place) {
    int64_t at = 0;
    for (size_t a = 0; a < count; ++a) {
      const Piece& piece = mesh.pieces[a];
      at += place / piece.stride % piece.size * mesh.pieces[static_cast<size_t>(source[a])].stride;
    }
    pairs.emplace_back(mesh.DeviceAt(at), mesh.DeviceAt(place));
  }
  return pairs;
}

Result<hlo::Computation*> ReductionOf(Emitter& emitter, const Form& form, DType dtype) {
  switch (form.reduction) {
    case hlo::ReductionKind::kMax: return emitter.state().functions.Get(hlo::Op::kMaximum, dtype);
    case hlo::ReductionKind::kMin: return emitter.state().functions.Get(hlo::Op::kMinimum, dtype);
    default: break;
  }
  return emitter.state().functions.Get(dtype == DType::kPred ? hlo::Op::kOr : hlo::Op::kAdd, dtype);
}

}  // namespace

LinkModel LinkModel::Of(const program::TargetInfo& target) {
  // Devices of one process share the memory's bandwidth; GPUs have links of their own.
  if (target.RunsOnHost()) return {.bytes_per_second = target.bytes_per_second / 2};
  const program::TargetLinks links = program::TargetLinks::Of(target);
  return {.bytes_per_second = links.bytes_per_second, .seconds = links.seconds};
}

std::string ReshardStep::ToString(const DeviceMesh& mesh) const {
  static constexpr std::string_view kNames[] = {"cut",     "all-gather", "all-to-all",
                                                "permute", "all-reduce", "reduce-scatter"};
  std::string out = StrCat(kNames[static_cast<size_t>(kind)], " {", mesh.NameOf(axes), "}");
  if (kind == Kind::kAllToAll) {
    StrAppend(out, " ", dim, " -> ", to_dim);
  } else if (kind != Kind::kPermute && kind != Kind::kAllReduce) {
    StrAppend(out, " ", dim);
  }
  return out;
}

ReshardPlan PlanReshard(const Shape& shape, const Form& from, const Form& to,
                        const DeviceMesh& mesh, const LinkModel& link) {
  return Search(shape, to, mesh, link).Run(from);
}

Result<Instruction*> EmitReshard(Emitter& emitter, Instruction* x, const Shape& whole,
                                 const Form& from, const ReshardPlan& plan) {
  const Form* before = &from;
  for (const ReshardStep& step : plan.steps) {
    switch (step.kind) {
      case ReshardStep::Kind::kCut: x = TRY(emitter.Cut(x, step.dim, step.axes)); break;
      case ReshardStep::Kind::kAllGather: x = TRY(emitter.AllGather(x, step.dim, step.axes)); break;
      case ReshardStep::Kind::kAllToAll:
        x = TRY(emitter.AllToAll(x, step.to_dim, step.dim, step.axes));
        break;
      case ReshardStep::Kind::kPermute:
        x = TRY(emitter.Permute(x, PermutePairs(*before, step.after, emitter.mesh())));
        break;
      case ReshardStep::Kind::kAllReduce:
        x = TRY(emitter.AllReduce(x, step.axes, TRY(ReductionOf(emitter, from, whole.dtype()))));
        break;
      case ReshardStep::Kind::kReduceScatter:
        x = TRY(emitter.ReduceScatter(x, step.dim, step.axes,
                                      TRY(ReductionOf(emitter, from, whole.dtype()))));
        break;
    }
    // Joined parts of a size that does not divide have padding at the end.
    const Shape wanted = LocalShape(whole, step.after, emitter.mesh());
    for (int64_t d = 0; d < whole.rank(); ++d) {
      x = TRY(emitter.TrimTo(x, d, wanted.dim(d)));
    }
    before = &step.after;
  }
  return x;
}

hlo::IntPairs OrderPairs(const Form& from, const Form& to, const DeviceMesh& mesh) {
  hlo::IntPairs pairs;
  auto device = [&](const Form& form, int64_t place) {
    return form.order.empty() ? mesh.DeviceAt(place) : form.order[static_cast<size_t>(place)];
  };
  for (int64_t place = 0; place < mesh.devices; ++place) {
    pairs.emplace_back(device(from, place), device(to, place));
  }
  return pairs;
}

}  // namespace weft::compiler::spmd
