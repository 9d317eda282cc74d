#include "hlo/evaluate/reduction.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/plain_op.h"

namespace weft::hlo {
namespace {

constexpr int64_t kTile = 32;              // reduced places gathered at a time
constexpr int64_t kSegmentMin = 16;        // shortest piece of a reduction that is split in lanes
constexpr int64_t kPieceLength = 1 << 16;  // elements of a long row that are folded by themselves

template <class Bits>
void GatherAs(const std::byte* src, std::span<const int64_t> bases, std::span<const int64_t> places,
              std::byte* dst) {
  const Bits* from = reinterpret_cast<const Bits*>(src);
  Bits* to = reinterpret_cast<Bits*>(dst);
  size_t lanes = bases.size();
  for (size_t o = 0; o < lanes; ++o) {
    const Bits* base = from + bases[o];
    for (size_t t = 0; t < places.size(); ++t) to[t * lanes + o] = base[places[t]];
  }
}

// dst[t][o] = src[bases[o] + places[t]].
void Gather(int64_t width, const std::byte* src, std::span<const int64_t> bases,
            std::span<const int64_t> places, std::byte* dst) {
  switch (width) {
    case 1: return GatherAs<uint8_t>(src, bases, places, dst);
    case 2: return GatherAs<uint16_t>(src, bases, places, dst);
    case 4: return GatherAs<uint32_t>(src, bases, places, dst);
    case 8: return GatherAs<uint64_t>(src, bases, places, dst);
    default: return GatherAs<std::pair<uint64_t, uint64_t>>(src, bases, places, dst);
  }
}

bool IsRun(std::span<const int64_t> bases) {
  return bases.back() - bases.front() == static_cast<int64_t>(bases.size()) - 1 &&
         (bases.size() < 2 || bases[1] == bases[0] + 1);
}

// Neighbouring elements of a row, one after the other.
template <class W>
W FoldPiece(const PlainOp<W>& op, DType type, const std::byte* src, int64_t n) {
  W block[kBlockLanes];
  W acc = op.identity;
  for (int64_t i = 0; i < n; i += kBlockLanes) {
    int64_t m = std::min(kBlockLanes, n - i);
    LoadWide(type, src + i * ByteWidth(type), m, block);
    W part = op.fold(block, m);
    op.combine(&acc, &part, 1);
  }
  return acc;
}

// A row of neighbouring elements: long ones by pieces.
template <class W>
W FoldRow(const PlainOp<W>& op, DType type, const std::byte* src, int64_t length) {
  int64_t pieces = (length + kPieceLength - 1) / kPieceLength;
  if (pieces == 1) return FoldPiece(op, type, src, length);
  std::vector<W> parts(static_cast<size_t>(pieces));
  DefaultPool().ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t at = p * kPieceLength, n = std::min(kPieceLength, length - at);
      parts[static_cast<size_t>(p)] = FoldPiece(op, type, src + at * ByteWidth(type), n);
    }
  });
  return op.fold(parts.data(), pieces);
}

// The minor reduced dimension is contiguous.
template <class W>
void ReduceRows(const PlainOp<W>& op, const Literal& array, W init,
                std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                Literal& out) {
  DType type = array.dtype(), out_type = out.dtype();
  std::byte* out_data = out.mutable_data();
  int64_t length = reduced.back().size;
  auto outer = reduced.first(reduced.size() - 1);
  int64_t row_count = WalkSize(outer);
  int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, length * row_count));
  DefaultPool().ParallelFor(out.size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      W acc = op.identity;
      int64_t base = PlaceOf(kept, o);
      Walk walk(outer);
      for (int64_t r = 0; r < row_count; ++r, walk.Next()) {
        int64_t place = base + walk.place();
        W part = FoldRow(op, type, array.data() + place * ByteWidth(type), length);
        op.combine(&acc, &part, 1);
      }
      W result = init;
      op.combine(&result, &acc, 1);
      StoreWide(out_type, &result, 1, out_data + o * ByteWidth(out_type));
    }
  });
}

// Plain ops on one array.
template <class W>
void ReducePlain(const PlainOp<W>& op, const Literal& array, W init,
                 std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                 Literal& out) {
  if (!reduced.empty() && reduced.back().stride == 1) {
    return ReduceRows(op, array, init, kept, reduced, out);
  }
  DType type = array.dtype(), out_type = out.dtype();
  int64_t width = ByteWidth(type), outputs = out.size();
  std::byte* out_data = out.mutable_data();
  const std::byte* data = array.data();
  int64_t steps = WalkSize(reduced);
  int64_t grain = steps > 64 ? 64 : kBlockLanes;
  DefaultPool().ParallelFor(outputs, grain, [&](int64_t first, int64_t last) {
    std::vector<W> acc(kBlockLanes), x(kBlockLanes);
    std::vector<int64_t> bases;
    std::vector<std::byte> gathered(static_cast<size_t>(kBlockLanes * width));
    for (int64_t begin = first; begin < last; begin += kBlockLanes) {
      int64_t n = std::min(kBlockLanes, last - begin);
      std::fill(acc.begin(), acc.begin() + n, op.identity);
      bases.resize(static_cast<size_t>(n));
      for (int64_t o = 0; o < n; ++o) bases[static_cast<size_t>(o)] = PlaceOf(kept, begin + o);
      bool run = IsRun(bases);
      Walk walk(reduced);
      for (int64_t r = 0; r < steps; ++r, walk.Next()) {
        const std::byte* src = data + (bases[0] + walk.place()) * width;
        if (!run) {
          int64_t place = walk.place();
          Gather(width, data, bases, {&place, 1}, gathered.data());
          src = gathered.data();
        }
        LoadWide(type, src, n, x.data());
        op.combine(acc.data(), x.data(), n);
      }
      std::fill(x.begin(), x.begin() + n, init);
      op.combine(x.data(), acc.data(), n);
      StoreWide(out_type, x.data(), n, out_data + begin * ByteWidth(out_type));
    }
  });
}

bool TryReducePlain(const ScalarFunction& f, const Literal& array, const Literal& init,
                    std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                    Literal& out) {
  return WithPlainOp(f.commutative_op(), f.parameter_type(0), init,
                     [&](const auto& op, auto start) {
                       ReducePlain<decltype(start)>(op, array, start, kept, reduced, out);
                     });
}

// Any compiled function: accumulators of a block of outputs at a time.
class LaneReducer {
 public:
  LaneReducer(const ScalarFunction& f, std::span<const Literal> arrays)
      : f_(f), arrays_(arrays), frame_(f, kBlockLanes), tiles_(arrays.size()) {}

  // acc[k][o] = f(acc, arrays[k][bases[o] + places]) for all places of the walk.
  void Reduce(std::span<const int64_t> bases, Walk walk, int64_t steps,
              std::span<const ScalarFunction::Out> acc) {
    bool run = IsRun(bases);
    size_t n = bases.size();
    std::vector<ScalarFunction::In> in;
    for (const auto& a : acc) in.push_back({a.dtype, a.data});
    for (const Literal& a : arrays_) in.push_back({a.dtype(), a.data()});
    int64_t places[kTile];
    for (int64_t r = 0; r < steps; r += kTile) {
      int64_t tile = std::min(kTile, steps - r);
      for (int64_t t = 0; t < tile; ++t, walk.Next()) places[t] = walk.place();
      for (size_t k = 0; k < arrays_.size() && !run; ++k) {
        int64_t width = ByteWidth(arrays_[k].dtype());
        tiles_[k].resize(static_cast<size_t>(kTile * width) * n);
        Gather(width, arrays_[k].data(), bases, {places, static_cast<size_t>(tile)},
               tiles_[k].data());
      }
      for (int64_t t = 0; t < tile; ++t) {
        for (size_t k = 0; k < arrays_.size(); ++k) {
          int64_t width = ByteWidth(arrays_[k].dtype());
          in[acc.size() + k].data = run ? arrays_[k].data() + (bases[0] + places[t]) * width
                                        : tiles_[k].data() + t * width * static_cast<int64_t>(n);
        }
        f_.Run(frame_, in, acc, static_cast<int64_t>(n));
      }
    }
  }

 private:
  const ScalarFunction& f_;
  std::span<const Literal> arrays_;
  ScalarFunction::Frame frame_;
  std::vector<std::vector<std::byte>> tiles_;
};

// n equal elements, of another float type perhaps.
void FillWithInit(const Literal& init, DType type, int64_t n, std::byte* dst) {
  int64_t width = ByteWidth(type);
  if (n == 0) return;
  ConvertElements(init.dtype(), init.data(), type, dst, 1);
  for (int64_t filled = 1; filled < n;) {
    int64_t m = std::min(filled, n - filled);
    std::memcpy(dst + filled * width, dst, static_cast<size_t>(m * width));
    filled += m;
  }
}

// A long reduction to few outputs, along one stride: consecutive segments are lanes, each starts
// with its first element, and their results are combined in order.
void ReduceSegments(const ScalarFunction& f, std::span<const Literal> arrays, int64_t base,
                    StridedDim dim, std::span<const ScalarFunction::Out> acc) {
  int64_t segments = std::min(kBlockLanes, dim.size / kSegmentMin);
  int64_t length = dim.size / segments;
  std::vector<int64_t> bases(static_cast<size_t>(segments));
  for (int64_t s = 0; s < segments; ++s) bases[s] = base + s * length * dim.stride;
  std::vector<std::vector<std::byte>> parts;
  std::vector<ScalarFunction::Out> part_out;
  int64_t zero = 0;
  for (size_t k = 0; k < arrays.size(); ++k) {
    DType from = arrays[k].dtype(), to = acc[k].dtype;
    std::vector<std::byte> first(static_cast<size_t>(segments * ByteWidth(from)));
    Gather(ByteWidth(from), arrays[k].data(), bases, {&zero, 1}, first.data());
    parts.emplace_back(static_cast<size_t>(segments * ByteWidth(to)));
    ConvertElements(from, first.data(), to, parts[k].data(), segments);
    part_out.push_back({to, parts[k].data()});
  }
  for (int64_t& b : bases) b += dim.stride;
  StridedDim rest{length - 1, dim.stride};
  LaneReducer(f, arrays).Reduce(bases, Walk({&rest, 1}), length - 1, part_out);
  ScalarFunction::Frame frame(f, 1);
  std::vector<ScalarFunction::In> in;
  for (const auto& a : acc) in.push_back({a.dtype, a.data});
  for (const auto& p : part_out) in.push_back({p.dtype, p.data});
  for (int64_t s = 0; s < segments; ++s) {
    for (size_t k = 0; k < arrays.size(); ++k) {
      in[acc.size() + k].data = parts[k].data() + s * ByteWidth(acc[k].dtype);
    }
    f.Run(frame, in, acc, 1);
  }
  StridedDim tail{dim.size - segments * length, dim.stride};
  int64_t tail_base = base + segments * length * dim.stride;
  if (tail.size > 0)
    LaneReducer(f, arrays).Reduce({&tail_base, 1}, Walk({&tail, 1}), tail.size, acc);
}

void ReduceLanes(const ScalarFunction& f, std::span<const Literal> arrays,
                 std::span<const StridedDim> kept, std::span<const StridedDim> reduced,
                 std::span<Literal> out) {
  int64_t steps = WalkSize(reduced), outputs = out[0].size();
  std::vector<ScalarFunction::Out> acc;
  for (Literal& o : out) acc.push_back({o.dtype(), o.mutable_data()});
  auto at = [&](int64_t o) {
    std::vector<ScalarFunction::Out> part = acc;
    for (auto& p : part) p.data += o * ByteWidth(p.dtype);
    return part;
  };
  bool segmented = reduced.size() == 1 && outputs < 16 && steps >= 256 * kSegmentMin;
  DefaultPool().ParallelFor(outputs, segmented ? 1 : 256, [&](int64_t first, int64_t last) {
    if (segmented) {
      for (int64_t o = first; o < last; ++o) {
        ReduceSegments(f, arrays, PlaceOf(kept, o), reduced[0], at(o));
      }
      return;
    }
    LaneReducer reducer(f, arrays);
    std::vector<int64_t> bases;
    for (int64_t begin = first; begin < last; begin += kBlockLanes) {
      int64_t n = std::min(kBlockLanes, last - begin);
      bases.resize(static_cast<size_t>(n));
      for (int64_t o = 0; o < n; ++o) bases[static_cast<size_t>(o)] = PlaceOf(kept, begin + o);
      reducer.Reduce(bases, Walk(reduced), steps, at(begin));
    }
  });
}

}  // namespace

StridedDims JoinDims(std::span<const StridedDim> dims) {
  StridedDims joined;
  for (const StridedDim& d : dims) {
    if (d.size == 1) continue;
    if (!joined.empty() && joined.back().stride == d.stride * d.size) {
      joined.back() = {joined.back().size * d.size, d.stride};
    } else {
      joined.push_back(d);
    }
  }
  return joined;
}

int64_t PlaceOf(std::span<const StridedDim> dims, int64_t index) {
  int64_t place = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    place += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return place;
}

int64_t WalkSize(std::span<const StridedDim> dims) {
  int64_t size = 1;
  for (const StridedDim& d : dims) size *= d.size;
  return size;
}

Status ReduceStrided(EvalContext& context, const Computation& function,
                     std::span<const Literal> arrays, std::span<const Literal> inits,
                     std::span<const StridedDim> kept_dims,
                     std::span<const StridedDim> reduced_dims, std::span<Literal> out) {
  StridedDims kept = JoinDims(kept_dims), reduced = JoinDims(reduced_dims);
  if (out[0].size() == 0) return {};
  for (size_t k = 0; k < out.size(); ++k) {
    FillWithInit(inits[k], out[k].dtype(), out[k].size(), out[k].mutable_data());
  }
  if (WalkSize(reduced) == 0) return {};
  if (TryFindExtremes(function, arrays, kept, reduced, out)) return {};
  ElementFunction element(context, function);
  if (const ScalarFunction* f = element.compiled()) {
    if (arrays.size() == 1 && TryReducePlain(*f, arrays[0], inits[0], kept, reduced, out[0])) {
      return {};
    }
    ReduceLanes(*f, arrays, kept, reduced, out);
    return {};
  }
  std::vector<ScalarFunction::In> in(2 * arrays.size());
  std::vector<ScalarFunction::Out> acc(arrays.size());
  int64_t steps = WalkSize(reduced);
  for (int64_t o = 0; o < out[0].size(); ++o) {
    Walk walk(reduced);
    int64_t base = PlaceOf(kept, o);
    for (int64_t r = 0; r < steps; ++r, walk.Next()) {
      for (size_t k = 0; k < arrays.size(); ++k) {
        DType t = arrays[k].dtype();
        acc[k] = {out[k].dtype(), out[k].mutable_data() + o * ByteWidth(out[k].dtype())};
        in[k] = {acc[k].dtype, acc[k].data};
        in[arrays.size() + k] = {t, arrays[k].data() + (base + walk.place()) * ByteWidth(t)};
      }
      TRY(element.Call(in, acc));
    }
  }
  return {};
}

}  // namespace weft::hlo
