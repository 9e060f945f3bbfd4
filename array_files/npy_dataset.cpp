#include "array_files/npy_dataset.hpp"

#include <fmt/core.h>

#include <map>
#include <optional>
#include <utility>

#include "array_files/file_array.hpp"
#include "array_files/mapped_file.hpp"
#include "array_files/zip_members.hpp"
#include "core/error.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "saving/npz.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

FileArray described(const NpyHeader& header, std::string place) {
  if (header.is_fortran) fail(ErrorKind::data, "{} {}", place, header.unreadable);
  const std::optional<ElementType> type = element_type_of_numpy(header.type);
  if (!type)
    fail(ErrorKind::data,
         "{}: expected numbers (bool, integers or floating types of 8 to 64 bits), found elements "
         "of NumPy's type \"{}\"",
         place, quoted_input(header.type));
  return {.place = std::move(place),
          .type = *type,
          .sizes = {header.shape.begin(), header.shape.end()}};
}

std::uint64_t element_bytes(const FileArray& array) {
  std::uint64_t bytes = static_cast<std::uint64_t>(array.type.bytes);
  for (const std::int64_t size : array.sizes) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

void check_length(const FileArray& array, std::uint64_t found) {
  if (found == element_bytes(array)) return;
  fail(ErrorKind::data, "{}: expected {} bytes of elements for {} {}, found {}", array.place,
       element_bytes(array), Shape(array.sizes).text(), array.type.name(), found);
}

// An array in NPY format that lies in a mapped file.
FileArray mapped_array(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes,
                       const std::string& place) {
  const NpyHeader header =
      parse_npy_header(bytes.first(std::min(bytes.size(), npy_header_limit)), place);
  FileArray array = described(header, place);
  check_length(array, bytes.size() - header.header_bytes);
  array.elements = bytes.data() + header.header_bytes;
  array.owner = std::move(file);
  return array;
}

FileArray open_file(const fs::path& folder, const std::string& name) {
  fs::path path = folder / name;
  if (!path.native().ends_with(".npy") && !fs::exists(status_of(path))) path += ".npy";
  auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  return mapped_array(std::move(file), bytes, path.string());
}

class NpzMembers {
 public:
  explicit NpzMembers(const fs::path& path)
      : file_(MappedFile::open(path)),
        archive_(file_->file()),
        stored_(stored_members(file_->bytes())) {}

  FileArray open(std::string name) const {
    constexpr std::string_view suffix = ".npy";
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    const std::string place = fmt::format("{} in {}", name, archive_.path().string());
    const std::optional<NpyHeader> header = archive_.header(name);
    if (!header)
      fail(ErrorKind::data, "{} has no array '{}'; it has: {}", archive_.path().string(), name,
           archive_.names().empty() ? "none" : join(archive_.names(), ", "));
    if (const auto found = stored_.find(name + std::string(suffix)); found != stored_.end())
      return mapped_array(file_, file_->bytes().subspan(found->second.begin, found->second.bytes),
                          place);
    FileArray array = described(*header, place);
    auto elements = std::make_shared<const Tensor>(archive_.read_elements(name));
    check_length(array, elements->bytes());
    array.elements = static_cast<const std::byte*>(elements->raw());
    array.owner = std::move(elements);
    return array;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  NpzFile archive_;
  std::map<std::string, StoredMember> stored_;
};

}  // namespace

std::shared_ptr<const Dataset> open_npy(const fs::path& path,
                                        const std::vector<ArrayFileField>& fields) {
  std::vector<FileArray> arrays;
  if (fs::is_directory(status_of(path))) {
    for (const ArrayFileField& field : fields) arrays.push_back(open_file(path, field.array));
  } else {
    const NpzMembers members(path);
    for (const ArrayFileField& field : fields) arrays.push_back(members.open(field.array));
  }
  return dataset_of(fields, std::move(arrays));
}

}  // namespace tasuki
