// Autotuning, with candidates that are functions of the host: any machine runs them.
#include "gpu/routines/tune.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/str.h"
#include "gpu/fake_driver.h"

namespace weft::gpu {
namespace {

class TuneCache : public runtime::ObjectCache {
 public:
  std::optional<std::string> Find(std::string_view key) override {
    auto found = kept_.find(std::string(key));
    if (found == kept_.end()) return std::nullopt;
    return found->second;
  }
  void Store(std::string_view key, std::string_view object) override {
    kept_[std::string(key)] = std::string(object);
  }

 private:
  std::map<std::string, std::string> kept_;
};

// What a candidate leaves: a number, after a while; of NaN a NaN, or 0.
struct Candidate {
  int milliseconds;
  uint8_t result;
  bool keeps_nan = true;
};

class Tune : public testing::Test {
 protected:
  void SetUp() override {
    auto nvrtc = Nvrtc::Load(folders_);
    if (!nvrtc) GTEST_SKIP() << nvrtc.error().ToString();
    nvrtc_ = std::move(*nvrtc);
    step_.op = program::LibraryStep{};
    options_.cache = &cache_;
    NewCore();
  }
  // As of another process.
  void NewCore() {
    driver_ = MakeFakeDriver(int64_t{64} << 20);
    core_ = std::make_shared<CudaCore>(driver_, 0, 0,
                                       std::make_unique<Libraries>(*driver_, false, folders_));
    ASSERT_TRUE(core_->Start());
  }
  Result<int64_t> Choose(const std::vector<Candidate>& candidates, double seconds, bool keeps_nan) {
    TuneRequest request;
    request.key = StrCat("test ", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    request.seconds = seconds, request.keeps_nan = keeps_nan;
    request.candidates = std::ssize(candidates);
    request.operands = {{DType::kF32, 4096}, {DType::kF32, 4096}};
    request.result = 1;
    request.run = [&](int64_t number, const RoutineCall& call) -> Status {
      ++runs_;
      const Candidate& c = candidates[static_cast<size_t>(number)];
      std::this_thread::sleep_for(std::chrono::milliseconds(c.milliseconds));
      TRY(call.stream.Synchronize());
      uint32_t first = 0;
      TRY(call.stream.Copy(runtime::CopyKind::kToHost, reinterpret_cast<std::byte*>(&first),
                           call.memory[0], 4));
      TRY(call.stream.Synchronize());
      bool is_nan = first == 0xffffffffu;
      const std::byte left[] = {is_nan ? std::byte(c.keeps_nan ? 0xff : 0) : std::byte(c.result)};
      return call.stream.Fill(call.memory[1], 4096, left);
    };
    runtime::LoadStats stats;
    CudaMachine machine = MachineFor(9, 0, nvrtc_->version());
    return FastestOf(
        {program_, step_, *core_, *core_->libraries, {*nvrtc_, machine, options_, stats}}, request);
  }

  const std::vector<std::string> folders_ = {".venv/lib/python3*/site-packages/nvidia/*/lib"};
  std::unique_ptr<Nvrtc> nvrtc_;
  std::shared_ptr<const CudaDriver> driver_;
  std::shared_ptr<CudaCore> core_;
  program::Program program_;
  program::Step step_;
  runtime::LoadOptions options_;
  TuneCache cache_;
  int runs_ = 0;
};

constexpr double kLong = 1e-3, kShort = 1e-6;  // seconds

TEST_F(Tune, TakesTheFastestWithTheSameBits) {
  const std::vector<Candidate> candidates = {{20, 1}, {0, 2}, {10, 1}, {1, 1}};
  auto chosen = Choose(candidates, kLong, false);
  ASSERT_TRUE(chosen) << chosen.error().ToString();
  EXPECT_EQ(*chosen, 3);
  const int runs = runs_;
  EXPECT_EQ(*Choose(candidates, kLong, false), 3);  // as it was found
  NewCore();
  EXPECT_EQ(*Choose(candidates, kLong, false), 3);  // as the cache has it
  EXPECT_EQ(runs_, runs);
}

TEST_F(Tune, LeavesTheFirstWhereItDoesNotPay) {
  EXPECT_EQ(*Choose({{5, 1}, {0, 1}}, kShort, false), 0);
  core_->libraries->set_tunes(false);
  EXPECT_EQ(*Choose({{5, 1}, {0, 1}}, kLong, false), 0);
  EXPECT_EQ(runs_, 0);
}

TEST_F(Tune, TakesWhatKeepsNan) {
  EXPECT_EQ(*Choose({{0, 1, false}, {0, 1, true}, {0, 1, true}}, kShort, true), 1);
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(*Choose({{0, 1, false}, {20, 1, true}, {0, 1, true}}, kLong, true), 2);
}

TEST_F(Tune, RefusesWhatMakesZeroOfNan) {
  for (int round = 0; round < 2; ++round) {
    auto chosen = Choose({{0, 1, false}, {0, 1, false}}, kShort, true);
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().code(), Code::kUnimplemented);
    EXPECT_EQ(runs_, 2);
  }
}

}  // namespace
}  // namespace weft::gpu
