#include "tasuki/optimizer/exchange_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tasuki/core/error.hpp"

namespace tasuki {

const char* describe(ExchangeForm form) {
  switch (form) {
    case ExchangeForm::whole:
      return "after the backward pass";
    case ExchangeForm::slices:
      return "in slices between layers";
    case ExchangeForm::thread:
      return "by a thread during the backward pass";
    case ExchangeForm::queue:
      return "in the GPU's queue of transfers during the backward pass";
  }
  return "unknown";
}

ExchangeTrials::ExchangeTrials(std::vector<ExchangeForm> forms)
    : forms_(std::move(forms)), chosen_(forms_.at(0)) {
  if (forms_.size() == 1) seconds_.assign(rounds, 0);
}

ExchangeForm ExchangeTrials::form() const {
  if (is_over()) return chosen_;
  return forms_[(prepared_ + seconds_.size()) % forms_.size()];
}

void ExchangeTrials::add(double seconds) {
  TASUKI_CHECK(!is_over(), "a step after the last trial");
  if (prepared_ < forms_.size())
    ++prepared_;
  else
    seconds_.push_back(seconds);
}

std::string ExchangeTrials::decide(const std::vector<double>& slowest) {
  TASUKI_CHECK(slowest.size() == seconds_.size(), "{} times of {} steps", slowest.size(),
               seconds_.size());
  std::vector<std::pair<double, ExchangeForm>> medians;
  for (std::size_t form = 0; form < forms_.size(); ++form) {
    std::vector<double> of_form;
    for (std::size_t i = form; i < slowest.size(); i += forms_.size())
      of_form.push_back(slowest[i]);
    std::ranges::nth_element(of_form, of_form.begin() + std::ssize(of_form) / 2);
    medians.emplace_back(of_form[of_form.size() / 2], forms_[form]);
  }
  const auto best = std::ranges::min_element(medians, {}, &std::pair<double, ExchangeForm>::first);
  chosen_ = best->second;
  std::string others;
  for (const auto& [seconds, form] : medians)
    if (form != chosen_) others += fmt::format(", {:.2f} {}", 1e3 * seconds, describe(form));
  return fmt::format("gradients travel {}: {:.2f} ms from the first gradient to the last sum{}",
                     describe(chosen_), 1e3 * best->first, others);
}

}  // namespace tasuki
