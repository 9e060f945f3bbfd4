// Threads that do the same piece of work at the same time, each with its own computing threads.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "core/own_process.hpp"

namespace tasuki {

// Worker 0 is the thread that calls run(), always the same one, so that a single worker costs
// nothing; the others wait in between. Workers keep their threads, and with them what oneDNN
// prepared there.
class WorkerThreads {
 public:
  // Worker i computes with threads[i] threads (set_cpu_threads) and otherwise as the calling thread
  // does (set_conv_algorithm); at least one worker.
  explicit WorkerThreads(std::vector<int> threads);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t size() const { return threads_.size(); }
  int threads_of(std::size_t worker) const { return threads_[worker]; }
  // Calls work(0), work(1), ... at once and returns when all are done. Rethrows the exception of a
  // worker; of several, the first worker's.
  void run(const std::function<void(std::size_t worker)>& work);

 private:
  void serve(std::size_t worker);
  void end_others();
  void do_part(std::size_t worker) noexcept;

  std::vector<int> threads_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<std::exception_ptr> failures_;
  // `round_` counts calls of run() and of the destructor, which has no work.
  std::atomic<int> round_ = 0, busy_ = 0;
  bool is_first_run_ = true;
  OwnProcess<std::vector<std::thread>> others_;
};

}  // namespace tasuki
