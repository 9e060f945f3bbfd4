// ExchangesUnderWay: the gradient exchanges that a communicator has started in the background.
//
// They run one after another in the order in which they were started, which is the same on all
// ranks: in a thread, or in slices in the thread that computes. If one fails, those after it are
// not begun, because other ranks may be in another exchange. Once all have been waited for,
// exchanges can begin again.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "communicator/gradient_view.hpp"
#include "communicator/pending_exchange.hpp"
#include "communicator/sliced_work.hpp"
#include "core/background_thread.hpp"
#include "core/error.hpp"
#include "core/trace.hpp"

namespace tasuki {

class ExchangesUnderWay {
 public:
  using Work = std::function<void()>;

  // Thrown by every exchange after a failed one, whose own error says why.
  class NotBegun : public Error {
   public:
    NotBegun()
        : Error(ErrorKind::internal, "an exchange of gradients before this one has failed") {}
  };

  // RAII: adds its lifetime, the time of one exchange in any thread, to seconds(), and shows it in
  // a trace. `first` and `bytes` identify the exchange there.
  class Timer {
   public:
    Timer(ExchangesUnderWay& exchanges, std::int64_t first, std::int64_t bytes)
        : seconds_(exchanges.seconds_), first_(first), bytes_(bytes) {}
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    std::atomic<double>& seconds_;
    std::int64_t first_, bytes_;
    double begin_ = trace_clock();
  };

  // Whether MPI allows a thread to do the work (MPI_THREAD_MULTIPLE).
  static bool can_use_thread();

  // Each exchange counts as one of the communicator's `operations`, by which the watchdog shows it.
  // Call wait_for_thread() before the object is destroyed.
  // `look_for_departures` throws if a rank has left the communicator; called during waits.
  ExchangesUnderWay(std::uint64_t communicator, std::atomic<std::int64_t>& operations,
                    Work look_for_departures);
  ~ExchangesUnderWay();

  // Whether an exchange was started and not waited for.
  bool any() const { return *count_ > 0; }
  // Whether the caller is doing the work of an exchange.
  bool is_at_work() const { return works_here_ || (thread_ && thread_->is_this_thread()); }
  // As Communicator::exchange_seconds().
  double seconds() const { return seconds_; }
  // Returns when the thread has done everything that was started.
  void wait_for_thread() const {
    if (thread_) thread_->wait();
  }

  // Starts an exchange on a GPU. `work` queues it there and is called now; wait() calls `join`.
  std::unique_ptr<PendingExchange> start_queued(const Work& work, Work join);
  // Starts an exchange in the thread, which calls `work`; wait() then calls `join`. If a thread is
  // not possible (can_use_thread()), wait() calls both.
  std::unique_ptr<PendingExchange> start_in_thread(const GradientView& gradients, Work work,
                                                   Work join);
  // Starts an exchange in slices. When the exchanges before it are done, advance() or wait() calls
  // `start`, and then advances the work that it returned. If `start` returns null, wait() calls
  // `whole` instead.
  using Start = std::function<std::unique_ptr<SlicedWork>()>;
  std::unique_ptr<PendingExchange> start_in_slices(const GradientView& gradients, Start start,
                                                   Work whole);

 private:
  struct Sliced;

  // Before a start: forgets a failure if no exchange is under way.
  void forget_failure_if_free();
  // Does a part of an exchange, in any thread.
  template <class Part>
  void attempt(const Part& part);
  // attempt() for the first of slices_; wait() throws its error.
  template <class Part>
  void attempt_first(const Part& part);
  void remove_first();
  // Does what can be done without waiting for other ranks. False: nothing could be done.
  bool advance();
  // Returns when this exchange and those before it are done, or throws its error.
  void finish(const Sliced& exchange);
  // Does `work` in the calling thread, and lets it use the communicator meanwhile.
  void work_here(const Work& work);

  std::uint64_t communicator_;
  std::atomic<std::int64_t>& operations_;
  Work look_for_departures_;
  std::atomic<double> seconds_ = 0;
  // The number of exchanges that were started and not waited for. Shared with them, because they
  // may be destroyed after this object.
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> has_failed_ = false;        // one of those that are counted
  bool works_here_ = false;                     // during work_here()
  std::deque<std::shared_ptr<Sliced>> slices_;  // shared with their PendingExchange
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace tasuki
