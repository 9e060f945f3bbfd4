#include "optimizer/trained_model.hpp"

#include <algorithm>

#include "communicator/run_on_root.hpp"
#include "core/log.hpp"

namespace tasuki {
namespace {

// For a parameter that belongs to no model and so has no path.
std::string text_of(const Parameter& parameter) {
  const std::string layer = parameter.layer();
  return fmt::format("a parameter {} ({}){}", parameter.name(), parameter.shape_text(),
                     layer.empty() ? "" : " of a layer " + layer);
}

}  // namespace

Module& TrainedModel::checked_model() const {
  TASUKI_CHECK(model != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *model;
}

const ParameterArena& TrainedModel::checked_arena() const {
  TASUKI_CHECK(arena != nullptr, "the optimizer has no model yet; call setup(model) first");
  return *arena;
}

// --- agreement between ranks; collective ---

std::int64_t TrainedModel::sum_over_ranks(std::int64_t own) const {
  if (communicator == nullptr) return own;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&own, 1), {1});
  communicator->allreduce(sum);
  return *sum.data<std::int64_t>();
}

void TrainedModel::share_first_shapes() const {
  if (!all_ranks(model->unshaped_parameters().empty())) share_shapes(model->all_parameters());
}

// Each rank sends which of the candidates have a shape: number, axes, sizes. If ranks found
// different shapes, or have different models, the comparison of the models afterwards reports it.
bool TrainedModel::share_shapes(const std::vector<Module::NamedParameter>& candidates) const {
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].parameter->has_shape()) continue;
    const Shape& shape = candidates[i].parameter->shape();
    own.push_back(static_cast<std::int64_t>(i));
    own.push_back(shape.rank());
    own.insert(own.end(), shape.begin(), shape.end());
  }
  if (communicator == nullptr) return !own.empty();
  bool any = false;
  const Shape length{static_cast<std::int64_t>(own.size())};
  for (const Tensor& found :
       communicator->allgather(Tensor::from(std::span<const std::int64_t>(own), length))) {
    const Tensor host = found.to(Device::cpu());
    const std::span<const std::int64_t> numbers = host.span<std::int64_t>();
    for (std::size_t at = 0; at < numbers.size();) {
      const auto number = static_cast<std::size_t>(numbers[at]);
      const Shape shape(numbers.subspan(at + 2, static_cast<std::size_t>(numbers[at + 1])));
      if (number < candidates.size() && candidates[number].parameter->accepts(shape))
        candidates[number].parameter->set_shape(shape);
      at += 2 + static_cast<std::size_t>(numbers[at + 1]);
      any = true;
    }
  }
  return any;
}

// --- checks that fail for models that would not train ---

void TrainedModel::check_registered(const Module& model, std::size_t size_of_model) {
  for (const Parameter* parameter : model.unregistered_parameters(size_of_model))
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "{} is in a member of the model that is not registered: add(\"name\", layer) "
                      "in the constructor of the module that has it; a layer that is not to be "
                      "trained with the model is held by pointer",
                      text_of(*parameter));
}

void TrainedModel::check_parameters(const FrozenPaths& frozen) const {
  if (model->all_parameters().empty())
    fail_everywhere(ErrorKind::internal,
                    "the optimizer's model has no parameters: register its layers, add(\"name\", "
                    "layer), in the constructor of the module that has them as members");
  if (std::ranges::all_of(model->all_parameters(),
                          [&](const auto& named) { return frozen.has(named.path); }))
    fail_everywhere(ErrorKind::usage, "all parameters of the optimizer's model are frozen");
  const auto check_values = [this] {
    for (const auto& [path, parameter] : model->parameters())
      if (!parameter->has_values())
        fail(ErrorKind::internal,
             "parameter {} ({}) has no values yet: call the model's initialize(seed), or load a "
             "file, before the optimizer's setup; where zeros are meant, call the parameter's "
             "value_changed()",
             path, parameter->shape_text());
    return Bytes{};
  };
  // The other ranks take rank 0's.
  if (communicator)
    run_on_root(*communicator, 0, check_values);
  else
    check_values();
}

void TrainedModel::check_pattern(const std::string& pattern) const {
  if (model == nullptr) return;
  const std::vector<Module::NamedParameter> all = model->all_parameters();
  if (std::ranges::any_of(all, [&](const auto& named) { return matches(pattern, named.path); }))
    return;
  fail_everywhere(ErrorKind::usage,
                  "no parameter's path matches \"{}\" (* stands for any "
                  "characters but /, ** for any); the first one is {}",
                  pattern, all.empty() ? "missing" : all.front().path);
}

void TrainedModel::check_graph(const Variable& loss) const {
  for (const Parameter* parameter : parameters_below(loss)) {
    if (std::ranges::count(arena->entries(), parameter, &ParameterArena::Entry::parameter))
      continue;
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "the loss depends on {} that the model does not have and that has no values: "
                      "register its layer, add(\"name\", layer), in the constructor of the module "
                      "that has it as a member; of a frozen layer whose zeros are meant, call the "
                      "parameter's value_changed()",
                      text_of(*parameter));
    if (!parameter->has_optimizer() && (!communicator || communicator->rank() == 0))
      log_warning(
          "the loss depends on {} that no optimizer updates: its layer is not registered, "
          "add(\"name\", layer), in the model",
          text_of(*parameter));
  }
}

}  // namespace tasuki
