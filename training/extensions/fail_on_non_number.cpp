#include "training/extensions/fail_on_non_number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "communicator/objects.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// A double can hold the sum of squares of floats: it is finite if all of them are.
bool is_finite(const Tensor& array) {
  return std::isfinite(backend(array.device()).squared_norm(array));
}

// The first parameter whose part of an array with the arena's offsets is not finite; empty if there
// is none.
std::string first_non_finite(const Tensor& array,
                             const std::vector<ParameterArena::Entry>& entries) {
  for (const ParameterArena::Entry& entry : entries)
    if (!is_finite(ParameterArena::part(array, entry))) return entry.path;
  return "";
}

// What is wrong with the parameters, if anything.
std::string describe_parameters(const Optimizer& optimizer) {
  const ParameterArena& arena = optimizer.arena();
  if (arena.is_divided()) {  // each rank looks at what it keeps
    const Range own = arena.own_slice();
    for (const ParameterArena::Entry& entry : arena.entries()) {
      const std::int64_t begin = std::max(own.begin, entry.offset);
      const std::int64_t end = std::min(own.end, entry.offset + entry.count);
      if (begin < end && !is_finite(arena.values().slice(begin, end)))
        return entry.path + " has values that are not finite";
    }
    const std::string frozen = first_non_finite(arena.values(), arena.frozen());
    return frozen.empty() ? "" : frozen + " has values that are not finite";
  }
  if (is_finite(arena.values())) return "";
  for (const auto* entries : {&arena.entries(), &arena.frozen()})
    if (const std::string path = first_non_finite(arena.values(), *entries); !path.empty())
      return path + " has values that are not finite";
  return "a parameter is not finite";
}

// What is wrong with the states that this rank keeps, and with what it keeps of gradients, if
// anything. Weights need not show it: an
// infinite second moment of Adam makes its updates zero.
std::string describe_states(const Optimizer& optimizer) {
  const ParameterArena& arena = optimizer.arena();
  const OptimizerStates& states = optimizer.states();
  for (const std::string& name : states.names()) {
    const auto text = [&](const std::string& path) {
      return fmt::format("the optimizer's state {} of {} has values that are not finite", name,
                         path);
    };
    const auto& [elements, values] = states.own(name);
    if (elements.size() > 0 && !is_finite(values))
      for (const ParameterArena::Entry& entry : arena.entries()) {
        const std::int64_t begin = std::max(entry.offset, elements.begin) - elements.begin;
        const std::int64_t end =
            std::min(entry.offset + entry.count, elements.end) - elements.begin;
        if (begin < end && !is_finite(values.slice(begin, end))) return text(entry.path);
      }
    for (const ParameterArena::Entry& entry : arena.frozen())
      if (states.has(*entry.parameter) && !is_finite(states.of(*entry.parameter, name)))
        return text(entry.path);
  }
  // The last one counts examples.
  const GradientExchange* const exchange = optimizer.step_exchange().gradient_exchange();
  std::vector<Tensor> kept = exchange ? exchange->carried_over() : std::vector<Tensor>();
  if (!kept.empty()) kept.pop_back();
  if (!std::ranges::all_of(kept, is_finite))
    return "what compressing or rounding gradients leaves for the next step has values that are "
           "not finite";
  return "";
}

// What is wrong with the sums of gradients that this rank has, if anything.
std::string describe_gradients(const Updater& updater) {
  for (const NamedOptimizer& each : updater.optimizers()) {
    const ParameterArena& arena = each.optimizer->arena();
    if (is_finite(arena.gradients())) continue;
    if (const std::string path = first_non_finite(arena.gradients(), arena.entries());
        !path.empty())
      return fmt::format("the sum of the gradients of {} is not finite", path);
  }
  return "";
}

std::string text_of_examples(std::span<const std::int64_t> examples) {
  return examples.empty()
             ? ""
             : fmt::format("; its batch begins with examples {}", fmt::join(examples, ", "));
}

int ranks_of(const Trainer& trainer) {
  return trainer.communicator() ? trainer.communicator()->size() : 1;
}

std::string text_of_rank(const Trainer& trainer, int rank) {
  return ranks_of(trainer) > 1 ? fmt::format(" on rank {}", rank) : "";
}

std::int64_t updates_left_out(const Updater& updater) {
  std::int64_t sum = 0;
  for (const NamedOptimizer& each : updater.optimizers()) sum += each.optimizer->guard().skipped();
  return sum;
}

bool may_skip(const Updater& updater) {
  return std::ranges::any_of(updater.optimizers(), [](const NamedOptimizer& each) {
    return each.optimizer->guard().skips_non_finite();
  });
}

}  // namespace

FailOnNonNumber::FailOnNonNumber(Settings settings, std::unique_ptr<Trigger> check)
    : settings_(std::move(settings)), check_(std::move(check)) {}

void FailOnNonNumber::initialize(Trainer& trainer) {
  updates_left_out_ = updates_left_out(trainer.updater());
}

void FailOnNonNumber::run(Trainer& trainer) {
  constexpr std::size_t most_unseen = 1000;
  const Updater& updater = trainer.updater();
  const Observation& now = trainer.observation();
  const Examples examples = updater.last_examples();
  const std::int64_t left_out = updates_left_out(updater);
  const bool is_left_out = std::exchange(updates_left_out_, left_out) != left_out;
  if (may_skip(updater)) trainer.observation().set("skipped", is_left_out ? 1 : 0);
  if (is_left_out) {
    pass_over(trainer);
  } else if (now.is_on_device()) {
    unseen_.push_back({updater.iteration(), now, {examples.begin(), examples.end()}});
    if (unseen_.size() == most_unseen) judge_unseen();
  } else {
    judge_unseen();
    judge(updater.iteration(), now, examples);
  }
  if (!is_left_out) skipped_in_a_row_ = 0;
  end_if_found(trainer);
  if (check_->fires(trainer)) check_all_ranks(trainer);
}

bool FailOnNonNumber::is_loss(std::string_view key) const {
  const std::string_view whole = settings_.loss;
  const std::size_t slash = whole.rfind('/');
  if (slash == whole.npos) return key == whole;
  const std::string_view of_updater = whole.substr(0, slash + 1), name = whole.substr(slash);
  return key.starts_with(of_updater) && key.substr(slash).ends_with(name);
}

FailOnNonNumber::Finding FailOnNonNumber::find_non_finite(std::int64_t iteration,
                                                          const Observation& seen,
                                                          Examples examples) const {
  for (const auto& [key, value] : seen.values())
    if (is_loss(key) && !std::isfinite(value.sum()))
      return {iteration, fmt::format("{} became {}", key, value.mean()),
              value.reach == Reach::rank ? text_of_examples(examples) : ""};
  return {iteration, "", ""};
}

void FailOnNonNumber::judge(std::int64_t iteration, const Observation& seen, Examples examples) {
  if (found_) return;
  if (Finding finding = find_non_finite(iteration, seen, examples); !finding.text.empty()) {
    found_ = std::move(finding);
    return;
  }
  const auto loss = seen.mean(settings_.loss);
  if (!loss) return;
  if (!first_loss_) first_loss_ = *loss;
  if (settings_.max_loss > 0 && *loss > settings_.max_loss * std::max(1.0, *first_loss_))
    found_ = {iteration,
              fmt::format("{} became {:.4g}, over {:.4g} times the first, {:.4g},", settings_.loss,
                          *loss, settings_.max_loss, *first_loss_),
              text_of_examples(examples)};
}

void FailOnNonNumber::judge_unseen() {
  for (const Seen& each : unseen_) judge(each.iteration, each.observation, each.examples);
  unseen_.clear();
}

void FailOnNonNumber::end_with(const Trainer& trainer, const FindingOfRank& found) {
  const std::int64_t now = trainer.updater().iteration();
  const auto& [iteration, text, examples] = found.finding;
  const std::string later = iteration < now ? fmt::format(" (found in iteration {})", now) : "";
  fail_everywhere(ErrorKind::config,
                  "training diverged: {} in iteration {}{}{}{}; try a lower learning rate or "
                  "gradient clipping",
                  text, iteration, text_of_rank(trainer, found.rank), later, examples);
}

void FailOnNonNumber::end_if_found(const Trainer& trainer) const {
  if (!found_) return;
  const Communicator* communicator = trainer.communicator();
  end_with(trainer, {*found_, communicator ? communicator->rank() : 0});
}

// All ranks come here in the same iteration, because they have agreed to leave it out.
void FailOnNonNumber::pass_over(Trainer& trainer) {
  const Updater& updater = trainer.updater();
  ++skipped_;
  ++skipped_in_a_row_;
  FindingOfRank found = first_of_ranks(
      trainer,
      find_non_finite(updater.iteration(), trainer.observation(), updater.last_examples()));
  std::string where = text_of_rank(trainer, found.rank);
  if (found.finding.text.empty()) {
    found = first_of_ranks(trainer, {updater.iteration(), describe_gradients(updater), ""});
    // Devices may have used up the sums.
    if (found.finding.text.empty()) found.finding.text = "a sum of gradients is not finite";
    where.clear();
  }
  if (skipped_in_a_row_ >= settings_.most_skipped)
    fail_everywhere(ErrorKind::config,
                    "training diverged: {} iterations in a row were left out, the last one, {}, "
                    "because {}{}{}; try a lower learning rate or gradient clipping",
                    skipped_in_a_row_, updater.iteration(), found.finding.text, where,
                    found.finding.examples);
  if (trainer.is_root())
    log_warning("iteration {} is left out ({} so far): {}{}{}", updater.iteration(), skipped_,
                found.finding.text, where, found.finding.examples);
  trainer.observation().forget_own();
}

// Only reported values have been waited for. All ranks have the same ones, and together look for
// the first loss that was not finite.
void FailOnNonNumber::before_report(Trainer& trainer, const Observation& all) {
  if (!find_non_finite(0, all, {}).text.empty()) check_all_ranks(trainer);
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
  Finding own{now, "", ""};
  if (found_)
    own = *found_;
  else
    for (const NamedOptimizer& each : trainer.updater().optimizers()) {
      if (own.text.empty()) own.text = describe_parameters(*each.optimizer);
      if (own.text.empty()) own.text = describe_states(*each.optimizer);
    }

  if (const FindingOfRank first = first_of_ranks(trainer, own); !first.finding.text.empty())
    end_with(trainer, first);
  checked_iteration_ = now;
}

FailOnNonNumber::FindingOfRank FailOnNonNumber::first_of_ranks(const Trainer& trainer,
                                                               const Finding& own) {
  if (ranks_of(trainer) == 1) return {own, 0};
  const nlohmann::json told = {own.iteration, own.text, own.examples};
  const auto all = allgather_object(*trainer.communicator(), told);
  FindingOfRank first;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const nlohmann::json& other = all[rank];
    const Finding finding{other.at(0), other.at(1), other.at(2)};
    if (finding.text.empty() ||
        (!first.finding.text.empty() && first.finding.iteration <= finding.iteration))
      continue;
    first = {finding, static_cast<int>(rank)};
  }
  return first;
}

void FailOnNonNumber::serialize(const Serializer& serializer) {
  double first = first_loss_.value_or(std::numeric_limits<double>::quiet_NaN());
  serializer("first_loss", first);
  first_loss_ = std::isnan(first) ? std::nullopt : std::optional(first);
  if (serializer.is_loading() ? serializer.contains("skipped") : skipped_ > 0)
    serializer("skipped", skipped_);
}

}  // namespace tasuki
