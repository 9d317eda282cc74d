// Scheduling groups and hints as changes of a problem: a group becomes one job, a hint becomes
// precedence.
#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/str.h"
#include "compiler/schedule/groups.h"
#include "compiler/schedule/problem.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Instruction;

// Starts first, dones last; in between, and among themselves, as the list has them. Members that
// all ask for it keep the order of the list altogether.
std::vector<Instruction*> OrderInside(const std::vector<Job>& members) {
  auto keeps = [](const Job& j) {
    const std::string* told = j.op->FrontendAttributeValue("keep_original_sequence_order_in_group");
    return told != nullptr && *told == "true";
  };
  bool keep_order = std::all_of(members.begin(), members.end(), keeps);
  std::vector<Instruction*> order;
  if (keep_order) {
    std::set<const Instruction*> dones, starts;  // lookups only
    for (const Job& j : members) {
      starts.insert(j.op);
      if (j.done != nullptr) dones.insert(j.done);
    }
    for (Instruction* i : *members[0].op->parent()) {
      if (starts.contains(i) || dones.contains(i)) order.push_back(i);
    }
    return order;
  }
  for (const Job& j : members) {
    if (j.is_async) order.push_back(j.op);
  }
  for (const Job& j : members) {
    if (!j.is_async) order.push_back(j.op);
  }
  for (const Job& j : members) {
    if (j.done != nullptr) order.push_back(j.done);
  }
  return order;
}

// Its transfers, as many at once as may be, beside its compute; at least this long where the wire
// is free. Copies have a stream of their own and are as long as they take.
void TakeSeconds(Job& group, const std::vector<Job>& members, int64_t overlap) {
  double wire = 0, copy = 0, longest = 0;
  for (const Job& j : members) {
    if (!j.is_async) {
      group.beside += j.seconds;
    } else if (j.stream == Stream::kWire) {
      group.transfers.push_back(j.seconds);
      wire += j.seconds;
      longest = std::max(longest, j.seconds);
    } else {
      copy += j.seconds;
    }
  }
  group.beside = std::max(group.beside, copy);
  group.wires_inside = std::ssize(group.transfers);
  group.seconds = std::max({group.beside, longest, wire / static_cast<double>(overlap)});
}

void SortOnce(std::vector<int32_t>& set) {
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

class Contraction {
 public:
  explicit Contraction(Problem& p) : p_(p), kept_(p.bytes.size(), 0) {
    // Who is counted and is no job keeps the buffer.
    std::vector<int32_t> jobs(p.bytes.size(), 0);
    for (const Job& j : p.jobs) {
      for (int32_t b : j.reads) ++jobs[static_cast<size_t>(b)];
    }
    for (size_t b = 0; b < kept_.size(); ++b) kept_[b] = p.readers[b] > jobs[b] ? 1 : 0;
  }

  bool Run() {
    bool changed = Merge();
    changed |= Hint();
    if (changed) Renumber();
    return changed;
  }

 private:
  bool Merge() {
    std::map<int64_t, std::vector<int32_t>> groups;
    for (size_t n = 0; n < p_.size(); ++n) {
      if (std::optional<int64_t> g = GroupOf(*p_.jobs[n].op)) {
        groups[*g].push_back(static_cast<int32_t>(n));
      }
    }
    std::erase_if(groups, [](const auto& g) { return g.second.size() < 2; });
    if (groups.empty()) return false;
    std::vector<int32_t> into(p_.size());  // job -> the first of its group
    for (size_t n = 0; n < p_.size(); ++n) into[n] = static_cast<int32_t>(n);
    for (const auto& [id, list] : groups) {
      for (int32_t n : list) into[static_cast<size_t>(n)] = list[0];
    }
    for (const auto& [id, list] : groups) MergeGroup(list);
    for (int32_t n : gone_) p_.jobs[static_cast<size_t>(n)] = {};
    for (size_t n = 0; n < p_.size(); ++n) {
      for (int32_t& q : p_.jobs[n].preds) q = into[static_cast<size_t>(q)];
      SortOnce(p_.jobs[n].preds);
      std::erase(p_.jobs[n].preds, static_cast<int32_t>(n));
    }
    return true;
  }

  void MergeGroup(const std::vector<int32_t>& list) {
    std::vector<Job> members;
    for (int32_t n : list) members.push_back(p_.jobs[static_cast<size_t>(n)]);
    Job group;
    group.op = members[0].op;
    TakeSeconds(group, members, p_.overlap);
    group.group = OrderInside(members);
    for (const Job& j : members) {
      group.preds.insert(group.preds.end(), j.preds.begin(), j.preds.end());
      group.reads.insert(group.reads.end(), j.reads.begin(), j.reads.end());
      group.makes.insert(group.makes.end(), j.makes.begin(), j.makes.end());
    }
    SortOnce(group.preds);
    SortOnce(group.reads);
    SortOnce(group.makes);
    // What is made and read inside only counts as made: it goes with the group.
    std::erase_if(group.reads, [&](int32_t b) {
      return std::binary_search(group.makes.begin(), group.makes.end(), b);
    });
    for (int32_t n : list) gone_.insert(n);
    gone_.erase(list[0]);
    p_.jobs[static_cast<size_t>(list[0])] = std::move(group);
  }

  // Jobs that must come before (or, `after`, behind) a job.
  std::vector<uint8_t> Reach(int32_t from, bool after) const {
    std::vector<uint8_t> seen(p_.size(), 0);
    std::vector<int32_t> work = {from};
    while (!work.empty()) {
      auto n = static_cast<size_t>(work.back());
      work.pop_back();
      for (int32_t next : after ? succs_[n] : p_.jobs[n].preds) {
        if (seen[static_cast<size_t>(next)]++ == 0) work.push_back(next);
      }
    }
    return seen;
  }

  struct Hinted {
    int32_t job;
    bool is_early;
    double priority;
  };

  bool Hint() {
    std::vector<Hinted> hints;
    for (size_t n = 0; n < p_.size(); ++n) {
      if (gone_.contains(static_cast<int32_t>(n))) continue;
      const Instruction& op = *p_.jobs[n].op;
      const std::string* hint = op.FrontendAttributeValue("scheduler_hint");
      const std::string* delay = op.FrontendAttributeValue("scheduler_delay_priority");
      if (hint == nullptr && delay == nullptr) continue;
      double priority = delay != nullptr ? ParseDouble(*delay).value_or(0) : 0;
      hints.push_back(
          {static_cast<int32_t>(n), hint != nullptr && *hint == "force_early", priority});
    }
    // The least delayed first: what is delayed more finds it among those that come before.
    std::sort(hints.begin(), hints.end(), [](const Hinted& a, const Hinted& b) {
      if (a.is_early != b.is_early) return a.is_early;
      return a.priority != b.priority ? a.priority < b.priority : a.job < b.job;
    });
    std::vector<uint8_t> is_delayed(p_.size(), 0);
    for (const Hinted& h : hints) is_delayed[static_cast<size_t>(h.job)] = h.is_early ? 0 : 1;
    std::vector<uint8_t> is_early(p_.size(), 0);
    for (const Hinted& h : hints) {
      FindSuccessors();
      std::vector<uint8_t> bound = Reach(h.job, !h.is_early);
      for (size_t n = 0; n < p_.size(); ++n) {
        auto other = static_cast<int32_t>(n);
        if (other == h.job || bound[n] || gone_.contains(other)) continue;
        if (h.is_early && !is_early[n]) {
          p_.jobs[n].preds.push_back(h.job);
          SortOnce(p_.jobs[n].preds);
        } else if (!h.is_early && !is_delayed[n]) {
          std::vector<int32_t>& preds = p_.jobs[static_cast<size_t>(h.job)].preds;
          preds.push_back(other);
          SortOnce(preds);
        }
      }
      (h.is_early ? is_early : is_delayed)[static_cast<size_t>(h.job)] = h.is_early ? 1 : 0;
    }
    return !hints.empty();
  }

  void FindSuccessors() {
    succs_.assign(p_.size(), {});
    for (size_t n = 0; n < p_.size(); ++n) {
      for (int32_t q : p_.jobs[n].preds) {
        succs_[static_cast<size_t>(q)].push_back(static_cast<int32_t>(n));
      }
    }
  }

  // Jobs in a topological order again, the first in the list first; readers counted anew.
  void Renumber() {
    FindSuccessors();
    std::vector<int32_t> waiting(p_.size()), number(p_.size(), -1), order;
    std::set<int32_t> ready;
    for (size_t n = 0; n < p_.size(); ++n) {
      waiting[n] = static_cast<int32_t>(p_.jobs[n].preds.size());
      if (waiting[n] == 0 && !gone_.contains(static_cast<int32_t>(n))) {
        ready.insert(static_cast<int32_t>(n));
      }
    }
    while (!ready.empty()) {
      int32_t n = *ready.begin();
      ready.erase(ready.begin());
      number[static_cast<size_t>(n)] = static_cast<int32_t>(order.size());
      order.push_back(n);
      for (int32_t s : succs_[static_cast<size_t>(n)]) {
        if (--waiting[static_cast<size_t>(s)] == 0) ready.insert(s);
      }
    }
    CHECK(order.size() + gone_.size() == p_.size()) << "scheduling groups wait for each other";
    std::vector<Job> jobs;
    p_.readers.assign(p_.bytes.size(), 0);
    p_.reader_set.assign(p_.bytes.size(), 0);
    auto reads = [&](int32_t buffer, int32_t reader) {
      ++p_.readers[static_cast<size_t>(buffer)];
      p_.reader_set[static_cast<size_t>(buffer)] ^= reader;
    };
    for (int32_t n : order) {
      Job job = std::move(p_.jobs[static_cast<size_t>(n)]);
      for (int32_t& q : job.preds) q = number[static_cast<size_t>(q)];
      std::sort(job.preds.begin(), job.preds.end());
      job.succs.clear();
      for (int32_t b : job.reads) reads(b, static_cast<int32_t>(jobs.size()));
      jobs.push_back(std::move(job));
    }
    for (size_t b = 0; b < kept_.size(); ++b) {
      if (kept_[b]) reads(static_cast<int32_t>(b), Problem::kKept);
    }
    p_.jobs = std::move(jobs);
    for (size_t n = 0; n < p_.size(); ++n) {
      for (int32_t q : p_.jobs[n].preds) {
        p_.jobs[static_cast<size_t>(q)].succs.push_back(static_cast<int32_t>(n));
      }
    }
  }

  Problem& p_;
  std::vector<uint8_t> kept_;  // buffers that are results
  std::set<int32_t> gone_;     // merged into others
  std::vector<std::vector<int32_t>> succs_;
};

}  // namespace

bool ContractGroups(Problem& problem) {
  bool changed = Contraction(problem).Run();
  if (changed) problem.FindTails();
  return changed;
}

}  // namespace weft::compiler::schedule
