// A library's algorithms for the same work, best first: one that does not run is replaced by the
// next one for good.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

class CudaContext;

// Of kind unavailable: none of the algorithms has run.
class NoAlgorithmLeft : public Error {
 public:
  explicit NoAlgorithmLeft(const std::string& message) : Error(ErrorKind::unavailable, message) {}
};

// Remembers the number of the algorithm in use, and the errors of the ones before it. Thread-safe.
class AlgorithmTrials {
 public:
  // refused: nothing was begun; failed: the result may hold anything.
  enum class Outcome { done, refused, failed };
  struct Answer {
    Outcome outcome = Outcome::done;
    std::string why = {};  // if it was not done: the algorithm and its error
  };
  // A description of the work, for errors, and the memory that it adds to, if it does: a failed
  // attempt may have added a part, so the values are saved until an algorithm has run once.
  struct Work {
    const char* call;
    void* sum = nullptr;
    std::size_t bytes = 0;
  };

  // Calls `attempt(number)`, number < count, until one is done. Throws a NoAlgorithmLeft that
  // lists all failures if none is left. Also throws if an algorithm fails while the step is being
  // recorded, or with work that adds to memory that was not saved: the next call takes the next
  // algorithm.
  template <class Attempt>
  void run(CudaContext& context, const Work& work, std::size_t count, Attempt&& attempt) {
    const std::shared_ptr<Storage> before =
        has_run_.load(std::memory_order_relaxed) ? nullptr : keep_sum(context, work);
    for (;;) {
      const std::size_t number = current_.load(std::memory_order_relaxed);
      if (number >= count) fail_with_all(work);
      const Answer answer = attempt(number);
      if (answer.outcome == Outcome::done) {
        if (!has_run_.load(std::memory_order_relaxed)) has_run_ = true;
        return;
      }
      give_up(number, answer.why);
      if (answer.outcome == Outcome::failed) recover(context, work, answer.why, before.get());
    }
  }

 private:
  static std::shared_ptr<Storage> keep_sum(CudaContext& context, const Work& work);
  void give_up(std::size_t number, const std::string& why);
  static void recover(CudaContext& context, const Work& work, const std::string& why,
                      const Storage* before);
  [[noreturn]] void fail_with_all(const Work& work);

  std::atomic<std::size_t> current_ = 0;
  std::atomic<bool> has_run_ = false;  // the current one
  std::mutex mutex_;
  std::string failures_;
};

}  // namespace tasuki
