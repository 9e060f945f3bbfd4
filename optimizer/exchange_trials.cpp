#include "optimizer/exchange_trials.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

// Of a mode that may have others beside it: slices, thread or whole.
const char* describe(ExchangeMode mode) {
  if (mode == ExchangeMode::slices) return "in slices between layers";
  if (mode == ExchangeMode::thread) return "by a thread during the backward pass";
  return "after the backward pass";
}

}  // namespace

ExchangeTrials::ExchangeTrials(std::vector<ExchangeMode> modes)
    : modes_(std::move(modes)), chosen_(modes_.at(0)) {
  if (modes_.size() == 1) seconds_.assign(rounds, 0);
}

ExchangeMode ExchangeTrials::mode() const {
  if (is_over()) return chosen_;
  return modes_[(prepared_ + seconds_.size()) % modes_.size()];
}

void ExchangeTrials::add(double seconds) {
  TASUKI_CHECK(!is_over(), "a step after the last trial");
  if (prepared_ < modes_.size())
    ++prepared_;
  else
    seconds_.push_back(seconds);
}

std::string ExchangeTrials::decide(const std::vector<double>& slowest) {
  TASUKI_CHECK(slowest.size() == seconds_.size(), "{} times of {} steps", slowest.size(),
               seconds_.size());
  std::vector<std::pair<double, ExchangeMode>> medians;
  for (std::size_t mode = 0; mode < modes_.size(); ++mode) {
    std::vector<double> of_mode;
    for (std::size_t i = mode; i < slowest.size(); i += modes_.size())
      of_mode.push_back(slowest[i]);
    std::ranges::nth_element(of_mode, of_mode.begin() + std::ssize(of_mode) / 2);
    medians.emplace_back(of_mode[of_mode.size() / 2], modes_[mode]);
  }
  const auto best = std::ranges::min_element(medians, {}, &std::pair<double, ExchangeMode>::first);
  chosen_ = best->second;
  std::string others;
  for (const auto& [seconds, mode] : medians)
    if (mode != chosen_) others += fmt::format(", {:.2f} {}", 1e3 * seconds, describe(mode));
  return fmt::format("gradients travel {}: {:.2f} ms from the first gradient to the last sum{}",
                     describe(chosen_), 1e3 * best->first, others);
}

}  // namespace tasuki
