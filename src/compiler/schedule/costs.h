// How long instructions take: by a model of the machine, or by a measured profile. The analytical
// estimator is a roofline: the larger of matrix products at peak rate and bytes moved, plus a
// launch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "compiler/analysis/backend_config.h"
#include "compiler/schedule/machine.h"
#include "compiler/schedule/wire_rules.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

// Measured seconds by instruction name.
class Profile {
 public:
  // Lines of `NAME MICROSECONDS`; `#` begins a comment. Of an async pair the start has the time.
  static Result<Profile> Parse(std::string_view text);
  // Copies that unrolling makes (`name.3`) have what the original has. Null: not measured.
  const double* Find(std::string_view name) const;
  // `name-start` and its copies may be the pair that was made of the collective `name`.
  const double* FindStart(std::string_view name) const;
  bool empty() const { return seconds_.empty(); }

 private:
  std::unordered_map<std::string, double> seconds_;  // lookups only
};

enum class Stream : uint8_t { kCompute, kWire, kCopy, kWait };
std::string_view StreamName(Stream stream);

struct OpCost {
  Stream stream = Stream::kCompute;
  bool is_async = false;      // the compute stream goes on while it runs
  bool is_sync_pair = false;  // a start that its backend config makes synchronous
  double seconds = 0;
  double flops = 0;
  hlo::Op collective = hlo::Op::kAdd;  // of the wire
  int64_t group = 0;                   // devices that take part
  int64_t bytes = 0;                   // the whole gathered or unreduced buffer
  int32_t wire_class = -1;             // where the machine has rules for transfers
};

struct AliasedResult {
  int64_t result = -1;  // element of the result's tuple; -1: the result is no tuple
  int64_t operand = 0;
};

class Costs {
 public:
  Costs(const hlo::Module& module, const Machine& machine, const Profile* profile = nullptr);

  const Machine& machine() const { return machine_; }
  // Classes of all transfers that were asked for.
  const WireRules& rules() const { return rules_; }
  // Its result is its first operand's value (IsIdentity), on this machine.
  bool Forwards(const hlo::Instruction& i) const;
  // Of an instruction that runs as one op: not free, not control flow, no done.
  OpCost Of(const hlo::Instruction& i);
  // Results that overwrite an operand: updates, and what aliasing attributes say.
  std::vector<AliasedResult> InPlace(const hlo::Instruction& i) const;
  // What could not be costed well, in order.
  const std::set<std::string>& warnings() const { return warnings_; }

 private:
  struct Work {
    double flops = 0, seconds = 0;
  };
  Work Products(const hlo::Instruction& i);
  double Traffic(const hlo::Instruction& i) const;
  OpCost Collective(const hlo::Instruction& i) const;

  const Machine machine_;
  const Profile* profile_;
  int64_t devices_;
  WireRules rules_;
  std::set<std::string> warnings_;
};

// Takes no time and no memory: names of values, constants, identities.
bool IsFree(const hlo::Instruction& i);
// Of those, the ones whose result is their first operand's value.
bool IsIdentity(const hlo::Instruction& i);
// What an async start runs: itself for all-gather-start and the like, the op inside otherwise.
const hlo::Instruction& Started(const hlo::Instruction& start);
// What the done of a start gives; of any other instruction its own shape.
Shape ResultOfStart(const hlo::Instruction& i);

}  // namespace weft::compiler::schedule
