// Small products whose operands both lie along the contracted dimension, such as a matrix with
// whole rows by a vector: lanes run along that dimension, some rows at once.
#include <algorithm>

#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

constexpr int64_t kDotRowsAtOnce = 4;  // rows whose sums are joined by one transpose of 4 by 4
constexpr int64_t kLeastLength = 8;    // elements of the contraction

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
  if (s.k < kLeastLength) return Refuse("the contracted dimension is short");
  bool along = (s.m == 1 || !s.trans_a) && (s.n == 1 || s.trans_b);
  if (!along) return Refuse("an operand does not lie along the contracted dimension");
  return Take("both operands lie along the contracted dimension");
}

Status LowerDotAlongContraction(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  const DotSizes& s = *subject.dot();
  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  // Rows of one side, several at once, by one row of the other.
  bool left = s.m >= s.n;
  auto memory_of = [&](const Instruction* i) { return draft.MemoryOf(cx.memory.Leaf(*i)); };
  KernelBuilder::MemoryId many = memory_of(dot.operand(left ? 0 : 1)),
                          one = memory_of(dot.operand(left ? 1 : 0)), out = memory_of(&dot);
  int64_t rows = left ? s.m : s.n, others = left ? s.n : s.m;
  DType type = program::ComputeType(dot.shape().dtype()), stored = dot.shape().dtype();
  int lanes = draft.LanesFor(ByteWidth(type), s.k);
  int64_t whole = s.k - s.k % lanes;
  auto scaled = [&](ValueId x, int64_t factor) { return b.Mul(x, b.Int(factor)); };

  // `count` rows from number `row` of the batch on; `other` is the row of the other side.
  auto block = [&](ValueId batch, ValueId row, ValueId other, int64_t count) {
    ValueId at_many = scaled(b.Add(scaled(batch, rows), row), s.k);
    ValueId at_one = scaled(b.Add(scaled(batch, others), other), s.k);
    auto step = [&](ValueId k, std::span<const ValueId> sums, int width) {
      KernelBuilder::Carry next;
      ValueId y = b.Load(one, b.Add(at_one, k), width);
      for (int64_t r = 0; r < count; ++r) {
        ValueId x = b.Load(many, b.Add(b.Add(at_many, b.Int(r * s.k)), k), width);
        next.push_back(b.Fma(x, y, sums[static_cast<size_t>(r)]));
      }
      return next;
    };
    auto run = [&](int64_t begin, int64_t end, int width, KernelBuilder::Carry sums) {
      if (begin == end) return sums;
      SumRange range{b.Int(begin), b.Int(end), width, (end - begin) / width};
      return EmitSums(b, range, sums,
                      [&](ValueId k, const auto& carried) { return step(k, carried, width); });
    };
    KernelBuilder::Carry zero(static_cast<size_t>(count), b.Number(0, {type, lanes}));
    KernelBuilder::Carry sums = run(0, whole, lanes, zero);
    bool together = count == kDotRowsAtOnce && lanes >= kDotRowsAtOnce && whole == s.k;
    ValueId first = left ? b.Add(scaled(b.Add(scaled(batch, rows), row), others), other)
                         : b.Add(scaled(b.Add(scaled(batch, others), other), rows), row);
    auto rounded = [&](ValueId sum) {
      return stored == DType::kF32 || stored == DType::kF64 ? sum : b.Narrow(sum, stored);
    };
    int64_t stride = left ? others : 1;
    if (together) {
      ValueId all = rounded(SumOfRows(b, sums));
      if (stride == 1) {
        b.Store(out, first, all);
        return;
      }
      for (int64_t r = 0; r < count; ++r) {
        b.Store(out, b.Add(first, b.Int(r * stride)), b.Extract(all, static_cast<int>(r)));
      }
      return;
    }
    for (ValueId& sum : sums) sum = b.ReduceLanes(program::Op::kAdd, sum);
    sums = run(whole, s.k, 1, sums);
    for (int64_t r = 0; r < count; ++r) {
      b.Store(out, b.Add(first, b.Int(r * stride)), rounded(sums[static_cast<size_t>(r)]));
    }
  };
  auto each = [&](int64_t size, const std::function<void(ValueId)>& inside) {
    if (size == 1) {
      inside(b.Int(0));
    } else {
      b.For(program::LoopKind::kSerial, 0, size, inside);
    }
  };
  double cost = static_cast<double>(s.m * s.n * s.k);
  TRY(draft.ForEachRow(Dims{s.batch}, cost, cx.serial, [&](const Index& at) -> Status {
    ValueId batch = at.coords[0].base;
    each(others, [&](ValueId other) {
      int64_t full = rows - rows % kDotRowsAtOnce;
      if (full > 0) {
        b.For(
            program::LoopKind::kSerial, 0, full,
            [&](ValueId row) { block(batch, row, other, kDotRowsAtOnce); }, kDotRowsAtOnce);
      }
      if (full < rows) block(batch, b.Int(full), other, rows - full);
    });
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
