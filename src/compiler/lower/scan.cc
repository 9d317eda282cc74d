// scan: a walk along one dimension with carried values, for bodies that work element by element.
#include <algorithm>

#include "compiler/analysis/scan_body.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

Decision MatchScan(Subject&) {
  return Take("a walk along one dimension, lanes beside it");
}

// A serial loop along the dimension, around which lanes and threads go over the others.
class ScanKernel {
 public:
  ScanKernel(LowerContext& cx, const Instruction& scan)
      : cx_(cx),
        scan_(scan),
        attrs_(scan.attrs<hlo::ScanAttrs>()),
        carries_(static_cast<size_t>(attrs_.num_carries)),
        inputs_(static_cast<size_t>(scan.operand_count()) - carries_),
        results_(cx.memory.Leaves(scan)),
        outputs_(results_.size() - carries_),
        dim_(attrs_.dimensions[0]),
        whole_(scan.operand(0)->shape().dims()),
        slice_(whole_),
        length_(whole_[static_cast<size_t>(dim_)]),
        body_(BodyOf(cx, scan)),
        draft_(NewDraft(cx, body_)),
        e_(draft_.elements()) {
    slice_.erase_at(static_cast<size_t>(dim_));
    for (size_t c = 0; c < carries_; ++c) {
      complex_.push_back(IsComplex(CarriedBy(c).shape().dtype()));
    }
  }

  Status Lower(Steps& steps) {
    if (!IsElementwiseScanBody(*attrs_.to_apply, slice_)) {
      return Unimplemented("scan: no native lowering of a body that is not elementwise");
    }
    draft_.Declare(body_.inputs, body_.outputs);
    LoopShape shape;
    shape.dims = slice_;
    shape.serial = cx_.serial;
    shape.cost = static_cast<double>(length_) * static_cast<double>(attrs_.to_apply->size());
    shape.scalar = dim_ == static_cast<int64_t>(whole_.size()) - 1;  // lanes would be far apart
    for (const KernelInput& in : body_.inputs) {
      shape.width = std::max(shape.width, ByteWidth(in.inside->shape().dtype()));
    }
    TRY(draft_.ForEach(
        shape, [&](const Index& linear) { return EmitWalk(Coordinates(e_, slice_, linear)); }));
    Finish(cx_, draft_, body_, steps);
    return {};
  }

 private:
  const Instruction& CarriedBy(size_t c) const {
    return *scan_.operand(static_cast<int64_t>(inputs_ + c));
  }
  void Store(size_t k, const Index& index, Element value) {
    const Shape& to = cx_.memory.shape(results_[k]);
    StoreAt(e_, draft_.MemoryOf(results_[k]), to.dtype(), LinearCoord(e_, to.dims(), index), value);
  }
  void Pack(size_t c, Element value, KernelBuilder::Carry& carry) {
    Element wide = SpreadToLanes(e_, value);
    carry.push_back(wide.re);
    if (complex_[c]) carry.push_back(wide.im);
  }
  Element Unpack(size_t c, std::span<const ValueId> values, size_t& next) {
    Element x{values[next++], -1};
    if (complex_[c]) x.im = values[next++];
    return x;
  }

  Status EmitWalk(const Index& at) {
    KernelBuilder& b = draft_.builder();
    KernelBuilder::Carry start;
    for (size_t c = 0; c < carries_; ++c) {
      const Instruction& operand = CarriedBy(c);
      Pack(c, TRY(EmitElement(e_, operand, operand.shape().IsScalar() ? Index() : at)), start);
    }
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(length_), b.Int(1), start);
    Coord t{inside[0], 0, 1};
    if (attrs_.is_reverse) t = AddConstant(e_, ScaleCoord(e_, t, -1), length_ - 1);
    Index full = at;
    full.coords.insert_at(static_cast<size_t>(dim_), t);
    std::vector<Element> args;
    for (size_t i = 0; i < inputs_; ++i) {
      args.push_back(TRY(EmitElement(e_, *scan_.operand(static_cast<int64_t>(i)), full)));
    }
    size_t next = 1;
    for (size_t c = 0; c < carries_; ++c) args.push_back(Unpack(c, inside, next));
    std::vector<Element> made = TRY(CallComputation(e_, *attrs_.to_apply, args));
    for (size_t k = 0; k < outputs_; ++k) Store(k, full, made[k]);
    KernelBuilder::Carry yield;
    for (size_t c = 0; c < carries_; ++c) Pack(c, made[outputs_ + c], yield);
    std::vector<ValueId> after = b.End(yield);
    next = 0;
    for (size_t c = 0; c < carries_; ++c) Store(outputs_ + c, at, Unpack(c, after, next));
    return {};
  }

  LowerContext& cx_;
  const Instruction& scan_;
  const hlo::ScanAttrs& attrs_;
  size_t carries_, inputs_;
  const std::vector<MemValue>& results_;
  size_t outputs_;
  int64_t dim_;
  Dims whole_, slice_;
  int64_t length_;
  KernelBody body_;
  KernelDraft draft_;
  ElementContext& e_;
  std::vector<bool> complex_;
};

Status LowerScan(Subject& subject) {
  const Instruction& scan = subject.instruction;
  if (scan.operand_count() == scan.attrs<hlo::ScanAttrs>().num_carries) {
    return Unimplemented("scan: no native lowering without inputs");
  }
  return ScanKernel(subject.cx, scan).Lower(subject.steps);
}

}  // namespace

extern constinit const LoweringRow kScan = {"scan", {hlo::Op::kScan}, MatchScan, LowerScan};

}  // namespace weft::compiler
