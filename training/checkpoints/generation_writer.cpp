#include "training/checkpoints/generation_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/long_call.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "training/checkpoints/course.hpp"
#include "training/checkpoints/generations.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_because(error, ErrorKind::cannot_write, "cannot write {}", to.string());
}

}  // namespace

GenerationWriter::GenerationWriter(GenerationOutline outline, Writers writers)
    : outline_(std::move(outline)), writers_(std::move(writers)) {}

GenerationWriter::~GenerationWriter() {
  discard();
}

fs::path GenerationWriter::write(const GenerationShare& share) {
  try {
    make_folder();
    write_files(share);
    write_manifest();
    publish();
  } catch (...) {
    discard();
    throw;
  }
  name_latest();
  return folder_;
}

void GenerationWriter::make_folder() {
  const fs::path checkpoints = outline_.out / checkpoints_name;
  // Only writer 0 knows whether the output folder is still there; the others may be on hosts with
  // disks of their own. It also knows what the run has abandoned.
  const auto begin = [&]() -> std::string {
    if (writers_.index() != 0) return "";
    make_own_folder(checkpoints);
    return fmt::format("{}\n{}", outline_.id.empty() ? random_id() : outline_.id,
                       fmt::join(abandoned_in(outline_.out), "\n"));
  };
  std::istringstream first(writers_.on_all(begin).front());
  std::getline(first, id_);
  std::set<std::string> abandoned;
  for (std::string line; std::getline(first, line);) abandoned.insert(line);
  const std::vector<std::string> numbers = writers_.on_all([&] {
    make_output_folder(outline_.out);
    make_own_folder(checkpoints);
    return std::to_string(next_number(outline_.out, outline_.iteration));
  });
  GenerationName name{outline_.iteration, 1};
  for (const std::string& number : numbers)
    name.number = std::max<std::int64_t>(name.number, std::stoll(number));
  first_on_disk_ =
      outline_.first_on_disk.empty() ? writers_.first_on_disk(checkpoints) : outline_.first_on_disk;
  works_for_disk_ = own_first() == writers_.index();
  folder_ = generation_folder(outline_.out, name);
  const std::vector<std::string> made = writers_.on_all([&]() -> std::string {
    if (!works_for_disk_) return "";
    if (writers_.index() != 0) abandon(outline_.out, abandoned);
    announce_generation(outline_.out, folder_);
    remove_unfinished_generations(outline_.out);
    unfinished_ = make_unfinished(folder_);
    is_made_ = true;
    return unfinished_.filename().string();
  });
  unfinished_ = checkpoints / made[static_cast<std::size_t>(own_first())];
}

Manifest::File GenerationWriter::write_entries(const std::string& name, const std::string& part,
                                               const std::vector<NpzEntry>& entries) const {
  const LongCall writing;  // the system may write most of the data only when it is synced
  const fs::path path = unfinished_ / name;
  const WrittenNpz written = write_npz_directly(path, entries);
  sync_file(path);
  Manifest::File file{name, part, written.bytes, written.hash, {}};
  for (std::size_t i = 0; i < entries.size(); ++i)
    file.arrays.push_back({entries[i].name, written.entries[i], std::nullopt});
  return file;
}

std::vector<Manifest::File> GenerationWriter::files_of(const GenerationShare& share) const {
  std::vector<Manifest::File> files;
  if (!share.state.empty())
    files.push_back(write_entries(fmt::format("state{}.npz", share.part), share.part, share.state));
  if (share.pieces.empty()) return files;
  if (std::ranges::any_of(first_on_disk_, [](int first) { return first != 0; }))
    fail(ErrorKind::cannot_write,
         "cannot write {}: divided states need one folder that all ranks see, and this host has "
         "another one of this name",
         folder_.string());
  std::vector<NpzEntry> entries;
  for (const NpzPiece& piece : share.pieces) entries.push_back(piece.entry);
  files.push_back(
      write_entries(fmt::format("optimizer.{}.npz", writers_.index()), share.part, entries));
  for (std::size_t i = 0; i < share.pieces.size(); ++i) {
    const auto& [entry, begin, whole] = share.pieces[i];
    const std::int64_t count = std::get<Tensor>(entry.value).count();
    files.back().arrays[i].piece = Manifest::Piece{{begin, begin + count}, whole};
  }
  return files;
}

void GenerationWriter::write_files(const GenerationShare& share) {
  const std::vector<std::string> lists = writers_.on_all([&] {
    std::string list;
    for (const Manifest::File& file : files_of(share)) list += to_line(file) + '\n';
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

void GenerationWriter::write_manifest() {
  const Manifest manifest{id_, outline_.iteration, outline_.epoch, outline_.parts, files_};
  writers_.on_all([&] {
    if (works_for_disk_) {
      write_file(unfinished_ / manifest_name, manifest.text());
      unmark(unfinished_);
    }
    return "";
  });
}

void GenerationWriter::publish() {
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

void GenerationWriter::name_latest() {
  writers_.on_all([&] {
    if (works_for_disk_) write_latest(outline_.out, folder_);
    return "";
  });
}

void GenerationWriter::discard() noexcept {
  if (!std::exchange(is_made_, false) || is_complete_) return;
  try {
    remove_generation(unfinished_);
  } catch (const std::exception&) {  // too little memory
    // The next run in this folder removes it.
  }
}

}  // namespace tasuki
