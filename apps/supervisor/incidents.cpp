#include "supervisor/incidents.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "supervisor/output_stream.hpp"
#include "tasuki/core/terminal.hpp"

namespace tasuki::supervisor {
namespace {

// In one write, so that several jobs in one folder do not mix their lines. Removes from `text` what
// was written, which may be a part of it where the disk is full.
bool append(const std::filesystem::path& path, std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const ssize_t written = write(file, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written > 0) text.erase(0, static_cast<std::size_t>(written));
  const bool is_closed = close(file) == 0;
  if (!text.empty()) errno = error;
  return text.empty() && is_closed;
}

}  // namespace

void say(const std::string& line) {
  error_output().write(
      fmt::format("{}tasuki-run: {}\n",
                  isatty(STDERR_FILENO) != 0 ? fmt::format("\r{}", erase_below) : "", line));
}

void Incidents::add(const std::string& event, const nlohmann::ordered_json& entries) {
  nlohmann::ordered_json line = {
      {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"event", event}};
  line.update(entries);
  // Names of folders may not be UTF-8.
  kept_ += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  flush();
}

void Incidents::write_to(const std::filesystem::path& folder) {
  folder_ = folder;
  flush();
}

void Incidents::flush() {
  if (folder_.empty() || kept_.empty()) return;
  if (append(folder_ / incidents_file, kept_) || has_failed_) return;
  has_failed_ = true;
  say(fmt::format("warning: {} cannot be written: {}", (folder_ / incidents_file).string(),
                  std::strerror(errno)));
}

}  // namespace tasuki::supervisor
