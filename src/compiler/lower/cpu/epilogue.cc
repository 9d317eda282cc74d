// Epilogue fusion: the loop over what a product makes runs as part of the product's call, on rows
// that are still in cache.
#include "compiler/lower/cpu/epilogue.h"

#include <algorithm>
#include <unordered_set>

#include "base/str.h"
#include "compiler/lower/loop.h"
#include "program/library.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Step;
using HloOp = hlo::Op;

namespace {

// Vectors would be few and the rest of rows many.
constexpr int64_t kShortEpilogueRow = 4 * program::TargetFacts::kUsualLanes;
// Of a product and its epilogue, that may change places.
constexpr size_t kStepsBetween = program::WorkBounds::kTree;

// A small difference of the operand makes a small one of the result, so that a product may be
// compared with another one, whose sums were in another order, by what is computed from it.
bool IsContinuous(const Instruction& i, const Instruction& operand) {
  switch (i.op()) {
    case HloOp::kFloor:
    case HloOp::kCeil:
    case HloOp::kRoundNearestAfz:
    case HloOp::kRoundNearestEven:
    case HloOp::kSign:
    case HloOp::kRemainder:
    case HloOp::kIsFinite:
    case HloOp::kMap: return false;
    case HloOp::kCompare:
      // A choice between the operand and what is joined to it there.
      return !i.users().empty() && !i.IsRoot() &&
             std::all_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
               return user->op() == HloOp::kSelect && user->operand(0) == &i &&
                      (user->operand(1) == &operand || user->operand(2) == &operand);
             });
    default: return IsFloat(i.shape().dtype()) || IsComplex(i.shape().dtype());
  }
}

// Whether the users of `input` among the members need the element at the same place, and so do
// theirs.
bool GoesElementByElement(const Instruction& input,
                          const std::vector<const Instruction*>& members) {
  bool exact = IsInteger(input.shape().dtype());
  std::unordered_set<const Instruction*> inside(members.begin(), members.end()), seen;
  std::vector<const Instruction*> work = {&input};
  while (!work.empty()) {
    const Instruction& from = *work.back();
    work.pop_back();
    for (const Instruction* user : from.users()) {
      if (!inside.contains(user) || user->op() == HloOp::kTuple) continue;
      bool same = hlo::IsElementwise(user->op()) && user->shape().dims() == input.shape().dims() &&
                  from.shape().dims() == input.shape().dims();
      if (!same || (!exact && !IsContinuous(*user, from))) return false;
      if (seen.insert(user).second) work.push_back(user);
    }
  }
  return true;
}

// The product behind other names, if that is all it is used for.
const Instruction* OwnProduct(const Instruction& operand) {
  const Instruction* i = &operand;
  while (i->users().size() == 1 && !i->IsRoot() && IsRenaming(i->op())) i = i->operand(0);
  bool product = i->op() == HloOp::kDot || i->op() == HloOp::kConvolution;
  return product && i->users().size() == 1 && !i->IsRoot() ? i : nullptr;
}

bool IsProductCall(const Step& step) {
  auto* call = std::get_if<program::LibraryStep>(&step.op);
  return call != nullptr && (call->routine == "gemm" || call->routine == "convolution") &&
         step.uses.size() == 3;
}

// Steps without steps inside, neither of which writes what the other uses.
bool MayChangePlaces(const program::Program& program, const Step& a, const Step& b) {
  // Between start and wait a collective is in nobody's way but its memory's.
  const bool is_async = std::holds_alternative<program::WaitStep>(b.op) ||
                        std::holds_alternative<program::CollectiveStep>(b.op);
  bool plain = std::holds_alternative<program::KernelStep>(b.op) ||
               std::holds_alternative<program::CopyStep>(b.op) ||
               std::holds_alternative<program::FillStep>(b.op) ||
               std::holds_alternative<program::LibraryStep>(b.op);
  if (!is_async && (!plain || !b.event.empty())) return false;
  for (const program::Use& x : a.uses) {
    for (const program::Use& y : b.uses) {
      if (!Writes(x.access) && !Writes(y.access)) continue;
      if (Overlap(Resolve(program, x.slice), Resolve(program, y.slice))) return false;
    }
  }
  return true;
}

// A product behind the wait for a call would not run beside it any more.
bool WaitsForList(const Steps& steps, const Step& step) {
  auto* wait = std::get_if<program::WaitStep>(&step.op);
  return wait != nullptr && std::ranges::any_of(steps, [&](const Step& s) {
           return IsAsyncList(s) && s.event == wait->event;
         });
}

}  // namespace

std::vector<int64_t> ProductOperands(const Instruction& i) {
  bool fusion = i.op() == HloOp::kFusion;
  if (!fusion && !hlo::IsElementwise(i.op())) return {};
  std::vector<const Instruction*> members = {&i};
  const hlo::Computation* fused = fusion ? i.attrs<hlo::FusionAttrs>().calls : nullptr;
  if (fusion) {
    if (i.attrs<hlo::FusionAttrs>().kind != hlo::FusionKind::kLoop) return {};
    members.clear();
    for (const Instruction* member : *fused) members.push_back(member);
  }
  std::vector<int64_t> found;
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    const Instruction& operand = *i.operand(k);
    if (!operand.shape().IsArray() || OwnProduct(operand) == nullptr) continue;
    const Instruction& input = fusion ? *fused->parameter(k) : operand;
    if (GoesElementByElement(input, members)) found.push_back(k);
  }
  return found;
}

namespace {

// Why the loop cannot run as part of the call; empty: it can.
std::string_view WhyNoEpilogue(LowerContext& cx, const KernelBody& body, const LoopShape& shape,
                               const Shape& product, const Step& call) {
  size_t minor = shape.dims.size();
  while (minor > 0 && shape.dims[minor - 1] == 1) --minor;
  int64_t row = minor == 0 ? 1 : shape.dims[minor - 1];
  if (row < kShortEpilogueRow || row == product.elements()) return "its rows are short, or one";
  int64_t columns = program::IntAttr(std::get<program::LibraryStep>(call.op), "n",
                                     product.dim(product.rank() - 1));
  if (columns % row != 0) return "its rows are not those of the product";
  auto overlaps = [&](MemValue value, const program::Use& use) {
    program::BufferId buffer = cx.Buffer(value);
    return buffer != use.slice.buffer && Overlap(Resolve(cx.program, In(cx.program, buffer).slice),
                                                 Resolve(cx.program, use.slice));
  };
  for (const KernelOutput& output : body.outputs) {
    for (size_t k = 0; k < 3; ++k) {
      bool operand = k < 2 && cx.Buffer(output.value) == call.uses[k].slice.buffer;
      if (operand || overlaps(output.value, call.uses[k])) {
        return "its result lies where the product's operands are";
      }
    }
  }
  return "";
}

// The call before the body that makes a product for it alone.
struct ProductCall {
  size_t step;
  const Shape* product;
  const Instruction* operand;  // of the body that it is
};
std::optional<ProductCall> FindProductCall(LowerContext& cx, const KernelBody& body,
                                           const Steps& steps) {
  const Instruction& i = *body.instruction;
  std::vector<int64_t> products = ProductOperands(i);
  if (products.empty()) return std::nullopt;
  // Buffers in the order in which the loop declares them.
  for (const KernelInput& input : body.inputs) cx.Buffer(input.value);
  for (const KernelOutput& output : body.outputs) cx.Buffer(output.value);
  for (size_t at = steps.size(); at-- > 0 && steps.size() - at <= kStepsBetween;) {
    if (!IsProductCall(steps[at])) continue;
    for (int64_t k : products) {
      if (cx.Buffer(cx.memory.Leaf(*i.operand(k))) == steps[at].uses[2].slice.buffer) {
        return ProductCall{at, &OwnProduct(*i.operand(k))->shape(), i.operand(k)};
      }
    }
  }
  return std::nullopt;
}

Decision MatchEpilogue(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Steps& steps = subject.steps;
  if (cx.serial) return Refuse("it is inside of a loop on one thread");
  std::optional<ProductCall> found = FindProductCall(cx, subject.body(), steps);
  if (!found) return Refuse("no call before it makes a product for it alone");
  const Step& call = steps[found->step];
  bool moves = std::all_of(steps.begin() + static_cast<int64_t>(found->step) + 1, steps.end(),
                           [&](const Step& s) {
                             return MayChangePlaces(cx.program, call, s) && !WaitsForList(steps, s);
                           });
  std::string_view reason =
      moves ? WhyNoEpilogue(cx, subject.body(), LoopShapeOf(subject), *found->product, call)
            : "steps between it and the product use the same memory or wait for a call";
  if (!reason.empty()) {
    cx.not_fused.push_back(
        MakeFusionNote(*found->operand, StrCat("no epilogue of the product: ", reason)));
    return Refuse(reason);
  }
  return Take("it works on a product element by element, on rows still in cache");
}

// The call takes the place of the loop, and its uses.
Status LowerEpilogue(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const KernelBody& body = subject.body();
  size_t product = FindProductCall(cx, body, steps)->step;
  KernelDraft draft = NewDraft(cx, body);
  TRY(EmitLoop(subject, draft, true));
  Step loop = draft.Finish(cx.kernels, body.instruction->SourceLocation());
  std::rotate(steps.begin() + static_cast<int64_t>(product),
              steps.begin() + static_cast<int64_t>(product) + 1, steps.end());
  Step& call = steps.back();
  int32_t kernel = std::get<program::KernelStep>(loop.op).kernel;
  auto& attrs = std::get<program::LibraryStep>(call.op).attrs;
  attrs.push_back({"epilogue", cx.program.kernels[static_cast<size_t>(kernel)].name});
  for (size_t k = 0; k < loop.uses.size(); ++k) {
    if (loop.uses[k].slice.buffer != call.uses[2].slice.buffer) {
      call.uses.push_back(loop.uses[k]);
    } else if (k > 0) {
      attrs.push_back({"epilogue_result", static_cast<int64_t>(k)});
    }
  }
  call.name = StrCat(call.name, ".", loop.name);
  return {};
}

}  // namespace

extern constinit const LoweringRow kEpilogue = {
    "epilogue of a product", {}, MatchEpilogue, LowerEpilogue};

}  // namespace weft::compiler
