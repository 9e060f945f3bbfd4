#include "tools/supervisor/run_folder.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "program/report/about.hpp"
#include "program/report/result_files.hpp"
#include "training/output_folder.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

bool has_mark(const fs::path& folder, const std::string& mark) {
  const fs::path file = folder / program::about_file;
  try {
    const auto text = read_file_if_there(file);
    const auto about = text ? parse_json(*text, file.string()) : nlohmann::json();
    return about.is_object() && about.value("supervisor", nlohmann::json()) == mark;
  } catch (const Error&) {  // not this program's
    return false;
  }
}

}  // namespace

std::optional<SavedState> last_saved(const fs::path& folder) {
  try {
    for (const char* suffix : {"", ".0"}) {  // for a whole model, or one on several ranks
      const auto states = saved_states_in(folder, suffix);
      if (!states.empty()) return states.front();
    }
  } catch (const Error& error) {  // the program reports it, too, when it resumes from there
    log_verbose("{}", error.what());
  }
  return std::nullopt;
}

RunFolder::RunFolder(fs::path out, std::optional<fs::path> resumed_from, std::string mark)
    : out_(std::move(out)), resumed_from_(std::move(resumed_from)), mark_(std::move(mark)) {}

std::vector<fs::path> RunFolder::candidates() const {
  std::vector<fs::path> folders;
  if (resumed_from_) folders = {*resumed_from_, resumed_from_->parent_path()};
  // A removed folder leaves a gap.
  constexpr int most_gaps = 3;
  int gaps = 0;
  for (int number = 1; gaps <= most_gaps; ++number) {
    folders.push_back(numbered_folder(out_, number));
    std::error_code not_there;
    if (!fs::exists(folders.back(), not_there)) ++gaps;
  }
  return folders;
}

const std::optional<fs::path>& RunFolder::find() {
  if (found_ && has_mark(*found_, mark_)) return found_;
  std::optional<fs::file_time_type> latest;
  for (const fs::path& folder : candidates()) {
    if (!has_mark(folder, mark_)) continue;
    std::error_code gone;
    const auto time = fs::last_write_time(folder / program::about_file, gone);
    if (gone || (latest && *latest >= time)) continue;
    latest = time;
    found_ = folder;
  }
  return found_;
}

std::optional<fs::file_time_type> RunFolder::taken_at() {
  if (!find()) return std::nullopt;
  std::error_code gone;
  const auto time = fs::last_write_time(*found_ / program::about_file, gone);
  return gone ? std::nullopt : std::optional(time);
}

bool RunFolder::has_finished() {
  const auto taken = taken_at();
  if (!taken) return false;
  std::error_code error;
  const auto finished = fs::last_write_time(*found_ / program::finished_file, error);
  return !error && finished >= *taken;
}

}  // namespace tasuki::supervisor
