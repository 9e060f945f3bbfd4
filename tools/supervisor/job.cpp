#include "tools/supervisor/job.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/job_process.hpp"
#include "core/process_state.hpp"
#include "tools/processes/children.hpp"
#include "tools/supervisor/incidents.hpp"
#include "tools/supervisor/launcher_files.hpp"
#include "tools/supervisor/launcher_stream.hpp"
#include "tools/supervisor/output_stream.hpp"
#include "tools/supervisor/stuck_launcher.hpp"

namespace tasuki::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds tick{1};           // of JobWatch::meanwhile
constexpr std::chrono::milliseconds pause{300};   // mpirun's longest within a paragraph
constexpr std::chrono::milliseconds early{100};   // between looks at a launcher that starts
constexpr std::chrono::seconds launchers_end{5};  // the launcher's time after SIGTERM

pid_t start(const Launch& launch, int output, int errors) {
  for (const auto& [name, value] : launch.environment) setenv(name.c_str(), value.c_str(), 1);
  setenv(job_age_variable, fmt::format("{:.3f}", process_age()).c_str(), 1);
  // Only the foreground may read from a terminal.
  const bool reads = launch.reads_input && isatty(STDIN_FILENO) == 0;
  const int in = reads ? STDIN_FILENO : processes::open_nothing();
  const pid_t launcher = processes::start_process(launch.words, {in, output, errors}, SIGTERM);
  if (in != STDIN_FILENO) close(in);
  return launcher;
}

class RunningJob {
 public:
  RunningJob(const Launch& launch, bool leave_out, double stop_timeout, const Signals& signals,
             StopRequest& stop, const JobWatch& watch)
      : text_(leave_out, watch.have_ranks_run),
        stop_timeout_(stop_timeout),
        signals_(signals),
        stop_(stop),
        watch_(watch),
        launcher_name_(std::filesystem::path(launch.words.front()).filename()),
        has_other_hosts_(launch.has_other_hosts),
        output_(launch.passes_output && pipe_or_socket(STDOUT_FILENO) >= 0
                    ? std::make_unique<LauncherStream>(STDOUT_FILENO)
                    : nullptr),
        launcher_(start(launch, output_ ? output_->writer() : STDOUT_FILENO, errors_.writer())),
        end_(launcher_) {
    errors_.close_writer();
    if (output_) output_->close_writer();
  }

  JobEnd wait() {
    std::optional<int> status;
    while (!(status = processes::reap(launcher_))) {
      OutputStream& shown = error_output();
      const bool is_read = is_open_ && !shown.is_full();
      const bool is_output_read = output_ && !standard_output().is_full();
      std::array<pollfd, 6> arrivals = {pollfd{signals_.descriptor(), POLLIN, 0},
                                        pollfd{is_read ? errors_.reader() : -1, POLLIN, 0},
                                        pollfd{shown.awaited(), POLLOUT, 0},
                                        pollfd{reader_of_output_, 0, 0},
                                        pollfd{is_output_read ? output_->reader() : -1, POLLIN, 0},
                                        pollfd{standard_output().awaited(), POLLOUT, 0}};
      const auto longest = end_.note_ready() ? pause : early;
      poll(arrivals.data(), arrivals.size(), static_cast<int>(longest.count()));
      if (arrivals[2].revents != 0) shown.flush();
      if (arrivals[5].revents != 0) standard_output().flush();
      if (arrivals[4].revents != 0) pass_output();
      if (arrivals[1].revents != 0) pass_errors();
      while (const int signal = signals_.next()) answer(signal);
      if (arrivals[3].revents != 0) {
        reader_of_output_ = -1;  // once is enough
        answer(SIGPIPE);
      }
      keep_time();
    }
    const bool is_clean = processes::end_orphans();  // mainly ranks, if the launcher was killed
    const int exit_code = processes::exit_code_of(*status);
    if (exit_code > 128) remove_files_of(launcher_);
    while (pass_output()) {
    }
    pass_errors();
    error_output().write(text_.release());
    std::optional<Cause> cause = text_.cause();
    if (!cause && WIFSIGNALED(*status))
      cause = is_stuck_ ? stuck_launcher() : end_of_launcher(WTERMSIG(*status));
    StartFailure failure = text_.start_failure();
    if (has_given_up_ && text_.unreached()) {
      cause = text_.unreached();
      failure = StartFailure::no_daemon;
    }
    return {exit_code, cause,   text_.is_cause_last(), failure, text_.has_lost_host(),
            is_stuck_, is_clean};
  }

 private:
  Cause end_of_launcher(int signal) const {
    const char* const name = sigdescr_np(signal);
    return parse_error_line(fmt::format("error: {} was ended by signal {} ({})", launcher_name_,
                                        signal, name == nullptr ? "unknown" : name));
  }

  Cause stuck_launcher() const {
    return parse_error_line(
        fmt::format("error: {} had not ended {} s after its ranks; it was killed", launcher_name_,
                    StuckLauncher::limit));
  }

  bool launcher_catches(int signal) const {
    const auto state = process_state(launcher_);
    return state && state->catches(signal);
  }

  void pass_errors() {
    std::string bytes;
    is_open_ = is_open_ && errors_.read(bytes);
    if (bytes.empty()) return;
    last_bytes_ = Clock::now();
    error_output().write(text_.pass(bytes));
    const bool will_fail = text_.unreached() || text_.start_failure() == StartFailure::refused;
    if (has_other_hosts_ && !has_printed_ && will_fail && !give_up_at_)
      give_up_at_ = last_bytes_ + launchers_end;
  }

  // Whether there was some.
  bool pass_output() {
    std::string bytes;
    if (output_ && !output_->read(bytes)) output_.reset();
    has_printed_ = has_printed_ || !bytes.empty();
    standard_output().write(bytes);
    return !bytes.empty();
  }

  void answer(int signal) {
    if (signal == SIGWINCH) errors_.follow_size();
    if (signal == SIGTSTP) pause_job();
    if (signal == SIGWINCH || signal == SIGCHLD || signal == SIGTSTP) return;
    const StopAction action = stop_.on_signal(signal);
    if (signal != SIGUSR2) watch_.on_stop(action, signal);
    switch (action) {
      case StopAction::none:
        break;
      case StopAction::save_and_stop:
        stop_until_ = Clock::now() + to_duration(stop_.time_to_save(stop_timeout_));
        ask_to_save();
        break;
      case StopAction::end_at_once:
        if (kill_at_) kill(-launcher_, SIGKILL);
        end();
        break;
      case StopAction::pass_on:
        if (signal == SIGUSR2)
          ask_for_table();
        else
          kill(launcher_, signal);
        break;
    }
  }

  // Repeatedly, because mpirun drops the signal until it has ranks. (Ranks take repeated signals as
  // one request.)
  void ask_to_save() {
    kill(launcher_, SIGUSR1);
    ask_again_at_ = Clock::now() + tick;
  }

  // SIGUSR2 would end an mpirun that is not yet ready for it. Hydra does not pass it on, but the
  // ranks of this host answer it, too.
  void ask_for_table() {
    if (launcher_catches(SIGUSR2)) {
      kill(launcher_, SIGUSR2);
      return;
    }
    for (const pid_t each : descendants(launcher_))
      if (const auto state = process_state(each); state && state->catches(SIGUSR2))
        kill(each, SIGUSR2);
  }

  // Ctrl-Z, which reaches this process alone. mpirun stops its ranks on all hosts but keeps
  // running; MPICH's mpiexec does not know the signal.
  void pause_job() {
    const bool knows = launcher_catches(SIGTSTP);
    if (!knows && has_other_hosts_) {
      say(fmt::format("{} cannot stop ranks on other hosts: the job goes on", launcher_name_));
      return;
    }
    const auto signal_all = [&](int signal) {
      kill(launcher_, signal);
      if (knows) return;
      for (const pid_t each : descendants(launcher_)) kill(each, signal);
    };
    signal_all(knows ? SIGTSTP : SIGSTOP);
    const auto begin = Clock::now();
    raise(SIGSTOP);
    signal_all(SIGCONT);
    for (auto* end : {&stop_until_, &kill_at_})
      if (*end) **end += Clock::now() - begin;
  }

  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void end() {
    kill(launcher_, SIGTERM);
    stop_until_.reset();
    ask_again_at_.reset();
    if (!kill_at_) kill_at_ = Clock::now() + launchers_end;
  }

  void keep_time() {
    const auto now = Clock::now();
    if (text_.is_holding() && now - last_bytes_ > pause) error_output().write(text_.release());
    if (stop_until_ && now > *stop_until_) {
      watch_.on_stop(StopAction::end_at_once, 0);
      end();
    }
    // A launcher that is about to end has removed its handler.
    if (ask_again_at_ && now > *ask_again_at_ && launcher_catches(SIGUSR1)) ask_to_save();
    // MPICH's mpiexec (4.0, 4.3) waits forever for a host that ssh cannot reach, or that lacks the
    // program.
    if (give_up_at_ && now > *give_up_at_ && !kill_at_ && !watch_.have_ranks_run()) {
      has_given_up_ = true;
      end();
    }
    // mpirun waits without a limit for hosts that it cannot reach.
    if (kill_at_ && now > *kill_at_) kill(-launcher_, SIGKILL);
    if (now < next_tick_) return;
    // mpirun waits for this process or for the reader of standard output, too, while it prints.
    if (end_.is_stuck(!error_output().is_full() && !standard_output().is_full() &&
                      has_room(STDOUT_FILENO))) {
      is_stuck_ = true;
      kill(-launcher_, SIGKILL);
    }
    is_marked_ = is_marked_ || mark_files_of(launcher_);
    next_tick_ = now + tick;
    watch_.meanwhile();
  }

  LauncherStream errors_{STDERR_FILENO};
  LauncherText text_;
  double stop_timeout_;
  const Signals& signals_;
  StopRequest& stop_;
  const JobWatch& watch_;
  std::string launcher_name_;
  bool has_other_hosts_;
  std::unique_ptr<LauncherStream> output_;  // null: the launcher writes it, or has closed it
  pid_t launcher_;
  StuckLauncher end_;
  bool is_stuck_ = false;
  bool has_printed_ = false;   // on a standard output that passes through here
  bool has_given_up_ = false;  // waiting for a host that cannot start its ranks
  int reader_of_output_ = pipe_or_socket(STDOUT_FILENO);  // until it is known to be lost
  bool is_open_ = true;
  bool is_marked_ = false;  // the launcher's files
  Clock::time_point last_bytes_, next_tick_ = Clock::now() + tick;
  std::optional<Clock::time_point> stop_until_, ask_again_at_, kill_at_, give_up_at_;
};

}  // namespace

JobEnd run_job_once(const Launch& launch, bool leave_out_launchers_text, double stop_timeout,
                    const Signals& signals, StopRequest& stop, const JobWatch& watch) {
  return RunningJob(launch, leave_out_launchers_text, stop_timeout, signals, stop, watch).wait();
}

}  // namespace tasuki::supervisor
