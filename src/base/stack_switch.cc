#include "base/stack_switch.h"

#include <cstdint>
#include <cstring>

extern "C" __attribute__((visibility("hidden"))) void weft_switch_stack(void** from, void* to);

// Saves registers on the stack, its top in *from, and restores those below `to`. Frame pointer and
// return address lie next to each other at the end, as in any frame.
#if defined(__aarch64__)
__asm__(R"(
        .text
        .p2align 4
        .hidden weft_switch_stack
        .globl  weft_switch_stack
        .type   weft_switch_stack, %function
weft_switch_stack:
        sub     sp, sp, #176
        mrs     x9, fpcr
        str     x9, [sp]
        stp     d8, d9, [sp, #16]
        stp     d10, d11, [sp, #32]
        stp     d12, d13, [sp, #48]
        stp     d14, d15, [sp, #64]
        stp     x19, x20, [sp, #80]
        stp     x21, x22, [sp, #96]
        stp     x23, x24, [sp, #112]
        stp     x25, x26, [sp, #128]
        stp     x27, x28, [sp, #144]
        stp     x29, x30, [sp, #160]
        mov     x10, sp
        str     x10, [x0]
        mov     sp, x1
        ldr     x10, [sp]
        cmp     x9, x10
        b.eq    1f
        msr     fpcr, x10
1:      ldp     d8, d9, [sp, #16]
        ldp     d10, d11, [sp, #32]
        ldp     d12, d13, [sp, #48]
        ldp     d14, d15, [sp, #64]
        ldp     x19, x20, [sp, #80]
        ldp     x21, x22, [sp, #96]
        ldp     x23, x24, [sp, #112]
        ldp     x25, x26, [sp, #128]
        ldp     x27, x28, [sp, #144]
        ldp     x29, x30, [sp, #160]
        add     sp, sp, #176
        ret
        .size   weft_switch_stack, .-weft_switch_stack
)");
#elif defined(__x86_64__)
__asm__(R"(
        .text
        .p2align 4
        .hidden weft_switch_stack
        .globl  weft_switch_stack
        .type   weft_switch_stack, @function
weft_switch_stack:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        subq    $8, %rsp
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        addq    $8, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .size   weft_switch_stack, .-weft_switch_stack
)");
#else
#error "weft_switch_stack: not written for this processor"
#endif

namespace weft {
namespace {

#if defined(__aarch64__)
constexpr size_t kSavedWords = 22, kReturnWord = 21, kSpareWords = 0;
#else
// A call leaves the stack pointer 8 bytes off a multiple of 16: its return address.
constexpr size_t kSavedWords = 8, kReturnWord = 7, kSpareWords = 1;
#endif

// As the thread has them now.
uint64_t FloatModes() {
  uint64_t modes = 0;
#if defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
#else
  uint32_t sse = 0;
  uint16_t x87 = 0;
  __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(sse), "=m"(x87));
  modes = sse | static_cast<uint64_t>(x87) << 32;
#endif
  return modes;
}

}  // namespace

void StackSwitch::Prepare(void* stack, size_t bytes, void (*enter)()) {
  uint64_t saved[kSavedWords + kSpareWords] = {};
  saved[0] = FloatModes();
  saved[kReturnWord] = reinterpret_cast<uintptr_t>(enter);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15};
  top_ = reinterpret_cast<void*>(end - (kSavedWords + kSpareWords) * sizeof(uint64_t));
  std::memcpy(top_, saved, sizeof(saved));
}

void StackSwitch::SwitchTo(StackSwitch& to) {
  weft_switch_stack(&top_, to.top_);
}

}  // namespace weft
