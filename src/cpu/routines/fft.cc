// fft: dimensions one after the other; real transforms of even length by complex ones of half of
// it.
#include <algorithm>
#include <bit>
#include <vector>

#include "cpu/routines/fft_plan.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"

namespace weft::cpu {
namespace {

constexpr int64_t kLinesAtOnce = 8;  // of a dimension whose elements are not neighbours

struct FftShape {
  bool real_input, real_output, inverse;
  std::vector<int64_t> lengths;
  int64_t batch;
};

template <class T>
class Fft : public PreparedRoutine {
 public:
  // All lengths and the batch are positive.
  explicit Fft(FftShape shape) : shape_(std::move(shape)) {
    n_ = shape_.lengths.back();
    rows_ = shape_.batch;
    for (size_t i = 0; i + 1 < shape_.lengths.size(); ++i) {
      rows_ *= shape_.lengths[i];
      plans_.emplace_back(shape_.lengths[i]);
    }
    halved_ = (shape_.real_input || shape_.real_output) && n_ % 2 == 0;
    plans_.emplace_back(halved_ ? n_ / 2 : n_);
    for (int64_t k = 0; halved_ && k <= n_ / 2; ++k) {
      RootOfOne root = RootOf(k, n_);
      root_re_.push_back(static_cast<T>(root.re));
      root_im_.push_back(static_cast<T>(root.im));
    }
  }

  Status Run(const RoutineContext& context) const override {
    const T* x = reinterpret_cast<const T*>(context.memory[0]);
    T* y = reinterpret_cast<T*>(context.memory[1]);
    int64_t half = n_ / 2 + 1;
    if (!shape_.real_output) {
      TRY(LastDimension(context, x, y));
      return OtherDimensions(context, shape_.real_input ? half : n_, y);
    }
    if (shape_.lengths.size() == 1) return LastDimension(context, x, y);
    auto copy = TRY(Scratch<T>::New(2 * rows_ * half));
    std::copy_n(x, 2 * rows_ * half, copy.data());
    TRY(OtherDimensions(context, half, copy.data()));
    return LastDimension(context, copy.data(), y);
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t lines = 0;
    for (size_t d = 0; d < plans_.size(); ++d) {
      int64_t count = d + 1 < plans_.size() ? kLinesAtOnce : 1;
      lines = std::max(lines, Lines::Size(plans_[d], count));
    }
    bool copies = shape_.real_output && shape_.lengths.size() > 1;
    int64_t copy = copies ? 2 * rows_ * (n_ / 2 + 1) : 0;
    return (lines * threads + copy) * int64_t{sizeof(T)};
  }

 private:
  // Room for some lines of a plan, and as much to spare.
  class Lines {
   public:
    static int64_t RoomOf(const FftPlan<T>& plan) { return (plan.room() + 15) / 16 * 16; }
    static int64_t Size(const FftPlan<T>& plan, int64_t count) {
      return RoomOf(plan) * 2 * (count + 1);
    }
    static Result<Lines> New(const FftPlan<T>& plan, int64_t count) {
      Lines lines;
      lines.room_ = RoomOf(plan);
      lines.storage_ = TRY(Scratch<T>::New(Size(plan, count)));
      return lines;
    }
    Split<T> Line(int64_t i) const {  // the spare one is line -1
      T* at = storage_.data() + 2 * room_ * (i + 1);
      return {at, at + room_};
    }

   private:
    int64_t room_ = 0;
    Scratch<T> storage_;
  };

  static double CostOf(const FftPlan<T>& plan) {
    double n = static_cast<double>(plan.room());
    return n * std::bit_width(static_cast<uint64_t>(plan.room())) / 2 + 10;
  }

  // fn(lines, begin, end) over pieces of `count`, each with lines of its own.
  template <class Fn>
  static Status Pieces(const RoutineContext& context, const FftPlan<T>& plan, int64_t count,
                       double cost, int64_t lines_at_once, const Fn& fn) {
    return TryPieces(&context.pool, count, cost, [&](int64_t begin, int64_t end) -> Status {
      auto lines = TRY(Lines::New(plan, lines_at_once));
      fn(lines, begin, end);
      return {};
    });
  }

  static Split<T> Exchanged(Split<T> x, bool exchange) {
    return exchange ? Split<T>{x.im, x.re} : x;
  }

  // All dimensions but the last, in place; rows have `last` numbers.
  Status OtherDimensions(const RoutineContext& context, int64_t last, T* data) const {
    int64_t inner = last, outer = rows_;
    for (size_t d = shape_.lengths.size() - 1; d-- > 0;) {
      int64_t n = shape_.lengths[d];
      outer /= n;
      const FftPlan<T>& plan = plans_[d];
      int64_t blocks = (inner + kLinesAtOnce - 1) / kLinesAtOnce;
      T scale = shape_.inverse ? static_cast<T>(1 / static_cast<double>(n)) : T(1);
      TRY(Pieces(context, plan, outer * blocks, CostOf(plan) * kLinesAtOnce, kLinesAtOnce,
                 [&](const Lines& lines, int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     int64_t first = i % blocks * kLinesAtOnce;
                     T* at = data + 2 * (i / blocks * n * inner + first);
                     Block(plan, lines, std::min(kLinesAtOnce, inner - first), inner, scale, at);
                   }
                 }));
      inner *= n;
    }
    return {};
  }

  // `count` neighbouring lines, whose numbers are `stride` apart.
  void Block(const FftPlan<T>& plan, const Lines& lines, int64_t count, int64_t stride, T scale,
             T* data) const {
    Split<T> line[kLinesAtOnce];
    for (int64_t i = 0; i < count; ++i) line[i] = lines.Line(i);
    for (int64_t k = 0; k < plan.size(); ++k) {
      for (int64_t i = 0; i < count; ++i) {
        line[i].re[k] = data[2 * (k * stride + i)];
        line[i].im[k] = data[2 * (k * stride + i) + 1];
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      Split<T> spare = lines.Line(-1);
      Split<T> out = plan.Run(Exchanged(line[i], shape_.inverse), Exchanged(spare, shape_.inverse));
      out = Exchanged(out, shape_.inverse);
      if (out.re != line[i].re) {
        std::copy_n(out.re, plan.size(), line[i].re);
        std::copy_n(out.im, plan.size(), line[i].im);
      }
    }
    for (int64_t k = 0; k < plan.size(); ++k) {
      for (int64_t i = 0; i < count; ++i) {
        data[2 * (k * stride + i)] = line[i].re[k] * scale;
        data[2 * (k * stride + i) + 1] = line[i].im[k] * scale;
      }
    }
  }

  Status LastDimension(const RoutineContext& context, const T* x, T* y) const {
    const FftPlan<T>& plan = plans_.back();
    int64_t half = n_ / 2 + 1;
    int64_t in = shape_.real_input ? n_ : shape_.real_output ? 2 * half : 2 * n_;
    int64_t out = shape_.real_output ? n_ : shape_.real_input ? 2 * half : 2 * n_;
    return Pieces(context, plan, rows_, CostOf(plan), 1,
                  [&](const Lines& lines, int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      if (shape_.real_input) {
                        FromReal(lines, x + row * in, y + row * out);
                      } else if (shape_.real_output) {
                        ToReal(lines, x + row * in, y + row * out);
                      } else {
                        Complex(lines, x + row * in, y + row * out);
                      }
                    }
                  });
  }

  void Complex(const Lines& lines, const T* x, T* y) const {
    Split<T> line = lines.Line(0), spare = lines.Line(-1);
    SplitNumbers(x, n_, 1, line);
    bool exchange = shape_.inverse;
    Split<T> out = plans_.back().Run(Exchanged(line, exchange), Exchanged(spare, exchange));
    T scale = exchange ? static_cast<T>(1 / static_cast<double>(n_)) : T(1);
    JoinNumbers(Exchanged(out, exchange), n_, 1, scale, y);
  }

  // Even and odd elements are the parts of one complex transform z; its symmetric and antisymmetric
  // parts are their spectra.
  void FromReal(const Lines& lines, const T* x, T* y) const {
    Split<T> line = lines.Line(0), spare = lines.Line(-1);
    if (!halved_) {
      std::copy_n(x, n_, line.re);
      std::fill_n(line.im, n_, T(0));
      JoinNumbers(plans_.back().Run(line, spare), n_ / 2 + 1, 1, T(1), y);
      return;
    }
    int64_t h = n_ / 2;
    SplitNumbers(x, h, 1, line);
    Split<T> z = plans_.back().Run(line, spare);
    for (int64_t k = 0; k <= h; ++k) {
      int64_t a = k == h ? 0 : k, b = k == 0 ? 0 : h - k;
      T even_re = z.re[a] + z.re[b], even_im = z.im[a] - z.im[b];
      T odd_re = z.im[a] + z.im[b], odd_im = z.re[b] - z.re[a];
      y[2 * k] = T(0.5) * (even_re + odd_re * root_re_[k] - odd_im * root_im_[k]);
      y[2 * k + 1] = T(0.5) * (even_im + odd_re * root_im_[k] + odd_im * root_re_[k]);
    }
  }

  void ToReal(const Lines& lines, const T* x, T* y) const {
    Split<T> line = lines.Line(0), spare = lines.Line(-1);
    T scale = static_cast<T>(1 / static_cast<double>(n_));
    int64_t h = n_ / 2;
    if (!halved_) {
      for (int64_t k = 0; k < n_; ++k) {
        int64_t from = k <= h ? k : n_ - k;
        line.re[k] = x[2 * from];
        line.im[k] = k == 0 ? T(0) : k <= h ? x[2 * from + 1] : -x[2 * from + 1];
      }
      Split<T> out = plans_.back().Run({line.im, line.re}, {spare.im, spare.re});
      for (int64_t k = 0; k < n_; ++k) y[k] = out.im[k] * scale;
      return;
    }
    for (int64_t k = 0; k < h; ++k) {
      T a_re = x[2 * k], a_im = k == 0 ? T(0) : x[2 * k + 1];
      T b_re = x[2 * (h - k)], b_im = k == 0 ? T(0) : x[2 * (h - k) + 1];
      T even_re = a_re + b_re, even_im = a_im - b_im;
      T odd_re = a_re - b_re, odd_im = a_im + b_im;
      // Times the conjugate of the root, times i.
      T turned_re = odd_re * root_re_[k] + odd_im * root_im_[k];
      T turned_im = odd_im * root_re_[k] - odd_re * root_im_[k];
      line.re[k] = even_re - turned_im;
      line.im[k] = even_im + turned_re;
    }
    Split<T> out = plans_.back().Run({line.im, line.re}, {spare.im, spare.re});
    JoinNumbers(Split<T>{out.im, out.re}, h, 1, scale, y);
  }

  FftShape shape_;
  int64_t n_, rows_;  // of the last dimension
  bool halved_;
  std::vector<FftPlan<T>> plans_;
  std::vector<T> root_re_, root_im_;
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
