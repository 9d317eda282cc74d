// Scheduling annotations: instructions with the same `_scheduling_group_id` are placed side by
// side.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

inline constexpr std::string_view kGroupAttribute = "_scheduling_group_id";

// "7", "7:-1" (group 7 of another iteration), ":1" (an iteration alone), "noop".
struct GroupAnnotation {
  std::optional<int64_t> group, iteration;
};
Result<GroupAnnotation> ParseGroupAnnotation(std::string_view text);
// The group that an instruction is a member of; none: no annotation, or one without a group.
std::optional<int64_t> GroupOf(const hlo::Instruction& i);
void SetGroup(hlo::Instruction& i, std::optional<int64_t> group);

enum class OnBadGroup : uint8_t {
  kError,  // says which group cannot be placed, and why
  kDrop,   // its members are scheduled as if nobody had annotated them
};

struct GroupOptions {
  OnBadGroup on_bad = OnBadGroup::kError;
  // Annotations stay on transfers and matrix products alone.
  bool selective = false;
};

// Makes annotations what the scheduler takes: iteration ids and "noop" go; what stands inside of a
// fusion is the fusion's; a start and its done are of one group; ops between two members become
// members where they are a plain chain; groups of one member, or without a transfer, go. A group
// that something from outside stands in the middle of, or that waits for a group that waits for
// it, cannot be placed. The same id in several computations is several groups. Returns how many
// groups were dropped because they cannot be placed.
Result<int64_t> LegalizeGroups(hlo::Module& module, const GroupOptions& options);

}  // namespace weft::compiler::schedule
