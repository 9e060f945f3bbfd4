#include "job/watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "communicator/mpi/ranks.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process_state.hpp"
#include "core/stopwatch.hpp"
#include "core/terminal.hpp"
#include "job/job_failure.hpp"
#include "job/launcher.hpp"
#include "job/signals.hpp"
#include "job/stall_text.hpp"

namespace tasuki {
namespace {

// Factor of the limit that ends a job, if the stall may be work.
constexpr double patience_with_work = 6;

// The limits, and what wakes the threads that use them.
std::mutex mutex;
StallLimits set_limits;
std::vector<int> wakes;

void wake_all() {
  for (const int wake : wakes) eventfd_write(wake, 1);
}

// Where to print while the launcher is stopped: what ranks print goes through it and waits there.
// Not to a regular file, which the launcher would overwrite later.
bool write_beside(pid_t launcher, std::string_view line) {
  const int file = open(fmt::format("/proc/{}/fd/2", launcher).c_str(),
                        O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status {};
  if (fstat(file, &status) != 0 || S_ISREG(status.st_mode)) {
    close(file);
    return false;
  }
  // False for a terminal whose foreground is another job, and for a pipe without reader.
  sigset_t trouble, before;
  sigemptyset(&trouble);
  sigaddset(&trouble, SIGTTOU);
  sigaddset(&trouble, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &trouble, &before);
  const bool is_written = write(file, line.data(), line.size()) == std::ssize(line);
  constexpr timespec at_once{};
  sigtimedwait(&trouble, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(file);
  return is_written;
}

}  // namespace

void set_stall_limits(const StallLimits& limits) {
  const std::lock_guard lock(mutex);
  set_limits = limits;
  wake_all();
}

StallLimits stall_limits() {
  const std::lock_guard lock(mutex);
  return set_limits;
}

// The caller holds the mutex.
Watchdog::Limits Watchdog::present_limits() {
  return {set_limits.warning, set_limits.timeout, set_limits.timeout == 0 ? 0 : set_limits.silence};
}

// Seconds between two checks.
double Watchdog::interval_of(const Limits& limits) {
  constexpr double shortest = 0.05, longest = 5, looks_within_limit = 8;
  double least = longest * looks_within_limit;
  for (const double limit : {limits.warning, limits.timeout, limits.silence})
    if (limit > 0) least = std::min(least, limit);
  return std::clamp(least / looks_within_limit, shortest, longest);
}

double Watchdog::missed_looks(const Limits& limits) {
  return std::max(3 * interval_of(limits), 0.5);
}

Watchdog::Watchdog(const MpiComm& job)
    : board_(job),
      heartbeats_(job, board_.ranks()),
      rank_(job.rank()),
      world_ranks_(world_ranks_of(job.get())),
      launcher_(launcher_process()),
      passes_no_signals_(was_started_by_hydra()) {
  for (const std::string& host : heartbeats_.hosts()) {
    ranks_.emplace_back();
    ranks_.back().host = host;
  }
  launchers_said_.resize(ranks_.size());
  for (const int rank : board_.ranks()) own_node_.push_back({.rank = rank});
  const auto look_now = [this] {
    const std::lock_guard lock(mutex);
    look(present_limits(), 0);
  };
  // So that other nodes have heard of this one, whatever happens to it.
  look_now();
  TASUKI_MPI(MPI_Barrier, job.get());
  look_now();
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  try {
    thread_ = std::thread([this] {
      try {
        run();
      } catch (...) {
        end_job(describe(std::current_exception()));
      }
    });
  } catch (const std::system_error& error) {
    log_warning("there is no watchdog for ranks that are stuck: {}", error.what());
  }
  {
    const std::lock_guard lock(mutex);
    wakes.push_back(wake_);
  }
  // A rank without this thread would be silent to the others.
  int everywhere = thread_.joinable() ? 1 : 0;
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_MIN, job.get());
  if (everywhere == 0) stop();
}

Watchdog::~Watchdog() {
  stop();
  board_.leave();
  // At the end of a job no rank waits for such news any more.
  if (is_mpi_running() && own_node_.size() < ranks_.size()) say_farewell();
  if (wake_ >= 0) close(wake_);
}

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
    wake_all();
    std::erase(wakes, wake_);
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::say_farewell() {
  // Datagrams may get lost, so this one is sent three times.
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(5),
                           std::chrono::milliseconds(20)}) {
    std::this_thread::sleep_for(pause);
    look_at_own_node();
    const auto own = std::ranges::find(own_node_, rank_, &RankActivity::rank);
    heartbeats_.send({own, 1});
  }
}

void Watchdog::run() {
  Stopwatch watch;
  double since_look = 0;
  std::unique_lock lock(mutex);
  while (!stopping_) {
    const Limits limits = present_limits();
    const double interval = interval_of(limits);
    lock.unlock();
    const double longest = std::min(interval - since_look, table_in_.value_or(interval));
    heartbeats_.wait(is_asked_ ? 0 : std::max(longest, 0.0), {wake_, table_request_wake()});
    eventfd_t ignored = 0;
    eventfd_read(wake_, &ignored);
    receive();
    const double passed = watch.lap();
    since_look += passed;
    const bool was_asked = table_in_.has_value();
    count_to_table(passed);
    const bool is_table_due = table_in_ && *table_in_ <= 0;
    if (since_look >= interval || table_in_.has_value() != was_asked || is_table_due || is_asked_) {
      // A process that was stopped, or waited long for a processor, has not seen whether others
      // made progress meanwhile.
      is_asked_ = false;  // look() may be asked again
      look(limits, std::min(since_look, 2 * interval));
      since_look = 0;
    }
    if (is_table_due) {
      table_in_.reset();
      print_table(missed_looks(limits));
    }
    lock.lock();
  }
}

// Open MPI's mpirun passes the signal to every rank. With Hydra only ranks of one machine get it,
// and they ask the other nodes, one of which may have the rank that prints. The table waits for
// what the nodes send then.
void Watchdog::count_to_table(double seconds) {
  constexpr double time_to_arrive = 0.25, least_between_tables = 1;
  without_table_ -= seconds;
  if (table_in_) *table_in_ -= seconds;
  const bool has_signal = take_table_requests();
  if ((!has_signal && !is_asked_) || without_table_ > 0) return;
  table_in_ = time_to_arrive;
  asks_others_ = has_signal && passes_no_signals_;
  without_table_ = least_between_tables;
}

// In one write, so that nothing comes between its lines.
void Watchdog::print_table(double silent_seconds) const {
  if (!is_speaker(silent_seconds)) return;
  const std::string table = state_table(ranks_, silent_seconds);
  end_bar();
  if (write(STDERR_FILENO, table.data(), table.size()) < 0)
    log_verbose("the table of ranks could not be written");
}

void Watchdog::receive() {
  const bool asks = heartbeats_.receive([this](const RankActivity& each) {
    update(ranks_[static_cast<std::size_t>(each.rank)], each);
  });
  is_asked_ = is_asked_ || asks;
}

// The first rank that is alive prints, of all that are known.
bool Watchdog::is_speaker(double silent_seconds) const {
  const auto before = std::span(ranks_).first(static_cast<std::size_t>(rank_));
  return std::ranges::all_of(
      before, [&](const RankView& rank) { return rank.is_known && rank.silent >= silent_seconds; });
}

std::int64_t Watchdog::number_in_job(std::int64_t world_rank) const {
  const auto found = std::ranges::find(world_ranks_, world_rank);
  return found == world_ranks_.end() ? -1 : found - world_ranks_.begin();
}

void Watchdog::look_at_own_node() {
  const auto launcher = launcher_ != 0 ? process_state(launcher_) : std::nullopt;
  for (std::size_t place = 0; place < own_node_.size(); ++place) {
    RankActivity& each = own_node_[place];
    each.activity = board_.read(place);
    if (each.activity.waiting == Waiting::send || each.activity.waiting == Waiting::recv)
      each.activity.number = number_in_job(each.activity.number);
    const pid_t process = board_.processes()[place];
    const auto state = process != 0 ? process_state(process) : std::nullopt;
    each.is_traced = state && state->tracer != 0;
    each.memory = state ? state->memory : 0;
    each.stopped_launcher = launcher && launcher->is_stopped() ? launcher_ : 0;
    update(ranks_[static_cast<std::size_t>(each.rank)], each);
  }
}

void Watchdog::look(const Limits& limits, double seconds) {
  report_life();
  for (RankView& rank : ranks_) {
    rank.still += seconds;
    rank.silent += seconds;
    rank.launcher_still += seconds;
  }
  const double silent_seconds = missed_looks(limits);
  look_at_own_node();
  receive();
  const auto first_alive = std::ranges::find_if(board_.ranks(), [&](int rank) {
    return ranks_[static_cast<std::size_t>(rank)].silent < silent_seconds;
  });
  const bool asks = std::exchange(asks_others_, false);
  if (*first_alive == rank_) heartbeats_.send(own_node_, asks);

  count_refused();
  warn(limits, silent_seconds);
  warn_of_launchers(silent_seconds);
  warn_of_unheard(limits, seconds);
  end_job_when_due(limits, seconds, silent_seconds);
}

// At each power of ten, so that a flood of datagrams does not become a flood of messages.
void Watchdog::count_refused() {
  const std::int64_t refused = heartbeats_.refused();
  if (refused == 0 || refused < 10 * refused_said_) return;
  refused_said_ = refused;
  log_verbose("ignored {} datagrams so far that are not heartbeats of this job", refused);
}

double Watchdog::due(const Limits& limits, const Stall& stall) {
  return stall.may_be_work ? patience_with_work * limits.timeout : limits.timeout;
}

void Watchdog::warn(const Limits& limits, double silent_seconds) {
  if (limits.warning == 0) return;
  const auto stall = find_stall(ranks_, limits.warning, silent_seconds);
  if (std::exchange(has_warned_, stall.has_value()) || !stall || !is_speaker(silent_seconds))
    return;
  std::string end;
  if (stall->is_debugged)
    end = "; the job is not ended while a debugger holds one of its ranks";
  else if (limits.timeout > 0 && stall->is_certain)
    end = fmt::format("; the job ends after {} s of this", due(limits, *stall));
  log_warning("nothing has moved for {:.0f} s: {}{}", stall->seconds,
              describe_stall(*stall, ranks_, silent_seconds), end);
}

// Once for each launcher that stays stopped. Where a launcher stops its ranks first, as mpirun does
// at Ctrl-Z, no rank is left to print this.
void Watchdog::warn_of_launchers(double silent_seconds) {
  if (!is_speaker(silent_seconds)) return;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankView& view = ranks_[rank];
    if (heartbeats_.first_of_board(static_cast<int>(rank)) != static_cast<int>(rank)) continue;
    int& said = launchers_said_[rank];
    if (view.stopped_launcher == 0) said = 0;
    if (view.stopped_launcher == said || view.launcher_still < silent_seconds) continue;
    said = view.stopped_launcher;
    const auto own = said == launcher_ ? process_state(launcher_) : std::nullopt;
    const std::string text = fmt::format(
        "{} on {} is stopped (process {}): its ranks continue, but until it continues, too, their "
        "output is not shown and the job cannot be ended (kill -CONT {})",
        title_of_launcher(own ? own->name.data() : ""), view.host, said, said);
    if (said != launcher_ || !write_beside(launcher_, fmt::format("warning: {}\n", text)))
      log_warning("{}", text);
  }
}

// Once for each host whose heartbeats do not arrive here: the loss of such a host would not be
// noticed.
void Watchdog::warn_of_unheard(const Limits& limits, double seconds) {
  watched_ += seconds;
  if (has_looked_for_unheard_ || limits.silence == 0 || watched_ < limits.silence / 2 ||
      heartbeats_.first_of_board(rank_) != rank_)
    return;
  has_looked_for_unheard_ = true;
  std::string hosts;
  for (int rank = 0; rank < std::ssize(ranks_); ++rank)
    if (heartbeats_.first_of_board(rank) == rank && !heartbeats_.is_heard(rank))
      hosts += (hosts.empty() ? "" : ", ") + ranks_[static_cast<std::size_t>(rank)].host;
  if (hosts.empty()) return;
  log_warning(
      "{} receives no heartbeats from {}: the loss of a host will not be noticed; allow UDP "
      "between the hosts of the job",
      ranks_[static_cast<std::size_t>(rank_)].host, hosts);
}

// Why the job must end now; empty if it need not.
std::string Watchdog::reason_to_end(const Limits& limits, double silent_seconds) const {
  const auto text = [&](const char* what, const Stall& stall, const char* remedy) {
    return fmt::format("{} for {:.0f} s: {}; {}", what, stall.seconds,
                       describe_stall(stall, ranks_, silent_seconds), remedy);
  };
  if (limits.silence > 0)
    if (const auto silence = find_silence(ranks_, limits.silence))
      return text("nothing was heard", *silence, "if ranks may be stopped for that long, ") +
             stall_limits().way_out_of_silence + "\n" +
             stall_table(*silence, ranks_, silent_seconds);
  const auto stall = find_stall(ranks_, limits.timeout, silent_seconds);
  if (!stall || !stall->is_certain || stall->is_debugged || stall->seconds < due(limits, *stall))
    return "";
  return text("nothing has moved", *stall, "if work may take that long, ") +
         stall_limits().way_out + "\n" + stall_table(*stall, ranks_, silent_seconds);
}

void Watchdog::end_job_when_due(const Limits& limits, double seconds, double silent_seconds) {
  if (limits.timeout == 0) return;
  std::string reason = reason_to_end(limits, silent_seconds);
  if (reason.empty()) {
    overdue_ = 0;
    return;
  }
  constexpr double patience_with_speaker = 1.5;
  overdue_ += seconds;
  if (!is_speaker(silent_seconds) && overdue_ < patience_with_speaker) return;
  if (const auto refused = heartbeats_.refused(); refused > 0)
    reason += fmt::format("ignored {} datagrams that are not heartbeats of this job\n", refused);
  throw TableError(ErrorKind::hang, reason,
                   rank_ == 0 ? ErrorScope::every_rank : ErrorScope::this_rank);
}

}  // namespace tasuki
