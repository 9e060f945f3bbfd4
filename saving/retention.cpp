#include "saving/retention.hpp"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "core/system_error.hpp"
#include "saving/checkpoint.hpp"
#include "saving/output_layout.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

// Those that a run at this iteration may remove, the newest first.
std::vector<fs::path> checkpoints_of_run(const fs::path& out, std::int64_t iteration) {
  const std::set<std::string> abandoned = abandoned_in(out);
  std::vector<fs::path> found;
  for (const CheckpointName& name : checkpoints_in(out))
    if (fs::path folder = checkpoint_folder(out, name);
        name.iteration <= iteration && !abandoned.contains(name_in_folder(folder)))
      found.push_back(std::move(folder));
  return found;
}

// What a disk has of a checkpoint.
enum class Found { nothing, damaged, unreadable, intact };
struct Copy {
  Found found = Found::nothing;
  std::string id{};              // if intact, like the rest
  std::int64_t parts = 0;        // of the model
  std::set<std::string> here{};  // those of them on this disk
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Copy, found, id, parts, here)

// Reads all of it.
Copy copy_in(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return {};
  try {
    const CheckpointManifest manifest = CheckpointManifest::read(folder);
    Copy copy{Found::intact, manifest.id, manifest.parts};
    for (const CheckpointManifest::File& file : manifest.files)
      if (copy.here.insert(file.part).second) const CheckpointReader read(folder, file.part);
    return copy;
  } catch (const Error& error) {
    return {is_damage(error) ? Found::damaged : Found::unreadable};
  }
}

// Whether all disks together have all parts of one save.
bool is_intact(const std::vector<Copy>& copies) {
  std::set<std::string> ids, parts;
  std::int64_t needed = 0;
  for (const Copy& copy : copies) {
    if (copy.found == Found::nothing) continue;
    if (copy.found != Found::intact) return false;
    ids.insert(copy.id);
    parts.insert(copy.here.begin(), copy.here.end());
    needed = copy.parts;
  }
  return ids.size() == 1 && std::cmp_equal(parts.size(), needed);
}

}  // namespace

void write_best(const fs::path& out, const fs::path& saved) {
  if (!saved.empty()) return write_file(out / best_name, name_in_folder(saved) + "\n");
  std::error_code error;
  fs::remove(out / best_name, error);
  if (error)
    fail_because(error, ErrorKind::cannot_write, "cannot remove {}", (out / best_name).string());
}

std::optional<fs::path> best_checkpoint(const fs::path& out) {
  const auto best = saved_state_in(out / best_name);
  const auto name = best ? CheckpointName::parse(best->filename().string()) : std::nullopt;
  if (!name) return std::nullopt;
  fs::path folder = checkpoint_folder(out, *name);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  return folder;
}

void remove_old_checkpoints(const fs::path& out, const fs::path& saved, int keep) {
  const auto newest = CheckpointName::parse(saved.filename().string());
  if (!newest) return;
  try {
    const auto best = best_checkpoint(out);
    int kept = 0;
    for (const fs::path& folder : checkpoints_of_run(out, newest->iteration))
      if (kept++ >= std::max(keep, 1) && folder != best) remove_checkpoint(folder);
  } catch (const Error& error) {  // what else there is cannot be read
    log_verbose("old checkpoints in {} stay: {}", out.string(), error.what());
  }
}

bool is_of_full_disk(const Error& error) {
  const std::error_code cause = cause_of(error);
  return cause == std::errc::no_space_on_device || cause.value() == EDQUOT;
}

std::vector<std::string> make_room(const fs::path& out, std::int64_t iteration,
                                   const Writers& writers, const std::vector<int>& first_on_disk) {
  using nlohmann::json;
  const bool works_for_disk =
      first_on_disk.empty() ||
      first_on_disk[static_cast<std::size_t>(writers.index())] == writers.index();
  // What the writers that work for disks return.
  const auto of_disks = [&](const std::function<json()>& work) {
    std::vector<json> results;
    for (const std::string& text :
         writers.on_all([&] { return works_for_disk ? json_text(work()) : ""; }))
      if (!text.empty()) results.push_back(parse_json(text, "the list of checkpoints of a disk"));
    return results;
  };

  std::set<CheckpointName, std::greater<>> names;
  std::set<std::string> needed;
  for (const json& disk : of_disks([&] {
         json list = {best_checkpoint(out).value_or("").filename().string()};
         for (const fs::path& folder : checkpoints_of_run(out, iteration))
           list.push_back(folder.filename().string());
         return list;
       })) {
    needed.insert(disk.front());
    for (std::size_t i = 1; i < disk.size(); ++i)
      names.insert(CheckpointName::parse(disk[i].get<std::string>()).value());
  }

  bool has_newest = false;
  for (const CheckpointName& name : names) {
    std::vector<Copy> copies;
    for (const json& copy : of_disks([&] { return copy_in(checkpoint_folder(out, name)); }))
      copies.push_back(copy);
    has_newest = is_intact(copies);
    if (has_newest || std::ranges::count(copies, Found::unreadable, &Copy::found) > 0)
      needed.insert(name.text());
    if (has_newest) break;
  }
  if (!has_newest) return {};

  std::erase_if(names, [&](const CheckpointName& name) { return needed.contains(name.text()); });
  std::set<CheckpointName> left;
  for (const json& disk : of_disks([&] {
         json still_there = json::array();
         for (const CheckpointName& name : names) {
           remove_checkpoint(checkpoint_folder(out, name));
           std::error_code ignored;
           if (fs::exists(checkpoint_folder(out, name), ignored))
             still_there.push_back(name.text());
         }
         return still_there;
       }))
    for (const json& name : disk)
      left.insert(CheckpointName::parse(name.get<std::string>()).value());
  std::vector<std::string> removed;
  for (const CheckpointName& name : names)
    if (!left.contains(name)) removed.push_back(name.text());
  return removed;
}

}  // namespace tasuki
