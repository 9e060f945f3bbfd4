#include "supervisor/supervisor.hpp"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options/parsers.hpp>

#include "supervisor/output_stream.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/training/output_folder.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds longest_answer{10};  // of a host that is asked
constexpr milliseconds asked_again{5000};
constexpr seconds longest_lock{30};  // that a job which has ended may still hold

std::vector<Host> read_hosts(const Settings& settings) {
  if (!settings.hostfile) return {};
  return parse_hostfile(read_file(*settings.hostfile), *settings.hostfile);
}

std::vector<std::string> names_in(const std::vector<Host>& hosts) {
  std::vector<std::string> names(hosts.size());
  std::ranges::transform(hosts, names.begin(), &Host::name);
  return names;
}

bool is_among(const Host& host, const std::vector<Host>& hosts) {
  return std::ranges::find(hosts, host.name, &Host::name) != hosts.end();
}

std::optional<int> as_int(std::optional<std::int64_t> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string describe(const std::optional<SavedState>& saved) {
  if (!saved) return "from the beginning, as nothing was saved";
  return fmt::format("from {}, iteration {}", saved->path.string(), saved->iteration);
}

RunFolder folder_of(const Program& program, const std::string& mark) {
  return {program.can_resume() ? program.out() : fs::path(), program.resumed_from(), mark};
}

}  // namespace

Supervisor::Supervisor(Settings settings, Program program, Surroundings around,
                       const std::string& mark, const Signals& signals)
    : settings_(std::move(settings)),
      program_(std::move(program)),
      around_(std::move(around)),
      signals_(signals),
      stop_(program_.can_resume()),
      restarts_(program_.can_resume() || settings_.is_max_restarts_given ? settings_.max_restarts
                                                                         : 0),
      run_folder_(folder_of(program_, mark)),
      all_hosts_(read_hosts(settings_)),
      hosts_(all_hosts_),
      np_(settings_.np ? as_int(settings_.np) : default_np(around_, all_hosts_)),
      present_np_(np_) {
  if (settings_.min_np && np_ && *settings_.min_np > *np_)
    fail(ErrorKind::usage, "--min-np: expected at most the {} ranks of the first start, found {}",
         *np_, *settings_.min_np);
}

Supervisor::~Supervisor() {
  forget_own_hostfile();
}

Launch Supervisor::next_launch() const {
  const std::string hostfile =
      !own_hostfile_.empty() ? own_hostfile_ : settings_.hostfile.value_or("");
  const std::vector<std::string> words =
      starts_ > 0 && folder_ ? program_.words_to_continue(*folder_, saved_.has_value())
                             : program_.words;
  return make_launch(settings_, around_, place(around_, present_np_, hosts_, hostfile), words);
}

std::string Supervisor::first_command() const {
  return next_launch().text();
}

int Supervisor::run() {
  if (settings_.min_np && np_ && *settings_.min_np < *np_ && program_.can_resume() &&
      !(program_.shards() && program_.keeps_global_batch()))
    say("warning: --min-np: without --shards and --global-batch a run can go on with fewer ranks "
        "only from the end of an epoch, and its global batch changes");
  for (;;) {
    const JobEnd end = start_once();
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
  const Launch launch = next_launch();
  ordered_json entries = {{"command", launch.text()}};
  entries.update(placement_entries());
  incidents_.add("start", entries);
  if (settings_.verbose) say(launch.text());
  has_spoken_ = false;
  const JobWatch watch{[this] { note_folder(); },
                       [this](StopAction action, int signal) { say_stop(action, signal); }};
  const JobEnd end =
      run_job_once(launch, !settings_.verbose, settings_.stop_timeout, signals_, stop_, watch);
  ++starts_;
  note_folder();
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
  switch (action) {
    case StopAction::pass_on:
      return;
    case StopAction::none:
      if (signal == SIGINT)
        say("the job is saving; Ctrl-C again ends it at once");
      else if (signal == SIGTERM)
        say("the job is saving; a second SIGTERM ends it at once");
      has_spoken_ = true;
      return;
    case StopAction::save_and_stop:
      say(fmt::format("{}: the job saves and stops{}", name,
                      signal == SIGINT    ? "; Ctrl-C again ends it at once"
                      : signal == SIGTERM ? "; a second SIGTERM ends it at once"
                                          : ""));
      break;
    case StopAction::end_at_once:
      say(signal == 0
              ? fmt::format("the job has not stopped within {} s (--stop-timeout); ending it",
                            settings_.stop_timeout)
              : fmt::format("{} again: ending the job at once", name));
      break;
  }
  has_spoken_ = true;
  incidents_.add(action == StopAction::save_and_stop ? "stop" : "end_at_once", {{"signal", name}});
}

bool Supervisor::prepare_restart(const JobEnd& end) {
  if (end.exit_code == 0) return false;
  const fs::path before = saved_ ? saved_->path : fs::path();
  saved_ = folder_ ? last_saved(*folder_) : std::nullopt;

  ordered_json entries = {{"exit_code", end.exit_code}};
  if (end.cause) entries["cause"] = end.cause->line;
  if (end.cause && end.cause->rank) entries["rank"] = *end.cause->rank;
  if (end.cause && !end.cause->host.empty()) entries["host"] = end.cause->host;
  entries.update(placement_entries());
  incidents_.add("failure", entries);
  if (is_final(end.exit_code)) return false;

  const auto delay = restarts_.next(saved_ && saved_->path != before);
  if (!delay) {
    if (restarts_.most() > 0) {
      say(fmt::format("giving up after {} restarts without progress (--max-restarts)",
                      restarts_.most()));
      has_spoken_ = true;
    }
    return false;
  }
  const std::string from = program_.can_resume() ? ' ' + describe(saved_) : "";
  say(fmt::format("the job failed with exit code {}{}; restart {} of {} in {} s{}", end.exit_code,
                  end.cause ? fmt::format(" ({})", end.cause->line) : "", restarts_.count(),
                  restarts_.most(), delay->count(), from));
  has_spoken_ = true;
  if (!wait(*delay) || !choose_hosts() || !wait_until_folder_is_free()) return false;
  ordered_json next = {{"number", restarts_.count()},
                       {"most", restarts_.most()},
                       {"waited_seconds", delay->count()}};
  if (saved_) {
    next["from"] = saved_->path.string();
    next["iteration"] = saved_->iteration;
  }
  next.update(placement_entries());
  incidents_.add("restart", next);
  return true;
}

bool Supervisor::wait(milliseconds time) {
  const std::optional<int> signal = signals_.wait_for_stop(time);
  if (signal) stop_.on_signal(*signal);
  return !signal;
}

bool Supervisor::wait_until_folder_is_free() {
  constexpr milliseconds look{100};
  milliseconds waited{0};
  for (; folder_ && OutputFolder::is_in_use(*folder_) && waited < longest_lock; waited += look) {
    if (waited == 10 * look)
      say(fmt::format("a process of the job still writes to {}; waiting for its end at most {} s",
                      folder_->string(), longest_lock.count()));
    if (!wait(look)) return false;
  }
  return true;
}

void Supervisor::note_hosts(const std::vector<Host>& good) {
  for (const Host& host : all_hosts_) {
    const bool was_good = is_among(host, hosts_), is_good = is_among(host, good);
    if (was_good == is_good) continue;
    say(is_good ? fmt::format("{} answers again", host.name)
                : fmt::format("{} does not answer and is left out", host.name));
    incidents_.add(is_good ? "host_back" : "host_lost", {{"host", host.name}});
  }
}

void Supervisor::take_hosts(const std::vector<Host>& good, int np) {
  note_hosts(good);
  hosts_ = good;
  if (np_ && np != *present_np_) {
    std::string batch;
    if (program_.can_resume() && !program_.keeps_global_batch())
      batch = ", and so another global batch (--global-batch would keep it)";
    say(fmt::format("{} rank{} instead of {} on {}{}", np, np == 1 ? "" : "s", *present_np_,
                    names_of(hosts_), batch));
    present_np_ = np;
  }
  if (hosts_.size() == all_hosts_.size()) return forget_own_hostfile();
  own_hostfile_ = fs::temp_directory_path() / fmt::format("tasuki-run-{}-hosts", getpid());
  write_file(own_hostfile_, hostfile_text(hosts_));
}

void Supervisor::forget_own_hostfile() {
  if (!own_hostfile_.empty()) unlink(own_hostfile_.c_str());
  own_hostfile_.clear();
}

bool Supervisor::choose_hosts() {
  if (all_hosts_.empty()) return true;
  const auto words = boost::program_options::split_unix(settings_.mpirun_args.value_or(""));
  const int least = static_cast<int>(settings_.min_np.value_or(np_.value_or(0)));
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(settings_.host_timeout);
  for (bool is_first = true;; is_first = false) {
    int signal = 0;
    const auto good = answering(all_hosts_, remote_shell(words), longest_answer, signals_, signal);
    if (!good) {
      stop_.on_signal(signal);
      return false;
    }
    const bool are_all = good->size() == all_hosts_.size();
    const int np =
        !np_ || good->empty() ? 0 : ranks_on(*good, all_hosts_, *np_, program_.shards(), least);
    if (are_all || np > 0) {
      take_hosts(*good, are_all ? np_.value_or(0) : np);
      return true;
    }
    std::vector<Host> lost;
    std::ranges::copy_if(all_hosts_, std::back_inserter(lost),
                         [&](const Host& host) { return !is_among(host, *good); });
    if (is_first) {
      say(fmt::format("waiting for {} at most {} s (--host-timeout)", names_of(lost),
                      settings_.host_timeout));
      incidents_.add("waiting_for_hosts", {{"hosts", names_in(lost)}});
    }
    if (std::chrono::steady_clock::now() > end) {
      say(fmt::format("giving up: {} did not answer within {} s", names_of(lost),
                      settings_.host_timeout));
      return false;
    }
    if (!wait(asked_again)) return false;
  }
}

void Supervisor::say_end(const JobEnd& end, int exit_code) {
  incidents_.add("end", {{"exit_code", exit_code}, {"starts", starts_}});
  if (exit_code == 0) {
    if (starts_ > 1) say(fmt::format("finished after {} starts", starts_));
    return;
  }
  if (stop_.is_made() && exit_code != end.exit_code && program_.can_resume()) {
    const bool has_saved = folder_ && last_saved(*folder_);
    say(fmt::format("ended by SIG{}{}", sigabbrev_np(stop_.signal()),
                    has_saved
                        ? fmt::format("; continue with --out {} --resume auto", folder_->string())
                        : "; nothing was saved"));
    return;
  }
  if (exit_code == static_cast<int>(ErrorKind::stopped)) return;  // the program has said it
  if (end.is_cause_last && !has_spoken_) return;
  const std::string line = end.cause ? end.cause->line
                                     : fmt::format("error: {} ended with exit code {}",
                                                   program_.words.front(), exit_code);
  error_output().write(line + '\n');
}

ordered_json Supervisor::placement_entries() const {
  ordered_json entries = ordered_json::object();
  if (present_np_) entries["np"] = *present_np_;
  if (!hosts_.empty()) entries["hosts"] = names_in(hosts_);
  return entries;
}

}  // namespace tasuki::supervisor
