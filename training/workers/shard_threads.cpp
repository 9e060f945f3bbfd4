#include "training/workers/shard_threads.hpp"

#include <utility>

#include "core/error.hpp"
#include "optimizer/arena_slices.hpp"
#include "tensor/late_values.hpp"
#include "tensor/recorder.hpp"

namespace tasuki {

ShardThreads::ShardThreads(NamedOptimizers optimizers, const Module& whole,
                           const std::function<TrainingModel()>& create_copy, std::size_t threads)
    : optimizers_(std::move(optimizers)), whole_(whole), threads_(std::vector<int>(threads, 1)) {
  std::vector<std::vector<Module*>> models(optimizers_.size());  // of each optimizer
  for (std::size_t i = 1; i < threads; ++i) {
    const TrainingModel& copy = copies_.emplace_back(create_copy());
    if (copy.parts.empty()) {
      models.front().push_back(copy.model.get());
      losses_.push_back([loss = copy.loss](const Batch& batch, Observation& report) {
        return std::vector{loss(batch, report)};
      });
    } else {
      TASUKI_CHECK(copy.parts.size() == models.size() && copy.losses,
                   "a copy of {} parts for {} optimizers", copy.parts.size(), models.size());
      for (std::size_t part = 0; part < models.size(); ++part)
        models[part].push_back(&copy.parts[part].module);
      losses_.push_back(copy.losses);
    }
  }
  const SpreadUpdate spread = [this](const ApplyRange& apply, std::int64_t count) {
    threads_.run([&](std::size_t thread) {
      const Range range = arena_slices(count, static_cast<int>(size()))[thread];
      apply(range.begin, range.end);
    });
  };
  for (std::size_t i = 0; i < models.size(); ++i)
    optimizers_[i].optimizer->set_copies(models[i], spread);
  follow_model();
}

ShardThreads::~ShardThreads() {
  for (const NamedOptimizer& each : optimizers_) each.optimizer->set_copies({});
}

void ShardThreads::run_step(const std::function<void(std::size_t thread)>& work) {
  std::vector<detail::Requests> requests(size());
  try {
    threads_.run([&](std::size_t thread) {
      const StepScope step;
      work(thread);
      if (thread > 0) requests[thread] = detail::requested_in_step();
    });
  } catch (...) {
    for (const NamedOptimizer& each : optimizers_) each.optimizer->give_up_step();
    throw;
  }
  for (const detail::Requests& of_thread : requests)
    for (const auto& request : of_thread) detail::request_after_step(request);
}

void ShardThreads::follow_model() const {
  for (const NamedOptimizer& each : optimizers_) each.optimizer->tie_copies();
  for (const TrainingModel& copy : copies_) {
    const auto parameters = copy.model->all_parameters(), from = whole_.all_parameters();
    const auto buffers = copy.model->buffers(), from_buffers = whole_.buffers();
    TASUKI_CHECK(parameters.size() == from.size() && buffers.size() == from_buffers.size(),
                 "a copy of the model has {} parameters and {} buffers, the model {} and {}",
                 parameters.size(), buffers.size(), from.size(), from_buffers.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      if (!from[i].parameter->has_optimizer())
        parameters[i].parameter->value().copy_from(from[i].parameter->value());
    for (std::size_t i = 0; i < from_buffers.size(); ++i)
      buffers[i].tensor->copy_from(*from_buffers[i].tensor);
  }
}

}  // namespace tasuki
