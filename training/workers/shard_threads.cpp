#include "training/workers/shard_threads.hpp"

#include <utility>

#include "core/error.hpp"
#include "optimizer/arena_slices.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

ShardThreads::ShardThreads(NamedOptimizers optimizers,
                           const std::function<TrainingModel()>& create_copy, std::size_t threads)
    : optimizers_(std::move(optimizers)), threads_(std::vector<int>(threads, 1)) {
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

void ShardThreads::copy_buffers() const {
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const auto from = optimizers_[i].optimizer->model().buffers();
    for (const TrainingModel& copy : copies_) {
      const Module& model = copy.parts.empty() ? *copy.model : copy.parts[i].module;
      const auto to = model.buffers();
      for (std::size_t each = 0; each < from.size(); ++each)
        to[each].tensor->copy_from(*from[each].tensor);
    }
  }
}

}  // namespace tasuki
