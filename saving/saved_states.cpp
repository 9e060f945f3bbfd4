#include "saving/saved_states.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "saving/checkpoint.hpp"
#include "saving/model_file.hpp"
#include "saving/output_layout.hpp"
#include "saving/replica_set.hpp"
#include "saving/retention.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

std::string suffix_of(int part, int parts) {
  return parts > 1 ? fmt::format(".{}", part) : "";
}

fs::path file_of(fs::path snapshot, int part, int parts) {
  return snapshot += suffix_of(part, parts);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// What there is in place of a snapshot of `parts` files, if it is one of more or fewer.
std::string found_instead(const fs::path& snapshot, int parts) {
  if (parts > 1 && is_there(snapshot))
    return fmt::format("; {} is of a whole model, and this run has a model on {} ranks",
                       snapshot.string(), parts);
  int found = 0;
  while (is_there(file_of(snapshot, found, 2))) ++found;
  // Other disks may have further parts.
  if (found == 0 || (parts > 1 && (found == 1 || found == parts))) return "";
  return fmt::format("; {}.0 is a part of a model on {} ranks, and this run has {}",
                     snapshot.string(), found == 1 ? "several" : std::to_string(found),
                     parts > 1 ? fmt::format("a model on {} ranks", parts) : "whole models");
}

// "a whole model", "a model on 2 ranks"
std::string model_text(std::int64_t parts) {
  return parts == 1 ? "a whole model" : fmt::format("a model on {} ranks", parts);
}

std::unique_ptr<ArraySource> open_part(const fs::path& snapshot, int part, int parts) {
  if (is_checkpoint(snapshot)) {
    const std::int64_t found = CheckpointManifest::read(snapshot).parts;
    if (found != parts)
      fail(ErrorKind::config, "{} is of {}, and this run has {}", snapshot.string(),
           model_text(found), model_text(parts));
    return std::make_unique<CheckpointReader>(snapshot, suffix_of(part, parts));
  }
  const fs::path file = file_of(snapshot, part, parts);
  if (!fs::exists(status_of(file)))
    fail(ErrorKind::missing, "cannot read {}: no such file{}", file.string(),
         found_instead(snapshot, parts));
  return std::make_unique<NpzFile>(file, /*require_hash=*/true);
}

// Parts on disks of their own may be of different saves, if a folder was copied, or cleared on one
// of the hosts only. `part`: what this rank has opened, or null. Collective.
void check_same_save(const fs::path& snapshot, const ArraySource* part,
                     Communicator& communicator) {
  const auto* const own = dynamic_cast<const CheckpointReader*>(part);
  const auto ids = allgather_bytes(communicator, text_to_bytes(own ? own->manifest().id : ""));
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const Bytes& id = ids[static_cast<std::size_t>(rank)];
    if (!id.empty() && id != ids.front())
      throw Error(
          ErrorKind::data,
          fmt::format("{} is of two saves: rank 0 has {}, rank {} has {}", snapshot.string(),
                      bytes_to_text(ids.front()), rank, bytes_to_text(id)),
          communicator.topology().shared_error_scope);
  }
}

// Says why it is not simply the newest.
void explain_choice(const fs::path& chosen, const std::vector<fs::path>& candidates) {
  if (chosen.filename() == best_snapshot_name)
    log_warning("there is no checkpoint or snapshot_iter_<number> to go on from in {}; taking {}",
                chosen.parent_path().string(), chosen.string());
  const auto iteration = iteration_of(chosen);
  for (auto each = std::ranges::find(candidates, chosen); each != candidates.end(); ++each)
    if (iteration && iteration_of(*each) > iteration)
      log_info("ignoring {}: it belongs to an abandoned run; the last run was at {}",
               each->string(), chosen.filename().string());
}

// What `open` found no damage in, but could not read either, is not passed over: training would go
// back for no reason. Older ones of another kind of model fit no better.
[[noreturn]] void refuse_to_pass_over(const Error& error, const SavedStateList& list,
                                      std::size_t which, std::string_view flag) {
  if (!list.is_of_folder || error.kind() == ErrorKind::config) throw error;
  std::string text = fmt::format("{}; it may be intact: try again", error.what());
  if (which + 1 < list.paths.size())
    text += fmt::format(", or go back {} {}", flag.empty() ? "to" : fmt::format("with {}", flag),
                        list.paths[which + 1].string());
  throw Error(error.kind(), text, error.scope());
}

// There is no older one.
[[noreturn]] void refuse_last(const Error& error, const SavedStateList& list,
                              std::string_view flag) {
  if (!list.is_of_folder) throw error;
  std::string text = fmt::format("{}; none is left to use instead", error.what());
  if (!flag.empty()) text += fmt::format(": give {} another path, or leave it out", flag);
  throw Error(error.kind(), text, error.scope());
}

// The first that is not damaged, of those that `flag` named. `says`: whether this rank prints what
// it passes over.
fs::path first_intact(const SavedStateList& list, std::string_view flag, bool says,
                      const std::function<void(const fs::path&)>& open) {
  const auto& paths = list.paths;
  for (std::size_t i = 0;; ++i) {
    try {
      open(paths.at(i));
      if (says && list.is_of_folder) explain_choice(paths[i], paths);
      return paths[i];
    } catch (const Error& error) {
      if (!is_damage(error)) refuse_to_pass_over(error, list, i, flag);
      if (i + 1 == paths.size()) refuse_last(error, list, flag);
      if (says) log_warning("{}; using the one before it", error.what());
    }
  }
}

// A checkpoint's path where there is none is an error that names those that are there.
void refuse_missing_checkpoint(const fs::path& path, std::string_view named_by) {
  constexpr std::size_t most = 5;
  const fs::path folder = path.parent_path();
  if (folder.filename() != checkpoints_name || is_there(path)) return;
  const fs::path out = folder.has_parent_path() ? folder.parent_path() : ".";
  std::vector<std::string> names;
  for (const SavedState& each : saved_states_in(out))
    if (each.is_checkpoint) names.push_back(each.path.filename().string());
  const std::size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  std::string there = names.empty() ? "is none" : fmt::format("are {}", join(names, ", "));
  if (more > 0) there += fmt::format(" and {} more", more);
  fail(ErrorKind::missing, "{} {}: no such checkpoint; there {} in {}", named_by, path.string(),
       there, folder.string());
}

fs::path without_slash(const fs::path& path) {
  return path.has_filename() || !path.has_parent_path() ? path : path.parent_path();
}

}  // namespace

std::vector<SavedState> saved_states_in(const fs::path& out, const std::string& suffix) {
  std::vector<SavedState> found;
  for (const CheckpointName& name : checkpoints_in(out))
    found.push_back({checkpoint_folder(out, name), name.iteration, true});
  for (const std::string& name : names_in(out)) {
    if (!name.ends_with(suffix)) continue;
    const std::string whole = name.substr(0, name.size() - suffix.size());
    if (const auto iteration = iteration_of_snapshot(whole))
      found.push_back({out / whole, *iteration, false});
  }
  const fs::path latest = read_latest(out).value_or("");
  const std::int64_t last = iteration_of(latest).value_or(INT64_MAX);
  const std::set<std::string> abandoned = abandoned_in(out);
  // Stable: checkpoints are already in their order, and before snapshots.
  std::ranges::stable_sort(found, std::greater(), [&](const SavedState& each) {
    const bool is_own = (each.is_checkpoint || each.iteration <= last) &&
                        !abandoned.contains(name_in_folder(each.path));
    return std::tuple(is_own, each.iteration, each.path.lexically_relative(out) == latest);
  });
  return found;
}

bool is_checkpoint(const fs::path& path) {
  const fs::path folder = without_slash(path);
  if (!fs::is_directory(status_of(folder))) return false;
  return is_there(folder / manifest_name) || (folder.parent_path().filename() == checkpoints_name &&
                                              CheckpointName::parse(folder.filename().string()));
}

fs::path followed(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return path;
  const fs::path folder = path.parent_path();
  std::optional<fs::path> named;
  if (path.filename() == best_name) named = best_checkpoint(folder);
  if (path.filename() == latest_name)
    if (const auto latest = read_latest(folder)) named = folder / *latest;
  return named.value_or(path);
}

fs::path output_folder_of(const fs::path& saved) {
  const fs::path path = without_slash(saved);
  fs::path folder = path.parent_path();
  if (is_checkpoint(path) && folder.filename() == checkpoints_name) folder = folder.parent_path();
  return folder.empty() ? "." : folder;
}

SavedStateList list_saved_states(const fs::path& folder, int parts) {
  SavedStateList list{{}, true};
  for (const SavedState& each : saved_states_in(folder, suffix_of(0, parts)))
    list.paths.push_back(each.path);
  if (const auto best = folder / best_snapshot_name; is_there(file_of(best, 0, parts)))
    list.paths.push_back(best);
  return list;
}

SavedStateList find_saved_states(const fs::path& path, std::string_view flag, int parts) {
  std::error_code ignored;
  fs::path named = followed(without_slash(path));
  // One file of a checkpoint stands for all of it.
  if (fs::is_regular_file(named, ignored) && is_there(named.parent_path() / manifest_name))
    named = named.parent_path();
  if (is_checkpoint(named)) return {{named}};
  if (!fs::is_directory(named, ignored)) {
    refuse_missing_checkpoint(named, flag);
    return {{without_part_suffix(named, parts)}};
  }
  const fs::path folder = named.filename() == checkpoints_name ? output_folder_of(named) : named;
  SavedStateList list = list_saved_states(folder, parts);
  if (!list.paths.empty()) return list;
  const auto others = saved_states_in(folder, parts > 1 ? "" : ".0");
  const std::string instead = others.empty() ? ""
                                             : (parts > 1 ? ", only those of a whole model"
                                                          : ", only those of parts of a model") +
                                                   found_instead(others.front().path, parts);
  fail(ErrorKind::missing,
       "{} {}: there is no checkpoint or snapshot_iter_<number>{} in this folder{}", flag,
       path.string(), suffix_of(0, parts), instead);
}

fs::path without_part_suffix(const fs::path& file, int parts) {
  const std::string suffix = suffix_of(0, parts), text = file.string();
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

std::optional<int> part_number(const fs::path& file) {
  const std::string name = file.filename().string(), suffix = file.extension().string();
  int number = 0;
  if (!name.starts_with("snapshot_") || suffix.size() < 2) return std::nullopt;
  const char* const end = suffix.data() + suffix.size();
  const auto [rest, error] = std::from_chars(suffix.data() + 1, end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  return number;
}

int model_parts_in(const fs::path& folder) {
  if (is_checkpoint(folder)) return static_cast<int>(CheckpointManifest::read(folder).parts);
  int parts = 1;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (const auto number = part_number(entry.path())) parts = std::max(parts, *number + 1);
  for (const CheckpointName& name : checkpoints_in(folder)) {
    try {
      parts = std::max(parts, model_parts_in(checkpoint_folder(folder, name)));
    } catch (const Error&) {  // damaged: reported by those that open it
    }
  }
  return parts;
}

std::unique_ptr<ArraySource> open_weights(const fs::path& path, const std::string& part) {
  const fs::path named = followed(without_slash(path));
  if (is_checkpoint(named)) return std::make_unique<CheckpointReader>(named, part);
  refuse_missing_checkpoint(named, "cannot read");
  if (std::error_code ignored; fs::is_directory(named, ignored))
    fail(ErrorKind::missing,
         "cannot read {0}: a folder that is not a checkpoint; expected a model file, a snapshot or "
         "a checkpoint (of an output folder the last one: {1}/{2})",
         path.string(), named.string(), latest_name);
  return open_model_file(named.string() + part);
}

std::vector<std::unique_ptr<ArraySource>> open_newest_intact(const fs::path& path,
                                                             std::string_view flag, int parts) {
  std::vector<std::unique_ptr<ArraySource>> opened;
  first_intact(find_saved_states(path, flag, parts), flag, true, [&](const fs::path& snapshot) {
    opened.clear();
    for (int part = 0; part < parts; ++part) opened.push_back(open_part(snapshot, part, parts));
  });
  return opened;
}

std::unique_ptr<ArraySource> open_saved_state(const fs::path& path, const std::string& part) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return std::make_unique<CheckpointReader>(path, part);
  return std::make_unique<NpzFile>(path.string() + part, /*require_hash=*/true);
}

ResumeSource open_to_resume(const fs::path& path, Communicator* communicator,
                            const ReplicaSet* replicas) {
  const SavingRanks ranks(communicator, replicas);
  ResumeSource found{path, nullptr};
  ranks.on_first([&] { found.source = open_saved_state(path, ranks.suffix); });
  return found;
}

ResumeSource open_first_intact(const SavedStateList& list, std::string_view flag, int parts,
                               Communicator* communicator) {
  ResumeSource found;
  const int rank = communicator ? communicator->rank() : 0;
  found.path = first_intact(list, flag, rank == 0, [&](const fs::path& path) {
    const auto open = [&] {
      if (rank < parts) found.source = open_part(path, rank, parts);
    };
    if (communicator)
      run_on_all(*communicator, open);
    else
      open();
    if (parts > 1) check_same_save(path, found.source.get(), *communicator);
  });
  return found;
}

}  // namespace tasuki
