// Which transfers may be on the wire at once, where a machine takes several: limits by kind, and
// the topology rule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/machine.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

// Transfers of one class are alike: of one kind, over the same groups of devices.
class WireRules {
 public:
  WireRules() = default;
  WireRules(const Machine& machine, int64_t devices);

  // Whether anything but the number of lanes limits transfers.
  bool empty() const { return !has_rules_; }
  // Of a collective, or of what a start wraps.
  int32_t ClassOf(const hlo::Instruction& i);
  size_t kind_of(int32_t wire_class) const { return classes_[At(wire_class)].kind; }
  // The most of a kind at once; 0: any number.
  int64_t limit_of(size_t kind) const { return limits_[kind]; }
  // Two of these classes share more than one device of a group: where each device launches them in
  // an order of its own, they may wait for each other for ever.
  bool Excludes(int32_t a, int32_t b) const { return excludes_[At(a)][At(b)] != 0; }
  size_t classes() const { return classes_.size(); }

 private:
  struct Class {
    size_t kind = 0;
    bool is_opaque = false;                    // a custom call: it takes care of itself
    std::vector<std::vector<int64_t>> groups;  // empty: not known
  };
  static size_t At(int32_t n) { return static_cast<size_t>(n); }
  bool Collide(const Class& a, const Class& b) const;

  bool has_rules_ = false, topology_ = false;
  int64_t devices_ = 1;
  std::vector<int64_t> limits_;
  std::map<std::string, int32_t> by_text_;
  std::vector<Class> classes_;
  std::vector<std::vector<uint8_t>> excludes_;
};

// When the next transfer of a class may begin, given those that have begun.
class WireGate {
 public:
  explicit WireGate(const WireRules& rules) : rules_(rules) {}
  double Earliest(int32_t wire_class, double at) const;
  void Take(int32_t wire_class, double end);

 private:
  const WireRules& rules_;
  std::vector<double> busy_;                // by class: until when
  std::vector<std::vector<double>> lanes_;  // of kinds that have a limit: until when each is
};

}  // namespace weft::compiler::schedule
