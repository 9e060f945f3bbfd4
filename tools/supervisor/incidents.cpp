#include "tools/supervisor/incidents.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"
#include "core/system_error.hpp"
#include "core/terminal.hpp"
#include "tools/supervisor/output_stream.hpp"

namespace tasuki::supervisor {
namespace {

// In one write, so that several jobs in one folder do not mix their lines. Removes the written part
// from `text`, which may not be all of it if the disk is full.
void append(const std::filesystem::path& path, std::string& text) {
  Descriptor file = open_own_file(path, OwnFile::append);
  const ssize_t written = write(file.get(), text.data(), text.size());
  std::error_code cause = last_system_error();
  if (written >= 0) cause = std::make_error_code(std::errc::no_space_on_device);
  if (written > 0) text.erase(0, static_cast<std::size_t>(written));
  if (text.empty() && close(file.release()) == 0) return;
  if (text.empty()) cause = last_system_error();
  fail_because(cause, ErrorKind::cannot_write, "cannot write {}", path.string());
}

}  // namespace

void say(const std::string& line) {
  error_output().write(fmt::format("{}tasuki-run: {}\n",
                                   moves_cursor(stderr) ? fmt::format("\r{}", erase_below) : "",
                                   message_line(line)));
}

void Incidents::add(const std::string& event, const nlohmann::ordered_json& entries) {
  nlohmann::ordered_json line = {
      {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"event", event}};
  line.update(entries);
  kept_ += json_text(line) + '\n';
  flush();
}

void Incidents::write_to(const std::filesystem::path& folder) {
  folder_ = folder;
  flush();
}

void Incidents::flush() {
  if (folder_.empty() || kept_.empty()) return;
  try {
    append(folder_ / incidents_file, kept_);
  } catch (const Error& error) {
    if (!std::exchange(has_failed_, true)) say(fmt::format("warning: {}", error.what()));
  }
}

}  // namespace tasuki::supervisor
