#include "training/workers/replicas.hpp"

#include <algorithm>
#include <map>
#include <string>

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
                    "--shard-optimizer (OptimizerStates::shard) needs workers that share their "
                    "weights, on CPUs");
  adopt_all();
  copy_buffers();
}

void Replicas::adopt_all() {
  values_ = {optimizer_.arena().values()};
  gradients_ = {optimizer_.arena().gradients()};
  rounded_.clear();
  for (std::size_t i = 1; i < models_.size(); ++i) adopt(*models_[i]);
}

// Moves the parameters of a further model into arrays with the arena's offsets.
void Replicas::adopt(const Module& model) {
  const ParameterArena& arena = optimizer_.arena();
  const Device device = device_of(model);
  const Tensor values = share_weights_
                            ? arena.values()
                            : Tensor::zeros(arena.values().shape(), DType::float32, device);
  const Tensor gradients = Tensor::zeros(arena.gradients().shape(), DType::float32, device);
  std::map<std::string, Parameter*> parameters;
  for (const auto& [path, parameter] : model.parameters()) parameters.emplace(path, parameter);
  const auto counterpart = [&](const ParameterArena::Entry& entry) -> Parameter& {
    const auto found = parameters.find(entry.path);
    const Shape& expected = entry.parameter->shape();
    TASUKI_CHECK(found != parameters.end() && found->second->shape() == expected,
                 "a replica has no parameter {} of shape {}", entry.path, expected.text());
    found->second->value().copy_from(entry.parameter->value());
    return *found->second;
  };
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const Shape& shape = entry.parameter->shape();
    counterpart(entry).move_to(ParameterArena::part(values, entry).reshape(shape),
                               ParameterArena::part(gradients, entry).reshape(shape));
  }
  for (const ParameterArena::Entry& entry : arena.frozen())
    counterpart(entry).freeze_at(
        ParameterArena::part(values, entry).reshape(entry.parameter->shape()));
  if (share_weights_ && arena.rounded())
    for (const auto* const entries : {&arena.entries(), &arena.frozen()})
      for (const ParameterArena::Entry& entry : *entries) {
        rounded_.push_back(std::make_shared<const RoundedValue>(
            ParameterArena::part(arena.rounded(), entry).reshape(entry.parameter->shape())));
        parameters.at(entry.path)->keep_rounded(rounded_.back());
      }
  values_.push_back(values);
  gradients_.push_back(gradients);
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
