#include "supervisor/launcher_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored))
    entries.push_back(entry->path());
  return entries;
}

// "vader_segment.HOST.USER.JOB.RANK" of the jobs of this mpirun, which share the upper half of
// their numbers.
void remove_shared_memory(std::uint32_t job_family) {
  const std::string mark = fmt::format(".{}.{:x}", getuid(), job_family >> 16);
  std::error_code ignored;
  for (const fs::path& file : entries_of("/dev/shm")) {
    const std::string name = file.filename();
    const auto at = name.find(mark);
    // After it come the lower half, in four digits, and the rank.
    if (name.starts_with("vader_segment.") && at != std::string::npos &&
        name.find('.', at + mark.size()) == at + mark.size() + 4)
      fs::remove(file, ignored);
  }
}

}  // namespace

void remove_files_of(pid_t mpirun) {
  std::error_code ignored;
  for (const fs::path& host : entries_of(fs::temp_directory_path(ignored))) {
    const std::string name = host.filename();
    if (!name.starts_with("ompi.") || !name.ends_with(fmt::format(".{}", getuid()))) continue;
    const fs::path session = host / fmt::format("pid.{}", mpirun);
    std::uint32_t job_family = 0;
    if (std::ifstream(session / "contact.txt") >> job_family) remove_shared_memory(job_family);
    fs::remove_all(session, ignored);
  }
}

}  // namespace tasuki::supervisor
