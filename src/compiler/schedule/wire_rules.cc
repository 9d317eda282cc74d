#include "compiler/schedule/wire_rules.h"

#include <algorithm>

#include "base/str.h"
#include "compiler/schedule/costs.h"

namespace weft::compiler::schedule {

using hlo::Instruction;

WireRules::WireRules(const Machine& machine, int64_t devices)
    : topology_(machine.topology), devices_(devices), limits_(kResources, 0) {
  for (size_t k = 0; k < kResources; ++k) limits_[k] = machine.limits[k];
  bool has_limits = std::any_of(limits_.begin(), limits_.end(), [](int64_t n) { return n > 0; });
  has_rules_ = machine.overlap > 1 && (topology_ || has_limits);
}

int32_t WireRules::ClassOf(const Instruction& i) {
  const Instruction& op = Started(i);
  Class made;
  made.kind = static_cast<size_t>(ResourceOf(op).value_or(Resource::kCustom));
  made.is_opaque = op.op() == hlo::Op::kCustomCall;
  if (const hlo::CollectiveAttrs* attrs = op.attrs().Collective()) {
    if (auto groups = attrs->replica_groups.Expand(devices_)) made.groups = *std::move(groups);
  }
  std::string text = StrCat(made.kind, made.is_opaque ? "!" : ":");
  for (const auto& group : made.groups) {
    for (int64_t d : group) StrAppend(text, d, ",");
    text += ";";
  }
  auto [it, is_new] = by_text_.try_emplace(text, static_cast<int32_t>(classes_.size()));
  if (!is_new) return it->second;
  classes_.push_back(std::move(made));
  for (auto& row : excludes_) row.push_back(0);
  excludes_.emplace_back(classes_.size(), 0);
  for (size_t k = 0; k < classes_.size(); ++k) {
    uint8_t collide = Collide(classes_[k], classes_.back()) ? 1 : 0;
    excludes_[k].back() = excludes_.back()[k] = collide;
  }
  return it->second;
}

bool WireRules::Collide(const Class& a, const Class& b) const {
  if (!topology_ || a.is_opaque || b.is_opaque) return false;
  if (a.groups.empty() || b.groups.empty()) return true;
  for (const auto& x : a.groups) {
    for (const auto& y : b.groups) {
      auto shared = std::count_if(x.begin(), x.end(), [&](int64_t d) {
        return std::find(y.begin(), y.end(), d) != y.end();
      });
      if (shared > 1) return true;
    }
  }
  return false;
}

double WireGate::Earliest(int32_t wire_class, double at) const {
  if (rules_.empty() || wire_class < 0) return at;
  for (size_t other = 0; other < busy_.size(); ++other) {
    if (rules_.Excludes(wire_class, static_cast<int32_t>(other))) at = std::max(at, busy_[other]);
  }
  size_t kind = rules_.kind_of(wire_class);
  if (kind < lanes_.size() && !lanes_[kind].empty()) {
    at = std::max(at, *std::min_element(lanes_[kind].begin(), lanes_[kind].end()));
  }
  return at;
}

void WireGate::Take(int32_t wire_class, double end) {
  if (rules_.empty() || wire_class < 0) return;
  if (busy_.size() < rules_.classes()) busy_.resize(rules_.classes(), 0);
  double& busy = busy_[static_cast<size_t>(wire_class)];
  busy = std::max(busy, end);
  size_t kind = rules_.kind_of(wire_class);
  int64_t limit = rules_.limit_of(kind);
  if (limit == 0) return;
  if (lanes_.size() <= kind) lanes_.resize(kResources);
  std::vector<double>& lanes = lanes_[kind];
  if (lanes.empty()) lanes.assign(static_cast<size_t>(limit), 0);
  *std::min_element(lanes.begin(), lanes.end()) = end;
}

}  // namespace weft::compiler::schedule
