#include "saving/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/system_error.hpp"
#include "saving/output_layout.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

// What a folder is that does not have the part.
std::string describe_parts(const CheckpointManifest& manifest, const std::string& part) {
  std::set<std::string> found;
  for (const CheckpointManifest::File& file : manifest.files) found.insert(file.part);
  if (part.empty())
    return fmt::format("it is of a model on {} ranks, and this run has whole models",
                       manifest.parts);
  if (found.contains(""))
    return "it is of a whole model, and this run has a model on several ranks";
  return fmt::format("it is of a model on {} ranks and has no part {} here, only {}",
                     manifest.parts, part, fmt::join(found, ", "));
}

// Whether the files of the manifest are there with their sizes, and no others. Hidden files are not
// looked at: network file systems and desktops make them.
void check_folder(const fs::path& folder, const CheckpointManifest& manifest) {
  std::set<std::string> expected = {manifest_name};
  for (const CheckpointManifest::File& file : manifest.files) {
    const fs::path path = folder / file.name;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error && !is_absence(error))
      fail_because(error, kind_of_absence(error), "cannot read {}", path.string());
    if (error) fail(ErrorKind::data, "{} is missing: {}", path.string(), error.message());
    if (bytes != file.bytes)
      fail(ErrorKind::data, "{} is damaged: it has {} bytes in place of {}", path.string(), bytes,
           file.bytes);
    expected.insert(file.name);
  }
  for (const std::string& name : names_in(folder))
    if (!name.starts_with('.') && !expected.contains(name))
      fail(ErrorKind::data, "{} does not belong to this checkpoint: the manifest does not name it",
           (folder / name).string());
}

}  // namespace

CheckpointReader::CheckpointReader(fs::path folder, const std::string& part)
    : folder_(std::move(folder)) {
  if (!fs::is_directory(status_of(folder_)))
    fail(ErrorKind::missing, "cannot read {}: no such folder", folder_.string());
  manifest_ = CheckpointManifest::read(folder_);
  check_folder(folder_, manifest_);
  for (const CheckpointManifest::File& file : manifest_.files)
    if (file.part == part) open(file);
  if (files_.empty())
    fail(ErrorKind::missing, "cannot read {}: {}", folder_.string(),
         describe_parts(manifest_, part));
  add_pieces();
}

void CheckpointReader::open(const CheckpointManifest::File& file) {
  const fs::path path = folder_ / file.name;
  auto opened = std::make_unique<NpzFile>(path, /*require_hash=*/true);
  if (opened->hash() != file.hash)
    fail(ErrorKind::data, "{} is of another save: its hash is {}, and {} in the manifest",
         path.string(), hash_digits(*opened->hash()), hash_digits(file.hash));
  std::vector<std::string> names;
  for (const CheckpointManifest::Array& array : file.arrays) names.push_back(array.name);
  if (opened->names() != names)
    fail(ErrorKind::data, "{} has other arrays than the manifest says", path.string());
  for (const CheckpointManifest::Array& array : file.arrays) {
    auto& places = places_[array.name];
    if (places.empty()) names_.push_back(array.name);
    places.push_back({opened.get(), &array});
  }
  files_.push_back(std::move(opened));
}

// Finds the types of all arrays, and checks that the pieces of each make up the whole.
void CheckpointReader::add_pieces() {
  for (auto& [name, places] : places_) {
    std::ranges::stable_sort(places, {}, [](const Place& place) {
      const Range range = place.array->piece ? place.array->piece->range : Range{-1, -1};
      return std::pair(range.begin, range.end);
    });
    const Place& first = places.front();
    const auto refuse = [&, &name = name](const std::string& reason) {
      fail(ErrorKind::data, "{} in {}: {}", printable(name), folder_.string(), reason);
    };
    const ArrayType type = first.file->find(name).value();
    if (!first.array->piece) {
      if (places.size() > 1) refuse("it is in several files");
      types_[name] = type;
      continue;
    }
    const Shape whole = first.array->piece->whole;
    std::int64_t end = 0;
    for (const Place& place : places) {
      const ArrayType here = place.file->find(name).value();
      const auto& piece = place.array->piece;
      if (piece->whole != whole || here.dtype != type.dtype || !here.dtype)
        refuse("its pieces are of different arrays");
      if (here.shape != Shape{piece->range.size()} || piece->range.begin != end)
        refuse(fmt::format(
            "its pieces do not make up the whole: {} has elements {} to {}, after {}",
            place.file->path().filename().string(), piece->range.begin, piece->range.end, end));
      end = piece->range.end;
    }
    if (end != whole.count())
      refuse(fmt::format("its pieces end at element {} of {}", end, whole.count()));
    types_[name] = {whole, type.dtype};
  }
}

std::optional<ArrayType> CheckpointReader::find(const std::string& name) const {
  const auto found = types_.find(name);
  if (found == types_.end()) return std::nullopt;
  return found->second;
}

NpzValue CheckpointReader::read(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) fail(ErrorKind::data, "{} has no entry {}", folder_.string(), name);
  const Place& first = found->second.front();
  if (!first.array->piece) return first.file->read(name, first.array->hash);
  return put_together(name, found->second);
}

NpzValue CheckpointReader::put_together(const std::string& name,
                                        const std::vector<Place>& places) const {
  const ArrayType& type = types_.at(name);
  Tensor whole = Tensor::empty(type.shape, type.dtype.value());
  auto* to = static_cast<std::byte*>(whole.raw());
  for (const auto& [file, array] : places) {
    const Tensor piece = std::get<Tensor>(file->read(name, array->hash));
    if (piece.bytes() > 0) std::memcpy(to, piece.raw(), piece.bytes());
    to += piece.bytes();
  }
  return whole;
}

std::optional<fs::path> find_checkpoint(const fs::path& out, const std::string& id) {
  for (const CheckpointName& name : checkpoints_in(out)) {
    fs::path folder = checkpoint_folder(out, name);
    try {
      const CheckpointManifest manifest = CheckpointManifest::read(folder);
      if (manifest.id != id) continue;
      check_folder(folder, manifest);
      return folder;
    } catch (const Error& error) {  // damaged: those that open it say so
      if (!is_damage(error)) throw;
    }
  }
  return std::nullopt;
}

bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::data || is_absence(error);
}

}  // namespace tasuki
