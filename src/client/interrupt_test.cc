#include "client/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>

namespace weft::client {
namespace {

int interpreter_calls = 0, library_calls = 0;
struct sigaction under_library;

void InterpretersHandler(int) {
  ++interpreter_calls;
}
// As libraries do that set theirs over whatever is there, and call that one.
void LibrarysHandler(int number, siginfo_t* info, void* context) {
  ++library_calls;
  if ((under_library.sa_flags & SA_SIGINFO) != 0) {
    under_library.sa_sigaction(number, info, context);
  } else {
    under_library.sa_handler(number);
  }
}

// The main thread is about to wait, and we look whether signals come to us.
void WaitOnce() {
  auto event = std::make_shared<Event>();
  AboutToWait(event);
  event->Set({});
}

class InterruptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetInterrupts(gettid(), [](int32_t (*)(void*), void*) { return int32_t{0}; });
    interpreter_calls = library_calls = 0;
    struct sigaction handler = {};
    handler.sa_handler = InterpretersHandler;
    sigaction(SIGINT, &handler, &before_);
  }
  void TearDown() override {
    SetInterrupts(0, nullptr);
    sigaction(SIGINT, &before_, nullptr);
  }
  struct sigaction before_;
};

TEST_F(InterruptTest, TheHandlerThatWasThereIsCalled) {
  WaitOnce();
  raise(SIGINT);
  EXPECT_EQ(interpreter_calls, 1);
}

// Each calls the other, and the chain ends at the one that was there first.
TEST_F(InterruptTest, AHandlerOverOursCallsOurs) {
  WaitOnce();
  struct sigaction library = {};
  library.sa_sigaction = LibrarysHandler;
  library.sa_flags = SA_SIGINFO;
  sigaction(SIGINT, &library, &under_library);
  WaitOnce();
  raise(SIGINT);
  EXPECT_EQ(library_calls, 1);
  EXPECT_EQ(interpreter_calls, 1);
  raise(SIGINT);
  EXPECT_EQ(library_calls, 2);
  EXPECT_EQ(interpreter_calls, 2);
  // The interpreter's is set again: the library's is gone.
  struct sigaction handler = {};
  handler.sa_handler = InterpretersHandler;
  sigaction(SIGINT, &handler, nullptr);
  WaitOnce();
  raise(SIGINT);
  EXPECT_EQ(library_calls, 2);
  EXPECT_EQ(interpreter_calls, 3);
}

}  // namespace
}  // namespace weft::client
