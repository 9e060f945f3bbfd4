#include "training/workers/worker_threads.hpp"

#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"

namespace tasuki {

WorkerThreads::WorkerThreads(std::vector<int> threads)
    : threads_(std::move(threads)), failures_(threads_.size()) {
  TASUKI_CHECK(!threads_.empty(), "at least one worker is needed");
  try {
    for (std::size_t worker = 1; worker < threads_.size(); ++worker)
      others_->emplace_back([this, worker, convolutions = conv_algorithm()] {
        set_conv_algorithm(convolutions);
        serve(worker);
      });
  } catch (const std::system_error& error) {
    end_others();
    fail(ErrorKind::unavailable, "cannot start a thread for each of {} workers: {}",
         threads_.size(), error.what());
  }
}

WorkerThreads::~WorkerThreads() {
  if (others_.is_here()) end_others();
}

void WorkerThreads::end_others() {
  work_ = nullptr;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& other : *others_) other.join();
}

void WorkerThreads::do_part(std::size_t worker) noexcept {
  try {
    (*work_)(worker);
  } catch (...) {
    failures_[worker] = std::current_exception();
  }
}

void WorkerThreads::serve(std::size_t worker) {
  set_cpu_threads(threads_[worker]);
  for (int seen = 0;;) {
    round_.wait(seen);
    seen = round_.load();
    if (work_ == nullptr) return;
    do_part(worker);
    if (busy_.fetch_sub(1) == 1) busy_.notify_one();
  }
}

void WorkerThreads::run(const std::function<void(std::size_t worker)>& work) {
  if (std::exchange(is_first_run_, false)) set_cpu_threads(threads_[0]);
  work_ = &work;
  busy_.store(static_cast<int>(others_->size()));
  round_.fetch_add(1);
  round_.notify_all();
  do_part(0);
  for (int busy = busy_.load(); busy > 0; busy = busy_.load()) busy_.wait(busy);

  std::exception_ptr first;
  for (std::exception_ptr& failure : failures_) {
    if (!first) first = failure;
    failure = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tasuki
