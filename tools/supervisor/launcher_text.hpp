// mpirun's own text on standard error: finds the parts that hide a rank's error, and interprets
// them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/supervisor/launcher_failure.hpp"

namespace tasuki::supervisor {

// Passes a stream through and learns from it why the job ended. mpirun frames its paragraphs with
// lines of dashes. Paragraphs that say no more than the cause are
// left out, and so are mpirun's remarks about them. All other bytes are passed unchanged, and at
// once unless they may belong to such a paragraph. Without `leave_out` nothing is held back.
class LauncherText {
 public:
  // `have_ranks_run`: whether a rank is known to have run. If not, mpirun's text about a daemon has
  // another meaning.
  explicit LauncherText(
      bool leave_out, std::function<bool()> have_ranks_run = [] { return false; })
      : leave_out_(leave_out), have_ranks_run_(std::move(have_ranks_run)) {}

  // The part of the stream to show now.
  std::string pass(std::string_view bytes);
  // Text that was held back, to be shown after all when mpirun has paused or at the end of the
  // stream.
  std::string release();
  bool is_holding() const { return leave_out_ && (is_in_paragraph_ || shown_ < line_.size()); }

  // The last error line of a rank, or else mpirun's text about the first failure.
  std::optional<Cause> cause() const { return error_ ? error_ : learned_; }
  // The last host that ssh said it could not reach, whoever called it.
  const std::optional<Cause>& unreached() const { return unreached_; }
  // Whether that line was the last one shown.
  bool is_cause_last() const { return error_ && is_error_last_; }
  // Why the launcher did not start the ranks, if it said so.
  StartFailure start_failure() const { return start_failure_; }
  // Whether its daemon on a host did not start, or was lost. PRRTE may end with 0 all the same.
  bool has_lost_host() const { return has_lost_host_; }

 private:
  void finish_line(std::string& shown);
  void note_shown(const std::string& line);
  void note(const LauncherFailure& failure);
  std::string take_paragraph(std::size_t left);
  void finish_paragraph(std::string& shown);

  bool leave_out_;
  std::function<bool()> have_ranks_run_;
  std::string line_;       // the current one, without its end
  std::size_t shown_ = 0;  // bytes of it that were shown
  bool is_in_paragraph_ = false;
  std::string paragraph_;            // including the line that began it
  bool is_after_paragraph_ = false;  // where PRRTE leaves a zero byte
  std::optional<Cause> error_, learned_;
  std::optional<Cause> unreached_;  // the last host that ssh could not reach
  StartFailure start_failure_ = StartFailure::none;
  bool is_error_last_ = false;
  bool has_lost_host_ = false;
};

}  // namespace tasuki::supervisor
