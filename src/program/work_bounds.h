// How much the compiler does for one decision, and how much code it makes of one piece of a
// program: bounds of compile time and of code size, which few programs meet. What a machine decides
// is in target.h and target_facts.h. Places that need a bound name it and derive it from these.
#pragma once

#include <cstdint>

namespace weft::program {

// Analyses and searches. Unit: instructions looked at (of HLO, of a kernel or of LLVM). One
// question takes microseconds, so that passes that ask for each instruction stay linear in the
// module.
struct WorkBounds {
  static constexpr int64_t kTree = 8;    // deep, where all operands are followed: 2^8 of them
  static constexpr int64_t kDepth = 16;  // deep, where two are followed and few lead on
  static constexpr int64_t kPath = 64;   // deep, where one is followed or visits are counted
  // That are compared with each other, which takes their square.
  static constexpr int64_t kAlternatives = 16;
  // That are compared with one: attributes that a hash leaves out could make them very many.
  static constexpr int64_t kCandidates = 32;
  static constexpr int64_t kBlock = 256;         // around one of them
  static constexpr int64_t kVisits = 4096;       // for one question that is answered by a search
  static constexpr int64_t kLiteral = 1 << 16;   // elements of a constant
  static constexpr int64_t kModule = 4'000'000;  // in all: some hundred bytes and nanoseconds each
};

// Code that is written out or copied. Unit: operations of a kernel, each one machine instruction or
// a few; the front end of a core decodes 4096 of them once (TargetFacts::kDecodedOps).
struct CodeBounds {
  static constexpr int64_t kCopies = 4;       // of one piece: parts of a loop, branches, iterations
  static constexpr int64_t kWrittenOut = 16;  // elements, or operations of a body, without a loop
  static constexpr int64_t kTerms = 2 * kWrittenOut;  // of a sum: one operation each
  static constexpr int64_t kShortLoop = 64;  // iterations: fewer do not pay for a kernel of a kind
  static constexpr int64_t kLongBody =
      48;  // operations beside which a call or a branch counts little
  static constexpr int64_t kStraight = 128;   // operations of straight code beside other code
  static constexpr int64_t kLargeBody = 160;  // operations that fill registers without copies
  // Instructions of HLO that become one kernel: some ten operations each.
  static constexpr int64_t kMembers = 400;
  // A part below an eighth is minor: what is spent on it does not count beside the rest.
  static constexpr int64_t kMinorPart = 8;
};

}  // namespace weft::program
