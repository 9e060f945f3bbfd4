#include "tools/supervisor/launcher_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.hpp"
#include "core/process_state.hpp"
#include "job/launcher.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr const char* mark_name = "tasuki-run";

// Not a link, which may lead to someone else's files.
bool is_own_folder(const fs::path& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == getuid();
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored))
    entries.push_back(entry->path());
  return entries;
}

// Session folders of this user's mpiruns on this machine: "ompi.HOST.USER/pid.NUMBER".
struct Session {
  fs::path folder;
  pid_t mpirun;
};

std::vector<Session> sessions() {
  constexpr std::string_view begin = "pid.";
  const std::string own = host_name();
  const std::string host = fmt::format("ompi.{}.{}", own.substr(0, own.find('.')), getuid());
  const std::string full_host = fmt::format("ompi.{}.{}", own, getuid());
  std::vector<Session> found;
  std::error_code ignored;
  for (const fs::path& of_host : entries_of(fs::temp_directory_path(ignored))) {
    const std::string name = of_host.filename();
    if ((name != host && name != full_host) || !is_own_folder(of_host)) continue;
    for (const fs::path& folder : entries_of(of_host)) {
      const std::string text = folder.filename();
      if (!text.starts_with(begin) || !is_own_folder(folder)) continue;
      const pid_t mpirun = std::atoi(text.c_str() + begin.size());
      if (mpirun > 0) found.push_back({folder, mpirun});
    }
  }
  return found;
}

// The beginning of the last part of the names in /dev/shm, "HOST.USER.JOB.RANK"; nothing if the
// job's number is unknown. Jobs of one mpirun share the upper half of their numbers.
std::optional<std::string> mark_of_memory(const Session& session) {
  std::uint32_t job_family = 0;
  if (!(std::ifstream(session.folder / "contact.txt") >> job_family)) return std::nullopt;
  return fmt::format(".{}.{:x}", getuid(), job_family >> 16);
}

// "vader_segment.HOST.USER.JOB.RANK" of the jobs of this mpirun.
std::vector<fs::path> memory_of(const Session& session) {
  std::vector<fs::path> files;
  const auto mark = mark_of_memory(session);
  if (!mark) return files;
  for (const fs::path& file : entries_of("/dev/shm")) {
    const std::string name = file.filename();
    const auto at = name.find(*mark);
    // After it come the lower half, in four digits, and the rank.
    if (name.starts_with("vader_segment.") && at != std::string::npos &&
        name.find('.', at + mark->size()) == at + mark->size() + 4)
      files.push_back(file);
  }
  return files;
}

void remove(const Session& session) {
  std::error_code ignored;
  for (const fs::path& file : memory_of(session)) fs::remove(file, ignored);
  fs::remove_all(session.folder, ignored);
}

bool is_mapped(const Session& session) {
  std::vector<std::string> names = {session.folder.string() + '/'};
  for (const fs::path& file : memory_of(session)) names.push_back(file.string());
  for (const fs::path& process : entries_of("/proc")) {
    if (process.filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);)
      for (const std::string& name : names)
        if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

// Process numbers in this namespace: containers may share the folder, but not the numbers.
std::string number_space() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/ns/pid", ignored);
}

bool is_launcher(pid_t process) {
  const auto state = process_state(process);
  return state && !state->has_ended() && is_launcher_name(state->name.data());
}

}  // namespace

void remove_files_of(pid_t mpirun) {
  for (const Session& session : sessions())
    if (session.mpirun == mpirun) remove(session);
}

bool mark_files_of(pid_t mpirun) {
  for (const Session& session : sessions()) {
    // mpirun writes this file once its folder is complete.
    if (session.mpirun != mpirun || !fs::exists(session.folder / "contact.txt")) continue;
    const int mark = open((session.folder / mark_name).c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (mark < 0) return true;  // it cannot be marked
    const std::string space = number_space();
    static_cast<void>(write(mark, space.data(), space.size()));
    close(mark);
    return true;
  }
  return false;
}

void remove_marked_files() {
  for (const Session& session : sessions()) {
    std::string space;
    if (!(std::ifstream(session.folder / mark_name) >> space) || space != number_space() ||
        is_launcher(session.mpirun) || is_mapped(session))
      continue;
    remove(session);
  }
}

}  // namespace tasuki::supervisor
