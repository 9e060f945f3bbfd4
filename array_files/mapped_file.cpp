#include "array_files/mapped_file.hpp"

#include <sys/mman.h>

#include "core/error.hpp"
#include "core/system_error.hpp"

namespace tasuki {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  return std::shared_ptr<const MappedFile>(new MappedFile(path));
}

MappedFile::MappedFile(const std::filesystem::path& path) : file_(path) {
  if (file_.bytes() == 0) return;  // which cannot be mapped
  void* const place =
      ::mmap(nullptr, file_.bytes(), PROT_READ, MAP_SHARED, file_.descriptor().get(), 0);
  if (place == MAP_FAILED)
    fail_because(last_system_error(), ErrorKind::io, "cannot map {}", path.string());
  bytes_ = {static_cast<const std::byte*>(place), file_.bytes()};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tasuki
