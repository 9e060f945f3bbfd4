// ExchangesUnderWay: the gradient exchanges that a communicator has started.
//
// They run one after the other in the order of their starts, which is the same on all ranks: in a
// thread, or in slices in the thread that computes. After one has failed, later ones are not
// begun, because other ranks may be in another exchange; when all have been waited for, exchanges
// can begin again.
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

  // Thrown by each exchange after the one that failed; the error of that one says why.
  class NotBegun : public Error {
   public:
    NotBegun()
        : Error(ErrorKind::internal, "an exchange of gradients before this one has failed") {}
  };

  // RAII: adds the time of one exchange, in whatever thread, to seconds(), and shows it in a trace.
  // `first` and `bytes` say what is exchanged.
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

  // The watchdog is shown an exchange as the next of the communicator's `operations`. The
  // destructor waits until the thread has done everything that was started.
  ExchangesUnderWay(std::uint64_t communicator, std::atomic<std::int64_t>& operations);
  ~ExchangesUnderWay();

  // Whether one was started and not waited for.
  bool any() const { return *count_ > 0; }
  // Whether the caller does the work of one of them.
  bool is_at_work() const { return works_here_ || (thread_ && thread_->is_this_thread()); }
  // What Communicator::exchange_seconds() returns.
  double seconds() const { return seconds_; }

  // Starts an exchange whose `work` only queues work on a GPU, and is done now. wait() does `join`.
  std::unique_ptr<PendingExchange> start_queued(const Work& work, Work join);
  // Starts an exchange whose `work` the thread does. wait() does `join` after that; without
  // can_use_thread() it does both.
  std::unique_ptr<PendingExchange> start_in_thread(const GradientView& gradients, Work work,
                                                   Work join);
  // Starts an exchange in slices: advance() and wait() call `start` when the exchanges before this
  // one are done, and advance the work that it returns. If it returns null, wait() does `whole`.
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
  // The same for the first of slices_; wait() throws its error.
  template <class Part>
  void attempt_first(const Part& part);
  void remove_first();
  // Does what can be done without waiting for other ranks. False: nothing could be done.
  bool advance();
  // Returns when this exchange and those before it are done, or throws its error.
  void finish(const Sliced& exchange);
  // Does `work` in the calling thread, which may use the communicator for it.
  void work_here(const Work& work);

  std::uint64_t communicator_;
  std::atomic<std::int64_t>& operations_;
  std::atomic<double> seconds_ = 0;
  // How many were started and not waited for. Shared with them, as they may outlive this object.
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> has_failed_ = false;        // one of those that are counted
  bool works_here_ = false;                     // work_here() runs
  std::deque<std::shared_ptr<Sliced>> slices_;  // shared with their PendingExchange
  std::unique_ptr<BackgroundThread> thread_;    // the last member: it uses the others until it ends
};

}  // namespace tasuki
