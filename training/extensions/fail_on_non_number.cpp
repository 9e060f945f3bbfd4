#include "tasuki/training/extensions/fail_on_non_number.hpp"

#include <cmath>
#include <utility>

#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

// What is wrong with the parameters, or nothing.
std::string describe_parameters(const Optimizer& optimizer) {
  const ParameterArena& arena = optimizer.arena();
  const Device device = arena.values().device();
  // A sum of squares of floats fits into a double: it is finite when all of them are.
  if (std::isfinite(backend(device).squared_norm(arena.values()))) return "";
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const Tensor part = ParameterArena::part(arena.values(), entry);
    if (!std::isfinite(backend(device).squared_norm(part)))
      return fmt::format("{} has values that are not finite", entry.path);
  }
  return "a parameter is not finite";
}

}  // namespace

FailOnNonNumber::FailOnNonNumber(std::unique_ptr<Trigger> check) : check_(std::move(check)) {}

void FailOnNonNumber::run(Trainer& trainer) {
  constexpr std::size_t most_unseen = 1000;
  const Observation& now = trainer.observation();
  if (first_bad_.empty()) unseen_.emplace_back(trainer.updater().iteration(), now);
  if (!now.is_on_device() || unseen_.size() == most_unseen) look_at_unseen();
  if (check_->fires(trainer)) check_all_ranks(trainer);
}

void FailOnNonNumber::look_at_unseen() {
  for (const auto& [iteration, observation] : unseen_) {
    for (const auto& [key, value] : observation.values()) {
      if (std::isfinite(value.sum) || !first_bad_.empty()) continue;
      first_bad_ = fmt::format("{} became {} in iteration {}", key, value.mean(), iteration);
    }
  }
  unseen_.clear();
}

void FailOnNonNumber::finalize(Trainer& trainer) {
  check_all_ranks(trainer);
}

void FailOnNonNumber::check_all_ranks(Trainer& trainer) {
  look_at_unseen();
  std::string finding = first_bad_;
  if (finding.empty()) finding = describe_parameters(trainer.updater().optimizer());
  std::string who;
  if (Communicator* communicator = trainer.communicator();
      communicator && communicator->size() > 1) {
    const auto all = communicator->allgather_bytes(text_to_bytes(finding));
    finding.clear();
    for (std::size_t rank = 0; rank < all.size() && finding.empty(); ++rank) {
      finding = bytes_to_text(all[rank]);
      who = fmt::format(" on rank {}", rank);
    }
  }
  if (finding.empty()) return;
  fail_everywhere(ErrorKind::config,
                  "training diverged: {}{} (found in iteration {}); try a lower learning rate or "
                  "gradient clipping",
                  finding, who, trainer.updater().iteration());
}

}  // namespace tasuki
