// Messages between devices and with the host.
#include "hlo/attrs.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/evaluate/device_group.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

constexpr std::string_view kPairsAttribute = kSendRecvPairs;

Shape InFlight(Shape data) {
  return Shape::Tuple({std::move(data), Shape::Scalar(DType::kU32), Shape::Token()});
}

Result<Shape> InferSend(const InferArgs& args) {
  TRY(CheckTokenOperand(args, 1));
  return InFlight(StripLayout(args.operand(0)));
}

Result<Shape> InferSendDone(const InferArgs& args) {
  if (args.operand(0).IsTuple()) return Shape::Token();
  return InvalidArgument("send-done: expected (data, u32[], token[]), got ",
                         args.operand(0).ToStringWithoutLayout());
}

Result<Shape> InferRecv(const InferArgs& args) {
  TRY(CheckTokenOperand(args, 0));
  if (args.declared == nullptr) return InvalidArgument("recv: the result shape must be written");
  if (!args.declared->IsTuple() || args.declared->tuple_size() != 3) {
    return InvalidArgument("recv: expected (data, u32[], token[]), got ",
                           args.declared->ToStringWithoutLayout());
  }
  return InFlight(StripLayout(args.declared->tuple_element(0)));
}

Result<Shape> InferRecvDone(const InferArgs& args) {
  if (!args.operand(0).IsTuple() || args.operand(0).tuple_size() < 1) {
    return InvalidArgument("recv-done: expected (data, u32[], token[]), got ",
                           args.operand(0).ToStringWithoutLayout());
  }
  return Shape::Tuple({StripLayout(args.operand(0).tuple_element(0)), Shape::Token()});
}

Result<Shape> InferInfeed(const InferArgs& args) {
  TRY(CheckTokenOperand(args, 0));
  if (args.declared != nullptr && args.declared->IsTuple() && args.declared->tuple_size() == 2 &&
      args.declared->tuple_element(1).IsToken()) {
    return StripLayout(*args.declared);
  }
  return InvalidArgument(
      "infeed: the result must be (data, token[]), got ",
      args.declared == nullptr ? "none" : args.declared->ToStringWithoutLayout());
}

Result<Shape> InferOutfeed(const InferArgs& args) {
  TRY(CheckTokenOperand(args, 1));
  const Shape& written = args.attrs.As<OutfeedAttrs>().outfeed_shape;
  if (written.IsValid() && !ShapesMatch(written, args.operand(0))) {
    return InvalidArgument("outfeed: outfeed_shape is ", written.ToStringWithoutLayout(),
                           ", the operand ", args.operand(0).ToStringWithoutLayout());
  }
  return Shape::Token();
}

// The other device of this one: the target when it is a source, or the source when it is a target;
// -1 when there are no pairs written, nullopt when this device is in none.
Result<std::optional<int64_t>> Partner(const EvalContext& context, const Instruction& instruction,
                                       bool send) {
  const std::string* text = instruction.FrontendAttributeValue(kPairsAttribute);
  if (text == nullptr) return -1;
  std::optional<IntPairs> pairs = ParsePairs(*text);
  if (!pairs) {
    return InvalidArgument(Mnemonic(instruction.op()), ": ", kPairsAttribute, " is ", *text);
  }
  bool by_partition = context.num_partitions() > 1 || context.num_replicas() == 1;
  int64_t me = by_partition ? context.partition() : context.replica();
  int64_t count = by_partition ? context.num_partitions() : context.num_replicas();
  for (auto [source, target] : *pairs) {
    if ((send ? source : target) != me) continue;
    int64_t other = send ? target : source;
    if (other < 0 || other >= count) {
      return InvalidArgument(Mnemonic(instruction.op()), ": no device ", other, " in ", *text);
    }
    return by_partition ? context.replica() * context.num_partitions() + other
                        : other * context.num_partitions() + context.partition();
  }
  return std::nullopt;
}

Result<Literal> EvaluateSend(EvalContext& context, const Instruction& send,
                             std::span<Literal> operands) {
  const auto& attrs = send.attrs<ChannelAttrs>();
  if (!attrs.is_host_transfer && context.group() != nullptr) {
    std::optional<int64_t> to = TRY(Partner(context, send, /*send=*/true));
    int64_t mailbox = context.group()->MailboxOf(send);
    if (to) context.group()->Send(mailbox, *to < 0 ? -1 : context.device(), *to, operands[0]);
  }
  return Literal::Tuple(
      {std::move(operands[0]), Literal(Shape::Scalar(DType::kU32)), Literal::Token()});
}

// The u32 is the number of the pending receive; 0 when this device receives nothing.
Result<Literal> EvaluateRecv(EvalContext& context, const Instruction& recv, std::span<Literal>) {
  const auto& attrs = recv.attrs<ChannelAttrs>();
  if (attrs.is_host_transfer) {
    auto error = Unimplemented("recv: the host sends nothing");
    error.error().Hint("give the data to the program as an argument, or call the host back");
    return error;
  }
  if (context.group() == nullptr) return Unimplemented("recv: not evaluated alone");
  std::optional<int64_t> from = TRY(Partner(context, recv, /*send=*/false));
  uint32_t number = 0;
  if (from) {
    number = context.group()->AddPending(
        context.device(), {context.group()->MailboxOf(recv), *from, context.device()});
  }
  Literal data = TRY(Literal::Allocate(StripLayout(recv.shape().tuple_element(0))));
  return Literal::Tuple({std::move(data), Literal::Scalar(DType::kU32, number), Literal::Token()});
}

Result<Literal> EvaluateRecvDone(EvalContext& context, const Instruction& done,
                                 std::span<Literal> operands) {
  std::vector<Literal> in_flight = std::move(operands[0]).TakeTuple();
  if (in_flight.size() != 3 || in_flight[1].dtype() != DType::kU32 || in_flight[1].size() != 1) {
    return InvalidArgument("recv-done: the operand is not what a recv returns");
  }
  uint32_t number = static_cast<uint32_t>(in_flight[1].GetInt(0));
  Literal data = std::move(in_flight[0]);
  if (number != 0 && context.group() != nullptr) {
    std::optional<DeviceGroup::Pending> pending =
        context.group()->TakePending(context.device(), number);
    if (!pending) return InvalidArgument("recv-done: there is no such receive");
    data = TRY(context.group()->Receive(done, pending->mailbox, pending->from, context.device()));
    const Shape& expected = done.shape().tuple_element(0);
    if (!ShapesMatch(data.shape(), expected)) {
      return InvalidArgument("recv-done: ", data.shape().ToStringWithoutLayout(),
                             " comes, expected ", expected.ToStringWithoutLayout());
    }
  }
  return Literal::Tuple({std::move(data), Literal::Token()});
}

}  // namespace

template <>
OpRow Define<Op::kSend>() {
  return {.doc = "Starts sending operand 0 over a channel: (data, context, token).",
          .infer = InferSend,
          .evaluate = EvaluateSend,
          .no_dim_rule = "meets the host, whole"};
}

template <>
OpRow Define<Op::kSendDone>() {
  return {.doc = "A token that comes after a send.",
          .infer = InferSendDone,
          .evaluate = [](EvalContext&, const Instruction&, std::span<Literal>) -> Result<Literal> {
            return Literal::Token();
          },
          .no_dim_rule = "meets the host, whole"};
}

template <>
OpRow Define<Op::kRecv>() {
  return {.doc = "Starts receiving over a channel: (data, context, token).",
          .infer = InferRecv,
          .evaluate = EvaluateRecv,
          .no_dim_rule = "meets the host, whole"};
}

template <>
OpRow Define<Op::kRecvDone>() {
  return {.doc = "What a recv received: (data, token).",
          .infer = InferRecvDone,
          .evaluate = EvaluateRecvDone,
          .no_dim_rule = "meets the host, whole"};
}

template <>
OpRow Define<Op::kInfeed>() {
  return {.doc = "The next value from the host: (data, token).",
          .infer = InferInfeed,
          .evaluate = [](EvalContext&, const Instruction&, std::span<Literal>) -> Result<Literal> {
            auto error = Unimplemented("infeed: the host feeds nothing");
            error.error().Hint("give the data to the program as an argument");
            return error;
          },
          .no_dim_rule = "meets the host, whole"};
}

template <>
OpRow Define<Op::kOutfeed>() {
  return {.doc = "Gives operand 0 to the host; a token. Evaluation drops the value.",
          .infer = InferOutfeed,
          .evaluate = [](EvalContext&, const Instruction&, std::span<Literal>) -> Result<Literal> {
            return Literal::Token();
          },
          .no_dim_rule = "meets the host, whole"};
}

}  // namespace weft::hlo
