#include "tasuki/communicator/algorithms/planned_allreduce.hpp"

#include <utility>

#include "tasuki/communicator/algorithms/plans.hpp"
#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/core/polite_wait.hpp"
#include "tasuki/core/stopwatch.hpp"

namespace tasuki {

std::string PlannedAllreduce::describe() const {
  return settings_.algorithm ? name_of(*settings_.algorithm) : "the fastest algorithm as predicted";
}

AllreduceAlgorithm PlannedAllreduce::algorithm_for(std::int64_t count, DType type) const {
  if (settings_.algorithm) return *settings_.algorithm;
  const double bytes = static_cast<double>(count) * static_cast<double>(size_of(type));
  return fastest_algorithm(bytes, ranks_, settings_.link);
}

const MessagePlan& PlannedAllreduce::plan_for(std::int64_t count, DType type) {
  // Gradients have a few lengths, or some hundred in small ranges; other values may have any.
  constexpr std::size_t most_plans = 4096;
  const std::pair key{count, size_of(type)};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  if (plans_.size() == most_plans) plans_.clear();
  const AllreduceAlgorithm algorithm = algorithm_for(count, type);
  if (ranks_ == 1 || algorithm == AllreduceAlgorithm::mpi)
    return plans_[key] = {.need = {{0, count}}, .completion = {{0, count}}};
  return plans_[key] = plan_allreduce(
             algorithm, {count, size_of(type), settings_.sizes.message_chunk}, rank_, ranks_);
}

std::unique_ptr<PlanRun> PlannedAllreduce::start(void* values, std::int64_t count, DType type,
                                                 ReduceOp op, MPI_Comm comm, PieceWork work,
                                                 const Wire& wire) {
  return std::make_unique<PlanRun>(values, type, op, plan_for(count, wire.type_of(type)), comm,
                                   std::move(work), wire);
}

void PlannedAllreduce::run(void* values, std::int64_t count, DType type, ReduceOp op, MPI_Comm comm,
                           const PieceWork& work, const Wire& wire) {
  const MessagePlan& plan = plan_for(count, wire.type_of(type));
  if (!plan.sends.empty() || !plan.receives.empty()) {
    Stopwatch watch;
    PlanRun(values, type, op, plan, comm, work, wire).finish();
    const DType sent = wire.type_of(type);
    outcomes_.add(algorithm_for(count, sent),
                  static_cast<double>(count) * static_cast<double>(size_of(sent)), ranks_,
                  settings_.link, watch.lap());
    return;
  }
  PoliteWait waiting;
  for (const Range piece : plan.need)
    while (work.prepare && !work.prepare(piece)) waiting.pause();
  if (ranks_ > 1) allreduce(values, count, type, op, comm, settings_.sizes.mpi_call);
  for (const Range piece : plan.completion)
    if (work.finished) work.finished(piece);
}

}  // namespace tasuki
