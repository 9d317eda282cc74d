// Calls of generated code. It has none of the type marks that -fsanitize=function looks for in
// front of a function, so that check is off here and nowhere else.
#pragma once

namespace weft::cpu {

#if defined(__clang__)
#define WEFT_NO_FUNCTION_CHECK __attribute__((no_sanitize("function")))
#else
#define WEFT_NO_FUNCTION_CHECK
#endif

template <class Result, class... Parameters, class... Arguments>
WEFT_NO_FUNCTION_CHECK inline Result CallNative(Result (*function)(Parameters...),
                                                Arguments... arguments) {
  return function(arguments...);
}

#undef WEFT_NO_FUNCTION_CHECK

}  // namespace weft::cpu
