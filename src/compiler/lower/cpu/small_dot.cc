// Small products whose operands both lie along the contracted dimension, such as a matrix with
// whole rows by a vector: lanes run along that dimension, some rows at once.
#include <algorithm>

#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

// Vectors of many lanes to vectors of as many lanes as there are rows: lane r is row r's sum.
ValueId SumOfRows(KernelBuilder& b, std::vector<ValueId> rows) {
  auto half = [&](ValueId x, ValueId y, int first, int step, int count) {
    std::vector<int32_t> lanes;
    for (int i = 0; i < count; ++i) lanes.push_back(first + i * step);
    return b.Shuffle(x, y, lanes);
  };
  int count = static_cast<int>(rows.size());
  for (ValueId& row : rows) {
    while (b.type(row).lanes > count) {
      int n = b.type(row).lanes / 2;
      row = b.Add(half(row, row, 0, 1, n), half(row, row, n, 1, n));
    }
  }
  while (rows.size() > 1) {  // neighbouring lanes of two rows at a time
    std::vector<ValueId> sums;
    for (size_t i = 0; i < rows.size(); i += 2) {
      sums.push_back(
          b.Add(half(rows[i], rows[i + 1], 0, 2, count), half(rows[i], rows[i + 1], 1, 2, count)));
    }
    rows = std::move(sums);
  }
  return rows[0];
}

Decision MatchDotAlongContraction(Subject& subject) {
  const Instruction& dot = subject.instruction;
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  const DotSizes& s = *subject.dot();
  bool vectors = s.batch > 1 && (s.m == 1 || s.n == 1) && s.m * s.n * s.k <= kInlineDot;
  if (!vectors && !IsInlineDot(subject.cx, dot, s)) {
    return Refuse("there are enough products for the library");
  }
  if (!IsComputedInOneFloat(dot)) return Refuse("it is not computed in f32 or f64 throughout");
  if (s.k < program::TargetFacts::kUsualLanes) return Refuse("the contracted dimension is short");
  bool along = (s.m == 1 || !s.trans_a) && (s.n == 1 || s.trans_b);
  if (!along) return Refuse("an operand does not lie along the contracted dimension");
  return Take("both operands lie along the contracted dimension");
}

// Rows of one side, several at once, by one row of the other.
class RowsAlongContraction {
 public:
  RowsAlongContraction(Subject& subject, KernelDraft& draft)
      : s_(*subject.dot()),
        b_(draft.builder()),
        left_(s_.m >= s_.n),
        rows_(left_ ? s_.m : s_.n),
        others_(left_ ? s_.n : s_.m),
        stored_(subject.instruction.shape().dtype()),
        type_(program::ComputeType(stored_)),
        lanes_(draft.LanesFor(ByteWidth(type_), s_.k)),
        whole_(s_.k - s_.k % lanes_) {
    const Instruction& dot = subject.instruction;
    auto memory_of = [&](const Instruction& i) {
      return draft.MemoryOf(subject.cx.memory.Leaf(i));
    };
    many_ = memory_of(*dot.operand(left_ ? 0 : 1));
    one_ = memory_of(*dot.operand(left_ ? 1 : 0));
    out_ = memory_of(dot);
  }

  // All products of one matrix of the batch.
  void Emit(ValueId batch) {
    auto by_other = [&](ValueId other) {
      int64_t full = rows_ - rows_ % kAtOnce;
      if (full > 0) {
        b_.For(
            program::LoopKind::kSerial, 0, full,
            [&](ValueId row) { EmitBlock(batch, row, other, kAtOnce); }, kAtOnce);
      }
      if (full < rows_) EmitBlock(batch, b_.Int(full), other, rows_ - full);
    };
    if (others_ == 1) {
      by_other(b_.Int(0));
    } else {
      b_.For(program::LoopKind::kSerial, 0, others_, by_other);
    }
  }

 private:
  // Rows whose sums one transpose joins.
  static constexpr int64_t kAtOnce = program::TargetFacts::kNarrowLanes;

  ValueId Scaled(ValueId x, int64_t factor) { return b_.Mul(x, b_.Int(factor)); }

  // `count` rows from number `row` of the batch on; `other` is the row of the other side.
  void EmitBlock(ValueId batch, ValueId row, ValueId other, int64_t count) {
    ValueId at_many = Scaled(b_.Add(Scaled(batch, rows_), row), s_.k);
    ValueId at_one = Scaled(b_.Add(Scaled(batch, others_), other), s_.k);
    KernelBuilder::Carry zero(static_cast<size_t>(count), b_.Number(0, {type_, lanes_}));
    KernelBuilder::Carry sums = Sums(at_many, at_one, 0, whole_, lanes_, zero);
    ValueId first = left_ ? b_.Add(Scaled(b_.Add(Scaled(batch, rows_), row), others_), other)
                          : b_.Add(Scaled(b_.Add(Scaled(batch, others_), other), rows_), row);
    if (count == kAtOnce && lanes_ >= kAtOnce && whole_ == s_.k) return StoreJoined(first, sums);
    for (ValueId& sum : sums) sum = b_.ReduceLanes(program::Op::kAdd, sum);
    sums = Sums(at_many, at_one, whole_, s_.k, 1, sums);
    for (int64_t r = 0; r < count; ++r) {
      b_.Store(out_, b_.Add(first, b_.Int(r * Stride())), Rounded(sums[static_cast<size_t>(r)]));
    }
  }

  // The sums with terms [begin, end), `width` at once.
  KernelBuilder::Carry Sums(ValueId at_many, ValueId at_one, int64_t begin, int64_t end, int width,
                            KernelBuilder::Carry sums) {
    if (begin == end) return sums;
    SumRange range{b_.Int(begin), b_.Int(end), width, (end - begin) / width};
    return EmitSums(b_, range, sums, [&](ValueId k, const auto& carried) {
      KernelBuilder::Carry next;
      ValueId y = b_.Load(one_, b_.Add(at_one, k), width);
      for (size_t r = 0; r < carried.size(); ++r) {
        ValueId row = b_.Add(at_many, b_.Int(static_cast<int64_t>(r) * s_.k));
        ValueId x = b_.Load(many_, b_.Add(row, k), width);
        next.push_back(b_.Fma(x, y, carried[r]));
      }
      return next;
    });
  }

  void StoreJoined(ValueId first, const KernelBuilder::Carry& sums) {
    ValueId all = Rounded(SumOfRows(b_, sums));
    if (Stride() == 1) return static_cast<void>(b_.Store(out_, first, all));
    for (int64_t r = 0; r < kAtOnce; ++r) {
      b_.Store(out_, b_.Add(first, b_.Int(r * Stride())), b_.Extract(all, static_cast<int>(r)));
    }
  }

  int64_t Stride() const { return left_ ? others_ : 1; }
  ValueId Rounded(ValueId sum) {
    return stored_ == DType::kF32 || stored_ == DType::kF64 ? sum : b_.Narrow(sum, stored_);
  }

  const DotSizes& s_;
  KernelBuilder& b_;
  bool left_;
  int64_t rows_, others_;
  DType stored_, type_;
  int lanes_;
  int64_t whole_;  // terms that vectors take
  KernelBuilder::MemoryId many_ = -1, one_ = -1, out_ = -1;
};

Status LowerDotAlongContraction(Subject& subject) {
  LowerContext& cx = subject.cx;
  const DotSizes& s = *subject.dot();
  KernelBody body = BodyOf(cx, subject.instruction);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  RowsAlongContraction rows(subject, draft);
  double cost = static_cast<double>(s.m * s.n * s.k);
  TRY(draft.ForEachRow(Dims{s.batch}, cost, cx.serial, [&](const Index& at) -> Status {
    rows.Emit(at.coords[0].base);
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kDotAlongContraction = {"dot along the contraction",
                                                           {hlo::Op::kDot},
                                                           MatchDotAlongContraction,
                                                           LowerDotAlongContraction};

}  // namespace weft::compiler
