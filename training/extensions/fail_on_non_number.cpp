#include "tasuki/training/extensions/fail_on_non_number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

// What is wrong with the parameters, if anything.
std::string describe_parameters(const Optimizer& optimizer) {
  const ParameterArena& arena = optimizer.arena();
  const Device device = arena.values().device();
  // A double can hold the sum of squares of floats: it is finite if all of them are.
  if (std::isfinite(backend(device).squared_norm(arena.values()))) return "";
  for (const auto* entries : {&arena.entries(), &arena.frozen()})
    for (const ParameterArena::Entry& entry : *entries) {
      const Tensor part = ParameterArena::part(arena.values(), entry);
      if (!std::isfinite(backend(device).squared_norm(part)))
        return fmt::format("{} has values that are not finite", entry.path);
    }
  return "a parameter is not finite";
}

bool is_finite(const std::pair<const std::string, Observation::Value>& named) {
  return std::isfinite(named.second.sum);
}

int ranks_of(const Trainer& trainer) {
  return trainer.communicator() ? trainer.communicator()->size() : 1;
}

[[noreturn]] void fail_diverged(const std::string& text, std::int64_t iteration, int rank,
                                const Trainer& trainer) {
  const std::int64_t now = trainer.updater().iteration();
  const std::string who = ranks_of(trainer) > 1 ? fmt::format(" on rank {}", rank) : "";
  const std::string later = iteration < now ? fmt::format(" (found in iteration {})", now) : "";
  fail_everywhere(ErrorKind::config,
                  "training diverged: {} in iteration {}{}{}; try a lower learning rate or "
                  "gradient clipping",
                  text, iteration, who, later);
}

}  // namespace

FailOnNonNumber::FailOnNonNumber(Settings settings, std::unique_ptr<Trigger> check)
    : settings_(std::move(settings)), check_(std::move(check)) {}

void FailOnNonNumber::run(Trainer& trainer) {
  constexpr std::size_t most_unseen = 1000;
  const Observation& now = trainer.observation();
  const std::int64_t iteration = trainer.updater().iteration();
  if (now.is_on_device()) {
    unseen_.emplace_back(iteration, now);
    if (unseen_.size() == most_unseen) judge_unseen();
  } else {
    judge_unseen();
    judge(iteration, now);
  }
  end_if_found(trainer);
  if (check_->fires(trainer)) check_all_ranks(trainer);
}

void FailOnNonNumber::judge(std::int64_t iteration, const Observation& seen) {
  if (found_) return;
  for (const auto& [key, value] : seen.values()) {
    if (std::isfinite(value.sum)) continue;
    found_ = {iteration, fmt::format("{} became {}", key, value.mean())};
    return;
  }
  const auto loss = seen.mean(settings_.loss);
  if (!loss) return;
  if (!first_loss_) first_loss_ = *loss;
  if (settings_.max_loss > 0 && *loss > settings_.max_loss * std::max(1.0, *first_loss_))
    found_ = {iteration, fmt::format("{} became {:.4g}, over {:.4g} times the first, {:.4g},",
                                     settings_.loss, *loss, settings_.max_loss, *first_loss_)};
}

void FailOnNonNumber::judge_unseen() {
  for (const auto& [iteration, observation] : unseen_) judge(iteration, observation);
  unseen_.clear();
}

void FailOnNonNumber::end_if_found(const Trainer& trainer) const {
  if (!found_) return;
  const Communicator* communicator = trainer.communicator();
  fail_diverged(found_->text, found_->iteration, communicator ? communicator->rank() : 0, trainer);
}

// Only reported values have been waited for. All ranks have the same ones, and together look for
// the first that was not finite.
void FailOnNonNumber::before_report(Trainer& trainer, const Observation& all) {
  const bool is_finite_everywhere = std::ranges::all_of(all.values(), is_finite);
  if (!is_finite_everywhere) check_all_ranks(trainer);
  before_own_report(trainer);
}

void FailOnNonNumber::before_own_report(Trainer& trainer) {
  judge_unseen();
  end_if_found(trainer);
}

void FailOnNonNumber::check_all_ranks(Trainer& trainer) {
  const std::int64_t now = trainer.updater().iteration();
  if (checked_iteration_ == now) return;
  judge_unseen();
  Finding own{now, ""};
  if (found_)
    own = *found_;
  else
    for (const NamedOptimizer& each : trainer.updater().optimizers())
      if (own.text.empty()) own.text = describe_parameters(*each.optimizer);

  Finding first = own;
  int rank_of_first = 0;
  if (ranks_of(trainer) > 1) {
    const nlohmann::json told = {own.iteration, own.text};
    const auto all = trainer.communicator()->allgather_bytes(text_to_bytes(told.dump()));
    first.text.clear();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const nlohmann::json other = nlohmann::json::parse(bytes_to_text(all[rank]));
      const Finding finding{other.at(0), other.at(1)};
      if (finding.text.empty() || (!first.text.empty() && first.iteration <= finding.iteration))
        continue;
      first = finding;
      rank_of_first = static_cast<int>(rank);
    }
  }
  if (!first.text.empty()) fail_diverged(first.text, first.iteration, rank_of_first, trainer);
  checked_iteration_ = now;
}

void FailOnNonNumber::serialize(const Serializer& serializer) {
  double first = first_loss_.value_or(std::numeric_limits<double>::quiet_NaN());
  serializer("first_loss", first);
  first_loss_ = std::isnan(first) ? std::nullopt : std::optional(first);
}

}  // namespace tasuki
