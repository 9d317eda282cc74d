#include "gpu/nvrtc.h"

#include "base/str.h"
#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

// The functions of the library, with the types of its ABI: handles are pointers, codes ints.
struct Nvrtc::Functions {
  int (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(int code);
  int (*nvrtcCreateProgram)(void** program, const char* text, const char* name, int headers,
                            const char* const* header_texts, const char* const* header_names);
  int (*nvrtcDestroyProgram)(void** program);
  int (*nvrtcCompileProgram)(void* program, int options, const char* const* texts);
  int (*nvrtcGetProgramLogSize)(void* program, size_t* bytes);
  int (*nvrtcGetProgramLog)(void* program, char* log);
  int (*nvrtcGetCUBINSize)(void* program, size_t* bytes);
  int (*nvrtcGetCUBIN)(void* program, char* cubin);
  int (*nvrtcGetPTXSize)(void* program, size_t* bytes);
  int (*nvrtcGetPTX)(void* program, char* ptx);
};

namespace {

constexpr std::string_view kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

template <class Function>
bool Find(const DynamicLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.Find(name));
  return function != nullptr;
}

}  // namespace

Result<std::unique_ptr<Nvrtc>> Nvrtc::Load(std::span<const std::string> folders) {
  auto nvrtc = std::unique_ptr<Nvrtc>(new Nvrtc);
  auto found = DynamicLibrary::Open(kLibraryNames, folders);
  if (!found) return NotFound("NVRTC (", kLibraryNames[0], ") was not found");
  nvrtc->library_ = std::move(*found);
  nvrtc->call_ = std::make_unique<Functions>();
  Functions& f = *nvrtc->call_;
  const DynamicLibrary& library = *nvrtc->library_;
  bool complete = true;
#define WEFT_FIND(name) complete &= Find(library, #name, f.name)
  WEFT_FIND(nvrtcVersion);
  WEFT_FIND(nvrtcGetErrorString);
  WEFT_FIND(nvrtcCreateProgram);
  WEFT_FIND(nvrtcDestroyProgram);
  WEFT_FIND(nvrtcCompileProgram);
  WEFT_FIND(nvrtcGetProgramLogSize);
  WEFT_FIND(nvrtcGetProgramLog);
  WEFT_FIND(nvrtcGetCUBINSize);
  WEFT_FIND(nvrtcGetCUBIN);
  WEFT_FIND(nvrtcGetPTXSize);
  WEFT_FIND(nvrtcGetPTX);
#undef WEFT_FIND
  if (!complete) return NotFound("NVRTC at ", nvrtc->path(), " lacks functions");
  int major = 0, minor = 0;
  f.nvrtcVersion(&major, &minor);
  nvrtc->version_ = major * 1000 + minor * 10;
  return nvrtc;
}

Nvrtc::~Nvrtc() = default;

const std::string& Nvrtc::path() const {
  return library_->path();
}

Result<std::string> Nvrtc::Compile(const std::string& text, const std::string& name,
                                   std::string_view machine) const {
  const Functions& f = *call_;
  void* program = nullptr;
  if (int code = f.nvrtcCreateProgram(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr)) {
    return MakeError(Code::kInternal, "NVRTC: ", f.nvrtcGetErrorString(code));
  }
  std::string arch = StrCat("--gpu-architecture=", machine);
  const char* options[] = {arch.c_str(), "--std=c++17", "--minimal",
                           "--device-as-default-execution-space"};
  int code = f.nvrtcCompileProgram(program, static_cast<int>(std::size(options)), options);
  auto take = [&](auto size_of, auto get) {
    size_t bytes = 0;
    std::string out;
    if (size_of(program, &bytes) == 0 && bytes > 0) {
      out.resize(bytes);
      get(program, out.data());
    }
    return out;
  };
  std::string result;
  if (code == 0) {
    result = machine.starts_with("compute_") ? take(f.nvrtcGetPTXSize, f.nvrtcGetPTX)
                                             : take(f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN);
  } else {
    result = take(f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog);
    while (!result.empty() && (result.back() == '\0' || result.back() == '\n')) result.pop_back();
  }
  f.nvrtcDestroyProgram(&program);
  if (code != 0) {
    return MakeError(Code::kInternal, "NVRTC: ", f.nvrtcGetErrorString(code), " in ", name, "\n",
                     result);
  }
  return result;
}

}  // namespace weft::gpu
