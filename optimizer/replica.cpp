#include "optimizer/replica.hpp"

#include <map>
#include <string>

#include "core/error.hpp"

namespace tasuki {

Replica::Replica(Module& copy, const ParameterArena& arena, const Tensor& values,
                 const Tensor& gradients)
    : model_(&copy), values_(values), gradients_(gradients) {
  copy.clear_grads();
  std::map<std::string, Parameter*> parameters;
  for (const auto& [path, parameter] : copy.parameters()) parameters.emplace(path, parameter);
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
    Parameter& own = counterpart(entry);
    own.move_to(ParameterArena::part(values, entry).reshape(shape),
                ParameterArena::part(gradients, entry).reshape(shape));
    own.set_has_optimizer();
    entries_.push_back({entry.path, &own, entry.offset, entry.count});
  }
  for (const ParameterArena::Entry& entry : arena.frozen()) {
    Parameter& own = counterpart(entry);
    own.freeze_at(ParameterArena::part(values, entry).reshape(entry.parameter->shape()));
    own.set_has_optimizer();
  }
  if (!arena.rounded() || values.raw() != arena.values().raw()) return;
  arena_rounded_ = arena.rounded();
  for (const auto* const entries : {&arena.entries(), &arena.frozen()})
    for (const ParameterArena::Entry& entry : *entries) {
      rounded_.push_back(std::make_shared<const RoundedValue>(
          ParameterArena::part(arena.rounded(), entry).reshape(entry.parameter->shape())));
      parameters.at(entry.path)->keep_rounded(rounded_.back());
    }
}

bool Replica::follows(const ParameterArena& arena) const {
  const auto raw = [](const Tensor& array) { return array ? array.raw() : nullptr; };
  return values_.raw() == arena.values().raw() && raw(arena_rounded_) == raw(arena.rounded());
}

void Replica::point_gradients_at(const Tensor& array) const {
  for (const ParameterArena::Entry& entry : entries_)
    entry.parameter->move_grad(
        ParameterArena::part(array, entry).reshape(entry.parameter->shape()));
}

}  // namespace tasuki
