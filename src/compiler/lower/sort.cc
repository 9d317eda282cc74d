// Sorts: the library's, by an order that it knows or by a comparator that is a kernel.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/sort_order.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::Attr;
using program::Step;

namespace {

// The keys come first, in the order of their significance.
Status LowerOrderedSort(LowerContext& cx, const Instruction& sort, const SortOrder& order,
                        std::vector<Attr> list, Steps& steps) {
  std::vector<int64_t> operands = order.keys;
  for (int64_t i = 0; i < sort.operand_count(); ++i) {
    if (std::find(operands.begin(), operands.end(), i) == operands.end()) operands.push_back(i);
  }
  if (order.descending) list.push_back({"order", std::string("desc")});
  if (order.keys.size() > 1) list.push_back({"keys", static_cast<int64_t>(order.keys.size())});
  if (order.zeros_equal) list.push_back({"zeros_equal", true});
  if (order.nans_equal) list.push_back({"nans_equal", true});
  Step step = Routine(cx, "sort", sort, std::move(list));
  step.uses.clear();
  for (int64_t i : operands) {
    step.uses.push_back(In(cx.program, cx.Buffer(cx.memory.Leaf(*sort.operand(i)))));
  }
  for (int64_t i : operands)
    step.uses.push_back(Out(cx.program, cx.Buffer(cx.memory.Leaf(sort, i))));
  steps.push_back(std::move(step));
  return {};
}

Decision MatchSort(Subject& subject) {
  const auto& attrs = subject.instruction.attrs<hlo::SortAttrs>();
  bool known = OrderOfComparator(*attrs.to_apply).has_value();
  return Take(known ? "the library knows the order" : "the library calls the comparator");
}

Status LowerSort(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& sort = subject.instruction;
  Steps& steps = subject.steps;
  const auto& attrs = sort.attrs<hlo::SortAttrs>();
  const Shape& shape = sort.operand(0)->shape();
  int64_t dim = attrs.dimensions[0], outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= shape.dim(d);
  for (int64_t d = dim + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  std::vector<Attr> list = {{"n", shape.dim(dim)}, {"outer", outer}, {"inner", inner}};
  if (shape.elements() == 0) return {};
  const hlo::Computation& compare = *attrs.to_apply;
  if (std::optional<SortOrder> order = OrderOfComparator(compare)) {
    return LowerOrderedSort(cx, sort, *order, std::move(list), steps);
  }
  // The comparator as a kernel of one element each.
  KernelBuilder b(StrCat(sort.name(), ".compare"));
  b.ReuseValues();
  std::vector<Element> args;
  std::vector<KernelBuilder::MemoryId> memory;
  for (const Instruction* p : compare.parameters()) {
    DType type = p->shape().dtype();
    memory.push_back(b.Param(StrCat("x", p->parameter_number()), RealType(type),
                             IsComplex(type) ? 2 : 1, Access::kRead));
  }
  KernelBuilder::MemoryId out = b.Param("before", DType::kPred, 1, Access::kWrite);
  ElementContext e(b);
  for (size_t i = 0; i < memory.size(); ++i) {
    args.push_back(LoadAt(e, memory[i], compare.parameter(static_cast<int64_t>(i))->shape().dtype(),
                          ConstantCoord(e, 0)));
  }
  Element before = TRY(CallComputation(e, compare, args))[0];
  b.Store(out, b.Int(0), before.re);
  int32_t kernel = cx.kernels.Add(cx.program, std::move(b).Build());
  list.push_back({"comparator", cx.program.kernels[static_cast<size_t>(kernel)].name});
  steps.push_back(Routine(cx, "sort", sort, std::move(list)));
  return {};
}

}  // namespace

extern constinit const LoweringRow kSort = {"library sort", {hlo::Op::kSort}, MatchSort, LowerSort};

}  // namespace weft::compiler
