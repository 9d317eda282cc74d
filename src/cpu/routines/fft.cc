// fft: dimensions one after the other; real transforms of even length by complex ones of half of
// it, those of odd length two at a time by complex ones.
#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "cpu/routines/fft_plan.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

struct FftShape {
  bool real_input, real_output, inverse;
  std::vector<int64_t> lengths;
  int64_t batch;
};

// [0, n) in blocks of `size`, of which the last takes the rest too.
struct FftBlocks {
  int64_t n, size;
  int64_t count() const { return std::max<int64_t>(1, n / size); }
  int64_t begin(int64_t i) const { return i * size; }
  int64_t end(int64_t i) const { return i + 1 == count() ? n : (i + 1) * size; }
  int64_t most() const { return std::min(n, 2 * size - 1); }
};

template <class T>
class Fft : public PreparedRoutine {
 public:
  // All lengths and the batch are positive.
  explicit Fft(FftShape shape) : shape_(std::move(shape)) {
    n_ = shape_.lengths.back();
    rows_ = shape_.batch;
    bool real = shape_.real_input || shape_.real_output;
    halved_ = real && n_ % 2 == 0;
    paired_ = real && n_ % 2 == 1;
    for (size_t i = 0; i + 1 < shape_.lengths.size(); ++i) rows_ *= shape_.lengths[i];
    for (size_t i = 0; i < shape_.lengths.size(); ++i) {
      bool last = i + 1 == shape_.lengths.size();
      plans_.push_back(PlanOf(last && halved_ ? n_ / 2 : shape_.lengths[i]));
    }
    std::vector<T> sines;
    for (int64_t k = 0; halved_ && k <= n_ / 4; ++k) {
      RootOfOne root = RootOf(k, n_);
      roots_.push_back(static_cast<T>(root.re / 2));
      sines.push_back(static_cast<T>(root.im / 2));
    }
    roots_.insert(roots_.end(), sines.begin(), sines.end());
    groups_ = {rows_, RowsAtOnce()};
  }

  Status Run(const RoutineContext& context) const override {
    const T* x = reinterpret_cast<const T*>(context.memory[0]);
    T* y = reinterpret_cast<T*>(context.memory[1]);
    int64_t half = n_ / 2 + 1;
    if (!shape_.real_output) {
      TRY(LastDimension(context, x, y));
      return OtherDimensions(context, shape_.real_input ? half : n_, y, y);
    }
    if (shape_.lengths.size() == 1) return LastDimension(context, x, y);
    auto copy = TRY(Scratch<T>::New(context.means(), 2 * rows_ * half));
    TRY(OtherDimensions(context, half, x, copy.data()));
    return LastDimension(context, copy.data(), y);
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t most = RowsRoom() * std::min(threads, groups_.count());
    int64_t half = n_ / 2 + 1, inner = shape_.real_input || shape_.real_output ? half : n_;
    int64_t outer = rows_;
    for (size_t d = shape_.lengths.size() - 1; d-- > 0; inner *= shape_.lengths[d]) {
      outer /= shape_.lengths[d];
      FftBlocks blocks = {inner, ColumnsAtOnce(*plans_[d])};
      int64_t pieces = std::min(threads, outer * blocks.count());
      most = std::max(most, plans_[d]->Room(blocks.most()) * pieces);
    }
    bool copies = shape_.real_output && shape_.lengths.size() > 1;
    return (most + (copies ? 2 * rows_ * half : 0)) * int64_t{sizeof(T)};
  }

 private:
  using Plan = FftPlan<T>;
  using From = Lines<const T>;
  using To = Lines<T>;
  static constexpr int64_t kBytes = sizeof(T);

  // Dimensions of the same length share one.
  std::shared_ptr<const Plan> PlanOf(int64_t n) const {
    for (const auto& plan : plans_) {
      if (plan->size() == n) return plan;
    }
    return std::make_shared<const Plan>(n);
  }

  // What a task works on stays in the caches, and is whole lines of them where it can.
  static int64_t ColumnsAtOnce(const Plan& plan) {
    constexpr int64_t kCache = program::TargetFacts::kSecondLevelBytes / 8,
                      kLeast = 64 / (2 * kBytes), kMost = 4 * kLeast;
    return std::clamp(kCache / (2 * kBytes * plan.size()) / kLeast * kLeast, kLeast, kMost);
  }
  int64_t RowsAtOnce() const {
    const Plan& plan = *plans_.back();
    int64_t twice = paired_ ? 2 : 1, vector = plan.kernels().lanes;
    if (plan.fills_vectors_alone() || rows_ < vector * twice) return twice;
    constexpr int64_t kCache = program::TargetFacts::kFirstLevelBytes / 2;
    int64_t lanes = 4 * vector;
    while (lanes > vector && lanes * plan.size() * 2 * kBytes > kCache) lanes /= 2;
    return lanes * twice;
  }
  int64_t RowsRoom() const {
    int64_t lanes = groups_.most();
    int64_t sizes = paired_ ? 2 * lanes : 0;
    return plans_.back()->Room(lanes) + ArraysOfLines() * Plan::SplitRoom(n_, lanes) + sizes;
  }

  // Beside what the plan takes.
  int64_t ArraysOfLines() const {
    if (paired_) return 3;
    if (groups_.size > 1) return 2;
    return shape_.real_input || shape_.real_output ? 1 : 0;
  }

  static double CostOf(const Plan& plan) {
    double n = static_cast<double>(plan.size());
    return n * std::bit_width(static_cast<uint64_t>(plan.size())) / 6 + 10;
  }

  // fn(memory, i) for i < count, each piece with memory of its own.
  template <class Fn>
  static Status Pieces(const RoutineContext& context, int64_t count, double cost, int64_t room,
                       const Fn& fn) {
    constexpr int64_t kOnStack = (int64_t{16} << 10) / kBytes;
    return TryPieces(&context.pool, count, cost, [&](int64_t begin, int64_t end) -> Status {
      if (room <= kOnStack) {
        alignas(64) T memory[kOnStack];
        for (int64_t i = begin; i < end; ++i) fn(memory, i);
        return {};
      }
      auto memory = TRY(Scratch<T>::New(context.means(), room));
      for (int64_t i = begin; i < end; ++i) fn(memory.data(), i);
      return {};
    });
  }

  // All dimensions but the last, the first of them from `from`, the others in place; rows have
  // `last` numbers.
  Status OtherDimensions(const RoutineContext& context, int64_t last, const T* from, T* to) const {
    int64_t inner = last, outer = rows_;
    for (size_t d = shape_.lengths.size() - 1; d-- > 0;) {
      int64_t n = shape_.lengths[d];
      outer /= n;
      const Plan& plan = *plans_[d];
      FftBlocks blocks = {inner, ColumnsAtOnce(plan)};
      T scale = static_cast<T>(1 / static_cast<double>(n));
      TRY(Pieces(context, outer * blocks.count(),
                 CostOf(plan) * static_cast<double>(std::min(inner, blocks.size)),
                 plan.Room(blocks.most()), [&](T* memory, int64_t i) {
                   int64_t block = i % blocks.count(), first = blocks.begin(block);
                   int64_t at = 2 * (i / blocks.count() * n * inner + first);
                   From source = {Pairs<From>(), {from + at, nullptr}, inner};
                   To target = {Pairs<To>(), {to + at, nullptr}, inner};
                   plan.Run(source, target, blocks.end(block) - first, scale, memory);
                 }));
      inner *= n;
      from = to;
    }
    return {};
  }

  template <class Ends>
  typename Ends::Form Pairs() const {
    return shape_.inverse ? Ends::kSwappedPairs : Ends::kPairs;
  }

  Status LastDimension(const RoutineContext& context, const T* x, T* y) const {
    int64_t half = n_ / 2 + 1;
    int64_t in = shape_.real_input ? n_ : shape_.real_output ? 2 * half : 2 * n_;
    int64_t out = shape_.real_output ? n_ : shape_.real_input ? 2 * half : 2 * n_;
    double cost = CostOf(*plans_.back()) * static_cast<double>(groups_.size);
    return Pieces(context, groups_.count(), cost, RowsRoom(), [&](T* memory, int64_t i) {
      int64_t first = groups_.begin(i), rows = groups_.end(i) - first;
      const T* from = x + first * in;
      T* to = y + first * out;
      if (paired_) {
        shape_.real_input ? FromRealPairs(memory, rows, from, to)
                          : ToRealPairs(memory, rows, from, to);
      } else if (groups_.size == 1) {
        for (int64_t row = 0; row < rows; ++row) OneRow(memory, from + row * in, to + row * out);
      } else {
        SomeRows(memory, rows, from, to);
      }
    });
  }

  // The arrays of lines in a task's memory, of which ArraysOfLines are there, and what the plan may
  // use.
  struct RowMemory {
    Split<T> a, b, c;
    T* rest;
  };
  RowMemory MemoryOf(T* memory, int64_t lanes) const {
    int64_t room = Plan::SplitRoom(n_, lanes);
    auto at = [&](int i) { return Plan::SplitAt(memory + i * room, n_, lanes); };
    return {at(0), at(1), at(2), memory + ArraysOfLines() * room};
  }
  static Split<const T> Read(Split<T> x) { return {x.re, x.im}; }
  // From lines in two arrays to lines in two others; the inverse is the same with real and
  // imaginary parts exchanged.
  void RunSplit(Split<T> from, Split<T> to, int64_t lanes, T* rest) const {
    if (shape_.inverse) from = {from.im, from.re}, to = {to.im, to.re};
    plans_.back()->Run({From::kSplit, Read(from), lanes}, {To::kSplit, to, lanes}, lanes, T(1),
                       rest);
  }
  Split<const T> Roots() const { return {roots_.data(), roots_.data() + roots_.size() / 2}; }
  T Scale() const {
    int64_t n = plans_.back()->size();
    return shape_.inverse ? static_cast<T>(1 / static_cast<double>(n)) : T(1);
  }

  void OneRow(T* memory, const T* x, T* y) const {
    const Plan& plan = *plans_.back();
    RowMemory m = MemoryOf(memory, 1);
    if (shape_.real_input) {
      plan.Run({From::kPairs, {x, nullptr}, 1}, {To::kSplit, m.a, 1}, 1, T(1), m.rest);
      plan.kernels().spectrum_of_pairs(Read(m.a), n_ / 2, Roots(), y);
    } else if (shape_.real_output) {
      plan.kernels().pairs_of_spectrum(x, n_ / 2, Roots(), m.a);
      plan.Run({From::kSplit, {m.a.im, m.a.re}, 1}, {To::kSwappedPairs, {y, nullptr}, 1}, 1,
               Scale(), m.rest);
    } else {
      plan.Run({Pairs<From>(), {x, nullptr}, 1}, {Pairs<To>(), {y, nullptr}, 1}, 1, Scale(),
               m.rest);
    }
  }

  // One row in each lane.
  void SomeRows(T* memory, int64_t rows, const T* x, T* y) const {
    const auto& kernels = plans_.back()->kernels();
    RowMemory m = MemoryOf(memory, rows);
    int64_t h = n_ / 2;
    if (shape_.real_input) {
      LoadRows(x, n_, h, rows, true, m.a);
      RunSplit(m.a, m.b, rows, m.rest);
      kernels.spectra_of_pairs(Read(m.b), h, rows, Roots(), m.a);
      StoreRows(Read(m.a), h + 1, rows, true, T(1), y, 2 * h + 2);
    } else if (shape_.real_output) {
      LoadRows(x, 2 * h + 2, h + 1, rows, true, m.a);
      kernels.pairs_of_spectra(Read(m.a), h, rows, Roots(), m.b);
      RunSplit(m.b, m.a, rows, m.rest);
      StoreRows(Read(m.a), h, rows, true, Scale(), y, n_);
    } else {
      LoadRows(x, 2 * n_, n_, rows, true, m.a);
      RunSplit(m.a, m.b, rows, m.rest);
      StoreRows(Read(m.b), n_, rows, true, Scale(), y, 2 * n_);
    }
  }

  // The first rows as real parts and the last as imaginary ones; of an odd number of rows the
  // middle one is both. Rows of numbers that are not all finite go alone.
  void FromRealPairs(T* memory, int64_t rows, const T* x, T* y) const {
    int64_t lanes = (rows + 1) / 2, second = rows - lanes, half = n_ / 2 + 1;
    RowMemory m = MemoryOf(memory, lanes);
    LoadRows(x, n_, n_, lanes, false, {m.a.re, nullptr});
    LoadRows(x + second * n_, n_, n_, lanes, false, {m.a.im, nullptr});
    T* sizes = m.rest + plans_.back()->Room(lanes);
    LanePair<T> pair = {{m.a.re, nullptr}, {m.a.im, nullptr}, sizes, sizes + lanes};
    Scaling scaling = rows > 1 ? ScaleLanes(pair, n_, lanes) : Scaling::kNone;
    if (scaling == Scaling::kNotFinite) {
      for (int64_t i = 0; i < rows; ++i) FromRealPairs(memory, 1, x + i * n_, y + i * 2 * half);
      return;
    }
    RunSplit(m.a, m.b, lanes, m.rest);
    SeparateSpectra(Read(m.b), n_, lanes, m.a, m.c);
    if (scaling == Scaling::kScaled) {
      MultiplyLanes(m.a, half, lanes, pair.first_sizes);
      MultiplyLanes(m.c, half, lanes, pair.second_sizes);
    }
    StoreRows(Read(m.a), half, lanes, true, T(1), y, 2 * half);
    StoreRows(Read(m.c), half, lanes, true, T(1), y + second * 2 * half, 2 * half);
  }
  void ToRealPairs(T* memory, int64_t rows, const T* x, T* y) const {
    int64_t lanes = (rows + 1) / 2, second = rows - lanes, half = n_ / 2 + 1;
    RowMemory m = MemoryOf(memory, lanes);
    LoadRows(x, 2 * half, half, lanes, true, m.a);
    LoadRows(x + second * 2 * half, 2 * half, half, lanes, true, m.c);
    T* sizes = m.rest + plans_.back()->Room(lanes);
    LanePair<T> pair = {m.a, m.c, sizes, sizes + lanes};
    Scaling scaling = rows > 1 ? ScaleLanes(pair, half, lanes) : Scaling::kNone;
    if (scaling == Scaling::kNotFinite) {
      for (int64_t i = 0; i < rows; ++i) ToRealPairs(memory, 1, x + i * 2 * half, y + i * n_);
      return;
    }
    JoinSpectra(Read(m.a), Read(m.c), n_, lanes, m.b);
    RunSplit(m.b, m.a, lanes, m.rest);
    if (scaling == Scaling::kScaled) {
      MultiplyLanes({m.a.re, nullptr}, n_, lanes, pair.first_sizes);
      MultiplyLanes({m.a.im, nullptr}, n_, lanes, pair.second_sizes);
    }
    StoreRows(Split<const T>{m.a.re, nullptr}, n_, lanes, false, Scale(), y, n_);
    StoreRows(Split<const T>{m.a.im, nullptr}, n_, lanes, false, Scale(), y + second * n_, n_);
  }

  FftShape shape_;
  int64_t n_, rows_;  // of the last dimension
  bool halved_, paired_;
  FftBlocks groups_;  // of rows
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<T> roots_;  // of real transforms: cosines, then sines
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareFft(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "fft"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  std::string_view type = program::StringAttr(call, "type", "");
  FftShape shape = {type == "rfft", type == "irfft", type == "ifft" || type == "irfft",
                    *program::IntsAttr(call, "lengths"), program::IntAttr(call, "batch", 1)};
  if (inputs.step.uses[0].slice.size == 0) return std::make_unique<NothingToDo>();
  if (RealType(UseDType(inputs, 0)) == DType::kF64) {
    return std::make_unique<Fft<double>>(std::move(shape));
  }
  return std::make_unique<Fft<float>>(std::move(shape));
}

}  // namespace weft::cpu
