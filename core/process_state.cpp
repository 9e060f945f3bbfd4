#include "core/process_state.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace tasuki {
namespace {

// The text after "Key:" and blanks, up to the end of the line; empty if there is no such line.
std::string_view value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key) || !line.substr(key.size()).starts_with(':')) continue;
    line.remove_prefix(key.size() + 1);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    return line;
  }
  return {};
}

template <class Number>
Number to_number(std::string_view text, int base = 10) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

}  // namespace

ProcessState parse_process_status(std::string_view text) {
  ProcessState found;
  const std::string_view name = value_of(text, "Name"), state = value_of(text, "State");
  std::copy_n(name.begin(), std::min(name.size(), found.name.size() - 1), found.name.begin());
  if (!state.empty()) found.state = state.front();
  found.parent = to_number<pid_t>(value_of(text, "PPid"));
  found.tracer = to_number<pid_t>(value_of(text, "TracerPid"));
  constexpr std::int64_t unit = 1024;
  found.memory = unit * to_number<std::int64_t>(value_of(text, "VmRSS"));
  found.caught = to_number<std::uint64_t>(value_of(text, "SigCgt"), 16);
  return found;
}

std::optional<ProcessState> process_state(pid_t process) {
  std::array<char, 32> path{};
  fmt::format_to_n(path.begin(), path.size() - 1, "/proc/{}/status", process);
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 16384> text;  // the whole file, unless the process is in a thousand groups
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  if (size <= 0) return std::nullopt;
  const std::string_view lines(text.data(), static_cast<std::size_t>(size));
  return parse_process_status(lines.substr(0, lines.rfind('\n') + 1));
}

std::vector<pid_t> descendants(pid_t ancestor) {
  std::vector<std::pair<pid_t, pid_t>> parents;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc", error), end; !error && each != end;
       each.increment(error))
    if (const auto process = to_number<pid_t>(each->path().filename().native()); process > 0)
      if (const auto state = process_state(process)) parents.emplace_back(process, state->parent);
  std::vector<pid_t> found = {ancestor};
  for (std::size_t next = 0; next < found.size(); ++next)
    for (const auto& [process, parent] : parents)
      // Numbers that were given anew while the list was made can form a circle.
      if (parent == found[next] && std::ranges::find(found, process) == found.end())
        found.push_back(process);
  found.erase(found.begin());
  return found;
}

}  // namespace tasuki
