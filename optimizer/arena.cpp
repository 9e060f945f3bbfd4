#include "tasuki/optimizer/arena.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tasuki {
namespace {

// Each parameter once, in order of registration.
std::vector<Module::NamedParameter> distinct(std::vector<Module::NamedParameter> parameters) {
  std::unordered_set<const Parameter*> met;
  std::erase_if(parameters, [&](const Module::NamedParameter& named) {
    return !met.insert(named.parameter).second;
  });
  return parameters;
}

Tensor zeros(std::int64_t count, Device device, Communicator* allocator) {
  if (!allocator) return Tensor::zeros({count}, DType::float32, device);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  return {allocator->allocate(bytes, device), 0, {count}, DType::float32};
}

}  // namespace

ParameterArena::ParameterArena(const Module& model, Communicator* allocator,
                               const FrozenPaths& frozen)
    : unshaped_(distinct(model.unshaped_parameters())) {
  std::vector<Module::NamedParameter> parameters = distinct(model.parameters());
  std::reverse(parameters.begin(), parameters.end());
  const Device device = model.device();

  std::int64_t end = 0;
  const auto place = [&](bool is_frozen, std::vector<Entry>& entries) {
    for (const auto& [path, parameter] : parameters) {
      if (frozen.has(path) != is_frozen) continue;
      TASUKI_CHECK(parameter->value().device() == device,
                   "parameter {} is on {}, others are on {}; a model lives on one device", path,
                   parameter->value().device().text(), device.text());
      const std::int64_t count = parameter->value().count();
      entries.push_back({path, parameter, end, count});
      end += (count + padding - 1) / padding * padding;
    }
  };
  place(false, entries_);
  for (const Entry& entry : entries_) segments_.push_back({entry.offset, entry.count});
  segments_.push_back({end, notices});
  end += padding;
  gradients_ = zeros(end, device, allocator);
  place(true, frozen_);
  values_ = zeros(end, device, allocator);
  for (const Entry& entry : entries_) {
    const Shape& shape = entry.parameter->shape();
    entry.parameter->move_to(part(values_, entry).reshape(shape),
                             part(gradients_, entry).reshape(shape));
    entry.parameter->set_has_optimizer();
  }
  for (const Entry& entry : frozen_) {
    entry.parameter->freeze_at(part(values_, entry).reshape(entry.parameter->shape()));
    entry.parameter->set_has_optimizer();
  }
}

Tensor ParameterArena::swap_gradients(const Tensor& other) {
  TASUKI_CHECK(other.shape() == gradients_.shape(), "an array of shape {} for gradients of {}",
               other.shape().text(), gradients_.shape().text());
  for (const Entry& entry : entries_)
    entry.parameter->move_grad(part(other, entry).reshape(entry.parameter->shape()));
  return std::exchange(gradients_, other);
}

void ParameterArena::keep_rounded(DType type) {
  rounded_ = Tensor::empty(values_.shape(), type, values_.device());
  rounded_parts_.clear();
  round_values();
  for (const std::vector<Entry>* entries : {&entries_, &frozen_})
    for (const Entry& entry : *entries) {
      rounded_parts_.push_back(std::make_shared<const RoundedValue>(
          part(rounded_, entry).reshape(entry.parameter->shape())));
      entry.parameter->keep_rounded(rounded_parts_.back());
    }
}

void ParameterArena::round_values() const {
  if (rounded_) rounded_.copy_from(values_);
}

void ParameterArena::forget_rounded() {
  rounded_parts_.clear();
  rounded_ = {};
}

bool ParameterArena::matches(const Module& model) const {
  const auto same = [](const Module::NamedParameter& a, const Module::NamedParameter& b) {
    return a.parameter == b.parameter && a.path == b.path;
  };
  if (!std::ranges::equal(distinct(model.unshaped_parameters()), unshaped_, same)) return false;
  std::vector<Module::NamedParameter> now = distinct(model.parameters());
  std::reverse(now.begin(), now.end());
  const auto first_frozen = std::stable_partition(
      now.begin(), now.end(), [](const auto& named) { return !named.parameter->is_frozen(); });
  const auto is_in_place = [&](const Module::NamedParameter& named, const Entry& entry) {
    return named.parameter == entry.parameter && named.path == entry.path &&
           named.parameter->value().raw() == part(values_, entry).raw();
  };
  return std::equal(now.begin(), first_frozen, entries_.begin(), entries_.end(),
                    [&](const Module::NamedParameter& named, const Entry& entry) {
                      return is_in_place(named, entry) &&
                             named.parameter->grad_storage().raw() == part(gradients_, entry).raw();
                    }) &&
         std::equal(first_frozen, now.end(), frozen_.begin(), frozen_.end(), is_in_place);
}

bool ParameterArena::freezes(const FrozenPaths& frozen) const {
  const auto is_frozen = [&](const Entry& entry) { return frozen.has(entry.path); };
  return std::ranges::none_of(entries_, is_frozen) && std::ranges::all_of(frozen_, is_frozen);
}

}  // namespace tasuki
