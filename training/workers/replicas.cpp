#include "training/workers/replicas.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "optimizer/arena_slices.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {
namespace {

Device device_of(const Module& model) {
  const auto parameters = model.parameters();
  return parameters.empty() ? Device::cpu() : parameters[0].parameter->value().device();
}

// The elements of an arena that one of `workers` works on.
Range slice_of(std::int64_t count, std::size_t workers, std::size_t worker) {
  return arena_slices(count, static_cast<int>(workers))[worker];
}

}  // namespace

Replicas::Replicas(Optimizer& optimizer, std::vector<Module*> models, bool copies_weights)
    : optimizer_(optimizer), models_(std::move(models)) {
  TASUKI_CHECK(!models_.empty() && models_[0] == &optimizer.model(),
               "the first replica must be the optimizer's model");
  for (const Module* model : models_)
    for (const auto& [path, parameter] : model->unshaped_parameters())
      fail(ErrorKind::config,
           "parameter {} has no shape yet, but workers need it: give the layer its input size, or "
           "run each model on an example before the optimizer's setup",
           path);
  if (std::ranges::any_of(models_, &Module::communicates))
    fail(ErrorKind::usage,
         "the model's layers exchange messages with other ranks, which threads of one process "
         "cannot do at once: start one process for each device");
  share_weights_ = !copies_weights && std::ranges::all_of(models_, [](const Module* model) {
    return device_of(*model).is_cpu();
  });
  if (optimizer_.states().are_sharded() && !share_weights_)
    fail_everywhere(ErrorKind::config,
                    "--shard (Optimizer::shard) needs workers that share their "
                    "weights, on CPUs");
  if (optimizer_.arena().keeps_sums_only() || optimizer_.divides_weights())
    fail_everywhere(ErrorKind::config,
                    "--shard gradients (Optimizer::shard): several devices of one process add up "
                    "all gradients; choose --shard states, or start one process for each device");
  adopt_all();
  copy_buffers();
}

void Replicas::adopt_all() {
  const ParameterArena& arena = optimizer_.arena();
  values_ = {arena.values()};
  gradients_ = {arena.gradients()};
  further_.clear();
  for (std::size_t i = 1; i < models_.size(); ++i) {
    const Device device = device_of(*models_[i]);
    values_.push_back(share_weights_
                          ? arena.values()
                          : Tensor::zeros(arena.values().shape(), DType::float32, device));
    gradients_.push_back(Tensor::zeros(arena.gradients().shape(), DType::float32, device));
    further_.emplace_back(*models_[i], arena, values_.back(), gradients_.back());
  }
}

void Replicas::check_model() const {
  const ParameterArena& arena = optimizer_.arena();
  TASUKI_CHECK(
      arena.matches(*models_[0]),
      "the model's parameters changed after the optimizer's setup(), which workers do not support");
  TASUKI_CHECK(arena.unshaped().empty(), "parameter {} has no shape yet, but workers need it",
               arena.unshaped().front().path);
  TASUKI_CHECK(optimizer_.guard().loss_scaler() == nullptr,
               "workers of one process do not scale losses");
}

void Replicas::follow_arena() {
  if (optimizer_.arena().values().raw() != values_[0].raw()) adopt_all();
  gradients_[0] = optimizer_.arena().gradients();  // double buffering moves them
}

void Replicas::begin_gradients(std::size_t replica) const {
  models_[replica]->clear_grads();
}

void Replicas::end_gradients(std::size_t replica) const {
  for (const auto& [path, parameter] : models_[replica]->parameters())
    parameter->fill_missing_grad();
}

void Replicas::sum_gradients(WorkerThreads& workers) const {
  if (size() == 1) return;
  const Tensor& sum = gradients_[0];
  if (!share_weights_) {
    for (std::size_t i = 1; i < size(); ++i)
      backend(sum.device()).accumulate(sum, gradients_[i].to(sum.device()), 1);
    return;
  }
  workers.run([&](std::size_t worker) {
    const Range range = slice_of(sum.count(), size(), worker);
    std::vector<const void*> sources;
    sources.reserve(gradients_.size());
    for (const Tensor& gradients : gradients_)
      sources.push_back(gradients.data<float>() + range.begin);
    void* const destination = sum.data<float>() + range.begin;
    reduce_arrays(DType::float32, ReduceOp::sum, sources, {&destination, 1}, range.size());
  });
}

void Replicas::update(WorkerThreads& workers, const ApplyRange& apply, std::int64_t count) const {
  if (!share_weights_) {
    apply(0, count);
    return copy_weights();
  }
  workers.run([&](std::size_t worker) {
    const Range range = slice_of(count, size(), worker);
    apply(range.begin, range.end);
  });
}

void Replicas::copy_weights() const {
  if (share_weights_) return;
  for (std::size_t i = 1; i < size(); ++i) values_[i].copy_from(values_[0]);
}

void Replicas::copy_buffers() const {
  const auto from = models_[0]->buffers();
  for (std::size_t i = 1; i < size(); ++i) {
    const auto to = models_[i]->buffers();
    TASUKI_CHECK(to.size() == from.size(), "a replica has {} buffers, the first one has {}",
                 to.size(), from.size());
    for (std::size_t each = 0; each < from.size(); ++each)
      to[each].tensor->copy_from(*from[each].tensor);
  }
}

}  // namespace tasuki
