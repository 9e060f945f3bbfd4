#include "job/session_folder.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "communicator/mpi/open_mpi.hpp"
#include "core/error.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

#ifdef OPEN_MPI
constexpr bool is_open_mpi = true;
#else
constexpr bool is_open_mpi = false;
#endif

struct SessionFolder {
  std::string origin;  // "TMPDIR=", as what follows may be meant for something else
  fs::path path;
};

SessionFolder session_folder(const std::optional<std::string>& base) {
  if (base) return {open_mpi_version < 5 ? "orte_tmpdir_base=" : "prte_tmpdir_base=", *base};
  for (const char* const variable : {"TMPDIR", "TEMP", "TMP"})
    if (const char* const path = std::getenv(variable)) return {variable + std::string("="), path};
  return {"", "/tmp"};
}

[[noreturn]] void refuse(const SessionFolder& folder, const std::string& cause) {
  fail_everywhere(
      ErrorKind::cannot_write,
      "{}{}: {}; Open MPI keeps the files of a job in this folder: set TMPDIR to one on "
      "a disk with room",
      folder.origin, folder.path.string(), cause);
}

// The folder, or the one in which it, or what leads to it, would be made.
fs::path nearest_that_exists(const fs::path& folder) {
  std::error_code error;
  for (fs::path path = fs::absolute(folder, error); path.has_relative_path();
       path = path.parent_path())
    if (fs::exists(path, error)) return path;
  return "/";
}

}  // namespace

void check_session_folder(std::size_t needed, const std::optional<std::string>& base) {
  if (!is_open_mpi) return;
  const SessionFolder folder = session_folder(base);
  const fs::path place = nearest_that_exists(folder.path);
  std::string name = place / "tasuki-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    refuse(folder, fmt::format("no folder can be made there: {}", std::strerror(errno)));
  rmdir(name.c_str());
  struct statvfs disk {};
  if (statvfs(place.c_str(), &disk) != 0) return;
  const unsigned long long room = static_cast<unsigned long long>(disk.f_bavail) * disk.f_frsize;
  if (room < needed)
    refuse(folder, fmt::format("{:.1f} MB are free there, and {:.1f} MB are needed",
                               static_cast<double>(room) / 1e6, static_cast<double>(needed) / 1e6));
}

}  // namespace tasuki
