#include "serve/weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/npy.h"
#include "serve/message.h"

namespace weft::serve {
namespace {

std::unexpected<Error> SystemError(std::string_view path, std::string_view what) {
  int number = errno;
  Code code = number == ENOENT                      ? Code::kNotFound
              : number == EACCES || number == EPERM ? Code::kPermissionDenied
                                                    : Code::kUnavailable;
  return MakeError(code, path, ": ", what, ": ", std::strerror(number));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return SystemError(path, "cannot be opened");
  struct stat info{};
  if (fstat(file, &info) != 0) {
    auto error = SystemError(path, "cannot be read");
    close(file);
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    close(file);
    return InvalidArgument(path, ": not a file");
  }
  size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    auto error = SystemError(path, "cannot be mapped");
    close(file);
    return error;
  }
  close(file);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

Result<std::shared_ptr<const WeightsFile>> WeightsFile::Open(const std::string& path) {
  std::shared_ptr<WeightsFile> weights(new WeightsFile);
  weights->path_ = path;
  weights->file_ = TRY(MappedFile::Open(path));
  weights->is_npz_ = path.ends_with(".npz");
  if (!weights->is_npz_ && !path.ends_with(".safetensors")) {
    return InvalidArgument(path, ": weights are .safetensors or .npz files");
  }
  std::string_view bytes = weights->file_->bytes();
  Result<StoredTensors> tensors = weights->is_npz_ ? ParseNpz(bytes) : ParseSafetensors(bytes);
  if (!tensors) return std::unexpected(tensors.error().Prefix(StrCat(path, ": ")));
  weights->tensors_ = std::move(*tensors);
  return std::shared_ptr<const WeightsFile>(std::move(weights));
}

Result<Literal> WeightsFile::ReadAs(const StoredTensor& tensor, const Shape& shape) const {
  std::string_view bytes =
      file_->bytes().substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.size));
  if (is_npz_) {
    Literal value =
        TRY(ParseNpy(bytes, NumpyLacks(shape.dtype()) ? shape.dtype() : DType::kInvalid));
    if (value.dtype() == shape.dtype() && Shape::SameDims(value.shape(), shape)) return value;
    return InvalidArgument("is ", value.shape().ToStringWithoutLayout(), ", the model wants ",
                           shape.ToStringWithoutLayout());
  }
  if (tensor.shape.dtype() != shape.dtype() || !Shape::SameDims(tensor.shape, shape)) {
    return InvalidArgument("is ", tensor.shape.ToStringWithoutLayout(), ", the model wants ",
                           shape.ToStringWithoutLayout());
  }
  if (shape.dtype() == DType::kPred) {
    for (char c : bytes) {
      if (c != 0 && c != 1) return InvalidArgument("a bool is neither 0 nor 1");
    }
  }
  auto* data = reinterpret_cast<std::byte*>(const_cast<char*>(bytes.data()));
  if (!bytes.empty() && reinterpret_cast<uintptr_t>(data) % kReadInPlace == 0) {
    return Literal::FromStorage(shape, std::shared_ptr<std::byte[]>(file_, data));
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  if (!bytes.empty()) std::memcpy(value.mutable_data(), data, bytes.size());
  return value;
}

Result<Literal> WeightsFile::Read(std::string_view name, const Shape& shape) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) return NotFound(path_, ": no tensor ", name);
  Result<Literal> value = ReadAs(found->second, shape);
  if (!value) value.error().Prefix(StrCat(path_, ": tensor ", name, ": "));
  return value;
}

}  // namespace weft::serve
