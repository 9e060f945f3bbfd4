#include "saving/npz.hpp"

#include <fcntl.h>
#include <zip.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <string_view>

#include "core/activity.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/system_error.hpp"
#include "saving/regular_file.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Zip = std::unique_ptr<zip_t, Discard>;

struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using ZipEntry = std::unique_ptr<zip_file_t, CloseEntry>;

// Damage, unless the system has failed. (Damaged zips make libzip seek to impossible places.)
ErrorKind kind_of(zip_error_t* error) {
  if (zip_error_code_zip(error) == ZIP_ER_MEMORY) return ErrorKind::unavailable;
  const bool is_of_system =
      zip_error_system_type(error) == ZIP_ET_SYS && zip_error_code_system(error) != EINVAL;
  return is_of_system ? ErrorKind::io : ErrorKind::data;
}

Zip open_zip(const RegularFile& file) {
  const std::string path = file.path().string();
  Descriptor own(::fcntl(file.descriptor().get(), F_DUPFD_CLOEXEC, 0));
  std::FILE* const stream = own ? ::fdopen(own.get(), "rb") : nullptr;
  if (stream == nullptr) fail_because(last_system_error(), ErrorKind::io, "cannot read {}", path);
  own.release();
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_filep_create(stream, 0, -1, &error);
  if (source == nullptr) std::fclose(stream);
  Zip archive(source == nullptr ? nullptr
                                : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (!archive) {
    zip_source_free(source);
    const ErrorKind kind = kind_of(&error);
    const std::error_code cause(zip_error_code_system(&error), std::generic_category());
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (kind == ErrorKind::io) fail_because(cause, kind_of_absence(cause), "cannot read {}", path);
    fail(kind, "cannot read {}: {}", path, reason);
  }
  zip_error_fini(&error);
  return archive;
}

}  // namespace

struct NpzFile::Archive {
  struct Entry {
    zip_uint64_t index;
    NpyHeader header;
    std::uint64_t bytes;  // of the elements
  };
  Zip zip;
  std::uint64_t bytes = 0;  // of the file
  std::vector<std::string> names;
  std::map<std::string, Entry> entries;
  std::optional<std::uint64_t> hash;

  void add(const fs::path& path, zip_uint64_t index);
  void check_hash(const RegularFile& file, bool required);
  const Entry& find(const fs::path& path, const std::string& name) const;
  Tensor read(const fs::path& path, const std::string& name,
              std::optional<std::uint64_t> hash) const;
  NpzValue read_value(const fs::path& path, const std::string& name,
                      std::optional<std::uint64_t> hash) const;
};

namespace {

std::string place(const fs::path& path, const std::string& name) {
  return fmt::format("{} in {}", name, path.string());
}

[[noreturn]] void refuse(zip_error_t* error, const std::string& where) {
  const ErrorKind kind = kind_of(error);
  if (kind == ErrorKind::data) fail(kind, "{} is damaged: {}", where, zip_error_strerror(error));
  fail(kind, "cannot read {}: {}", where, zip_error_strerror(error));
}

// Reads up to `bytes` of an entry; fewer only at its end, where libzip checks the CRC.
std::size_t read_some(zip_file_t* entry, std::byte* destination, std::size_t bytes,
                      const std::string& where) {
  std::size_t done = 0;
  while (done < bytes) {
    const zip_int64_t got = zip_fread(entry, destination + done, bytes - done);
    if (got < 0) refuse(zip_file_get_error(entry), where);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

// Reads the header of an entry and compares it with the zip directory.
void NpzFile::Archive::add(const fs::path& path, zip_uint64_t index) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(zip.get(), index, 0, &stat) != 0 || (stat.valid & needed) != needed)
    fail(ErrorKind::data, "{} is damaged: entry {} cannot be found", path.string(), index);
  std::string name = stat.name;
  if (name == "data.pkl" || name.ends_with("/data.pkl"))
    fail(ErrorKind::data,
         "{} is a pickle of PyTorch, which runs code when it is loaded; convert it to safetensors "
         "as docs/weights.md says",
         path.string());
  constexpr std::string_view suffix = ".npy";
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) return;
  name.resize(name.size() - suffix.size());
  const std::string where = place(path, name);

  // A stored entry is no larger than the file, a deflated one at most 1032 times (zlib's limit):
  // checked before memory is allocated for it.
  const bool is_stored = stat.comp_method == ZIP_CM_STORE;
  if (stat.comp_size > bytes || stat.size / (is_stored ? 1 : 1032) > stat.comp_size)
    fail(ErrorKind::data, "{} is damaged: it claims to have {} bytes", where, stat.size);

  ZipEntry entry(zip_fopen_index(zip.get(), index, 0));
  if (!entry) refuse(zip_get_error(zip.get()), where);
  std::vector<std::byte> start(std::min<zip_uint64_t>(stat.size, npy_header_limit));
  start.resize(read_some(entry.get(), start.data(), start.size(), where));
  const NpyHeader header = parse_npy_header(start, where);
  const bool is_readable = header.unreadable.empty();
  if (is_readable && header.header_bytes + header.data_bytes() != stat.size)
    fail(ErrorKind::data, "{}: expected {} bytes for its type and shape ({}), found {}", where,
         header.header_bytes + header.data_bytes(), header.shape.text(), stat.size);
  if (!entries.emplace(name, Entry{index, header, stat.size - header.header_bytes}).second)
    fail(ErrorKind::data, "{} is there twice", where);
  names.push_back(name);
}

void NpzFile::Archive::check_hash(const RegularFile& file, bool required) {
  int length = 0;
  const char* comment = zip_get_archive_comment(zip.get(), &length, 0);
  const std::string_view text(comment ? comment : "",
                              comment ? static_cast<std::size_t>(length) : 0);
  if (text.starts_with(npz_hash_label) && text.size() == npz_hash_label.size() + npz_hash_digits) {
    hash = file.hash(file.bytes() - npz_hash_digits);
    if (text.substr(npz_hash_label.size()) != hash_digits(*hash))
      fail(ErrorKind::data, "{} is damaged: its hash does not match its contents",
           file.path().string());
    return;
  }
  if (required)
    fail(ErrorKind::data, "{} is damaged or not a snapshot of Tasuki: it does not end in a hash",
         file.path().string());
}

const NpzFile::Archive::Entry& NpzFile::Archive::find(const fs::path& path,
                                                      const std::string& name) const {
  const auto found = entries.find(name);
  if (found == entries.end()) fail(ErrorKind::data, "{} has no entry {}", path.string(), name);
  return found->second;
}

// The elements as bytes.
Tensor NpzFile::Archive::read(const fs::path& path, const std::string& name,
                              std::optional<std::uint64_t> hash) const {
  report_progress();
  const Entry& entry = find(path, name);
  const std::string where = place(path, name);
  ZipEntry file(zip_fopen_index(zip.get(), entry.index, 0));
  if (!file) refuse(zip_get_error(zip.get()), where);
  std::vector<std::byte> header(entry.header.header_bytes);
  const std::size_t bytes = entry.bytes;
  Tensor elements = Tensor::empty(Shape{static_cast<std::int64_t>(bytes)}, DType::uint8);
  auto* const data = static_cast<std::byte*>(elements.raw());
  std::byte beyond{};
  if (read_some(file.get(), header.data(), header.size(), where) != header.size() ||
      read_some(file.get(), data, bytes, where) != bytes ||
      read_some(file.get(), &beyond, 1, where) != 0)
    fail(ErrorKind::data, "{} is damaged: its length is wrong", where);
  if (hash) {
    RunningHash found;
    found.add(header);
    found.add({data, bytes});
    if (found.value() != *hash)
      fail(ErrorKind::data, "{} is damaged: its hash is {} in place of {}", where,
           hash_digits(found.value()), hash_digits(*hash));
  }
  return elements;
}

NpzValue NpzFile::Archive::read_value(const fs::path& path, const std::string& name,
                                      std::optional<std::uint64_t> hash) const {
  const NpyHeader& header = find(path, name).header;
  if (!header.unreadable.empty())
    fail(ErrorKind::data, "{} {}", place(path, name), header.unreadable);
  return npy_value(header, read(path, name, hash));
}

NpzFile::NpzFile(const fs::path& path, bool require_hash)
    : NpzFile(RegularFile(path), require_hash) {}

NpzFile::NpzFile(const RegularFile& file, bool require_hash)
    : path_(file.path()), archive_(std::make_unique<Archive>()) {
  archive_->zip = open_zip(file);
  archive_->bytes = file.bytes();
  archive_->check_hash(file, require_hash);
  const zip_int64_t count = zip_get_num_entries(archive_->zip.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) archive_->add(path_, static_cast<zip_uint64_t>(i));
}

NpzFile::~NpzFile() = default;

std::vector<std::string> NpzFile::names() const {
  return archive_->names;
}

std::optional<ArrayType> NpzFile::find(const std::string& name) const {
  const auto found = archive_->entries.find(name);
  if (found == archive_->entries.end()) return std::nullopt;
  return ArrayType(found->second.header);
}

NpzValue NpzFile::read(const std::string& name) const {
  return archive_->read_value(path_, name, std::nullopt);
}

NpzValue NpzFile::read(const std::string& name, std::uint64_t hash) const {
  return archive_->read_value(path_, name, hash);
}

std::optional<NpyHeader> NpzFile::header(const std::string& name) const {
  const auto found = archive_->entries.find(name);
  if (found == archive_->entries.end()) return std::nullopt;
  return found->second.header;
}

Tensor NpzFile::read_elements(const std::string& name) const {
  return archive_->read(path_, name, std::nullopt);
}

std::optional<std::uint64_t> NpzFile::hash() const {
  return archive_->hash;
}

}  // namespace tasuki
