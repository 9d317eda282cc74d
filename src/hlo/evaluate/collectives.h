// Collectives between the simulated devices: who takes part, and what each device gets.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/instruction.h"

namespace weft::hlo {

// How the ids of an instruction's replica groups are to be read: as the attribute `mode` says, else
// by channel_id and use_global_device_ids.
Result<GroupMode> GroupModeOf(Op op, const Attrs& attrs);

// What to do when a module names devices that the evaluation does not have.
inline constexpr char kMoreDevicesHint[] =
    "give the module a replica_count or num_partitions, or take more devices (--devices N of "
    "weft eval and weft run)";

// The devices of this device's group, in group order; nullopt when it is in none.
Result<std::optional<std::vector<int64_t>>> ParticipantsOf(const EvalContext& context,
                                                           const Instruction& instruction);

// Instructions that meet by channel may differ; what they bring must not.
Status CheckSameShapes(const Instruction& instruction, std::span<const Literal> values);

// accumulator[i] = reducer(accumulator[i], value[i]), element by element.
Status CombineElements(EvalContext& context, const Computation& reducer, Literal& accumulator,
                       const Literal& value);
// Of floats narrower than f32 by a plain reducer: as f32, in this order, rounded once. nullopt: it
// is something else.
std::optional<Literal> CombineNarrow(const Computation& reducer,
                                     std::span<const Literal* const> values);

// The values of the synchronous op; what the starts of the asynchronous ones carry too. Operands
// as in OpRow.
Result<Literal> RunAllGather(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunAllReduce(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunReduceScatter(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunCollectiveReduce(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunAllToAll(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunRaggedAllToAll(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunCollectiveBroadcast(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> RunCollectivePermute(EvalContext&, const Instruction&, std::span<Literal>);

// "{{0,1},{1,2}}", as in the frontend attribute of send and recv.
inline constexpr std::string_view kSendRecvPairs = "_xla_send_recv_source_target_pairs";
std::optional<IntPairs> ParsePairs(std::string_view text);

// The channels on which devices of a module both send to each other and receive.
std::set<int64_t> MessageChannels(const Module& module);
// Where the messages of a send or recv between devices wait: ends meet by their channel; those with
// pairs whose channel has no other end meet, device by device, in the order in which they come.
inline constexpr int64_t kNoChannel = -1;
int64_t MailboxOf(const Instruction& end, const std::set<int64_t>& message_channels);

}  // namespace weft::hlo
