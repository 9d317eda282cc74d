// scan down columns (a scan along a major dimension): one row after the other, as they lie in
// memory, with what is carried in arrays that have a place for each column of a block. Threads take
// blocks. (Of one vector of columns at a time, as scan.cc does it for few columns, a row has a line
// or two, in another page each.)
#include <algorithm>

#include "base/str.h"
#include "compiler/analysis/scan_body.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

// Of the columns of one block: so many that rows are read in long runs, and that the next row,
// which may lie a page behind what was stored last, is not taken for that; few enough that what is
// carried stays in the first cache.
constexpr int64_t kLeastBlock = 16 * program::TargetFacts::kLineBytes / sizeof(float);

class ColumnScan {
 public:
  ColumnScan(KernelDraft& draft, Memory& memory, const Instruction& scan)
      : draft_(draft),
        e_(draft.elements()),
        b_(draft.builder()),
        memory_(memory),
        scan_(scan),
        attrs_(scan.attrs<hlo::ScanAttrs>()),
        results_(memory.Leaves(scan)),
        inputs_(scan.operand_count() - attrs_.num_carries) {
    const Dims& whole = scan.operand(0)->shape().dims();
    size_t dim = static_cast<size_t>(attrs_.dimensions[0]);
    length_ = whole[dim];
    outer_ = Dims(std::span(whole.data(), dim));
    inner_ = Dims(std::span(whole.data() + dim + 1, whole.size() - dim - 1));
    int64_t minor = 1, width = 4;
    for (int64_t d : inner_) {
      columns_ *= d;
      if (d > 1) minor = d;
    }
    for (const Instruction* operand : scan.operands()) {
      width = std::max(width, ByteWidth(operand->shape().dtype()));
    }
    lanes_ = draft.LanesFor(width, columns_);
    while (minor != columns_ && minor % lanes_ != 0) lanes_ /= 2;  // within the minor dimension
    int64_t most =
        draft.target().CarriedBytes() / (width * std::max<int64_t>(attrs_.num_carries, 1));
    block_ = columns_ / std::max<int64_t>(draft.target().cores, 1);
    block_ = std::clamp(block_, kLeastBlock, std::max(most, kLeastBlock));
    block_ -= block_ % kLeastBlock;
  }

  Status Emit(double cost) {
    Dims grid = outer_;
    int64_t blocks = (columns_ + block_ - 1) / block_;
    grid.push_back(blocks);
    return draft_.ForEachRow(grid, cost * static_cast<double>(length_ * block_), false,
                             [&](const Index& at) -> Status { return Block(at); });
  }

 private:
  Status Block(const Index& at) {
    outer_at_ = at;
    outer_at_.coords.pop_back();
    begin_ = b_.Mul(at.coords.back().base, b_.Int(block_));
    end_ = b_.Add(begin_, b_.Int(block_));
    if (columns_ % block_ != 0) end_ = b_.Min(end_, b_.Int(columns_));
    carried_.clear();
    for (int64_t c = inputs_; c < scan_.operand_count(); ++c) {
      DType type = scan_.operand(c)->shape().dtype();
      DType part = IsComplex(type) ? RealType(type) : program::ComputeType(type);
      carried_.push_back(
          b_.Array(StrCat("carried", c - inputs_), part, (IsComplex(type) ? 2 : 1) * block_));
    }
    TRY(OverColumns([&](const Coord& column) -> Status {
      for (size_t c = 0; c < carried_.size(); ++c) {
        const Instruction& init = Initial(c);
        Index index = init.shape().IsScalar() ? Index() : SliceIndex(column);
        StoreAt(e_, carried_[c], init.shape().dtype(), InBlock(column),
                TRY(EmitElement(e_, init, index)));
      }
      return {};
    }));
    ValueId t = b_.BeginLoop(LoopKind::kSerial, b_.Int(0), b_.Int(length_), b_.Int(1))[0];
    Coord row{t, 0, 1, 0, length_ - 1};
    if (attrs_.is_reverse) row = AddConstant(e_, ScaleCoord(e_, row, -1), length_ - 1);
    TRY(OverColumns([&](const Coord& column) { return Step(row, column); }));
    b_.End();
    size_t outputs = results_.size() - carried_.size();
    return OverColumns([&](const Coord& column) -> Status {
      for (size_t c = 0; c < carried_.size(); ++c) {
        Element last = LoadAt(e_, carried_[c], Initial(c).shape().dtype(), InBlock(column));
        Store(outputs + c, SliceIndex(column), last);
      }
      return {};
    });
  }

  Status Step(const Coord& row, const Coord& column) {
    Index index = SliceIndex(column);
    index.coords.insert_at(outer_.size(), row);
    std::vector<Element> args;
    for (int64_t i = 0; i < inputs_; ++i) {
      args.push_back(TRY(EmitElement(e_, *scan_.operand(i), index)));
    }
    for (size_t c = 0; c < carried_.size(); ++c) {
      args.push_back(LoadAt(e_, carried_[c], Initial(c).shape().dtype(), InBlock(column)));
    }
    std::vector<Element> made = TRY(CallComputation(e_, *attrs_.to_apply, args));
    size_t outputs = made.size() - carried_.size();
    for (size_t k = 0; k < outputs; ++k) Store(k, index, made[k]);
    for (size_t c = 0; c < carried_.size(); ++c) {
      StoreAt(e_, carried_[c], Initial(c).shape().dtype(), InBlock(column), made[outputs + c]);
    }
    return {};
  }

  // Calls body for the columns of the block, lanes set; none of them twice.
  Status OverColumns(const std::function<Status(const Coord&)>& body) {
    ValueId rest = begin_;
    if (lanes_ > 1) {
      rest = end_;
      if (columns_ % lanes_ != 0) rest = b_.Sub(end_, b_.Rem(b_.Sub(end_, begin_), b_.Int(lanes_)));
      ValueId j = b_.BeginLoop(LoopKind::kSerial, begin_, rest, b_.Int(lanes_))[0];
      e_.lanes = lanes_;
      TRY(body({j, 1, lanes_, 0, columns_ - 1}));
      e_.lanes = 1;
      b_.End();
      if (columns_ % lanes_ == 0) return {};
    }
    ValueId j = b_.BeginLoop(LoopKind::kSerial, rest, end_, b_.Int(1))[0];
    TRY(body({j, 0, 1, 0, columns_ - 1}));
    b_.End();
    return {};
  }

  const Instruction& Initial(size_t c) const {
    return *scan_.operand(inputs_ + static_cast<int64_t>(c));
  }
  Coord InBlock(const Coord& column) {
    return AddCoords(e_, column, ScaleCoord(e_, {begin_, 0, kLeastBlock}, -1));
  }
  Index SliceIndex(const Coord& column) {
    Index linear, index = outer_at_;
    linear.is_linear = true;
    linear.linear = column;
    Index inside = Coordinates(e_, inner_, linear);
    for (const Coord& c : inside.coords) index.coords.push_back(c);
    return index;
  }
  void Store(size_t k, const Index& index, const Element& value) {
    const Shape& to = memory_.shape(results_[k]);
    StoreAt(e_, draft_.MemoryOf(results_[k]), to.dtype(), LinearCoord(e_, to.dims(), index), value);
  }

  KernelDraft& draft_;
  ElementContext& e_;
  KernelBuilder& b_;
  Memory& memory_;
  const Instruction& scan_;
  const hlo::ScanAttrs& attrs_;
  const std::vector<MemValue>& results_;
  int64_t inputs_, length_ = 1, columns_ = 1, block_ = 1;
  int lanes_ = 1;
  Dims outer_, inner_;
  Index outer_at_;
  ValueId begin_ = -1, end_ = -1;
  std::vector<KernelBuilder::MemoryId> carried_;
};

// Enough elements follow each other in a row for blocks of them.
bool HasLongRows(const Instruction& scan) {
  constexpr int64_t kFewRows = program::CodeBounds::kCopies;  // rows
  const Shape& shape = scan.operand(0)->shape();
  int64_t dim = scan.attrs<hlo::ScanAttrs>().dimensions[0], row = 1;
  for (int64_t d = dim + 1; d < shape.rank(); ++d) row *= shape.dim(d);
  return row >= kLeastBlock && shape.dim(dim) >= kFewRows;
}

Decision MatchColumnScan(Subject& subject) {
  const Instruction& scan = subject.instruction;
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  if (subject.cx.serial) return Refuse("it is inside of a loop on one thread");
  if (scan.operand_count() == attrs.num_carries) return Refuse("it has no inputs");
  Dims slice = scan.operand(0)->shape().dims();
  slice.erase_at(static_cast<size_t>(attrs.dimensions[0]));
  if (!IsElementwiseScanBody(*attrs.to_apply, slice)) return Refuse("its body is not elementwise");
  if (!HasLongRows(scan)) return Refuse("few columns lie beside each other");
  return Take("a scan down many columns: row by row, carries in an array");
}

Status LowerColumnScan(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scan = subject.instruction;
  KernelBody body = BodyOf(cx, scan);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ColumnScan columns(draft, cx.memory, scan);
  TRY(columns.Emit(static_cast<double>(scan.attrs<hlo::ScanAttrs>().to_apply->size())));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kColumnScan = {
    "scan down columns", {hlo::Op::kScan}, MatchColumnScan, LowerColumnScan};

}  // namespace weft::compiler
