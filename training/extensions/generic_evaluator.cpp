#include "training/extensions/generic_evaluator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "training/extensions/evaluation_pass.hpp"
#include "training/trainer.hpp"

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

GenericEvaluator::GenericEvaluator(std::unique_ptr<EvaluationPass> pass, Local local,
                                   Aggregate aggregate, Communicator* communicator, int root)
    : pass_(std::move(pass)),
      local_(std::move(local)),
      aggregate_(std::move(aggregate)),
      communicator_(communicator),
      root_(root) {}

GenericEvaluator::GenericEvaluator(std::unique_ptr<Iterator> iterator, Local local,
                                   Aggregate aggregate, Communicator* communicator, int root)
    : GenericEvaluator(std::make_unique<EvaluationPass>(std::move(iterator)), std::move(local),
                       std::move(aggregate), communicator, root) {}

GenericEvaluator::GenericEvaluator(std::unique_ptr<Iterator> iterator, Local local,
                                   Aggregate aggregate, const Module& model,
                                   Communicator* communicator, int root)
    : GenericEvaluator(std::make_unique<EvaluationPass>(std::move(iterator), model, GraphMode::off),
                       std::move(local), std::move(aggregate), communicator, root) {}

GenericEvaluator::~GenericEvaluator() = default;

void GenericEvaluator::watch(const Watcher& watcher) {
  pass_->watch(watcher);
}

Bytes GenericEvaluator::results_of_share() {
  Bytes message;
  const auto add_result = [&](std::int64_t round, const Batch& batch, Observation&) {
    append(message, round, local_(batch));
  };
  pass_->run(add_result, "");
  return message;
}

std::vector<Bytes> GenericEvaluator::gather_results() {
  const Bytes own = results_of_share();
  std::vector<Result> results;
  if (communicator_ == nullptr) {
    unpack(own, results);
  } else {
    for (const Bytes& message : gather_bytes(*communicator_, own, root_)) unpack(message, results);
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

void GenericEvaluator::run(Trainer& trainer) {
  pass_->follow(trainer.updater(), GraphMode::off);
  if (communicator_ == nullptr) communicator_ = trainer.communicator();
  const std::string prefix = trainer.name_of(*this) + "/";
  trainer.observation().add(evaluate(), prefix);
}

}  // namespace tasuki
