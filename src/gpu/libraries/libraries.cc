#include "gpu/libraries/libraries.h"

#include "base/digest.h"
#include "base/str.h"

namespace weft::gpu {

Libraries::~Libraries() {
  for (const auto& [digest, module] : modules_) {
    if (module != nullptr) cuda_.ModuleUnload(module);
  }
}

template <class T>
Result<const T*> Libraries::Get(Once<T>& once) {
  if (!with_nvidia_) return MakeError(Code::kUnavailable, "the driver is not NVIDIA's");
  if (!once.tried) once.value = T::Load(folders_);
  once.tried = true;
  if (!once.value) return MakeError(Code::kUnavailable, once.value.error().message());
  return once.value->get();
}

Result<const Cublas*> Libraries::cublas() {
  MutexLock lock(mutex_);
  return Get(cublas_);
}

Result<const Cusolver*> Libraries::cusolver() {
  MutexLock lock(mutex_);
  return Get(cusolver_);
}

Result<const CublasLt*> Libraries::cublaslt() {
  MutexLock lock(mutex_);
  return Get(cublaslt_);
}

Result<const Cudnn*> Libraries::cudnn() {
  MutexLock lock(mutex_);
  return Get(cudnn_);
}

Result<const Cufft*> Libraries::cufft() {
  MutexLock lock(mutex_);
  return Get(cufft_);
}

std::optional<int64_t> Libraries::FindChoice(const std::string& key) {
  MutexLock lock(mutex_);
  auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void Libraries::KeepChoice(const std::string& key, int64_t choice) {
  MutexLock lock(mutex_);
  choices_[key] = choice;
}

Result<void*> Libraries::Function(const KernelCompiler& compiler, const std::string& name,
                                  const std::string& text, const std::string& function) {
  std::string key = Digest::Hex(
      StrCat("cuda\n", compiler.machine.name, "\n", compiler.nvrtc.version(), "\n", text));
  MutexLock lock(mutex_);
  void*& module = modules_[key];
  if (module == nullptr) {
    if (compiler.options.show) compiler.options.show(name, text);
    std::optional<std::string> image;
    runtime::ObjectCache* cache = compiler.options.cache;
    if (cache != nullptr) image = cache->Find(key);
    (image ? compiler.stats.from_cache : compiler.stats.compiled) += 1;
    if (!image) {
      image = TRY(compiler.nvrtc.Compile(text, name, compiler.machine.name));
      if (cache != nullptr) cache->Store(key, *image);
    }
    compiler.stats.code_bytes += std::ssize(*image);
    TRY(cuda_.Check(cuda_.ModuleLoadData(&module, image->c_str()), StrCat("load ", name)));
  }
  void* handle = nullptr;
  TRY(cuda_.Check(cuda_.ModuleGetFunction(&handle, module, function.c_str()), function));
  return handle;
}

}  // namespace weft::gpu
