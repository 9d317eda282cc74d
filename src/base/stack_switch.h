// The context switch of fibers: from one stack to another within a thread, in user space: what a
// function call must preserve and the modes of floating point. swapcontext also sets the signal
// mask, a system call or two each time.
#pragma once

#include <cstddef>

namespace weft {

class StackSwitch {
 public:
  // So that the first SwitchTo calls `enter`, which never returns, on this stack.
  void Prepare(void* stack, size_t bytes, void (*enter)());
  // From here, whose state this becomes, to `to`; returns when somebody switches back.
  void SwitchTo(StackSwitch& to);

 private:
  void* top_ = nullptr;  // where the saved registers lie
};

}  // namespace weft
