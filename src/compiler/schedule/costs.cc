#include "compiler/schedule/costs.h"

#include <algorithm>
#include <cmath>

#include "compiler/analysis/collectives.h"
#include "compiler/schedule/resources.h"
#include "hlo/attention_call.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

bool IsSlice(Op op) {
  return op == Op::kSlice || op == Op::kDynamicSlice || op == Op::kGather;
}

const Instruction* BehindBitcasts(const Instruction* i) {
  while (i->op() == Op::kBitcast) i = i->operand(0);
  return i;
}

// What a computation returns, element by element.
std::vector<const Instruction*> Tops(const Computation& c) {
  const Instruction* root = c.root();
  if (root->op() != Op::kTuple) return {root};
  return {root->operands().begin(), root->operands().end()};
}

const Computation* Callee(const Instruction& i) {
  if (i.op() == Op::kFusion) return i.attrs<hlo::FusionAttrs>().calls;
  if (i.op() == Op::kAsyncStart) return i.attrs<hlo::AsyncAttrs>().calls;
  return nullptr;
}

// Bytes of a value that the instructions of a fused computation read.
double BytesRead(const Instruction& value) {
  const Computation& c = *value.parent();
  auto full = static_cast<double>(value.shape().ByteSize());
  double total = 0;
  for (const Instruction* user : value.users()) {
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) != &value) continue;
      if (IsSlice(user->op()) && k == 0) {
        total += static_cast<double>(user->shape().ByteSize());
      } else if (user->op() == Op::kBitcast) {
        total += BytesRead(*user);
      } else if (user->op() == Op::kFusion) {
        total += BytesRead(*Callee(*user)->parameter(k));
      } else {
        bool updated_in_place = false;
        if (user->op() == Op::kDynamicUpdateSlice && k == 0) {
          for (const Instruction* top : Tops(c)) updated_in_place |= BehindBitcasts(top) == user;
        }
        if (!updated_in_place) return full;
      }
    }
  }
  return c.root() == &value ? full : std::min(total, full);
}

double BytesWritten(const Computation& c) {
  double total = 0;
  for (const Instruction* top : Tops(c)) {
    const Instruction* behind = BehindBitcasts(top);
    if (behind->op() == Op::kDynamicUpdateSlice) {
      total += static_cast<double>(behind->operand(1)->shape().ByteSize());
    } else if (behind->op() == Op::kFusion) {
      total += BytesWritten(*Callee(*behind));
    } else {
      total += static_cast<double>(top->shape().ByteSize());
    }
  }
  return total;
}

// Nothing but slices, copies and updates: a copy engine can do it.
bool IsPureCopy(const Computation& c) {
  for (const Instruction* i : c) {
    switch (i->op()) {
      case Op::kParameter:
      case Op::kConstant:
      case Op::kBitcast:
      case Op::kSlice:
      case Op::kDynamicSlice:
      case Op::kDynamicUpdateSlice:
      case Op::kCopy:
      case Op::kTuple:
      case Op::kGetTupleElement: break;
      case Op::kFusion:
        if (!IsPureCopy(*Callee(*i))) return false;
        break;
      default:
        if (!i->shape().IsScalar()) return false;
    }
  }
  return true;
}

int64_t Product(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= d;
  return product;
}

// Of weft.attention or its gradient, which takes the weights again: five products of the two.
double AttentionFlops(const Instruction& i) {
  const Result<hlo::AttentionCall> call = hlo::AttentionCallOf(i);
  if (!call) return 0;
  const Shape &k = i.operand(1)->shape(), &v = i.operand(2)->shape();
  int64_t scores = hlo::SizeAlong(call->k, k, 's');
  for (char axis : call->axes()) {
    scores *= std::max<int64_t>(1, hlo::SizeAlong(call->out, hlo::AttentionResult(*call, i), axis));
  }
  const int64_t depth = hlo::SizeAlong(call->k, k, 'd'), values = hlo::SizeAlong(call->v, v, 'v');
  return 2.0 * static_cast<double>(scores) *
         static_cast<double>(call->is_gradient ? 3 * depth + 2 * values : depth + values);
}

bool IsMarker(std::string_view target) {
  return target == "Sharding" || target == "SPMDFullToShardShape" ||
         target == "SPMDShardToFullShape" || target == "AllocateBuffer";
}

}  // namespace

std::string_view StreamName(Stream stream) {
  constexpr std::string_view kNames[] = {"compute", "wire", "copy", "wait"};
  return kNames[static_cast<size_t>(stream)];
}

bool IsIdentity(const Instruction& i) {
  switch (i.op()) {
    case Op::kBitcast:
    case Op::kOptBarrier:
    case Op::kDomain:
    case Op::kAddDependency:
    case Op::kAsyncUpdate: return true;
    case Op::kCustomCall:
      return i.operand_count() > 0 && IsMarker(i.attrs<hlo::CustomCallAttrs>().custom_call_target);
    default: return false;
  }
}

bool Costs::Forwards(const Instruction& i) const {
  return IsIdentity(i) || (machine_.forwards_reshapes && i.op() == Op::kReshape);
}

bool IsFree(const Instruction& i) {
  switch (i.op()) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kAfterAll:
    case Op::kPartitionId:
    case Op::kReplicaId: return true;
    case Op::kCustomCall: return IsMarker(i.attrs<hlo::CustomCallAttrs>().custom_call_target);
    default: return IsIdentity(i);
  }
}

const Instruction& Started(const Instruction& start) {
  if (start.op() != Op::kAsyncStart) return start;
  const Computation* c = Callee(start);
  if (c == nullptr) return start;
  for (const Instruction* i : *c) {
    if (IsCollective(i->op()) || IsMarkedCollective(*i)) return *i;
  }
  return *c->root();
}

Shape ResultOfStart(const Instruction& i) {
  const Shape& shape = i.shape();
  if (i.op() == Op::kAsyncStart && Callee(i) != nullptr) return Callee(i)->root()->shape();
  if (i.op() == Op::kSend) return Shape::Token();
  bool is_pair = HasTrait(i.op(), hlo::kAsyncStart) && i.op() != Op::kAllReduceStart;
  if (!is_pair || !shape.IsTuple() || shape.tuple_size() < 2) return shape;
  if (i.op() == Op::kRecv) return Shape::Tuple({shape.tuple_element(0), Shape::Token()});
  return shape.tuple_element(i.op() == Op::kCopyStart ? 0 : 1);
}

Costs::Costs(const hlo::Module& module, const Machine& machine, const Profile* profile)
    : machine_(machine),
      profile_(profile),
      devices_(DeviceCount(module)),
      rules_(machine, devices_) {}

std::vector<AliasedResult> Costs::InPlace(const Instruction& i) const {
  std::vector<AliasedResult> found;
  auto add = [&](AliasedResult a) {
    for (AliasedResult& other : found) {
      if (other.result == a.result) return void(other = a);
    }
    found.push_back(a);
  };
  if (i.op() == Op::kDynamicUpdateSlice) add({-1, 0});
  const hlo::OperandAliases* aliases = nullptr;
  if (i.op() == Op::kFusion) aliases = &i.attrs<hlo::FusionAttrs>().output_to_operand_aliasing;
  if (i.op() == Op::kAsyncStart) aliases = &i.attrs<hlo::AsyncAttrs>().output_to_operand_aliasing;
  if (i.op() == Op::kCustomCall) {
    aliases = &i.attrs<hlo::CustomCallAttrs>().output_to_operand_aliasing;
  }
  if (aliases != nullptr) {
    // The result of a start is (operands, result, ...).
    size_t skip = i.op() == Op::kAsyncStart ? 1 : 0;
    for (const hlo::OperandAlias& a : *aliases) {
      add({a.output.size() > skip ? a.output[skip] : -1, a.operand});
    }
  }
  const Computation* inner = Callee(i);
  if (inner == nullptr) return found;
  std::vector<const Instruction*> tops = Tops(*inner);
  for (size_t k = 0; k < tops.size(); ++k) {
    const Instruction* top = BehindBitcasts(tops[k]);
    if (top->op() != Op::kFusion && top->op() != Op::kDynamicUpdateSlice) continue;
    for (const AliasedResult& a : InPlace(*top)) {
      if (a.result != -1) continue;
      const Instruction* source = BehindBitcasts(top->operand(a.operand));
      if (!source->IsParameter()) continue;
      bool is_tuple = inner->root()->op() == Op::kTuple;
      add({is_tuple ? static_cast<int64_t>(k) : -1, source->parameter_number()});
    }
  }
  return found;
}

Costs::Work Costs::Products(const Instruction& i) {
  if (i.op() == Op::kFusion) {
    Work total;
    for (const Instruction* inside : *Callee(i)) {
      Work work = Products(*inside);
      total.flops += work.flops;
      total.seconds += work.seconds;
    }
    return total;
  }
  bool is_call = i.op() == Op::kCustomCall;
  if (i.operand_count() == 0 || (i.op() != Op::kDot && i.op() != Op::kConvolution && !is_call)) {
    return {};
  }
  const Shape& lhs = i.operand(0)->shape();
  const Shape* out = &i.shape();
  if (out->IsTuple() && out->tuple_size() > 0) out = &out->tuple_element(0);
  if (!lhs.IsArray() || !out->IsArray()) return {};
  std::string_view target =
      is_call ? std::string_view(i.attrs<hlo::CustomCallAttrs>().custom_call_target) : "";
  auto results = static_cast<double>(Product(out->dims()));
  double work = 0;
  if (i.op() == Op::kDot || target.starts_with("__cublas")) {
    std::vector<int64_t> dims = ConfigInts(i, "lhs_contracting_dimensions");
    if (dims.empty() && !is_call) dims = i.attrs<hlo::DotAttrs>().lhs_contracting_dims;
    work = 2 * results;
    for (int64_t d : dims) work *= static_cast<double>(d < lhs.rank() ? lhs.dim(d) : 1);
  } else if (i.op() == Op::kConvolution || target.find("conv") != target.npos) {
    const hlo::ConvDims& labels = is_call ? i.attrs<hlo::CustomCallAttrs>().dim_labels
                                          : i.attrs<hlo::ConvolutionAttrs>().dim_labels;
    if (i.operand_count() < 2 || labels.kernel_output >= i.operand(1)->shape().rank()) return {};
    const Shape& kernel = i.operand(1)->shape();
    auto outputs = static_cast<double>(std::max<int64_t>(kernel.dim(labels.kernel_output), 1));
    work = 2 * results * static_cast<double>(Product(kernel.dims())) / outputs;
  } else if (target.find("fmha") != target.npos) {  // two products forward, five backward
    double scores = 1;
    std::string_view shape = ConfigValue(i, "intermediate_tensor_shape");
    size_t dims = shape.find("dimensions");
    for (size_t at = dims; at < shape.size() && shape[at] != ']';) {
      size_t end = std::min(shape.find_first_not_of("0123456789", at), shape.size());
      if (end > at) scores *= static_cast<double>(ParseInt(shape.substr(at, end - at)).value_or(1));
      at = end + (end == at ? 1 : 0);
    }
    double products = target.find("ackward") != target.npos ? 10 : 4;
    if (dims != shape.npos && lhs.rank() > 0)
      work = products * scores * static_cast<double>(lhs.dim(lhs.rank() - 1));
  } else if (hlo::IsAttentionCall(i)) {
    work = AttentionFlops(i);
  } else {
    warnings_.insert(StrCat("custom-call ", target, ": costed by bytes only"));
  }
  return {work, work / machine_.FlopRate(lhs.dtype())};
}

double Costs::Traffic(const Instruction& i) const {
  auto bytes = [](const Instruction* x) { return static_cast<double>(x->shape().ByteSize()); };
  double total = 0;
  switch (i.op()) {
    case Op::kFusion:
      for (const Instruction* p : Callee(i)->parameters()) total += BytesRead(*p);
      return total + BytesWritten(*Callee(i));
    case Op::kCopyStart: return 2 * bytes(i.operand(0));
    case Op::kDynamicUpdateSlice: return 2 * bytes(i.operand(1));
    case Op::kScatter: return 2 * bytes(i.operand(i.operand_count() - 1));
    case Op::kSlice:
    case Op::kDynamicSlice:
    case Op::kGather: return 2 * bytes(&i);
    default: break;
  }
  auto count = [&](const Shape& shape) {
    bool is_byte = shape.dtype() == DType::kS8 || shape.dtype() == DType::kU8;
    // The workspace of a library routine.
    if (i.op() == Op::kCustomCall && is_byte && shape.rank() == 1) return;
    total += static_cast<double>(shape.ByteSize());
  };
  if (i.shape().IsTuple()) {
    for (const Shape& element : i.shape().elements_of_tuple()) count(element);
  } else {
    count(i.shape());
  }
  for (const Instruction* operand : i.operands()) total += bytes(operand);
  return total;
}

OpCost Costs::Collective(const Instruction& i) const {
  OpCost cost;
  cost.stream = Stream::kWire;
  cost.collective = i.op();
  cost.group = devices_;
  if (i.attrs().Is<hlo::CollectivePermuteAttrs>()) {
    cost.group = 2;
  } else if (const hlo::CollectiveAttrs* attrs = i.attrs().Collective()) {
    auto groups = attrs->replica_groups.Expand(devices_);
    if (groups && !groups->empty()) cost.group = static_cast<int64_t>((*groups)[0].size());
  }
  for (const Instruction* operand : i.operands()) cost.bytes += operand->shape().ByteSize();
  if (i.op() == Op::kAllGather || i.op() == Op::kAllGatherStart) cost.bytes *= cost.group;
  cost.seconds = CollectiveSeconds(machine_, i.op(), static_cast<double>(cost.bytes), cost.group);
  return cost;
}

OpCost Costs::Of(const Instruction& i) {
  const Instruction& inner = Started(i);
  bool is_start = HasTrait(i.op(), hlo::kAsyncStart);
  OpCost cost;
  bool is_wire = IsCollective(inner.op()) || IsMarkedCollective(inner) || i.op() == Op::kSend ||
                 i.op() == Op::kRecv;
  if (is_wire) {
    cost = Collective(inner);
    std::string_view sync = ConfigValue(i, "is_sync");
    cost.is_sync_pair = is_start && sync.find_first_not_of(" \"\\") != sync.npos &&
                        sync.substr(sync.find_first_not_of(" \"\\")).starts_with("true");
    cost.is_async = is_start && !cost.is_sync_pair;
    if (!rules_.empty()) cost.wire_class = rules_.ClassOf(inner);
  } else {
    bool is_copy = i.op() == Op::kCopyStart ||
                   (i.op() == Op::kAsyncStart && Callee(i) != nullptr && IsPureCopy(*Callee(i)));
    Work work = Products(inner);
    cost.stream = is_copy ? Stream::kCopy : Stream::kCompute;
    cost.is_async = is_copy;
    cost.flops = work.flops;
    cost.seconds = machine_.Takes(work.seconds, Traffic(inner) / machine_.memory);
  }
  if (const std::string* told = i.FrontendAttributeValue("latency_metadata")) {
    if (std::optional<double> ns = ParseDouble(*told); ns && *ns >= 0) cost.seconds = *ns * 1e-9;
  }
  if (profile_ != nullptr) {
    const double* measured = is_start ? profile_->FindStart(i.name()) : profile_->Find(i.name());
    if (measured != nullptr) cost.seconds = *measured;
  }
  return cost;
}

}  // namespace weft::compiler::schedule
