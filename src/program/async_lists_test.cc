// Random programs with asynchronous steps and lists, in branches and in each other: the verifier
// refuses those in which something touches what is under way, by an oracle that knows nothing of
// it, and no others; and what it takes gives the same as everything in place.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/str.h"
#include "program/interpret.h"
#include "program/program.h"

namespace weft::program {
namespace {

constexpr int kBuffers = 6, kHalf = 16;

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  int Below(int n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int>(state_ % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : dice_(seed) {
    std::string text = "program random\nbuffer p: pred[] parameter 0\n";
    for (int b = 0; b < kBuffers; ++b) {
      StrAppend(text, "buffer b", b, ": u8[", 2 * kHalf, "] result ", b, "\n");
    }
    StrAppend(text, "steps {\n");
    for (int b = 0; b < kBuffers; ++b) StrAppend(text, "fill(write b", b, ") hex \"0", b, "\"\n");
    StrAppend(text, "}\n");
    program_ = *Parse(text);
    // Most programs work in parts of their own, so that about half of them are right.
    Fill(program_.steps, 5 + dice_.Below(6), 0);
  }
  Program Take() { return std::move(program_); }

 private:
  Slice Half() {
    auto buffer = static_cast<BufferId>(1 + dice_.Below(kBuffers));  // 0 is the pred
    return {buffer, kHalf * dice_.Below(2), kHalf};
  }

  Step Simple() {
    Step step;
    Slice to = Half(), from = Half();
    if (dice_.Below(3) == 0 || Overlap(from, to)) {
      step.op = FillStep{{static_cast<std::byte>(dice_.Below(256))}};
      step.uses = {{Access::kWrite, to}};
    } else {
      step.op = CopyStep{};
      step.uses = {{Access::kRead, from}, {Access::kWrite, to}};
    }
    return step;
  }

  Step Any(int depth) {
    const int kind = depth >= 3 ? 0 : dice_.Below(6);
    Step step;
    if (kind == 4) {
      ConditionalStep choice;
      choice.branches.resize(static_cast<size_t>(1 + dice_.Below(2)));
      for (auto& branch : choice.branches) Fill(branch, 1 + dice_.Below(3), depth + 1);
      step.op = std::move(choice);
      step.uses = {{Access::kRead, {0, 0, 1}}};
    } else if (kind == 5) {
      ListStep list;
      Fill(list.steps, 1 + dice_.Below(4), depth + 1);
      step.op = std::move(list);
    } else {
      step = Simple();
    }
    const bool may = !std::holds_alternative<ConditionalStep>(step.op);
    if (may && dice_.Below(3) == 0) step.event = StrCat("e", events_++);
    return step;
  }

  void Fill(std::vector<Step>& steps, int count, int depth) {
    std::vector<std::string> open;
    for (int i = 0; i < count; ++i) {
      steps.push_back(Any(depth));
      if (!steps.back().event.empty()) open.push_back(steps.back().event);
      while (!open.empty() && (i + 1 == count || dice_.Below(3) == 0)) {
        auto which = open.begin() + dice_.Below(static_cast<int>(open.size()));
        Step wait;
        wait.op = WaitStep{*which};
        steps.push_back(std::move(wait));
        open.erase(which);
      }
    }
  }

  Dice dice_;
  Program program_;
  int events_ = 0;
};

bool Conflict(const Step& a, const Step& b) {
  for (const Use& x : AllUses(a)) {
    for (const Use& y : AllUses(b)) {
      if (x.access == Access::kRead && y.access == Access::kRead) continue;
      if (Overlap(x.slice, y.slice)) return true;
    }
  }
  return false;
}

// Whether somebody touches what is under way: by list, each start with all up to its wait.
bool IsRacy(const std::vector<Step>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    bool inside = false;
    ForEachList(steps[i], [&](const std::vector<Step>& list) { inside = inside || IsRacy(list); });
    if (inside) return true;
    if (steps[i].event.empty()) continue;
    for (size_t k = i + 1; k < steps.size(); ++k) {
      auto* wait = std::get_if<WaitStep>(&steps[k].op);
      if (wait != nullptr && wait->event == steps[i].event) break;
      if (Conflict(steps[i], steps[k])) return true;
    }
  }
  return false;
}

void RunInPlace(std::vector<Step>& steps) {
  std::erase_if(steps, [](const Step& s) { return std::holds_alternative<WaitStep>(s.op); });
  for (Step& step : steps) {
    step.event.clear();
    ForEachList(step, RunInPlace);
  }
}

TEST(AsyncLists, VerifierAndInterpreterAgreeWithAnOracle) {
  int right = 0, racy = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Program program = Maker(seed).Take();
    const std::string text = Print(program);
    auto again = Parse(text);
    ASSERT_TRUE(again) << again.error().ToString() << text;
    ASSERT_EQ(Print(*again), text);
    Status verified = Verify(program);
    ASSERT_EQ(!verified, IsRacy(program.steps))
        << seed << "\n"
        << text << (verified ? "" : verified.error().ToString());
    (verified ? right : racy) += 1;
    if (!verified) continue;
    Program in_place = program;
    RunInPlace(in_place.steps);
    for (bool p : {false, true}) {
      Literal argument(Shape::Scalar(DType::kPred));
      argument.mutable_data()[0] = static_cast<std::byte>(p);
      auto late = Interpret(program, std::span(&argument, 1));
      auto early = Interpret(in_place, std::span(&argument, 1));
      ASSERT_TRUE(late && early) << text;
      for (size_t b = 0; b < late->size(); ++b) ASSERT_TRUE((*late)[b] == (*early)[b]) << text;
    }
  }
  EXPECT_GT(right, 400);
  EXPECT_GT(racy, 400);
}

}  // namespace
}  // namespace weft::program
