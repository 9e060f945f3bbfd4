#include "saving/onnx/graph_builder.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace tasuki::onnx_graph {
namespace {

List list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Tensor tensor_of(const List& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

}  // namespace

GraphBuilder::Key GraphBuilder::key_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.shape().text(), tensor.dtype()};
}

GraphBuilder::GraphBuilder(const Module& model, const Pass& pass, const Pass& larger,
                           const std::vector<std::vector<std::string>>& axis_names)
    : pass_(pass), larger_(larger) {
  TASUKI_CHECK(pass.calls.size() == larger.calls.size(),
               "ONNX: the forward pass calls {} functions for a small input and {} for a larger "
               "one",
               pass.calls.size(), larger.calls.size());
  for (const auto& [name, result] : pass.results) used_.insert(name);
  for (const auto& [path, parameter] : model.parameters()) know(parameter->value(), path, true);
  for (const auto& [path, buffer] : model.buffers()) know(*buffer, path, true);
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    const auto& [name, example] = pass.inputs[i];
    name_axes(example.shape(), larger.inputs[i].second.shape(), axis_names[i], name);
    graph_.inputs.push_back(value_of(name, example, larger.inputs[i].second));
    know(example, name, false);
    used_.insert(name);
  }
}

// --- names and values ---

void GraphBuilder::know(const Tensor& tensor, const std::string& name, bool is_weight) {
  names_[key_of(tensor)] = name;
  if (!is_weight) return;
  weights_[name] = tensor;
  used_.insert(name);
}

std::string GraphBuilder::unique(const std::string& name) {
  std::string candidate = name;
  for (int i = 2; !used_.insert(candidate).second; ++i) candidate = name + "_" + std::to_string(i);
  return candidate;
}

std::string GraphBuilder::constant(const std::string& name, const Tensor& values) {
  std::string unique_name = unique(name);
  graph_.initializers.emplace_back(unique_name, values.plain());
  return unique_name;
}

std::string GraphBuilder::constant(const std::string& name, const List& values) {
  return constant(name, tensor_of(values));
}

std::string GraphBuilder::name_of(const Tensor& tensor) {
  const auto found = names_.find(key_of(tensor));
  if (found == names_.end()) {
    names_[key_of(tensor)] = constant("constant", tensor.to(Device::cpu()));
    return names_[key_of(tensor)];
  }
  const auto weight = weights_.find(found->second);
  if (weight != weights_.end() && written_.insert(weight->first).second)
    graph_.initializers.emplace_back(weight->first, weight->second.to(Device::cpu()).plain());
  return found->second;
}

std::string GraphBuilder::name_of_input(const Call& call, std::size_t i) {
  if (i >= call.inputs.size() || !call.inputs[i].defined()) return {};
  // A constant that is not a weight must not depend on the input.
  const Tensor& here = call.inputs[i];
  if (!names_.contains(key_of(here))) require_constant(here, larger_.calls[call_].inputs[i], call);
  return name_of(here);
}

std::string GraphBuilder::name_of_setting(const Call& call, const char* setting) {
  const Tensor& here = call.settings.tensor(setting);
  if (!names_.contains(key_of(here)))
    require_constant(here, larger_.calls[call_].settings.tensor(setting), call);
  return name_of(here);
}

void GraphBuilder::require_constant(const Tensor& here, const Tensor& there, const Call& call) {
  const Tensor a = here.to(Device::cpu()).plain(), b = there.to(Device::cpu()).plain();
  if (a.shape() != b.shape() || std::memcmp(a.raw(), b.raw(), a.bytes()) != 0)
    fail(ErrorKind::usage,
         "ONNX: {} uses an array of {} that is computed from the input without functions of "
         "tasuki::functions; it cannot be exported",
         call.name, here.shape().text());
}

// --- axes ---

void GraphBuilder::name_axes(const Shape& small, const Shape& large,
                             const std::vector<std::string>& names, const std::string& input) {
  std::size_t next = 0;
  for (int axis = 0; axis < small.rank(); ++axis) {
    if (small[axis] == large[axis]) continue;
    TASUKI_CHECK(next < names.size(), "ONNX: an axis of {} has no name", input);
    sizes_.push_back({small[axis], large[axis], names[next++], input, axis});
  }
}

Value GraphBuilder::value_of(const std::string& name, const Tensor& here,
                             const Tensor& there) const {
  Value value{name, here.dtype(), {}};
  for (int axis = 0; axis < here.shape().rank(); ++axis) {
    const std::int64_t small = here.shape()[axis], large = there.shape()[axis];
    if (small == large) {
      value.axes.push_back({small, {}});
      continue;
    }
    const auto known = std::ranges::find_if(
        sizes_, [&](const NamedSize& size) { return size.small == small && size.large == large; });
    value.axes.push_back(
        {0, known == sizes_.end() ? name + "_" + std::to_string(axis) : known->name});
  }
  return value;
}

std::string GraphBuilder::shape_of_result(const Call& call, bool may_infer) {
  const Shape& shape = call.result.shape();
  List sizes = list_of(shape);
  int varying = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (varies(axis)) {
      ++varying;
      sizes[static_cast<std::size_t>(axis)] = -1;
    }
  if (varying == 0 || (varying == 1 && may_infer)) return constant(node_ + "/shape", sizes);
  // Each varying axis is a multiple of an input's.
  Names parts;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t small = shape[axis], large = larger_result()[axis];
    if (small == large) {
      parts.push_back(constant(node_ + "/size", List{small}));
      continue;
    }
    // Of several that fit, the axis itself rather than a multiple of another.
    auto source = std::ranges::find_if(
        sizes_, [&](const NamedSize& size) { return small == size.small && large == size.large; });
    if (source == sizes_.end())
      source = std::ranges::find_if(sizes_, [&](const NamedSize& size) {
        return small % size.small == 0 && large % size.large == 0 &&
               small / size.small == large / size.large;
      });
    if (source == sizes_.end())
      fail(ErrorKind::usage,
           "ONNX: axis {} of a result of {} depends on the input's size in an "
           "unknown way; it cannot be exported",
           axis, call.name);
    const std::string all = emit("Shape", {source->input});
    std::string size = emit("Gather", {all, constant(node_ + "/axis", List{source->axis})});
    if (small != source->small)
      size = emit("Mul", {size, constant(node_ + "/factor", List{small / source->small})});
    parts.push_back(size);
  }
  return emit("Concat", parts, {{"axis", std::int64_t{0}}});
}

// --- nodes ---

std::string GraphBuilder::emit(const std::string& op, Names inputs,
                               std::vector<Attribute> attributes) {
  const std::string name = unique(node_ + "/" + op);
  return emit_as(name, op, std::move(inputs), std::move(attributes));
}

std::string GraphBuilder::emit_as(const std::string& name, const std::string& op, Names inputs,
                                  std::vector<Attribute> attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  graph_.nodes.push_back({op, name, std::move(inputs), {name}, std::move(attributes)});
  return name;
}

void GraphBuilder::result(const std::string& op, Names inputs, std::vector<Attribute> attributes) {
  know(pass_.calls[call_].result, emit_as(node_, op, std::move(inputs), std::move(attributes)),
       false);
}

void GraphBuilder::result_with_relu(const Call& call, const std::string& op, Names inputs,
                                    std::vector<Attribute> attributes) {
  if (call.settings.number("relu") == 0)
    return result(op, std::move(inputs), std::move(attributes));
  result("Relu", {emit(op, std::move(inputs), std::move(attributes))});
}

std::string GraphBuilder::node_name(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (!input.defined()) continue;
    const auto found = names_.find(key_of(input));
    if (found == names_.end() || !weights_.contains(found->second)) continue;
    const std::size_t end = found->second.rfind('/');
    if (end != std::string::npos) return unique(found->second.substr(0, end) + "/" + call.name);
  }
  return unique(call.name);
}

}  // namespace tasuki::onnx_graph
