// Problems with time running backwards; orders from times.
#include <algorithm>
#include <cmath>

#include "compiler/schedule/search.h"

namespace weft::compiler::schedule {

Problem Reversed(const Problem& p) {
  Problem r;
  r.overlap = p.overlap;
  r.metric = p.metric;
  auto last = static_cast<int32_t>(p.size()) - 1;
  for (int32_t n = last; n >= 0; --n) {
    const Job& job = p.jobs[static_cast<size_t>(n)];
    Job own;
    own.stream = job.stream, own.is_async = job.is_async, own.seconds = job.seconds;
    for (size_t k = job.succs.size(); k-- > 0;) own.preds.push_back(last - job.succs[k]);
    for (size_t k = job.preds.size(); k-- > 0;) own.succs.push_back(last - job.preds[k]);
    r.jobs.push_back(std::move(own));
  }
  r.FindTails();
  return r;
}

std::vector<int32_t> FromReversed(const Problem& p, const Problem& r,
                                  const std::vector<int32_t>& jobs) {
  Walker walker(r);
  for (int32_t job : jobs) walker.Place(job);
  auto last = static_cast<int32_t>(p.size()) - 1;
  std::vector<double> begin(p.size());
  for (int32_t n = 0; n <= last; ++n) {
    begin[static_cast<size_t>(n)] = walker.length() - walker.end(last - n);
  }
  return OrderOfBegins(p, begin);
}

std::vector<int32_t> OrderOfBegins(const Problem& p, const std::vector<double>& begin) {
  std::vector<int32_t> order(p.size());
  for (size_t n = 0; n < p.size(); ++n) order[n] = static_cast<int32_t>(n);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    double x = begin[static_cast<size_t>(a)], y = begin[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
  std::vector<double> key = begin;
  double issued = 0;
  for (int32_t n : order) {
    const Job& job = p.jobs[static_cast<size_t>(n)];
    if (job.stream == Stream::kCompute) continue;
    double ready = 0;
    for (int32_t q : job.preds) {
      auto k = static_cast<size_t>(q);
      ready = std::max(ready, begin[k] + p.jobs[k].seconds);
    }
    issued = key[static_cast<size_t>(n)] = std::max(issued, ready);
  }
  // Transfers before the compute that begins when they are issued; precedence where times tie.
  std::vector<int32_t> waiting(p.size()), ready, result;
  for (size_t n = 0; n < p.size(); ++n) {
    waiting[n] = static_cast<int32_t>(p.jobs[n].preds.size());
    if (waiting[n] == 0) ready.push_back(static_cast<int32_t>(n));
  }
  auto earlier = [&](int32_t a, int32_t b) {
    double x = key[static_cast<size_t>(a)], y = key[static_cast<size_t>(b)];
    if (std::abs(x - y) > 1e-12) return x < y;
    bool s = p.jobs[static_cast<size_t>(a)].is_async, t = p.jobs[static_cast<size_t>(b)].is_async;
    if (s != t) return s;
    double u = begin[static_cast<size_t>(a)], v = begin[static_cast<size_t>(b)];
    return u != v ? u < v : a < b;
  };
  while (!ready.empty()) {
    auto next = std::min_element(ready.begin(), ready.end(), earlier);
    int32_t job = *next;
    ready.erase(next);
    result.push_back(job);
    for (int32_t s : p.jobs[static_cast<size_t>(job)].succs) {
      if (--waiting[static_cast<size_t>(s)] == 0) ready.push_back(s);
    }
  }
  return result;
}

}  // namespace weft::compiler::schedule
