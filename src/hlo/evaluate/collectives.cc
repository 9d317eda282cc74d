#include "hlo/evaluate/collectives.h"

#include <algorithm>
#include <cstring>

#include "hlo/evaluate/device_group.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

using ValuesOfDevices = DeviceGroup::Values;  // [participant], a tuple of that device's operands

struct GroupMeeting {
  std::vector<int64_t> participants;
  int64_t me = 0;  // position in participants
  ValuesOfDevices values;

  int64_t size() const { return static_cast<int64_t>(participants.size()); }
  const Literal& operand(int64_t participant, int64_t i) const {
    return (*values)[static_cast<size_t>(participant)].tuple()[static_cast<size_t>(i)];
  }
};

Result<GroupMeeting> Meet(EvalContext& context, const Instruction& instruction,
                          std::vector<int64_t> participants, std::span<Literal> operands) {
  GroupMeeting meeting;
  auto me = std::find(participants.begin(), participants.end(), context.device());
  meeting.me = me - participants.begin();
  meeting.participants = std::move(participants);
  std::vector<Literal> mine(std::make_move_iterator(operands.begin()),
                            std::make_move_iterator(operands.end()));
  Literal given = Literal::Tuple(std::move(mine));
  if (context.group() == nullptr) {
    if (meeting.size() != 1) {
      return InvalidArgument(Mnemonic(instruction.op()), ": needs ", meeting.size(),
                             " devices, there is one");
    }
    meeting.values = std::make_shared<std::vector<Literal>>(1, std::move(given));
    return meeting;
  }
  meeting.values =
      TRY(context.group()->Exchange(instruction, instruction.attrs().Collective()->channel_id,
                                    meeting.participants, context.device(), std::move(given)));
  TRY(CheckSameShapes(instruction, *meeting.values));
  return meeting;
}

Result<GroupMeeting> MeetGroup(EvalContext& context, const Instruction& instruction,
                               std::span<Literal> operands) {
  std::optional<std::vector<int64_t>> participants = TRY(ParticipantsOf(context, instruction));
  if (!participants) {
    return InvalidArgument(Mnemonic(instruction.op()), ": device ", context.device(),
                           " is in no replica group");
  }
  return Meet(context, instruction, std::move(*participants), operands);
}

// An array seen as [outer][size][inner bytes] around one dimension.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
};

Around AroundDim(const Shape& shape, int64_t dim) {
  Around a;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    (i < dim ? a.outer : i == dim ? a.size : a.inner) *= shape.dim(i);
  }
  a.inner *= ByteWidth(shape.dtype());
  return a;
}

// Copies `count` positions of a dimension from one array to another.
void CopyPositions(const Literal& from, int64_t from_start, Literal& to, int64_t to_start,
                   int64_t count, int64_t dim) {
  Around f = AroundDim(from.shape(), dim), t = AroundDim(to.shape(), dim);
  std::byte* out = to.mutable_data();
  for (int64_t o = 0; o < f.outer; ++o) {
    std::memcpy(out + (o * t.size + to_start) * t.inner,
                from.data() + (o * f.size + from_start) * f.inner,
                static_cast<size_t>(count * f.inner));
  }
}

// Same type and dimensions but for `dim`.
bool DifferInDim(const Shape& a, const Shape& b, int64_t dim) {
  if (a.dtype() != b.dtype() || a.rank() != b.rank() || dim < 0 || dim >= a.rank()) return false;
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (i != dim && a.dim(i) != b.dim(i)) return false;
  }
  return true;
}

Status Mismatch(const Instruction& instruction, const Shape& got) {
  return InvalidArgument(Mnemonic(instruction.op()), ": a device gives ",
                         got.ToStringWithoutLayout(), ", which does not fit the result ",
                         instruction.shape().ToStringWithoutLayout());
}

// The shape of result k of n: the shape itself when there is one.
const Shape& ResultOf(const Shape& shape, int64_t k, int64_t n) {
  return n == 1 && !shape.IsTuple() ? shape : shape.tuple_element(k);
}

Literal OneOrTuple(std::vector<Literal> values, bool tuple) {
  if (!tuple) return std::move(values[0]);
  return Literal::Tuple(std::move(values));
}

// An own copy, so that devices share no bytes.
Literal DeepCopy(const Literal& value) {
  if (value.shape().IsTuple()) {
    std::vector<Literal> elements;
    for (const Literal& element : value.tuple()) elements.push_back(DeepCopy(element));
    return Literal::Tuple(std::move(elements));
  }
  Literal copy = value;
  if (value.shape().IsArray() && value.size() > 0) copy.mutable_data();
  return copy;
}

Result<Literal> ReduceOperand(EvalContext& context, const GroupMeeting& meeting,
                              const Computation& reducer, int64_t k) {
  std::vector<const Literal*> values;
  for (int64_t p = 0; p < meeting.size(); ++p) values.push_back(&meeting.operand(p, k));
  if (std::optional<Literal> sum = CombineNarrow(reducer, values)) return *std::move(sum);
  Literal sum = DeepCopy(meeting.operand(0, k));
  for (int64_t p = 1; p < meeting.size(); ++p) {
    TRY(CombineElements(context, reducer, sum, meeting.operand(p, k)));
  }
  return sum;
}

// The run-time sizes of operand k, which all devices have; none of a dimension that is cut.
Status KeepSizes(const Instruction& instruction, const GroupMeeting& meeting, int64_t k,
                 int64_t cut, Literal& result) {
  const Literal& own = meeting.operand(meeting.me, k);
  for (int64_t d = 0; d < own.shape().rank() && own.HasDynamicSizes(); ++d) {
    if (own.dynamic_size(d) == own.shape().dim(d)) continue;
    if (d == cut) {
      return Unimplemented(Mnemonic(instruction.op()), ": dimension ", d,
                           " is cut for the devices and has a run-time size");
    }
    result.set_dynamic_size(d, own.dynamic_size(d));
  }
  return {};
}

// The result shape of the op itself, without what a start adds.
const Shape& ValueShape(const Instruction& instruction) {
  bool wrapped =
      instruction.op() == Op::kAllGatherStart || instruction.op() == Op::kCollectivePermuteStart;
  return wrapped ? instruction.shape().tuple_element(1) : instruction.shape();
}

}  // namespace

Result<Literal> RunAllGather(EvalContext& context, const Instruction& instruction,
                             std::span<Literal> operands) {
  int64_t n = static_cast<int64_t>(operands.size());
  int64_t dim = instruction.attrs<AllGatherAttrs>().dimensions[0];
  const Shape& shape = ValueShape(instruction);
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    Literal out = TRY(Literal::Allocate(StripLayout(ResultOf(shape, k, n))));
    int64_t at = 0, bound = 0;  // the parts that are there lie one behind the other
    for (int64_t p = 0; p < meeting.size(); ++p) {
      const Literal& part = meeting.operand(p, k);
      if (!DifferInDim(part.shape(), out.shape(), dim) ||
          part.shape().dim(dim) > out.shape().dim(dim) - bound) {
        TRY(Mismatch(instruction, part.shape()));
      }
      CopyPositions(part, 0, out, at, part.dynamic_size(dim), dim);
      at += part.dynamic_size(dim);
      bound += part.shape().dim(dim);
    }
    if (bound == out.shape().dim(dim)) {
      TRY(KeepSizes(instruction, meeting, k, -1, out));
      if (at < bound) out.set_dynamic_size(dim, at);
    } else {
      return InvalidArgument(Mnemonic(instruction.op()), ": ", meeting.size(),
                             " devices give size ", bound, " of dimension ", dim,
                             ", the result has ", out.shape().dim(dim));
    }
    results.push_back(std::move(out));
  }
  return OneOrTuple(std::move(results), shape.IsTuple());
}

Result<Literal> RunAllReduce(EvalContext& context, const Instruction& instruction,
                             std::span<Literal> operands) {
  int64_t n = static_cast<int64_t>(operands.size());
  const Computation& reducer = *instruction.attrs<AllReduceAttrs>().to_apply;
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    results.push_back(TRY(ReduceOperand(context, meeting, reducer, k)));
  }
  return OneOrTuple(std::move(results), instruction.shape().IsTuple());
}

Result<Literal> RunReduceScatter(EvalContext& context, const Instruction& instruction,
                                 std::span<Literal> operands) {
  int64_t n = static_cast<int64_t>(operands.size());
  const auto& attrs = instruction.attrs<ReduceScatterAttrs>();
  int64_t dim = attrs.dimensions[0];
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    Literal sum = TRY(ReduceOperand(context, meeting, *attrs.to_apply, k));
    Literal out = TRY(Literal::Allocate(StripLayout(ResultOf(instruction.shape(), k, n))));
    int64_t size = dim < out.shape().rank() ? out.shape().dim(dim) : 0;
    if (!DifferInDim(sum.shape(), out.shape(), dim) ||
        sum.shape().dim(dim) / meeting.size() != size) {
      TRY(Mismatch(instruction, sum.shape()));
    }
    CopyPositions(sum, meeting.me * size, out, 0, size, dim);
    TRY(KeepSizes(instruction, meeting, k, dim, out));
    results.push_back(std::move(out));
  }
  return OneOrTuple(std::move(results), instruction.shape().IsTuple());
}

// The first of the group gets the reduction; the others get zeroes.
Result<Literal> RunCollectiveReduce(EvalContext& context, const Instruction& instruction,
                                    std::span<Literal> operands) {
  const auto& attrs = instruction.attrs<CollectiveReduceAttrs>();
  int64_t n = static_cast<int64_t>(operands.size()) - (attrs.has_dynamic_root ? 1 : 0);
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    int64_t root = attrs.has_dynamic_root ? meeting.operand(0, n).GetInt(k) : 0;
    if (root == meeting.me) {
      results.push_back(TRY(ReduceOperand(context, meeting, *attrs.to_apply, k)));
    } else {
      results.push_back(TRY(Literal::Allocate(meeting.operand(0, k).shape())));
    }
  }
  return OneOrTuple(std::move(results), instruction.shape().IsTuple());
}

Result<Literal> RunAllToAll(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  const Ints& dimensions = instruction.attrs<AllToAllAttrs>().dimensions;
  int64_t n = static_cast<int64_t>(operands.size());
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  if (dimensions.empty()) {
    if (meeting.size() != n) {
      return InvalidArgument("all-to-all: ", n, " operands for ", meeting.size(), " devices");
    }
    std::vector<Literal> results;
    for (int64_t p = 0; p < n; ++p) results.push_back(DeepCopy(meeting.operand(p, meeting.me)));
    return OneOrTuple(std::move(results), instruction.shape().IsTuple());
  }
  int64_t dim = dimensions[0];
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    Literal out = TRY(Literal::Allocate(StripLayout(ResultOf(instruction.shape(), k, n))));
    int64_t size = out.shape().dim(dim);
    if (size % meeting.size() != 0) {
      return InvalidArgument("all-to-all: dimension ", dim, " of size ", size,
                             " does not divide by ", meeting.size(), " devices");
    }
    int64_t part = size / meeting.size();
    for (int64_t p = 0; p < meeting.size(); ++p) {
      const Literal& from = meeting.operand(p, k);
      if (!Shape::SameDims(from.shape(), out.shape())) TRY(Mismatch(instruction, from.shape()));
      CopyPositions(from, meeting.me * part, out, p * part, part, dim);
    }
    TRY(KeepSizes(instruction, meeting, k, dim, out));
    results.push_back(std::move(out));
  }
  return OneOrTuple(std::move(results), instruction.shape().IsTuple());
}

// Operands: input, output, input offsets, send sizes, output offsets (in the receiver's output),
// receive sizes; k updates for each of the N devices.
Result<Literal> RunRaggedAllToAll(EvalContext& context, const Instruction& instruction,
                                  std::span<Literal> operands) {
  GroupMeeting meeting = TRY(MeetGroup(context, instruction, operands));
  Literal out = DeepCopy(meeting.operand(meeting.me, 1));
  for (int64_t p = 0; p < meeting.size(); ++p) {
    const Literal& input = meeting.operand(p, 0);
    const Literal& offsets = meeting.operand(p, 2);
    int64_t updates = offsets.size() / meeting.size();
    for (int64_t u = meeting.me * updates; u < (meeting.me + 1) * updates; ++u) {
      int64_t from = offsets.GetInt(u), count = meeting.operand(p, 3).GetInt(u);
      int64_t to = meeting.operand(p, 4).GetInt(u);
      if (count == 0) continue;
      if (count < 0 || from < 0 || to < 0 || from > input.shape().dim(0) - count ||
          to > out.shape().dim(0) - count) {
        return InvalidArgument("ragged-all-to-all: ", count, " rows from ", from, " to ", to,
                               " do not fit ", input.shape().ToStringWithoutLayout(), " and ",
                               out.shape().ToStringWithoutLayout());
      }
      if (!DifferInDim(input.shape(), out.shape(), 0)) TRY(Mismatch(instruction, input.shape()));
      CopyPositions(input, from, out, to, count, 0);
    }
  }
  return out;
}

// The value of the group's first device (or of the one that the last operand names); zeroes on
// devices in no group.
Result<Literal> RunCollectiveBroadcast(EvalContext& context, const Instruction& instruction,
                                       std::span<Literal> operands) {
  bool dynamic = instruction.attrs<CollectiveBroadcastAttrs>().has_dynamic_root;
  int64_t n = static_cast<int64_t>(operands.size()) - (dynamic ? 1 : 0);
  std::optional<std::vector<int64_t>> participants = TRY(ParticipantsOf(context, instruction));
  if (!participants) return Literal::Allocate(StripLayout(instruction.shape()));
  GroupMeeting meeting = TRY(Meet(context, instruction, std::move(*participants), operands));
  std::vector<Literal> results;
  for (int64_t k = 0; k < n; ++k) {
    int64_t root = dynamic ? meeting.operand(0, n).GetInt(k) : 0;
    if (root < 0 || root >= meeting.size()) {
      return InvalidArgument("collective-broadcast: root ", root, " of ", meeting.size(),
                             " devices");
    }
    results.push_back(DeepCopy(meeting.operand(root, k)));
  }
  return OneOrTuple(std::move(results), instruction.shape().IsTuple());
}

}  // namespace weft::hlo
