// PendingExchange: a gradient exchange in the background (Communicator::start_sum_gradients).
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace tasuki {

// What does the work of an exchange in the background: a thread of the communicator, or the thread
// that computes, in slices between other work.
enum class Background { thread, slices };

// An exchange must end, by wait() or by the destructor, before its communicator is destroyed.
class PendingExchange {
 public:
  // `finish` completes the exchange, `advance` does a slice of it. `under_way` counts the exchanges
  // that were started and not waited for; null: this one does all of its work in `finish`.
  PendingExchange(std::function<void()> finish, std::shared_ptr<std::atomic<int>> under_way,
                  std::function<void()> advance = {});
  // Waits for the exchange unless wait() has been called; if it fails, logs a warning.
  ~PendingExchange();
  PendingExchange(const PendingExchange&) = delete;
  PendingExchange& operator=(const PendingExchange&) = delete;

  // Does a slice of work: what this rank can do without waiting for others, beginning with
  // exchanges that were started earlier. Does nothing for an exchange in a thread.
  void advance() const {
    if (advance_) advance_();
  }
  // Returns when the arena holds the sums; throws if the exchange failed. Call it once, from the
  // thread that started the exchange. On a GPU, work queued afterwards runs after the exchange, and
  // the host blocks only if MPI carries the values.
  void wait();

 private:
  std::function<void()> finish_;
  std::shared_ptr<std::atomic<int>> under_way_;
  std::function<void()> advance_;
};

}  // namespace tasuki
