#include "communicator/exchanges_under_way.hpp"

#include <exception>
#include <future>
#include <utility>

#include "communicator/mpi/mpi.hpp"
#include "core/activity.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {

PendingExchange::PendingExchange(std::function<void()> finish,
                                 std::shared_ptr<std::atomic<int>> under_way,
                                 std::function<void()> advance)
    : finish_(std::move(finish)), under_way_(std::move(under_way)), advance_(std::move(advance)) {
  if (under_way_) ++*under_way_;
}

// Destroying an unfinished exchange would leave its buffer in use.
PendingExchange::~PendingExchange() {
  if (!finish_) return;
  try {
    wait();
  } catch (const ExchangesUnderWay::NotBegun&) {
  } catch (const std::exception& error) {
    log_warning("an exchange of gradients failed, and wait() was not called on it: {}",
                error.what());
  }
}

void PendingExchange::wait() {
  TASUKI_CHECK(finish_ != nullptr, "wait() was called twice on a gradient exchange");
  if (under_way_) --*under_way_;
  std::exchange(finish_, nullptr)();
}

struct ExchangesUnderWay::Sliced {
  std::int64_t first, bytes;
  Start start;
  Work whole;

  bool is_begun = false, is_done = false;
  std::unique_ptr<SlicedWork> work{};
  std::unique_ptr<Timer> timer{};  // of work in slices
  std::exception_ptr error{};
};

ExchangesUnderWay::Timer::~Timer() {
  const double now = trace_clock();
  seconds_ = seconds_ + (now - begin_);
  trace({.name = "sum of a range",
         .row = TraceRow::exchange,
         .begin = begin_,
         .end = now,
         .number = first_,
         .bytes = bytes_});
}

bool ExchangesUnderWay::can_use_thread() {
  int provided = MPI_THREAD_SINGLE;
  TASUKI_MPI(MPI_Query_thread, &provided);
  return provided >= MPI_THREAD_MULTIPLE;
}

ExchangesUnderWay::ExchangesUnderWay(std::uint64_t communicator,
                                     std::atomic<std::int64_t>& operations,
                                     Work look_for_departures)
    : communicator_(communicator),
      operations_(operations),
      look_for_departures_(std::move(look_for_departures)) {}

ExchangesUnderWay::~ExchangesUnderWay() = default;

std::unique_ptr<PendingExchange> ExchangesUnderWay::start_queued(const Work& work, Work join) {
  work_here(work);
  return std::make_unique<PendingExchange>(std::move(join), count_);
}

std::unique_ptr<PendingExchange> ExchangesUnderWay::start_in_thread(const GradientView& gradients,
                                                                    Work work, Work join) {
  if (!can_use_thread())
    return std::make_unique<PendingExchange>(
        [work = std::move(work), join = std::move(join)] {
          work();
          join();
        },
        nullptr);
  if (!thread_) thread_ = std::make_unique<BackgroundThread>();
  forget_failure_if_free();
  const std::shared_future<void> result =
      thread_->start([this, work = std::move(work)] { attempt(work); });
  return std::make_unique<PendingExchange>(
      [join = std::move(join), result, communicator = communicator_, number = ++operations_,
       bytes = static_cast<std::int64_t>(gradients.arena.bytes())] {
        const WaitScope waiting(Waiting::sum_gradients, communicator, number, bytes);
        result.get();
        join();
      },
      count_);
}

std::unique_ptr<PendingExchange> ExchangesUnderWay::start_in_slices(const GradientView& gradients,
                                                                    Start start, Work whole) {
  forget_failure_if_free();
  const auto exchange =
      std::make_shared<Sliced>(Sliced{.first = gradients.first,
                                      .bytes = static_cast<std::int64_t>(gradients.arena.bytes()),
                                      .start = std::move(start),
                                      .whole = std::move(whole)});
  slices_.push_back(exchange);
  return std::make_unique<PendingExchange>(
      [this, exchange, number = ++operations_] {
        const WaitScope waiting(Waiting::sum_gradients, communicator_, number, exchange->bytes);
        work_here([&] { finish(*exchange); });
      },
      count_, [this] { work_here([this] { advance(); }); });
}

void ExchangesUnderWay::forget_failure_if_free() {
  if (!any()) has_failed_ = false;
}

template <class Part>
void ExchangesUnderWay::attempt(const Part& part) {
  if (has_failed_) throw NotBegun();
  try {
    part();
  } catch (...) {
    has_failed_ = true;
    throw;
  }
}

template <class Part>
void ExchangesUnderWay::attempt_first(const Part& part) {
  Sliced& first = *slices_.front();
  try {
    attempt(part);
  } catch (...) {
    first.work.reset();
    first.error = std::current_exception();
    first.is_done = true;
  }
}

void ExchangesUnderWay::remove_first() {
  Sliced& first = *slices_.front();
  first.is_done = true;
  first.work.reset();
  first.timer.reset();
  slices_.pop_front();
}

bool ExchangesUnderWay::advance() {
  bool moved = false;
  while (!slices_.empty()) {
    Sliced& first = *slices_.front();
    attempt_first([&] {
      if (!std::exchange(first.is_begun, true)) {
        first.work = first.start();
        if (first.work) first.timer = std::make_unique<Timer>(*this, first.first, first.bytes);
      }
      if (!first.work) return;
      while (!first.work->is_done() && first.work->advance()) moved = true;
      first.is_done = first.work->is_done();
    });
    if (!first.is_done) break;
    remove_first();
    moved = true;
  }
  return moved;
}

void ExchangesUnderWay::finish(const Sliced& exchange) {
  const WaitCheck check(look_for_departures_);
  PoliteWait waiting;
  while (!exchange.is_done) {
    if (advance()) {
      waiting = {};
    } else if (Sliced& first = *slices_.front(); first.work) {
      waiting.pause();
    } else {
      attempt_first(first.whole);
      remove_first();
    }
  }
  if (exchange.error) std::rethrow_exception(exchange.error);
}

void ExchangesUnderWay::work_here(const Work& work) {
  struct Scope {
    bool& flag;
    bool before;
    ~Scope() { flag = before; }
  } const scope{works_here_, works_here_};
  works_here_ = true;
  work();
}

}  // namespace tasuki
