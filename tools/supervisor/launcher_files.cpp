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

// The folder in which an mpirun of this user on this machine keeps its files, and their names.
struct Session {
  fs::path folder;
  pid_t mpirun;
  const char* last;  // the entry by which the folder is complete
  // Shared memory is in files "PREFIX.HOST.USER.JOB.RANK". Jobs of one mpirun share the upper half
  // of their numbers. Nothing: unknown.
  std::string memory_prefix;
  std::optional<std::uint32_t> job_family;
};

// The number in text that begins and ends so; 0: there is none.
pid_t number_between(const std::string& text, std::string_view begin, std::string_view end) {
  if (!text.starts_with(begin) || !text.ends_with(end)) return 0;
  return std::atoi(text.c_str() + begin.size());
}

// ORTE's: "ompi.HOST.USER/pid.NUMBER".
void add_ortes(const fs::path& of_host, std::vector<Session>& found) {
  for (const fs::path& folder : entries_of(of_host)) {
    const pid_t mpirun = number_between(folder.filename(), "pid.", "");
    if (mpirun <= 0 || !is_own_folder(folder)) continue;
    Session session{folder, mpirun, "contact.txt", "vader_segment.", std::nullopt};
    std::uint32_t job = 0;
    if (std::ifstream(folder / session.last) >> job) session.job_family = job >> 16;
    found.push_back(session);
  }
}

// Open MPI 5 numbers the jobs of "prterun-HOST-NUMBER" by this hash of the name (Jenkins's
// one-at-a-time), folded.
std::uint32_t job_family_of(const std::string& name) {
  std::uint32_t hash = 0;
  for (const unsigned char c : name) {
    hash += c;
    hash += hash << 10;
    hash ^= hash >> 6;
  }
  hash += hash << 3;
  hash ^= hash >> 11;
  hash += hash << 15;
  return (hash >> 16) ^ (hash & 0xffff);
}

std::vector<Session> sessions() {
  const std::string full = host_name(), user = fmt::format(".{}", getuid());
  const std::string label = full.substr(0, full.find('.'));
  std::vector<Session> found;
  std::error_code ignored;
  for (const fs::path& entry : entries_of(fs::temp_directory_path(ignored))) {
    const std::string name = entry.filename();
    for (const std::string& host : {label, full}) {
      // PRRTE's: "prterun.HOST.NUMBER.USER".
      const pid_t mpirun = number_between(name, fmt::format("prterun.{}.", host), user);
      const bool is_ortes = name == fmt::format("ompi.{}{}", host, user);
      if ((!is_ortes && mpirun <= 0) || !is_own_folder(entry)) continue;
      if (is_ortes)
        add_ortes(entry, found);
      else
        found.push_back({entry, mpirun, "1", "sm_segment.",
                         job_family_of(fmt::format("prterun-{}-{}", host, mpirun))});
      break;
    }
  }
  return found;
}

// The shared memory of the jobs of this mpirun.
std::vector<fs::path> memory_of(const Session& session) {
  std::vector<fs::path> files;
  if (!session.job_family) return files;
  const std::string mark = fmt::format(".{}.{:x}", getuid(), *session.job_family);
  for (const fs::path& file : entries_of("/dev/shm")) {
    const std::string name = file.filename();
    const auto at = name.find(mark);
    // After it come the lower half, in four digits, and the rank.
    if (name.starts_with(session.memory_prefix) && at != std::string::npos &&
        name.find('.', at + mark.size()) == at + mark.size() + 4)
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
    if (session.mpirun != mpirun || !fs::exists(session.folder / session.last)) continue;
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
