// The rules of Programs: buffers (verify.cc), steps (verify_steps.cc).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "program/print.h"
#include "program/verify.h"

namespace weft::program {

// Bytes of one buffer that something has written.
class ByteSet {
 public:
  void Add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    while (it != ranges_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_.emplace(begin, end);
  }
  bool Covers(int64_t begin, int64_t end) const {
    if (begin >= end) return true;
    auto it = ranges_.upper_bound(begin);
    return it != ranges_.begin() && std::prev(it)->second >= end;
  }

 private:
  std::map<int64_t, int64_t> ranges_;  // begin -> end, apart from each other
};

class ProgramVerifier {
 public:
  ProgramVerifier(const Program& program, std::string_view text)
      : program_(program), text_(text), written_(program.buffers.size()) {}

  Status Run();

 private:
  struct Started {
    const Step* step;
    std::vector<Use> uses;  // resolved
  };

  template <class... Args>
  std::unexpected<Error> Fail(Position pos, const Args&... args) const {
    return VerifyError(text_, pos, StrCat(args...));
  }
  template <class... Args>
  std::unexpected<Error> Fail(const Step& step, const Args&... args) const {
    std::string_view kind = KindName(step);
    std::string where = step.name.empty() ? std::string(kind) : StrCat(step.name, ": ", kind);
    auto error = VerifyError(text_, step.pos, StrCat(where, ": ", args...));
    if (!step.source.empty()) error.error().Source(step.source);
    return error;
  }

  BufferId IdOf(const Buffer& buffer) const {
    return static_cast<BufferId>(&buffer - program_.buffers.data());
  }
  const Buffer& BufferOf(const Use& use) const { return program_.buffers[use.slice.buffer]; }
  std::string Show(const Slice& slice) const;
  Status CheckBuffers();

  // Sizes are scalars of their own, behind the arrays whose sizes they are.
  Status CheckSizes(const std::vector<const Buffer*>& list) const;

  // Results that lie in donated parameters do not overlap.
  Status CheckTakenParameters(const std::vector<const Buffer*>& results) const;
  Status CheckBuffer(const Buffer& buffer) const;
  Status CheckBase(const Buffer& buffer, int64_t size) const;
  Status CheckKernels() const;
  Status CheckSteps(const std::vector<Step>& steps, int depth);
  Status BeginEvent(const Step& step);
  Status CheckEffects(const Step& step) const;
  Status EndEvent(const Step& step, const std::string& event, size_t outer);
  Status CheckUses(const Step& step) const;
  Status CheckRaces(const Step& step, Access access, const Slice& slice) const;

  // Slices of one step overlap only if all are read, or as an in-place pair of a collective.
  Status CheckOverlaps(const Step& step) const;

  // The uses are exactly these.
  Status CheckForm(const Step& step, std::initializer_list<Access> form) const;
  Status Check(const Step& step, const KernelStep& op, int) const;
  Status CheckArgument(const Step& step, const Use& use, const Memory& param) const;
  Status Check(const Step& step, const CopyStep&, int) const;
  Status Check(const Step& step, const FillStep& op, int) const;
  Status Check(const Step& step, const LibraryStep& op, int) const;
  Status Check(const Step& step, const SendStep&, int) const {
    return CheckForm(step, {Access::kRead});
  }
  Status Check(const Step& step, const RecvStep&, int) const {
    return CheckForm(step, {Access::kWrite});
  }
  Status Check(const Step&, const WaitStep&, int) const { return {}; }

  Status Check(const Step& step, const WhileStep& op, int depth);
  Status Check(const Step& step, const ConditionalStep& op, int depth);
  Status Check(const Step& step, const ListStep& op, int depth);
  Status Check(const Step& step, const CollectiveStep& op, int) const;
  Status CheckGroups(const Step& step, const CollectiveStep& op) const;

  const Program& program_;
  std::string_view text_;
  std::vector<ByteSet> written_;  // by buffers with storage of their own
  std::vector<Started> started_;  // asynchronous steps under way, of all open lists
};

}  // namespace weft::program
