#include "cpu/routines/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/cancel_flag.h"
#include "cpu/routines/fft_butterfly.h"

namespace weft::cpu {
namespace {

// The stages of a length, first to last; none when it has a large prime factor. Stages at both ends
// are fast ones, if only copies; the first is one whose results fill vectors, when there is one.
std::vector<int> RadicesOf(int64_t n) {
  std::vector<int> fast, odd;
  for (int p = 3; p <= kMostRadix; p += 2) {
    for (; n % p == 0; n /= p) (IsFastRadix(p) ? fast : odd).push_back(p);
  }
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (n != 1) return {};
  std::vector<int> radices;
  for (; twos >= 5 || twos == 3; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  std::sort(fast.rbegin(), fast.rend());
  if (twos == 1) fast.push_back(2);
  // Odd ones go between the first and the rest.
  if (radices.empty() && !fast.empty()) {
    radices.push_back(fast.front());
    fast.erase(fast.begin());
  }
  size_t first = std::min<size_t>(1, radices.size());
  radices.insert(radices.end(), fast.begin(), fast.end());
  radices.insert(radices.begin() + static_cast<std::ptrdiff_t>(first), odd.begin(), odd.end());
  if (radices.empty() || !IsFastRadix(radices.front())) radices.insert(radices.begin(), 1);
  if (radices.back() != 1 && !IsFastRadix(radices.back())) radices.push_back(1);
  return radices;
}

// The least length of at least n without large prime factors that is quickly transformed.
int64_t RoundLength(int64_t n) {
  int64_t best = 16;
  while (best < n) best *= 2;
  for (int64_t factor : {3, 5, 9, 15, 25}) {
    int64_t length = 16 * factor;
    while (length < n) length *= 2;
    best = std::min(best, length);
  }
  return best;
}

}  // namespace

RootOfOne RootOf(int64_t k, int64_t n) {
  // Angles in the first eighth of a turn are the most exact; the others follow by symmetry.
  int64_t quarter = (8 * k / n + 1) / 2;  // nearest multiple of a quarter turn
  double rest = static_cast<double>(4 * k - quarter * n) / 4;
  double angle = 2 * std::numbers::pi * rest / static_cast<double>(n);
  double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

template <class T>
FftPlan<T>::FftPlan(int64_t n) : n_(n) {
  std::vector<int> radices = RadicesOf(n);
  radices.empty() ? PrepareChirp() : PrepareStages(radices);
}

template <class T>
void FftPlan<T>::PrepareStages(const std::vector<int>& radices) {
  int64_t rest = n_, stride = 1;
  // Vectors as long as the first stage of one line, and what follows, can fill.
  kernels_ = &FftKernels<T>::Find(
      radices.front() == 1 ? n_ : std::min<int64_t>(n_ / radices.front(), radices.front()));
  int lanes = kernels_->lanes;
  for (int radix : radices) {
    Stage stage = {radix, rest / radix, stride, {}, {}, {}};
    auto twiddle = [&](int64_t p, int k, bool sine) {
      RootOfOne root = RootOf(p * k, rest);
      return static_cast<T>(sine ? root.im : root.re);
    };
    for (int64_t p = 0; p < stage.m; ++p) {
      for (int k = 1; k < radix; ++k) {
        stage.twiddles.push_back(twiddle(p, k, false));
        stage.twiddles.push_back(twiddle(p, k, true));
      }
    }
    for (int64_t block = 0; stage.m >= lanes && stride == 1 && block < stage.m; block += lanes) {
      int64_t p = std::min(block, stage.m - lanes);
      for (int k = 1; k < radix; ++k) {
        for (int part = 0; part < 2; ++part) {
          for (int lane = 0; lane < lanes; ++lane) {
            stage.turned.push_back(
                stage.twiddles[static_cast<size_t>(2 * ((p + lane) * (radix - 1) + k - 1) + part)]);
          }
        }
      }
    }
    for (int j = 0; radix > kMostUnrolledRadix && j < 2 * radix; ++j) {
      RootOfOne root = RootOf(j % radix, radix);
      stage.roots.push_back(static_cast<T>(j < radix ? root.re : -root.im));
    }
    stages_.push_back(std::move(stage));
    rest /= radix;
    stride *= radix;
  }
  const Stage& first = stages_.front();
  fills_vectors_alone_ = stages_.size() > 1 && first.radix % 4 == 0 && !first.turned.empty();
}

template <class T>
void FftPlan<T>::PrepareChirp() {
  int64_t room = RoundLength(2 * n_ - 1);
  inner_ = std::make_unique<FftPlan>(room);
  kernels_ = inner_->kernels_;
  fills_vectors_alone_ = true;
  std::vector<T> numbers(static_cast<size_t>(4 * room)),
      scratch(static_cast<size_t>(inner_->Room(1)));
  Split<T> chirp = {numbers.data(), numbers.data() + room},
           spectrum = {chirp.re + 2 * room, chirp.im + 2 * room};
  for (int64_t k = 0; k < n_; ++k) {
    RootOfOne w = RootOf(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n_)), 2 * n_);
    chirp_re_.push_back(static_cast<T>(w.re));
    chirp_im_.push_back(static_cast<T>(w.im));
    for (int64_t at : {k, (room - k) % room}) {
      chirp.re[at] = static_cast<T>(w.re);
      chirp.im[at] = static_cast<T>(-w.im);
    }
  }
  inner_->Run({Lines<const T>::kSplit, {chirp.re, chirp.im}, 1}, {Lines<T>::kSplit, spectrum, 1}, 1,
              T(1), scratch.data());
  T scale = static_cast<T>(1 / static_cast<double>(room));
  for (int64_t k = 0; k < room; ++k) {
    spectrum_re_.push_back(spectrum.re[k] * scale);
    spectrum_im_.push_back(spectrum.im[k] * scale);
  }
}

template <class T>
int64_t FftPlan<T>::SplitRoom(int64_t n, int64_t lanes) {
  // Arrays of a length that is a power of two would share lines of the cache.
  return 2 * ((n * lanes + 15) / 16 * 16 + 16);
}

template <class T>
Split<T> FftPlan<T>::SplitAt(T* memory, int64_t n, int64_t lanes) {
  return {memory, memory + SplitRoom(n, lanes) / 2};
}

template <class T>
int64_t FftPlan<T>::Room(int64_t lanes) const {
  if (inner_ != nullptr) return inner_->Room(lanes) + 2 * SplitRoom(inner_->n_, lanes);
  return SplitRoom(n_, lanes) * std::min<int64_t>(2, std::ssize(stages_) - 1);
}

template <class T>
void FftPlan<T>::RunFirst(const Stage& stage, StageCall<T> call, const Lines<const T>& from,
                          int64_t lanes) const {
  using Form = typename Lines<const T>::Form;
  bool pairs = from.form == Form::kPairs, swapped = from.form == Form::kSwappedPairs;
  call.from = from.at;
  if (lanes == 1 && from.stride == 1 && !stage.turned.empty() && stage.radix > 1) {
    StageKind kind = pairs     ? StageKind::kTurnedPairs
                     : swapped ? StageKind::kTurnedSwapped
                               : StageKind::kTurned;
    call.twiddles = stage.turned.data();
    call.outer = call.from_step = stage.m;
    return kernels_->stage(kind, stage.radix)(call);
  }
  StageKind kind = pairs     ? StageKind::kFirst
                   : swapped ? StageKind::kFirstSwapped
                             : StageKind::kMiddle;
  call.outer = stage.m;
  call.from_outer = from.stride;
  call.to_outer = lanes * stage.radix;
  call.from_step = from.stride * stage.m;
  call.to_step = call.count = lanes;
  if (stage.radix == 1 && from.stride == lanes) {
    call.outer = 1;
    call.count = n_ * lanes;
  }
  kernels_->stage(kind, stage.radix)(call);
}

template <class T>
void FftPlan<T>::RunMiddle(const Stage& stage, StageCall<T> call, int64_t lanes) const {
  int64_t stride = stage.stride * lanes;
  call.outer = 1;
  call.from_outer = call.to_step = call.count = stride;
  call.to_outer = stride * stage.radix;
  call.from_step = stride * stage.m;
  // The first twiddles are all 1.
  kernels_->stage(StageKind::kPlain, stage.radix)(call);
  if (stage.m == 1) return;
  call.outer = stage.m - 1;
  call.from = {call.from.re + call.from_outer, call.from.im + call.from_outer};
  call.to = {call.to.re + call.to_outer, call.to.im + call.to_outer};
  call.twiddles += 2 * (stage.radix - 1);
  kernels_->stage(StageKind::kMiddle, stage.radix)(call);
}

template <class T>
void FftPlan<T>::RunLast(const Stage& stage, StageCall<T> call, const Lines<T>& to,
                         int64_t lanes) const {
  StageKind kind = to.form == Lines<T>::kPairs          ? StageKind::kLast
                   : to.form == Lines<T>::kSwappedPairs ? StageKind::kLastSwapped
                                                        : StageKind::kPlain;
  int64_t stride = stage.stride;
  call.to = to.at;
  call.outer = 1;
  call.count = call.from_step = call.to_step = stride * lanes;
  if (to.stride != lanes) {
    call.outer = stride;
    call.count = call.from_outer = lanes;
    call.to_outer = to.stride;
    call.to_step = to.stride * stride;
  }
  kernels_->stage(kind, stage.radix)(call);
}

template <class T>
void FftPlan<T>::RunOnly(const Stage& stage, StageCall<T> call, const Lines<const T>& from,
                         const Lines<T>& to, int64_t lanes) const {
  using From = typename Lines<const T>::Form;
  bool from_split = from.form == From::kSplit, to_split = to.form == Lines<T>::kSplit;
  bool from_swapped = from.form == From::kSwappedPairs;
  StageKind kind;
  if (to_split) {
    kind = from_split     ? StageKind::kPlain
           : from_swapped ? StageKind::kFirstSwapped
                          : StageKind::kFirst;
  } else if (from_split) {
    kind = to.form == Lines<T>::kSwappedPairs ? StageKind::kLastSwapped : StageKind::kLast;
  } else {
    kind = from_swapped ? StageKind::kOnlySwapped : StageKind::kOnly;
  }
  call.from = from.at;
  call.to = to.at;
  call.outer = 1;
  call.from_step = from.stride;
  call.to_step = to.stride;
  call.count = lanes;
  kernels_->stage(kind, stage.radix)(call);
}

template <class T>
void FftPlan<T>::Run(const Lines<const T>& from, const Lines<T>& to, int64_t lanes, T scale,
                     T* scratch) const {
  if (inner_ != nullptr) return RunChirp(from, to, lanes, scale, scratch);
  Split<T> now = SplitAt(scratch, n_, lanes), other = now;
  if (stages_.size() > 2) other = SplitAt(scratch + SplitRoom(n_, lanes), n_, lanes);
  for (const Stage& stage : stages_) {
    if (CancelFlag::IsSet()) return;
    StageCall<T> call = {};
    call.twiddles = stage.twiddles.data();
    call.roots = stage.roots.data();
    call.radix = stage.radix;
    call.scale = scale;
    call.from = {other.re, other.im};
    call.to = now;
    bool first = &stage == &stages_.front(), last = &stage == &stages_.back();
    if (first && last) {
      RunOnly(stage, call, from, to, lanes);
    } else if (first) {
      RunFirst(stage, call, from, lanes);
    } else if (last) {
      RunLast(stage, call, to, lanes);
    } else {
      RunMiddle(stage, call, lanes);
    }
    std::swap(now, other);
  }
}

template <class T>
void FftPlan<T>::RunChirp(const Lines<const T>& from, const Lines<T>& to, int64_t lanes, T scale,
                          T* scratch) const {
  int64_t room = inner_->n_;
  Split<T> x = SplitAt(scratch, room, lanes),
           y = SplitAt(scratch + SplitRoom(room, lanes), room, lanes);
  scratch += 2 * SplitRoom(room, lanes);
  using From = typename Lines<const T>::Form;
  // One number of each line at a time: a stage that only copies.
  StageCall<T> copy = {from.at, x, n_, from.stride, lanes, 0, 0, lanes, nullptr, scale, 1, nullptr};
  if (from.stride == lanes) copy.outer = 1, copy.count = n_ * lanes;
  kernels_->stage(from.form == From::kPairs          ? StageKind::kFirst
                  : from.form == From::kSwappedPairs ? StageKind::kFirstSwapped
                                                     : StageKind::kPlain,
                  1)(copy);
  kernels_->multiply(x, n_, lanes, chirp_re_.data(), chirp_im_.data());
  std::fill(x.re + n_ * lanes, x.re + room * lanes, T(0));
  std::fill(x.im + n_ * lanes, x.im + room * lanes, T(0));
  using Ends = Lines<T>;
  inner_->Run({From::kSplit, {x.re, x.im}, lanes}, {Ends::kSplit, y, lanes}, lanes, T(1), scratch);
  kernels_->multiply(y, room, lanes, spectrum_re_.data(), spectrum_im_.data());
  inner_->Run({From::kSplit, {y.im, y.re}, lanes}, {Ends::kSplit, {x.im, x.re}, lanes}, lanes, T(1),
              scratch);
  kernels_->multiply(x, n_, lanes, chirp_re_.data(), chirp_im_.data());
  copy = {{x.re, x.im}, to.at, n_, lanes, to.stride, 0, 0, lanes, nullptr, scale, 1, nullptr};
  if (to.stride == lanes) copy.outer = 1, copy.count = n_ * lanes;
  kernels_->stage(to.form == Ends::kPairs          ? StageKind::kLast
                  : to.form == Ends::kSwappedPairs ? StageKind::kLastSwapped
                                                   : StageKind::kPlain,
                  1)(copy);
}

template class FftPlan<float>;
template class FftPlan<double>;

}  // namespace weft::cpu
