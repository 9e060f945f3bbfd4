#include "nn/module.hpp"

#include <algorithm>
#include <set>
#include <typeinfo>
#include <utility>

#include "core/hash.hpp"
#include "nn/node.hpp"
#include "nn/value_memory.hpp"

namespace tasuki {

void Module::visit(const std::string& prefix,
                   const std::function<void(const std::string&, const Module&)>& fn) const {
  fn(prefix, *this);
  for (const Child& child : children_) child.module->visit(prefix + child.name + "/", fn);
}

std::vector<Module::NamedParameter> Module::all_parameters() const {
  std::vector<NamedParameter> found;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedParameter& owned : module.parameters_)
      found.push_back({prefix + owned.name, owned.parameter.get()});
  });
  return found;
}

std::vector<Module::NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> found = all_parameters();
  std::erase_if(found, [](const NamedParameter& each) { return !each.parameter->has_shape(); });
  return found;
}

std::vector<Module::NamedParameter> Module::unshaped_parameters() const {
  std::vector<NamedParameter> found = all_parameters();
  std::erase_if(found, [](const NamedParameter& each) { return each.parameter->has_shape(); });
  return found;
}

std::vector<const Parameter*> Module::unregistered_parameters(std::size_t known_size) const {
  std::set<const Module*> registered, members;
  visit("", [&](const std::string&, const Module& module) {
    registered.insert(&module);
    const std::size_t size = &module == this ? known_size : 0;
    for (const Module* member : ModuleMemory::members_of(module, size)) members.insert(member);
  });
  std::vector<const Parameter*> found;
  for (const Module* member : members)
    if (!registered.contains(member))
      for (const OwnedParameter& owned : member->parameters_)
        found.push_back(owned.parameter.get());
  return found;
}

std::vector<Module::NamedBuffer> Module::buffers() const {
  std::vector<NamedBuffer> found;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedBuffer& owned : module.buffers_)
      found.push_back({prefix + owned.name, owned.tensor.get()});
  });
  return found;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedParameter& named : parameters()) count += named.parameter->shape().count();
  return count;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> found = {this};
  for (const Child& child : children_) {
    const std::vector<Module*> below = child.module->modules();
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

bool Module::communicates() const {
  bool found = false;
  visit("", [&](const std::string&, const Module& module) {
    found = found || module.communicates_itself();
  });
  return found;
}

void Module::for_initializers(
    std::uint64_t seed,
    const std::function<void(Parameter&, std::function<void(const Tensor& value)>)>& fn) const {
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedParameter& owned : module.parameters_)
      fn(*owned.parameter,
         [draw = owned.initializer, seed, stream = hash_text(prefix + owned.name)](
             const Tensor& value) { draw(value, seed, stream); });
  });
}

void Module::initialize(std::uint64_t seed) {
  for_initializers(seed, [](Parameter& parameter, std::function<void(const Tensor& value)> draw) {
    if (!parameter.has_shape()) return parameter.initialize_later(std::move(draw));
    draw(parameter.value());
    parameter.value_changed();
  });
}

void Module::initialize_later(std::uint64_t seed) {
  for_initializers(seed, [](Parameter& parameter, std::function<void(const Tensor& value)> draw) {
    parameter.initialize_later(std::move(draw));
  });
}

void Module::clear_grads() const {
  for (const NamedParameter& named : parameters()) named.parameter->clear_grad();
}

void Module::to(Device device) const {
  for (const NamedParameter& named : all_parameters()) {
    if (named.parameter->value_storage().device() == device) continue;
    const auto fresh = [&] {
      return Tensor::empty(named.parameter->shape(), DType::float32, device);
    };
    named.parameter->clear_grad();
    named.parameter->move_to(fresh(), fresh());
  }
  for (const NamedBuffer& named : buffers()) *named.tensor = named.tensor->to(device);
}

Device Module::device() const {
  const std::vector<NamedParameter> all = all_parameters();
  return all.empty() ? Device::cpu() : all.front().parameter->value_storage().device();
}

void Module::check_name(const std::string& name) const {
  const auto same = [&](const auto& other) { return other.name == name; };
  TASUKI_CHECK(!name.empty() && name.find('/') == std::string::npos,
               "\"{}\" cannot name a part of a module: it is empty or contains a slash", name);
  TASUKI_CHECK(std::ranges::none_of(parameters_, same) && std::ranges::none_of(buffers_, same) &&
                   std::ranges::none_of(children_, same),
               "the module has a part named {} already", name);
}

Parameter& Module::add_parameter(const std::string& name, const Shape& shape,
                                 Initializer initializer) {
  return own(std::make_unique<Parameter>(name, shape, Parameter::Untouched()),
             std::move(initializer));
}

Parameter& Module::add_unshaped_parameter(const std::string& name, const Shape& open_shape,
                                          Initializer initializer) {
  return own(std::make_unique<Parameter>(name, open_shape), std::move(initializer));
}

Parameter& Module::own(std::unique_ptr<Parameter> parameter, Initializer initializer) {
  const std::string& name = parameter->name();
  check_name(name);
  TASUKI_CHECK(initializer != nullptr, "parameter {} has no initializer", name);
  parameter->set_layer(typeid(*this));  // in a constructor: the class being constructed
  parameters_.push_back({name, std::move(parameter), std::move(initializer)});
  return *parameters_.back().parameter;
}

Tensor& Module::add_buffer(const std::string& name, Tensor value) {
  check_name(name);
  buffers_.push_back({name, std::make_unique<Tensor>(std::move(value))});
  return *buffers_.back().tensor;
}

void Module::add(const std::string& name, Module& child) {
  check_name(name);
  children_.push_back({name, &child});
}

ConstantParameters::ConstantParameters(const Module& module) {
  for (const Module::NamedParameter& named : module.all_parameters())
    if (!named.parameter->is_frozen()) learning_.push_back(named.parameter);
  for (const Parameter* parameter : learning_) {
    if (const ValueMemory* memory = parameter->value_memory(); memory && memory->is_divided())
      fail_everywhere(ErrorKind::usage,
                      "ConstantParameters: the values of {} are divided among nodes (--shard "
                      "weights), and their backward pass would lack them; choose --shard "
                      "gradients",
                      parameter->name());
    parameter->node()->is_frozen = true;
  }
}

ConstantParameters::~ConstantParameters() {
  for (const Parameter* parameter : learning_) parameter->node()->is_frozen = false;
}

}  // namespace tasuki
