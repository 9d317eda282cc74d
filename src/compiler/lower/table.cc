// Instruction selection by tables: the rows of a target in order, and what they ask about.
#include "compiler/lower/table.h"

#include <algorithm>

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

LoweringTable TableOf(const program::TargetInfo& target) {
  return target.kind == program::TargetKind::kGpu ? GpuTable() : CpuTable();
}

// Whether something may read that leaf of the instruction's result.
bool IsRead(const Instruction& instruction, size_t leaf) {
  const Shape& shape = instruction.shape();
  if (instruction.IsRoot() || !shape.IsTuple()) return true;
  for (int64_t k = 0; k < shape.tuple_size(); ++k) {
    if (!shape.tuple_element(k).IsArray()) return true;
  }
  return std::any_of(instruction.users().begin(), instruction.users().end(),
                     [&](const Instruction* user) {
                       return user->op() != HloOp::kGetTupleElement ||
                              (user->tuple_index() == static_cast<int64_t>(leaf) &&
                               (user->IsRoot() || !user->users().empty()));
                     });
}

// Results that nobody reads are not computed; one is left.
void DropUnread(const Instruction& instruction, std::vector<KernelOutput>& outputs) {
  std::vector<KernelOutput> read;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (IsRead(instruction, k)) read.push_back(outputs[k]);
  }
  if (!read.empty()) outputs = std::move(read);
}

// What the element loop computes one element of: the reduce behind get-tuple-element.
const Instruction& ProducerOf(const Instruction& root) {
  const Instruction* i = &root;
  while (i->op() == HloOp::kGetTupleElement) i = i->operand(0);
  return *i;
}

// canonicalize-dots leaves [batch..., m, k] x [batch..., k, n], either side possibly transposed.
std::optional<DotSizes> SizesOfDot(const Instruction& dot) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  int64_t batch_rank = static_cast<int64_t>(attrs.lhs_batch_dims.size());
  bool canonical = attrs.lhs_contracting_dims.size() == 1;
  for (int64_t i = 0; i < batch_rank; ++i) {
    canonical &= attrs.lhs_batch_dims[static_cast<size_t>(i)] == i &&
                 attrs.rhs_batch_dims[static_cast<size_t>(i)] == i;
  }
  int64_t lhs_free = lhs.rank() - batch_rank - 1, rhs_free = rhs.rank() - batch_rank - 1;
  canonical &= lhs_free >= 0 && lhs_free <= 1 && rhs_free >= 0 && rhs_free <= 1;
  if (!canonical) return std::nullopt;
  int64_t k_dim = attrs.lhs_contracting_dims[0], r_dim = attrs.rhs_contracting_dims[0];
  int64_t k = lhs.dim(k_dim), batch = 1;
  for (int64_t i = 0; i < batch_rank; ++i) batch *= lhs.dim(i);
  bool trans_a = lhs_free == 1 && k_dim == batch_rank;
  bool trans_b = rhs_free == 1 && r_dim == batch_rank + 1;
  int64_t m = lhs_free == 1 ? lhs.dim(trans_a ? batch_rank + 1 : batch_rank) : 1;
  int64_t n = rhs_free == 1 ? rhs.dim(trans_b ? batch_rank : batch_rank + 1) : 1;
  return DotSizes{batch, m, n, k, trans_a, trans_b};
}

std::optional<ReduceGroup> ReducesOf(const LowerContext& cx, const KernelBody& body) {
  ReduceGroup group;
  std::vector<size_t> first;  // results before each reduce
  for (const KernelOutput& output : body.outputs) {
    const Instruction& root = *output.inside;
    const Instruction* reduce = &ProducerOf(root);
    if (reduce->op() != HloOp::kReduce) return std::nullopt;
    auto it = std::find(group.reduces.begin(), group.reduces.end(), reduce);
    if (it == group.reduces.end()) {
      first.push_back(group.count);
      group.count += static_cast<size_t>(reduce->operand_count()) / 2;
      group.reduces.push_back(reduce);
      it = group.reduces.end() - 1;
    }
    size_t leaf = root.op() == HloOp::kGetTupleElement ? static_cast<size_t>(root.tuple_index())
                                                       : static_cast<size_t>(output.leaf);
    group.wanted.push_back(first[static_cast<size_t>(it - group.reduces.begin())] + leaf);
  }
  const ReduceDims& dims = group.dims = SplitDims(*group.reduces[0]);
  group.same_dims =
      std::all_of(group.reduces.begin(), group.reduces.end(), [&](const Instruction* r) {
        ReduceDims other = SplitDims(*r);
        return other.kept == dims.kept && other.reduced == dims.reduced &&
               other.kept_sizes == dims.kept_sizes && other.reduced_sizes == dims.reduced_sizes;
      });
  group.shape = ShapeOf(cx, body, group.reduces[0]->operand(0)->shape().dims());
  return group;
}

// The name of a row as options write it.
std::string OptionName(std::string_view row) {
  std::string name(row);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

bool IsDisabled(const LowerContext& cx, const LoweringRow& row) {
  if (cx.disabled.empty()) return false;
  return std::find(cx.disabled.begin(), cx.disabled.end(), OptionName(row.name)) !=
         cx.disabled.end();
}

bool MakesArrays(const Instruction& instruction) {
  bool arrays = LeafCount(instruction.shape()) > 0;
  ForEachLeaf(instruction.shape(), [&](const Shape& leaf) { arrays &= leaf.IsArray(); });
  return arrays;
}

}  // namespace

const std::optional<DotSizes>& Subject::dot() {
  if (!dot_) dot_ = SizesOfDot(instruction);
  return *dot_;
}

const KernelBody& Subject::body() {
  if (!body_) {
    body_ = BodyOf(cx, instruction);
    DropUnread(instruction, body_->outputs);
  }
  return *body_;
}

const Instruction& Subject::producer() {
  return ProducerOf(*body().outputs[0].inside);
}

const LoopShape& Subject::shape() {
  if (!shape_) {
    const KernelOutput& first = body().outputs[0];
    bool tuple = first.inside->shape().IsTuple();
    shape_ = ShapeOf(cx, body(),
                     tuple ? cx.memory.shape(first.value).dims() : first.inside->shape().dims());
  }
  return *shape_;
}

const std::optional<RowSpace>& Subject::row_space() {
  if (!row_space_) {
    row_space_.emplace();
    bool of_rows = instruction.op() == HloOp::kFusion &&
                   instruction.attrs<hlo::FusionAttrs>().kind == hlo::FusionKind::kOutput;
    if (of_rows) *row_space_ = RowSpaceOf(body().members);
  }
  return *row_space_;
}

const std::optional<ReduceGroup>& Subject::reduces() {
  if (!reduces_) reduces_ = ReducesOf(cx, body());
  return *reduces_;
}

Status CheckDisabled(const program::TargetInfo& target, const LowerOptions& options) {
  if (options.disable.empty()) return {};
  std::vector<std::string> known = {std::string(kDivisionByFloats), std::string(kBitmapLookup)};
  LoweringTable table = TableOf(target);
  for (std::span<const LoweringRow* const> rows : {table.ops, SharedOps(), table.kernels}) {
    for (const LoweringRow* row : rows) known.push_back(OptionName(row->name));
  }
  for (const std::string& name : options.disable) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    auto error = InvalidArgument("lower.disable: unknown way to lower: ", name);
    error.error().Hint("known ones: " + StrJoin(known, ", "));
    return error;
  }
  return {};
}

Status LowerByTable(LowerContext& cx, const Instruction& instruction, Steps& steps) {
  Subject subject(cx, instruction, steps);
  LoweringChoice choice;
  // Whether a row took it; its status.
  auto try_rows = [&](std::span<const LoweringRow* const> rows, HloOp op) -> std::optional<Status> {
    for (const LoweringRow* row : rows) {
      if (!row->ops.Has(op) || IsDisabled(cx, *row)) continue;
      Decision decision = row->matches(subject);
      if (cx.choices == nullptr) {
        if (decision.taken) return row->lower(subject);
        continue;
      }
      if (!decision.taken) {
        choice.refused.push_back({row->name, decision.reason, std::move(decision.figures)});
        continue;
      }
      choice.name = instruction.name();
      choice.source = instruction.SourceLocation();
      choice.taken = {row->name, decision.reason, std::move(decision.figures)};
      size_t at = cx.choices->size(), before = steps.size();
      cx.choices->push_back(std::move(choice));
      Status status = row->lower(subject);
      for (size_t k = std::min(before, steps.size()); k < steps.size(); ++k) {
        (*cx.choices)[at].steps.push_back(steps[k].name);
      }
      return status;
    }
    return std::nullopt;
  };
  LoweringTable table = TableOf(cx.target);
  for (std::span<const LoweringRow* const> rows : {table.ops, SharedOps()}) {
    if (auto status = try_rows(rows, instruction.op())) return *std::move(status);
  }
  if (MakesArrays(instruction)) {
    if (auto status = try_rows(table.kernels, subject.producer().op())) return *std::move(status);
  }
  return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering");
}

}  // namespace weft::compiler
