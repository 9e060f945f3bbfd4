#include "supervisor/launcher_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>

#include "processes/error_line.hpp"

namespace tasuki::supervisor {
namespace {

constexpr std::size_t longest_paragraph = 8192, longest_line = 8192, longest_remark = 200,
                      shortest_rule = 60;

bool is_rule(std::string_view line) {
  return line.size() >= shortest_rule && line.size() <= longest_remark &&
         line.find_first_not_of('-') == std::string_view::npos;
}

constexpr std::string_view forwarding = "mpirun: Forwarding signal ";

// "[node1:04711] 3 more processes have sent help message ...", or that such a message got lost.
bool is_remark(const std::string& line) {
  if (line.starts_with(forwarding) && line.ends_with(" to job")) return true;
  static const std::regex remark(
      R"(\[[\w.-]+:\d+\] (\d+ more process(es)? ha(s|ve) sent help message )"
      R"(|Set MCA parameter "orte_base_help_aggregate" to 0)"
      R"(|\[\[\d+,\d+\],\d+\] ORTE_ERROR_LOG: .*show_help\.c ).*)");
  return line.size() <= longest_remark && std::regex_match(line, remark);
}

// Whether a line that begins like this may turn out to be a rule or a remark.
bool may_be_launchers(std::string_view line) {
  if (line.size() > longest_remark) return false;
  if (line.find_first_not_of('-') == std::string_view::npos) return true;
  if (forwarding.starts_with(line.substr(0, forwarding.size()))) return true;
  if (line.front() != '[') return false;
  const auto end = line.find(']');
  const std::string_view name = line.substr(1, end == line.npos ? line.npos : end - 1);
  const bool is_name = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':';
  });
  if (!is_name || end == line.npos) return is_name;
  constexpr std::string_view set = " Set MCA parameter ";
  const std::string_view rest = line.substr(end + 1);
  const bool may_follow =
      rest.size() < 2 || rest[1] == '[' || std::isdigit(static_cast<unsigned char>(rest[1])) != 0;
  return (rest.empty() || rest.front() == ' ') &&
         (may_follow || set.starts_with(rest.substr(0, set.size())));
}

// Of a rank that Slurm's launcher has lost: "srun: error: node1: task 3: Killed".
std::optional<Cause> learn_from_srun(const std::string& line) {
  static const std::regex of_task(R"(srun: error: (\S+): tasks? (\d+)[-,\d]*: (.*))");
  std::smatch found;
  if (!line.starts_with("srun: ") || !std::regex_match(line, found, of_task)) return std::nullopt;
  return Cause{fmt::format("rank {} on {}: {}", found[2].str(), found[1].str(), found[3].str()),
               std::stoi(found[2]), found[1]};
}

// The line as a terminal shows it after a progress bar that was erased.
std::string without_bar(std::string line) {
  while (line.ends_with('\r')) line.pop_back();
  if (const auto begin = line.rfind('\r'); begin != std::string::npos) line.erase(0, begin + 1);
  if (constexpr std::string_view erase = "\033[J"; line.starts_with(erase))
    line.erase(0, erase.size());
  return line;
}

// What mpirun says in a paragraph that it prints when a job fails; nothing if it is another one.
struct Learned {
  std::optional<Cause> cause;
};
std::optional<Learned> learn(const std::string& text) {
  // Line breaks differ with the lengths of names.
  static const std::regex spaces("\\s+");
  const std::string words = std::regex_replace(text, spaces, " ");
  static const std::regex by_signal(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+) \(([^)]*)\))");
  static const std::regex by_code(
      R"(exited with non-zero status.*Process name: \[\[\d+,\d+\],(\d+)\] Exit code: (\d+))");
  static const std::regex lost_host(
      R"(lost communication with a remote daemon.*Remote daemon: \[\[\d+,\d+\],\d+\] on node (\S+))");
  std::smatch found;
  if (std::regex_search(words, found, by_signal)) {
    const std::string rank = found[1], host = found[2];
    return Learned{Cause{fmt::format("rank {} on {}: ended by signal {} ({})", rank, host,
                                     found[3].str(), found[4].str()),
                         std::stoi(rank), host}};
  }
  if (std::regex_search(words, found, by_code)) {
    const std::string rank = found[1];
    return Learned{
        Cause{fmt::format("error: rank {} ended with exit code {}", rank, found[2].str()),
              std::stoi(rank), ""}};
  }
  if (std::regex_search(words, found, lost_host)) {
    const std::string host = found[1];
    return Learned{
        Cause{fmt::format("error: the connection to {} was lost", host), std::nullopt, host}};
  }
  for (const char* known :
       {"MPI_ABORT was invoked on rank ", "Primary job terminated normally, but"})
    if (words.find(known) != std::string::npos) return Learned{};
  return std::nullopt;
}

}  // namespace

Cause parse_error_line(std::string_view line) {
  static const std::regex of_rank(R"(rank (\d{1,7}) on ([^ :]+): .*)");
  Cause cause{std::string(line), std::nullopt, ""};
  std::smatch found;
  if (std::regex_match(cause.line, found, of_rank)) {
    cause.rank = std::stoi(found[1]);
    cause.host = found[2];
  }
  return cause;
}

std::string LauncherText::pass(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes) {
    if (c == '\n') {
      finish_line(shown);
      continue;
    }
    line_ += c;
    if (leave_out_ && (is_in_paragraph_ || (shown_ == 0 && may_be_launchers(line_)))) continue;
    shown.append(line_, shown_);
    shown_ = line_.size();
    if (line_.size() > longest_line) {
      line_.clear();
      shown_ = 0;
    }
  }
  if (paragraph_.size() + line_.size() > longest_paragraph) shown += release();
  return shown;
}

void LauncherText::finish_line(std::string& shown) {
  const bool is_held = leave_out_ && shown_ == 0;
  if (is_in_paragraph_) {
    paragraph_ += line_ + '\n';
    if (!leave_out_) shown += line_.substr(shown_) + '\n';
    if (is_rule(line_)) finish_paragraph(shown);
  } else if (is_rule(line_) && (is_held || !leave_out_)) {
    is_in_paragraph_ = true;
    paragraph_ = line_ + '\n';
    if (!leave_out_) shown += line_.substr(shown_) + '\n';
  } else if (!is_held || !is_remark(line_)) {
    shown += line_.substr(shown_) + '\n';
    note_shown(line_);
  }
  line_.clear();
  shown_ = 0;
}

void LauncherText::note_shown(const std::string& line) {
  const std::string text = without_bar(line);
  is_error_last_ = processes::is_error_line(text);
  if (is_error_last_) error_ = parse_error_line(text);
  if (!learned_) learned_ = learn_from_srun(text);
}

// What was held back, without the last `left` bytes, is no paragraph of the launcher's.
std::string LauncherText::take_paragraph(std::size_t left) {
  const std::string text = paragraph_.substr(0, paragraph_.size() - left);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) note_shown(line);
  paragraph_.erase(0, text.size());
  return text;
}

void LauncherText::finish_paragraph(std::string& shown) {
  const auto learned = learn(paragraph_);
  if (!learned) {
    // Its last line may be the first one of the launcher's paragraph.
    const std::string text = take_paragraph(line_.size() + 1);
    if (leave_out_) shown += text;
    return;
  }
  if (learned->cause && !learned_) learned_ = learned->cause;
  if (!leave_out_) is_error_last_ = false;
  paragraph_.clear();
  is_in_paragraph_ = false;
}

std::string LauncherText::release() {
  std::string held = take_paragraph(0);
  if (!leave_out_) held.clear();
  if (leave_out_) held += line_.substr(shown_);
  is_in_paragraph_ = false;
  shown_ = line_.size();
  return held;
}

}  // namespace tasuki::supervisor
