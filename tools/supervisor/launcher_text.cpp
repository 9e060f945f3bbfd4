#include "tools/supervisor/launcher_text.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>

#include "tools/processes/error_line.hpp"

namespace tasuki::supervisor {
namespace {

constexpr std::size_t longest_paragraph = 8192, longest_line = 8192, longest_remark = 200,
                      shortest_rule = 60;

bool is_rule(std::string_view line) {
  return line.size() >= shortest_rule && line.size() <= longest_remark &&
         line.find_first_not_of('-') == std::string_view::npos;
}

constexpr std::string_view forwarding = "mpirun: Forwarding signal ";

// The beginnings of Hydra's lines. What it says of ranks that died comes on standard output.
constexpr std::array<std::string_view, 2> hydras = {"[mpiexec@", "[proxy:"};

// Hydra's way from a failure to its end, one line for each function.
bool is_hydras_trace(const std::string& line) {
  static const std::regex trace(
      R"(\[(mpiexec|proxy:[\d:]+)@[\w.-]+\] \w+ \([^)]*:\d+\): )"
      R"((.*returned error( status)?|.*error waiting for event|error parsing .*)"
      R"(|assert \(!closed\) failed|process manager error waiting for completion)"
      R"(|unable to (parse user arguments|write data to proxy|send signal downstream))"
      R"(|write error \(Bad file descriptor\)|check exit codes error|poll for event error))");
  return std::regex_match(line, trace);
}

// "[node1:04711] 3 more processes have sent help message ...", or that such a message got lost; or
// that PRRTE came too late to move a daemon into a process group, which the daemon does itself.
bool is_remark(const std::string& line) {
  if (line.starts_with(forwarding) && line.ends_with(" to job")) return true;
  if (is_hydras_trace(line)) return true;
  static const std::regex remark(
      R"(\[[\w.-]+:\d+\] (\d+ more process(es)? ha(s|ve) sent help message )"
      R"(|Set MCA parameter "orte_base_help_aggregate" to 0)"
      R"(|\[\[\d+,\d+\],\d+\] ORTE_ERROR_LOG: .*show_help\.c )"
      R"(|plm:ssh: Warning: setpgid\().*)");
  return line.size() <= longest_remark && std::regex_match(line, remark);
}

// Whether a line with this beginning may become a rule (of dashes) or a remark.
bool may_be_launchers(std::string_view line) {
  if (line.size() > longest_remark) return false;
  if (line.find_first_not_of('-') == std::string_view::npos) return true;
  const auto may_be = [line](std::string_view begin) {
    return begin.starts_with(line.substr(0, begin.size()));
  };
  if (may_be(forwarding) || std::ranges::any_of(hydras, may_be)) return true;
  if (line.front() != '[') return false;
  const auto end = line.find(']');
  const std::string_view name = line.substr(1, end == line.npos ? line.npos : end - 1);
  const bool is_name = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':';
  });
  if (!is_name || end == line.npos) return is_name;
  constexpr std::array<std::string_view, 2> remarks = {" Set MCA parameter ",
                                                       " plm:ssh: Warning: setpgid("};
  const std::string_view rest = line.substr(end + 1);
  const bool may_follow =
      rest.size() < 2 || rest[1] == '[' || std::isdigit(static_cast<unsigned char>(rest[1])) != 0;
  return (rest.empty() || rest.front() == ' ') &&
         (may_follow || std::ranges::any_of(remarks, [&](std::string_view remark) {
            return remark.starts_with(rest.substr(0, remark.size()));
          }));
}

// The line as a terminal shows it after an erased progress bar.
std::string without_bar(std::string line) {
  while (line.ends_with('\r')) line.pop_back();
  if (const auto begin = line.rfind('\r'); begin != std::string::npos) line.erase(0, begin + 1);
  if (constexpr std::string_view erase = "\033[J"; line.starts_with(erase))
    line.erase(0, erase.size());
  return line;
}

}  // namespace

std::string LauncherText::pass(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes) {
    const bool is_zero_after_paragraph = is_after_paragraph_ && c == '\0';
    is_after_paragraph_ = false;
    if (is_zero_after_paragraph) {
      if (!leave_out_) shown += c;
      continue;
    }
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
  if (const auto unreached = parse_ssh_line(text)) {
    unreached_ = unreached;
    if (start_failure_ == StartFailure::no_daemon)
      learned_ = unreached;  // Intel's text came before
  }
  auto failure = parse_launcher_line(text);
  if (!failure) return;
  if (failure->start == StartFailure::no_daemon && !failure->cause) failure->cause = unreached_;
  note(*failure);
}

void LauncherText::note(const LauncherFailure& failure) {
  if (failure.start != StartFailure::none) start_failure_ = failure.start;
  if (failure.cause && !learned_) learned_ = failure.cause;
}

// Releases the held text, except the last `left` bytes: it is not a paragraph of the launcher's.
std::string LauncherText::take_paragraph(std::size_t left) {
  std::string text = paragraph_.substr(0, paragraph_.size() - left);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) note_shown(line);
  paragraph_.erase(0, text.size());
  return text;
}

void LauncherText::finish_paragraph(std::string& shown) {
  auto failure = parse_paragraph(paragraph_);
  if (!failure) {
    // Its last line may be the first one of the launcher's paragraph.
    const std::string text = take_paragraph(line_.size() + 1);
    if (leave_out_) shown += text;
    return;
  }
  has_lost_host_ = has_lost_host_ || failure->start == StartFailure::no_daemon;
  if (failure->start == StartFailure::no_daemon && have_ranks_run_()) {
    failure = lost_daemon(failure->cause->host);
  } else if (failure->start == StartFailure::no_daemon && unreached_) {
    failure->cause = unreached_;
    failure->says_more = false;
  }
  note(*failure);
  if (leave_out_ && failure->says_more) shown += paragraph_;
  if (!leave_out_ || failure->says_more) is_error_last_ = false;
  paragraph_.clear();
  is_in_paragraph_ = false;
  is_after_paragraph_ = true;
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
