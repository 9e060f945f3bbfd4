#include "communicator/slice_queue.hpp"

#include <utility>

#include "core/polite_wait.hpp"

namespace tasuki {

template <class Work>
void SliceQueue::attempt(Exchange& exchange, const Work& work) {
  try {
    exchange.chain->run(work);
  } catch (...) {
    exchange.work.reset();
    exchange.error = std::current_exception();
    exchange.is_done = true;
  }
}

void SliceQueue::remove_first() {
  queue_.front()->is_done = true;
  queue_.front()->work.reset();
  queue_.front()->timer.reset();
  queue_.pop_front();
}

bool SliceQueue::move() {
  bool moved = false;
  while (!queue_.empty()) {
    Exchange& first = *queue_.front();
    attempt(first, [&] {
      if (!std::exchange(first.is_begun, true)) {
        first.work = first.start();
        if (first.work) first.timer = first.start_timer();
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

void SliceQueue::finish(const Exchange& exchange) {
  PoliteWait waiting;
  while (!exchange.is_done) {
    if (move()) {
      waiting = {};
    } else if (Exchange& first = *queue_.front(); first.work) {
      waiting.pause();
    } else {
      attempt(first, first.whole);
      remove_first();
    }
  }
  if (exchange.error) std::rethrow_exception(exchange.error);
}

}  // namespace tasuki
