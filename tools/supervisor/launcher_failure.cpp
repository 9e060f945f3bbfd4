#include "tools/supervisor/launcher_failure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <regex>

namespace tasuki::supervisor {
namespace {

using Match = std::smatch;

LauncherFailure refusal(const std::string& line, const std::string& host) {
  return {Cause{line, std::nullopt, host}, StartFailure::refused};
}

LauncherFailure missing(const std::string& program, const std::string& host) {
  return refusal(fmt::format("error: {} is missing on {}, or cannot be executed there; every host "
                             "needs it at this path",
                             program, host),
                 host);
}

// The same words for all launchers.
LauncherFailure missing_folder(const std::string& folder, const std::string& host) {
  return refusal(fmt::format("error: the working folder {} is missing on {}, or cannot be entered "
                             "there; every host needs it",
                             folder, host),
                 host);
}

LauncherFailure not_executable(const std::string& program, const std::string& host,
                               const std::string& reason) {
  return refusal(fmt::format("error: {} cannot be executed on {}: {}", program, host, reason),
                 host);
}

// Of those that need not be the program's fault.
const char* causes_of_signal(const std::string& name) {
  return name == "Bus error" ? ": a mapped data file was shortened, or its disk or network file "
                               "system could not read it (dmesg), or /dev/shm is full"
                             : "";
}

// Launchers' texts, and their meaning.
struct Pattern {
  std::regex text;
  LauncherFailure (*meaning)(const Match& found);
};

// Line breaks depend on the lengths of names, so every space matches any amount of white space.
const std::vector<Pattern>& paragraphs() {
  static const std::vector<Pattern> patterns = {
      {std::regex(
           R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+) \(([^)]*)\))"),
       [](const Match& found) {
         return LauncherFailure{Cause{
             fmt::format("rank {} on {}: ended by signal {} ({}){}", found[1].str(), found[2].str(),
                         found[3].str(), found[4].str(), causes_of_signal(found[4])),
             std::stoi(found[1]), found[2]}};
       }},
      {std::regex(R"(exited with non-zero status.*Process name: \[[^ ]+,(\d+)\] Exit code: (\d+))"),
       [](const Match& found) {
         return LauncherFailure{Cause{
             fmt::format("error: rank {} ended with exit code {}", found[1].str(), found[2].str()),
             std::stoi(found[1]), ""}};
       }},
      // PRRTE says the same of a daemon that did not start.
      {std::regex(
           R"(PRTE has lost communication with a remote daemon.*Remote daemon: \[[^ ]+,\d+\] on node (\S+))"),
       [](const Match& found) {
         return LauncherFailure{
             Cause{
                 fmt::format("error: mpirun could not start its daemon on {}, or has lost it; see "
                             "the message above",
                             found[1].str()),
                 std::nullopt, found[1]},
             StartFailure::no_daemon};
       }},
      {std::regex(
           R"(lost communication with a remote daemon.*Remote daemon: \[[^ ]+,\d+\] on node (\S+))"),
       [](const Match& found) { return lost_daemon(found[1]); }},
      {std::regex(
           "MPI_ABORT was invoked on rank |Primary job terminated normally, but|has exited due "
           "to process rank .* calling \"abort\""),
       [](const Match&) { return LauncherFailure{}; }},
      {std::regex(
           R"((?:could not access or execute|lacked permissions to execute) an executable: Executable: (.*) Node: (\S+))"),
       [](const Match& found) { return missing(found[1], found[2]); }},
      {std::regex(
           R"(unable to find the specified executable file.*Node: (\S+) Executable: (.*\S) -{60})"),
       [](const Match& found) { return missing(found[2], found[1]); }},
      {std::regex(
           R"(change to the specified working directory: Working directory: (.*) Node: (\S+))"),
       [](const Match& found) { return missing_folder(found[1], found[2]); }},
      {std::regex(
           R"(tried to fork a new process.*Local host: (\S+) Working dir: .* Application name: (.*) Error: (.*) -)"),
       [](const Match& found) { return not_executable(found[2], found[1], found[3]); }},
      // PRRTE: whatever the reason, it speaks of files that can be open.
      {std::regex(
           R"(unable to launch the specified application as it encountered an error: Error: .* Node: (\S+) when)"),
       [](const Match& found) {
         return refusal(
             fmt::format("error: the program cannot be started on {}; the working folder "
                         "may be missing there, or cannot be entered: every host needs it",
                         found[1].str()),
             found[1]);
       }},
      // It follows the paragraph of "fork a new process".
      {std::regex(
           R"(unable to start the specified application as it encountered an error.* [Nn]ode:? (\S+))"),
       [](const Match& found) {
         return refusal(fmt::format("error: the program cannot be executed on {}", found[1].str()),
                        found[1]);
       }},
      {std::regex("There are not enough slots available in the system"),
       [](const Match&) {
         return LauncherFailure{std::nullopt, StartFailure::refused, true};
       }},
      {std::regex("ORTE was unable to reliably start one or more daemons|An ORTE daemon has "
                  "unexpectedly failed after launch"),
       [](const Match&) {
         return LauncherFailure{Cause{"error: mpirun could not start its daemon on a host, or "
                                      "has lost it; see its message above",
                                      std::nullopt, ""},
                                StartFailure::no_daemon, true};
       }}};
  return patterns;
}

const std::vector<Pattern>& lines() {
  static const std::vector<Pattern> patterns = {
      {std::regex(R"(srun: error: (\S+): tasks? (\d+)[-,\d]*: (.*))"),
       [](const Match& found) {
         return LauncherFailure{
             Cause{fmt::format("rank {} on {}: {}", found[2].str(), found[1].str(), found[3].str()),
                   std::stoi(found[2]), found[1]}};
       }},
      {std::regex(R"(slurmstepd-(\S+): error: execve\(\): (.*): (.*))"),
       [](const Match& found) { return not_executable(found[2], found[1], found[3]); }},
      {std::regex("mpirun: Error: (.*)"),
       [](const Match& found) {
         return refusal(fmt::format("error: mpirun: {}", found[1].str()), "");
       }},
      // Hydra, whose last words in parentheses are the system's.
      {std::regex(R"(\[proxy:[\d:]+@(\S+)\] .*: execvp error on file (.*) \(No such file .*\))"),
       [](const Match& found) { return missing(found[2], found[1]); }},
      {std::regex(R"(\[proxy:[\d:]+@(\S+)\] .*: execvp error on file (.*) \((.*)\))"),
       [](const Match& found) { return not_executable(found[2], found[1], found[3]); }},
      {std::regex(R"(\[proxy:[\d:]+@(\S+)\] .*: unable to change wdir to (.*) \(.*\))"),
       [](const Match& found) { return missing_folder(found[2], found[1]); }},
      {std::regex(R"(\[mpiexec@\S+\] .*: (unrecognized argument .*))"),
       [](const Match& found) {
         return refusal(fmt::format("error: mpiexec: {}", found[1].str()), "");
       }},
      // An exit code of a shell, as waitpid() has it: 126 or 127.
      {std::regex(R"(\[mpiexec@.*Unable to run bstrap_proxy on (\S+) .*exit code (32256|32512)\))"),
       [](const Match& found) { return missing("hydra_bstrap_proxy", found[1]); }},
      {std::regex(R"(\[mpiexec@.*Unable to run bstrap_proxy on (\S+) )"),
       [](const Match& found) {
         return LauncherFailure{Cause{fmt::format("error: {} cannot be reached", found[1].str()),
                                      std::nullopt, found[1]},
                                StartFailure::no_daemon};
       }},
      {std::regex(R"(\[mpiexec@.*Launch proxy failed)"), [](const Match&) {
         return LauncherFailure{std::nullopt, StartFailure::no_daemon};
       }}};
  return patterns;
}

std::optional<LauncherFailure> find(const std::vector<Pattern>& patterns, const std::string& text) {
  for (const Pattern& pattern : patterns)
    if (Match found; std::regex_search(text, found, pattern.text)) return pattern.meaning(found);
  return std::nullopt;
}

}  // namespace

Cause parse_error_line(std::string_view line) {
  static const std::regex of_rank(R"(rank (\d{1,7}) on ([^ :]+): .*)");
  Cause cause{std::string(line), std::nullopt, ""};
  Match found;
  if (std::regex_match(cause.line, found, of_rank)) {
    cause.rank = std::stoi(found[1]);
    cause.host = found[2];
  }
  return cause;
}

std::optional<LauncherFailure> parse_paragraph(const std::string& text) {
  static const std::regex spaces("\\s+");
  return find(paragraphs(), std::regex_replace(text, spaces, " "));
}

LauncherFailure lost_daemon(const std::string& host) {
  if (!host.empty())
    return {Cause{fmt::format("error: the connection to {} was lost", host), std::nullopt, host}};
  return {
      Cause{"error: a host was lost while the job ran: mpirun has no connection to its daemon "
            "there any more (it does not say where)",
            std::nullopt, ""}};
}

std::optional<LauncherFailure> parse_launcher_line(const std::string& line) {
  constexpr std::array<std::string_view, 5> begins = {"srun", "slurm", "mpirun", "[mpiexec@",
                                                      "[proxy:"};
  if (std::ranges::none_of(begins, [&](auto begin) { return line.starts_with(begin); }))
    return std::nullopt;
  return find(lines(), line);
}

std::optional<Cause> parse_ssh_line(const std::string& line) {
  static const std::regex of_host(
      R"(ssh: (?:connect to host|Could not resolve hostname) ([^\s:]+).*)");
  Match found;
  if (!line.starts_with("ssh: ") || !std::regex_match(line, found, of_host)) return std::nullopt;
  return Cause{fmt::format("error: {} cannot be reached ({})", found[1].str(), line), std::nullopt,
               found[1]};
}

}  // namespace tasuki::supervisor
