#include "tools/supervisor/supervisor.hpp"

#include <signal.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "job/session_folder.hpp"
#include "tools/supervisor/mca_parameters.hpp"
#include "tools/supervisor/output_stream.hpp"
#include "training/output_folder.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr int lost_host = 205;  // ORTE's exit code
constexpr const char* nobody_reads = "nobody reads the output any more";

std::string describe(const std::optional<SavedState>& saved, const Program& program) {
  if (saved) return fmt::format("from {}, iteration {}", saved->path.string(), saved->iteration);
  if (const auto from = program.resumed_from())
    return fmt::format("from {} again, because nothing was saved", from->string());
  return "from the beginning, because nothing was saved";
}

RunFolder folder_of(const Program& program, const std::string& mark) {
  return {program.can_resume() ? program.out() : fs::path(), program.resumed_from(), mark};
}

// The state from which the first start resumes; it does not count as progress.
std::optional<SavedState> saved_before(const Program& program) {
  return program.can_resume() && program.resumes_by_itself() ? last_saved(program.out())
                                                             : std::nullopt;
}

}  // namespace

Supervisor::Supervisor(SupervisorSettings settings, Program program, Surroundings around,
                       const std::string& mark, const Signals& signals)
    : settings_(std::move(settings)),
      program_(std::move(program)),
      around_(std::move(around)),
      signals_(signals),
      stop_(program_.can_resume()),
      restarts_(program_.can_resume() || settings_.is_max_restarts_given ? settings_.max_restarts
                                                                         : 0),
      run_folder_(folder_of(program_, mark)),
      saved_(saved_before(program_)),
      hosts_(settings_, around_, program_, signals_, stop_, incidents_) {}

Launch Supervisor::next_launch() const {
  const std::vector<std::string> words =
      starts_ > 0 && folder_ ? program_.words_to_continue(*folder_, saved_.has_value())
                             : program_.words;
  return make_launch(settings_, around_, hosts_.placement(), program_, words);
}

std::string Supervisor::first_command() const {
  return next_launch().text();
}

int Supervisor::run() {
  if (!program_.is_known())
    say(fmt::format(
        "{} is not a program of Tasuki: signals are passed on to it, and {}",
        program_.words.front(),
        restarts_.most() == 0 ? "it is not restarted" : "it is restarted from the beginning"));
  for (;;) {
    JobEnd end = start_once();
    std::optional<int> exit_code;
    if (stop_.is_made())
      exit_code = stop_.exit_code(end.exit_code);
    else if (!prepare_restart(end))
      exit_code = stop_.is_made() ? 128 + stop_.signal() : end.exit_code;
    if (!exit_code) continue;
    say_end(end, *exit_code);
    return *exit_code;
  }
}

JobEnd Supervisor::start_once() {
  if (settings_.launcher == LauncherKind::mpirun)
    check_session_folder(session_of_job,
                         McaParameters(settings_.launcher_words, around_.mca_files, around_.runtime)
                             .find({"orte_tmpdir_base", "orte_local_tmpdir_base"}));
  const Launch launch = next_launch();
  ordered_json entries = {{"command", launch.text()}};
  entries.update(hosts_.entries());
  incidents_.add("start", entries);
  if (settings_.verbose) say(launch.text());
  has_spoken_ = false;
  const auto taken_before = run_folder_.taken_at();
  const JobWatch watch{[this] { note_folder(); },
                       [&] { return run_folder_.taken_at() != taken_before; },
                       [this](StopAction action, int signal) { say_stop(action, signal); }};
  JobEnd end =
      run_job_once(launch, !settings_.verbose, settings_.stop_timeout, signals_, stop_, watch);
  ++starts_;
  have_ranks_run_ = have_ranks_run_ || end.start_failure == StartFailure::none;
  note_folder();
  const bool has_finished = program_.can_resume() && run_folder_.has_finished();
  if (end.is_stuck && has_finished) {
    say("the run has finished; the launcher did not end and was killed");
    end.exit_code = 0;
  }
  if (end.has_lost_host && end.exit_code == 0 && !has_finished) end.exit_code = lost_host;
  return end;
}

void Supervisor::note_folder() {
  if (!program_.can_resume()) return;
  const auto found = run_folder_.find();
  if (!found || found == folder_) return;
  folder_ = found;
  incidents_.write_to(*folder_);
}

void Supervisor::say_stop(StopAction action, int signal) {
  const std::string name = signal == 0 ? "" : fmt::format("SIG{}", sigabbrev_np(signal));
  const std::string again = signal == SIGINT    ? "; Ctrl-C again ends it at once"
                            : signal == SIGTERM ? "; a second SIGTERM ends it at once"
                                                : "";
  const bool is_unread = signal == SIGPIPE;
  switch (action) {
    case StopAction::pass_on:
      return;
    case StopAction::none:
      if (again.empty()) return;
      say(fmt::format("the job is saving{}", again));
      has_spoken_ = true;
      return;
    case StopAction::save_and_stop:
      say(fmt::format("{}: the job saves and stops{}", is_unread ? nobody_reads : name, again));
      break;
    case StopAction::end_at_once:
      say(signal == 0 ? fmt::format("the job has not stopped within {} s{}; ending it",
                                    stop_.time_to_save(settings_.stop_timeout),
                                    stop_.signal() == SIGPIPE ? "" : " (--stop-timeout)")
          : is_unread ? fmt::format("{}: ending the job", nobody_reads)
                      : fmt::format("{} again: ending the job at once", name));
      break;
  }
  has_spoken_ = true;
  incidents_.add(action == StopAction::save_and_stop ? "stop" : "end_at_once", {{"signal", name}});
}

bool Supervisor::prepare_restart(JobEnd& end) {
  if (end.exit_code == 0) return false;
  const std::int64_t before = saved_ ? saved_->iteration : 0;
  saved_ = folder_ ? last_saved(*folder_) : std::nullopt;

  ordered_json entries = {{"exit_code", end.exit_code}};
  if (end.cause) entries["cause"] = end.cause->line;
  if (end.cause && end.cause->rank) entries["rank"] = *end.cause->rank;
  if (end.cause && !end.cause->host.empty()) entries["host"] = end.cause->host;
  entries.update(hosts_.entries());
  incidents_.add("failure", entries);
  if (!end.is_clean) {
    say("a process of the job cannot be killed (it waits in the kernel); giving up");
    has_spoken_ = true;
    return false;
  }
  // A saved state may not fit fewer ranks than saved it.
  const bool needs_all =
      end.exit_code == static_cast<int>(ErrorKind::config) && hosts_.require_all();
  if (needs_all) {
    say("the job cannot continue with fewer ranks; it restarts with all");
  } else if (is_final(end.exit_code) || is_refused(end) || is_unread() || !can_find_folder() ||
             !wait_before_restart(end, saved_ && saved_->iteration > before)) {
    return false;
  }
  if (!hosts_.choose_again() || !wait_until_folder_is_free(end) || is_unread()) return false;
  ordered_json next = {{"number", restarts_.count()},
                       {"most", restarts_.most()},
                       {"waited_seconds", needs_all ? 0 : restarts_.wait().count()}};
  if (saved_) {
    next["from"] = saved_->path.string();
    next["iteration"] = saved_->iteration;
  }
  next.update(hosts_.entries());
  incidents_.add("restart", next);
  return true;
}

bool Supervisor::wait_before_restart(const JobEnd& end, bool has_progressed) {
  const auto delay = restarts_.next(has_progressed);
  if (!delay) {
    if (restarts_.most() > 0) {
      say(fmt::format("giving up after {} restart{} without progress (--max-restarts)",
                      restarts_.most(), restarts_.most() == 1 ? "" : "s"));
      has_spoken_ = true;
    }
    return false;
  }
  // If a start did not reach its folder, the state from which the first start resumes still
  // applies.
  const auto saved = folder_ ? saved_ : saved_before(program_);
  const std::string from = program_.can_resume() ? ' ' + describe(saved, program_) : "";
  const std::string when = delay->count() == 0 ? "at once" : fmt::format("in {} s", delay->count());
  say(fmt::format("the job failed with exit code {}{}; restart {} of {} {}{}", end.exit_code,
                  end.cause ? fmt::format(" ({})", end.cause->line) : "", restarts_.count(),
                  restarts_.most(), when, from));
  has_spoken_ = true;
  return stop_.wait(signals_, *delay);
}

bool Supervisor::is_refused(const JobEnd& end) const {
  if (end.start_failure == StartFailure::refused) return true;
  if (end.start_failure == StartFailure::no_daemon) return is_daemon_missing(end.exit_code);
  return program_.can_resume() && !folder_ && !end.cause && is_launchers_refusal(end.exit_code);
}

bool Supervisor::is_unread() {
  if (!has_lost_reader(STDOUT_FILENO)) return false;
  say(fmt::format("{}; no restart", nobody_reads));
  has_spoken_ = true;
  incidents_.add("stop", {{"signal", "SIGPIPE"}});
  return true;
}

bool Supervisor::can_find_folder() {
  if (!program_.can_resume() || folder_ || !have_ranks_run_ || hosts_.is_rank_0_here() ||
      program_.resumes_by_itself())
    return true;
  say(
      fmt::format("no restart: this machine does not see {}, so the saved state is not known; "
                  "give --resume auto, or --out on a disk that all machines share",
                  program_.out().string()));
  has_spoken_ = true;
  return false;
}

bool Supervisor::wait_until_folder_is_free(JobEnd& end) {
  constexpr milliseconds look{100}, patience{1000};
  const auto begin = std::chrono::steady_clock::now();
  bool is_said = false;
  while (folder_ && OutputFolder::is_in_use(*folder_)) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    const std::string who = fmt::format("a process of the job ({}) still writes to {}",
                                        OutputFolder::holder(*folder_), folder_->string());
    if (waited.count() > settings_.host_timeout) {
      end.exit_code = static_cast<int>(ErrorKind::cannot_write);
      end.cause = parse_error_line(fmt::format(
          "error: {} after {} s (--host-timeout); end it first", who, settings_.host_timeout));
      has_spoken_ = true;
      return false;
    }
    if (!is_said && waited > patience) {
      say(fmt::format("{}; waiting for its end at most {} s (--host-timeout)", who,
                      settings_.host_timeout));
      is_said = true;
    }
    if (!stop_.wait(signals_, look)) return false;
  }
  return true;
}

std::string Supervisor::way_to_go_on() const {
  return folder_ && last_saved(*folder_)
             ? fmt::format("continue with --out {} --resume auto", quoted(folder_->string()))
             : "";
}

void Supervisor::say_end(const JobEnd& end, int exit_code) {
  incidents_.add("end", {{"exit_code", exit_code}, {"starts", starts_}});
  if (exit_code == 0) {
    if (starts_ > 1) say(fmt::format("finished after {} starts", starts_));
    return;
  }
  const bool is_unread = stop_.signal() == SIGPIPE;  // already reported
  const std::string way = way_to_go_on();
  if (stop_.is_made() && exit_code != end.exit_code && program_.can_resume()) {
    if (is_unread && way.empty()) return;
    say(fmt::format("ended by SIG{}; {}", sigabbrev_np(stop_.signal()),
                    way.empty() ? "nothing was saved" : way));
    return;
  }
  const bool ends_alike =
      is_final(exit_code) && exit_code != static_cast<int>(ErrorKind::cannot_write);
  if (!way.empty() && !ends_alike) {
    say(way);
    has_spoken_ = true;
  }
  if (is_unread && !end.cause) return;
  if (exit_code == static_cast<int>(ErrorKind::stopped)) return;  // the program has reported it
  if (end.is_cause_last && !has_spoken_) return;
  const std::string launcher = fs::path(around_.mpirun).filename();
  const std::string line =
      end.cause ? end.cause->line
      : is_refused(end)
          ? fmt::format("error: {} could not start the ranks (exit code {}); see its message above",
                        launcher, exit_code)
          : fmt::format("error: {} ended with exit code {}", program_.words.front(), exit_code);
  error_output().write(line + '\n');
}

}  // namespace tasuki::supervisor
