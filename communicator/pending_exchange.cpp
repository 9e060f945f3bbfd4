#include "communicator/pending_exchange.hpp"

#include <exception>
#include <utility>

#include "communicator/exchanges_under_way.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

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

}  // namespace tasuki
