#include "hlo/text/printer.h"

namespace weft::hlo::text {

bool CanWrapAsync(Op op) {
  switch (op) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kAsyncStart:
    case Op::kAsyncUpdate:
    case Op::kAsyncDone:
    case Op::kAllGather:  // these have -start and -done of their own
    case Op::kAllReduce:
    case Op::kCollectivePermute:
    case Op::kCopy:
    case Op::kSend:
    case Op::kRecv: return false;
    default: return true;
  }
}

const Instruction* FindAsyncProducer(const Instruction* i) {
  constexpr int kMaxSteps = 1000;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (i->attrs().Is<AsyncAttrs>()) return i;
    if (i->op() == Op::kOptBarrier) {
      i = i->operand(0);
    } else if (i->op() == Op::kGetTupleElement) {
      const Instruction* tuple = i->operand(0);
      while (tuple->op() == Op::kOptBarrier && step++ < kMaxSteps) tuple = tuple->operand(0);
      int64_t index = i->tuple_index();
      if (tuple->op() != Op::kTuple || index < 0 || index >= tuple->operand_count()) return nullptr;
      i = tuple->operand(index);
    } else {
      return nullptr;
    }
  }
  return nullptr;
}

namespace {

bool SameFacts(const Instruction& a, const Instruction& b, const PrintOptions& o) {
  bool same_metadata = (a.metadata() == nullptr) == (b.metadata() == nullptr) &&
                       (a.metadata() == nullptr || *a.metadata() == *b.metadata());
  if (o.metadata && !same_metadata) return false;
  InstructionExtras nothing;
  const InstructionExtras& x = a.extras() != nullptr ? *a.extras() : nothing;
  const InstructionExtras& y = b.extras() != nullptr ? *b.extras() : nothing;
  return (!o.frontend_attributes || x.frontend_attributes == y.frontend_attributes) &&
         (!o.backend_config || x.backend_config == y.backend_config) &&
         (o.canonical || x.statistics == y.statistics) && (!o.origin || x.origin == y.origin);
}

// Nothing that would be printed of an op that sugar hides, but what the async op repeats.
bool HasNoOwnExtras(const Instruction& i, const PrintOptions& o) {
  const InstructionExtras* x = i.extras();
  return x == nullptr || ((!o.sharding || !x->sharding) && x->parameter_replication.empty() &&
                          x->control_predecessors.empty() && x->control_successors.empty());
}

bool IsPlain(const Instruction& i, const PrintOptions& o) {
  InstructionExtras nothing;
  const InstructionExtras& x = i.extras() != nullptr ? *i.extras() : nothing;
  return HasNoOwnExtras(i, o) && (!o.metadata || i.metadata() == nullptr) &&
         (!o.frontend_attributes || x.frontend_attributes.empty()) &&
         (!o.backend_config || x.backend_config == BackendConfig()) &&
         (o.canonical || !x.statistics) && (!o.origin || !x.origin);
}

bool SameText(const Shape& a, const Shape& b, const PrintOptions& o) {
  return o.layouts ? a == b : Shape::Compatible(a, b);
}

bool SameThread(const std::string& a, const std::string& b) {
  return a == b || ((a.empty() || a == "main") && (b.empty() || b == "main"));
}

}  // namespace

bool HasSugar(const Instruction& start, const PrintOptions& o) {
  const AsyncAttrs& attrs = start.attrs<AsyncAttrs>();
  const Computation* c = attrs.calls;
  const Shape& shape = start.shape();
  if (c == nullptr || !shape.IsTuple() || shape.tuple_size() < 2) return false;
  const Instruction* root = c->root();
  int64_t count = static_cast<int64_t>(c->parameters().size());
  if (!shape.tuple_element(0).IsTuple() || shape.tuple_element(0).tuple_size() != count ||
      c->size() != count + 1 || root != c->last() || !CanWrapAsync(root->op()) ||
      root->operand_count() != count || !SameText(shape.tuple_element(1), root->shape(), o) ||
      !SameThread(c->execution_thread(), attrs.async_execution_thread) ||
      !SameFacts(start, *root, o) || !HasNoOwnExtras(*root, o)) {
    return false;
  }
  int64_t i = 0;
  for (const Instruction* p = c->first(); p != root; p = p->next(), ++i) {
    if (!p->IsParameter() || p->parameter_number() != i || root->operand(i) != p ||
        !IsPlain(*p, o) || !SameText(p->shape(), shape.tuple_element(0).tuple_element(i), o)) {
      return false;
    }
  }
  // The list of aliases would go to the op inside.
  return attrs.output_to_operand_aliasing.empty() ||
         root->attrs().Fields().Find("output_to_operand_aliasing") == nullptr;
}

}  // namespace weft::hlo::text
