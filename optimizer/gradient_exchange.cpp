#include "optimizer/gradient_exchange.hpp"

#include <utility>

#include "core/stopwatch.hpp"
#include "optimizer/double_buffer.hpp"
#include "optimizer/gpu_double_buffer.hpp"
#include "optimizer/range_exchange.hpp"

namespace tasuki {

GradientExchange::GradientExchange(ExchangeMode mode, std::vector<Range> ranges,
                                   const ParameterArena& arena, const Communicator& communicator)
    : mode_(mode),
      ranges_(std::move(ranges)),
      measured_(arena.gradients().device().is_cpu() ? &communicator : nullptr),
      seconds_before_(communicator.exchange_seconds()) {}

void GradientExchange::begin(const Examples& examples) {
  begin_step(examples);
  has_begun_ = true;
}

void GradientExchange::give_up() {
  has_begun_ = false;
  give_up_step();
}

std::optional<GradientExchange::Sums> GradientExchange::finish() {
  has_begun_ = false;
  return timed([this] { return finish_step(); });
}

std::optional<GradientExchange::Sums> GradientExchange::flush() {
  return timed([this] { return flush_steps(); });
}

template <class Work>
std::optional<GradientExchange::Sums> GradientExchange::timed(const Work& work) {
  Stopwatch watch;
  const std::optional<Sums> sums = work();
  if (measured_ == nullptr) return sums;
  times_.exposed += watch.lap();
  const double now = measured_->exchange_seconds();
  times_.transfer += now - std::exchange(seconds_before_, now);
  return sums;
}

std::unique_ptr<GradientExchange> create_gradient_exchange(ParameterArena& arena,
                                                           Communicator& communicator,
                                                           std::unique_ptr<Communicator>& second,
                                                           const ExchangeSettings& settings,
                                                           std::span<const Range> needed) {
  if (settings.mode == ExchangeMode::double_buffered && communicator.exchanges_gradients()) {
    if (!second) second = communicator.split(0, communicator.rank());
    if (arena.gradients().device().is_cpu())
      return std::make_unique<DoubleBuffer>(arena, *second, communicator);
    return std::make_unique<GpuDoubleBuffer>(arena, *second);
  }
  return std::make_unique<RangeExchange>(arena, communicator, settings, needed);
}

}  // namespace tasuki
