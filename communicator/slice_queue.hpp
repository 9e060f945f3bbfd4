// SliceQueue: exchanges of gradients that run in the thread that computes, in slices between other
// work, one exchange after the other.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>

#include "communicator/exchange_chain.hpp"
#include "communicator/exchange_timer.hpp"
#include "communicator/sliced_work.hpp"

namespace tasuki {

class SliceQueue {
 public:
  struct Exchange {
    std::shared_ptr<ExchangeChain> chain;
    // Called when the exchanges before this one are done. Null: it cannot be done in slices.
    std::function<std::unique_ptr<SlicedWork>()> start;
    std::function<void()> whole;                                  // does all of it in that case
    std::function<std::unique_ptr<ExchangeTimer>()> start_timer;  // of work in slices

    bool is_begun = false, is_done = false;
    std::unique_ptr<SlicedWork> work{};
    std::unique_ptr<ExchangeTimer> timer{};
    std::exception_ptr error{};
  };

  void add(std::shared_ptr<Exchange> exchange) { queue_.push_back(std::move(exchange)); }
  // Does what can be done without waiting for another rank; errors come out of finish().
  void advance() { move(); }
  // Returns when this exchange and those before it are done, or throws its error.
  void finish(const Exchange& exchange);

 private:
  // The same as SlicedWork::advance.
  bool move();
  template <class Work>
  void attempt(Exchange& exchange, const Work& work);
  void remove_first();

  std::deque<std::shared_ptr<Exchange>> queue_;
};

}  // namespace tasuki
