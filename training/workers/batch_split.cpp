#include "training/workers/batch_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t settling_steps = 3;
constexpr std::size_t window_steps = 16;
constexpr std::int64_t resting_steps = 200;
constexpr double least_gain = 1.03;  // longest part now / longest part then

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Checks the weights and scales them to add up to 1.
std::vector<double> normalised(std::vector<double> weights) {
  for (const double weight : weights)
    TASUKI_CHECK(std::isfinite(weight) && weight >= 0, "a worker's part of the batch cannot be {}",
                 weight);
  const double sum = sum_of(weights);
  TASUKI_CHECK(sum > 0, "no worker has a part of the batch");
  for (double& weight : weights) weight /= sum;
  return weights;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<std::int64_t> split_batch(std::int64_t total, std::span<const double> weights) {
  TASUKI_CHECK(total >= 0, "a batch of {} examples", total);
  const std::vector<double> shares = normalised({weights.begin(), weights.end()});
  std::vector<std::int64_t> parts;
  std::vector<double> remainders;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(total);
    // A value that differs from an integer only by rounding counts as one.
    const double whole = std::floor(exact + 1e-9);
    parts.push_back(static_cast<std::int64_t>(whole));
    remainders.push_back(share > 0 ? exact - whole : -1);
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return remainders[i]; });
  std::int64_t left = total - std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; ++i, --left) ++parts[order.at(i)];
  return parts;
}

BatchSplit::BatchSplit(std::vector<double> weights, bool is_measured)
    : weights_(normalised(std::move(weights))),
      is_measured_(is_measured && weights_.size() > 1),
      steps_to_skip_(settling_steps),
      window_(weights_.size()) {}

BatchSplit BatchSplit::even(std::size_t workers) {
  return {std::vector<double>(workers, 1), false};
}

BatchSplit BatchSplit::fixed(std::vector<double> weights) {
  return {std::move(weights), false};
}

BatchSplit BatchSplit::measured(std::size_t workers) {
  return {std::vector<double>(workers, 1), true};
}

std::vector<std::int64_t> BatchSplit::parts(std::int64_t total) const {
  std::vector<std::int64_t> parts = split_batch(total, weights_);
  if (!is_measured_ || total < static_cast<std::int64_t>(parts.size())) return parts;
  for (std::int64_t& part : parts)
    if (part == 0) {
      --*std::ranges::max_element(parts);
      part = 1;
    }
  return parts;
}

std::string BatchSplit::text() const {
  std::string text;
  for (const double weight : weights_)
    text += fmt::format("{}{:.3f}", text.empty() ? "" : ":", weight);
  return text;
}

bool BatchSplit::observe(std::span<const std::int64_t> parts, std::span<const double> seconds) {
  if (!is_measured_) return false;
  if (steps_to_skip_ > 0) {
    --steps_to_skip_;
    return false;
  }
  TASUKI_CHECK(parts.size() == workers() && seconds.size() == workers(),
               "{} parts and {} times of {} workers", parts.size(), seconds.size(), workers());
  // The short batch at an epoch's end would make workers look slow.
  const std::int64_t total = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  if (total < largest_total_ || std::ranges::min(parts) == 0) return false;
  largest_total_ = total;
  for (std::size_t i = 0; i < parts.size(); ++i)
    window_[i].push_back(std::max(seconds[i], 1e-9) / static_cast<double>(parts[i]));
  return window_[0].size() == window_steps && rebalance();
}

bool BatchSplit::rebalance() {
  std::vector<double> speeds;  // examples a second
  double longest_now = 0;      // seconds per example of the batch
  for (std::size_t i = 0; i < window_.size(); ++i) {
    const double seconds_per_example = median(std::move(window_[i]));
    window_[i].clear();
    speeds.push_back(1 / seconds_per_example);
    longest_now = std::max(longest_now, weights_[i] * seconds_per_example);
  }
  const double longest_then = 1 / sum_of(speeds);
  if (longest_now < least_gain * longest_then) {
    steps_to_skip_ = resting_steps;
    return false;
  }
  weights_ = normalised(std::move(speeds));
  steps_to_skip_ = settling_steps;
  return true;
}

void BatchSplit::resume(const std::vector<double>& weights) {
  if (is_measured_ && weights.size() == workers()) weights_ = normalised(weights);
}

}  // namespace tasuki
