#include "saving/checkpoint_writer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/long_call.hpp"
#include "core/own_file.hpp"
#include "core/stopwatch.hpp"
#include "core/system_error.hpp"
#include "saving/output_layout.hpp"
#include "saving/retention.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_because(error, ErrorKind::cannot_write, "cannot write {}", to.string());
}

std::vector<Tensor*> arrays_of(CheckpointArrays& from) {
  std::vector<Tensor*> arrays;
  const auto add = [&](NpzEntry& entry) {
    if (auto* const array = std::get_if<Tensor>(&entry.value)) arrays.push_back(array);
  };
  for (NpzEntry& entry : from.state) add(entry);
  for (NpzPiece& piece : from.pieces) add(piece.entry);
  return arrays;
}

}  // namespace

void detach(CheckpointArrays& of_rank) {
  const std::vector<Tensor*> arrays = arrays_of(of_rank);
  std::map<const Storage*, long> references;
  for (const Tensor* array : arrays) ++references[array->storage().get()];
  std::set<const Storage*> own;
  for (const Tensor* array : arrays)
    if (array->storage().use_count() == references.at(array->storage().get()))
      own.insert(array->storage().get());
  for (Tensor* array : arrays)
    if (!array->device().is_cpu())
      *array = array->to(Device::cpu());
    else if (array->defined() && !own.contains(array->storage().get()))
      *array = array->clone();
}

CheckpointWriter::CheckpointWriter(CheckpointInfo info, Writers writers)
    : info_(std::move(info)), writers_(std::move(writers)) {}

CheckpointWriter::~CheckpointWriter() {
  discard();
}

fs::path CheckpointWriter::write(const CheckpointArrays& arrays) {
  try {
    make_folder();
    write_files(arrays);
    write_manifest();
    publish();
  } catch (...) {
    discard();
    throw;
  }
  name_latest();
  return folder_;
}

void CheckpointWriter::make_folder() {
  const fs::path checkpoints = info_.out / checkpoints_name;
  // Only writer 0 knows whether the output folder is still there; the others may be on hosts with
  // disks of their own. It also knows what the run has abandoned.
  const auto begin = [&]() -> std::string {
    if (writers_.index() != 0) return "";
    make_own_folder(checkpoints);
    return fmt::format("{}\n{}", info_.id.empty() ? random_id() : info_.id,
                       fmt::join(abandoned_in(info_.out), "\n"));
  };
  std::istringstream first(writers_.on_all(begin).front());
  std::getline(first, id_);
  std::set<std::string> abandoned;
  for (std::string line; std::getline(first, line);) abandoned.insert(line);
  const std::vector<std::string> numbers = writers_.on_all([&] {
    make_output_folder(info_.out);
    make_own_folder(checkpoints);
    return std::to_string(next_number(info_.out, info_.iteration));
  });
  CheckpointName name{info_.iteration, 1};
  for (const std::string& number : numbers)
    name.number = std::max<std::int64_t>(name.number, std::stoll(number));
  first_on_disk_ =
      info_.first_on_disk.empty() ? writers_.first_on_disk(checkpoints) : info_.first_on_disk;
  works_for_disk_ = own_first() == writers_.index();
  folder_ = checkpoint_folder(info_.out, name);
  const std::vector<std::string> made = writers_.on_all([&]() -> std::string {
    if (!works_for_disk_) return "";
    if (writers_.index() != 0) abandon(info_.out, abandoned);
    announce_checkpoint(info_.out, folder_);
    remove_unfinished_checkpoints(info_.out);
    unfinished_ = make_unfinished(folder_);
    is_made_ = true;
    return unfinished_.filename().string();
  });
  unfinished_ = checkpoints / made[static_cast<std::size_t>(own_first())];
}

CheckpointManifest::File CheckpointWriter::write_entries(
    const std::string& name, const std::string& part, const std::vector<NpzEntry>& entries) const {
  const LongCall writing;  // the system may write most of the data only when it is synced
  const fs::path path = unfinished_ / name;
  const WrittenNpz written = write_npz_directly(path, entries);
  sync_file(path);
  CheckpointManifest::File file{name, part, written.bytes, written.hash, {}};
  for (std::size_t i = 0; i < entries.size(); ++i)
    file.arrays.push_back({entries[i].name, written.entries[i], std::nullopt});
  return file;
}

std::vector<CheckpointManifest::File> CheckpointWriter::files_of(
    const CheckpointArrays& arrays) const {
  std::vector<CheckpointManifest::File> files;
  if (!arrays.state.empty())
    files.push_back(
        write_entries(fmt::format("state{}.npz", arrays.part), arrays.part, arrays.state));
  if (arrays.pieces.empty()) return files;
  if (std::ranges::any_of(first_on_disk_, [](int first) { return first != 0; }))
    fail(ErrorKind::cannot_write,
         "cannot write {}: divided states need one folder that all ranks see, and this host has "
         "another one of this name",
         folder_.string());
  std::vector<NpzEntry> entries;
  for (const NpzPiece& piece : arrays.pieces) entries.push_back(piece.entry);
  files.push_back(
      write_entries(fmt::format("optimizer.{}.npz", writers_.index()), arrays.part, entries));
  for (std::size_t i = 0; i < arrays.pieces.size(); ++i) {
    const auto& [entry, begin, whole] = arrays.pieces[i];
    const std::int64_t count = std::get<Tensor>(entry.value).count();
    files.back().arrays[i].piece = CheckpointManifest::Piece{{begin, begin + count}, whole};
  }
  return files;
}

void CheckpointWriter::write_files(const CheckpointArrays& arrays) {
  const std::vector<std::string> lists = writers_.on_all([&] {
    std::string list;
    for (const CheckpointManifest::File& file : files_of(arrays)) list += to_line(file) + '\n';
    return list;
  });
  for (std::size_t writer = 0; writer < lists.size(); ++writer) {
    if (first_on_disk_[writer] != own_first()) continue;
    std::string_view list = lists[writer];
    for (std::size_t end; (end = list.find('\n')) != list.npos; list.remove_prefix(end + 1))
      files_.push_back(file_of_line(list.substr(0, end)));
  }
  // Writers of another disk may all have nothing.
  works_for_disk_ = works_for_disk_ && !files_.empty();
}

void CheckpointWriter::write_manifest() {
  const CheckpointManifest manifest{id_, info_.iteration, info_.epoch, info_.parts, files_};
  writers_.on_all([&] {
    if (works_for_disk_) {
      write_file(unfinished_ / manifest_name, manifest.text());
      unmark(unfinished_);
    }
    return "";
  });
}

void CheckpointWriter::publish() {
  writers_.on_all([&] {
    if (works_for_disk_) {
      rename_folder(unfinished_, folder_);
      unfinished_ = folder_;  // until all have renamed theirs
      sync_folder(folder_.parent_path());
    }
    return "";
  });
  is_complete_ = true;
}

void CheckpointWriter::name_latest() {
  writers_.on_all([&] {
    if (works_for_disk_) write_latest(info_.out, folder_);
    return "";
  });
}

void CheckpointWriter::discard() noexcept {
  if (!std::exchange(is_made_, false) || is_complete_) return;
  try {
    remove_checkpoint(unfinished_);
  } catch (const std::exception&) {  // too little memory
    // The next run in this folder removes it.
  }
}

void CheckpointTask::run() {
  Stopwatch watch;
  try {
    write();
  } catch (const Error& error) {
    arrays = {};
    if (error.kind() == ErrorKind::cannot_write) failure = error.what();
    throw;
  }
  arrays = {};
  seconds = watch.lap();
}

void CheckpointTask::write() {
  std::optional<CheckpointWriter> writer(std::in_place, info, writers);
  try {
    writer->write(arrays);
  } catch (const Error& full) {
    if (!is_of_full_disk(full)) throw;
    try {
      removed = make_room(info.out, info.iteration, writers, writer->first_on_disk());
    } catch (const Error&) {  // the disk's
      throw full;
    }
    if (removed.empty()) throw;
    if (writer->is_complete())
      writer->name_latest();
    else
      writer.emplace(info, writers).write(arrays);
  }
  if (writer->is_first_on_disk()) {
    // Once before the best one is named, which may take the room.
    remove_old_checkpoints(info.out, writer->folder(), n_retains);
    if (is_best) {
      write_best(info.out, writer->folder());
      remove_old_checkpoints(info.out, writer->folder(), n_retains);
    }
  }
  first_on_disk = writer->first_on_disk();
  path = writer->folder();
}

}  // namespace tasuki
