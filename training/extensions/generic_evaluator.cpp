#include "tasuki/training/extensions/generic_evaluator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/nn/variable.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

// Precedes each result in a rank's message.
struct Header {
  std::int64_t round = 0;
  std::uint64_t size = 0;  // bytes
};

struct Result {
  std::int64_t round;
  Bytes bytes;
};

void append(Bytes& message, std::int64_t round, const Bytes& result) {
  const Header header{round, result.size()};
  const auto start = std::as_bytes(std::span(&header, 1));
  message.insert(message.end(), start.begin(), start.end());
  message.insert(message.end(), result.begin(), result.end());
}

void unpack(std::span<const std::byte> message, std::vector<Result>& results) {
  while (!message.empty()) {
    Header header;
    TASUKI_CHECK(message.size() >= sizeof(header), "{} bytes where a result begins",
                 message.size());
    std::memcpy(&header, message.data(), sizeof(header));
    message = message.subspan(sizeof(header));
    TASUKI_CHECK(message.size() >= header.size, "a result of {} bytes ends after {}", header.size,
                 message.size());
    const auto bytes = message.first(header.size);
    results.push_back({header.round, Bytes(bytes.begin(), bytes.end())});
    message = message.subspan(header.size);
  }
}

}  // namespace

GenericEvaluator::GenericEvaluator(std::unique_ptr<Iterator> iterator, Local local,
                                   Aggregate aggregate, Communicator* communicator, int root)
    : iterator_(std::move(iterator)),
      local_(std::move(local)),
      aggregate_(std::move(aggregate)),
      communicator_(communicator),
      root_(root) {}

Bytes GenericEvaluator::results_of_share() {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Bytes message;
  iterator_->restore({});
  const std::int64_t rounds = iterator_->steps_per_epoch();
  for (std::int64_t round = 0; round < rounds; ++round) {
    begin_batch(round + 1, rounds);
    const Batch batch = iterator_->next();
    if (batch.size() == 0) continue;
    const auto add_result = [&](const Batch& there) { append(message, round, local_(there)); };
    Observation unused;
    if (steps_)
      steps_->run(
          batch, unused, [&](const Batch& there, Observation&) { add_result(there); }, "");
    else
      add_result(batch);
  }
  return message;
}

std::vector<Bytes> GenericEvaluator::gather_results() {
  const Bytes own = results_of_share();
  std::vector<Result> results;
  if (communicator_ == nullptr) {
    unpack(own, results);
  } else {
    for (const Bytes& message : communicator_->gather_bytes(own, root_)) unpack(message, results);
  }
  // The parts are in the order of ranks.
  std::ranges::stable_sort(results, {}, &Result::round);
  std::vector<Bytes> in_order;
  in_order.reserve(results.size());
  for (Result& result : results) in_order.push_back(std::move(result.bytes));
  return in_order;
}

Observation GenericEvaluator::evaluate() {
  const std::vector<Bytes> results = gather_results();
  Observation found;
  const auto aggregate = [&] {
    if (is_root()) aggregate_(results, found);
    return Bytes();
  };
  if (communicator_)
    run_on_root(*communicator_, root_, aggregate);
  else
    aggregate();
  return found.over_ranks(communicator_);  // only the root has values
}

void GenericEvaluator::follow(const Updater& updater) {
  const Module* const model = updater.evaluated_model();
  if (model == nullptr) return;
  const DType type = updater.optimizer().compute_type();
  if (steps_ && type == type_of_steps_) return;
  type_of_steps_ = type;
  steps_ = std::make_unique<StepRunner>(*model, StepRunner::Settings{.activations = type});
}

void GenericEvaluator::run(Trainer& trainer) {
  follow(trainer.updater());
  if (communicator_ == nullptr) communicator_ = trainer.communicator();
  const std::string prefix = trainer.name_of(*this) + "/";
  trainer.observation().add(evaluate(), prefix);
}

}  // namespace tasuki
