#include "saving/onnx/translation.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/error.hpp"
#include "tensor/element_functions.hpp"

namespace tasuki::onnx_graph {
namespace {

using Names = std::vector<std::string>;
using List = std::vector<std::int64_t>;

// Tensors are recognised by their memory. A call's tensors are kept in its pass, so no two of them
// share memory by chance; a view, such as a reshaped array, differs in its shape.
using Key = std::tuple<const void*, std::string, DType>;
Key key_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.shape().text(), tensor.dtype()};
}

List list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Tensor tensor_of(const List& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

Tensor scalar(double value) {
  return Tensor::full({}, value);
}

class Translation {
 public:
  Translation(const Module& model, const Pass& pass, const Pass& larger,
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
    for (call_ = 0; call_ < pass.calls.size(); ++call_) translate(pass.calls[call_]);
    for (std::size_t i = 0; i < pass.results.size(); ++i) {
      const auto& [name, result] = pass.results[i];
      graph_.nodes.push_back({"Identity", name, {name_of(result)}, {name}, {}});
      graph_.outputs.push_back(value_of(name, result, larger.results[i].second));
    }
  }

  Graph take() { return std::move(graph_); }

 private:
  // --- names and values ---

  void know(const Tensor& tensor, const std::string& name, bool is_weight) {
    names_[key_of(tensor)] = name;
    if (!is_weight) return;
    weights_[name] = tensor;
    used_.insert(name);
  }

  // Not used before: name, name_2, ...
  std::string unique(const std::string& name) {
    std::string candidate = name;
    for (int i = 2; !used_.insert(candidate).second; ++i)
      candidate = name + "_" + std::to_string(i);
    return candidate;
  }

  std::string constant(const std::string& name, const Tensor& values) {
    std::string unique_name = unique(name);
    graph_.initializers.emplace_back(unique_name, values.plain());
    return unique_name;
  }
  std::string constant(const std::string& name, const List& values) {
    return constant(name, tensor_of(values));
  }

  // The name of a call's input: an input of the network, a result, a weight, or a constant.
  std::string name_of(const Tensor& tensor) {
    const auto found = names_.find(key_of(tensor));
    if (found == names_.end()) {
      names_[key_of(tensor)] = constant("constant", tensor.to(Device::cpu()));
      kept_.push_back(tensor);
      return names_[key_of(tensor)];
    }
    const auto weight = weights_.find(found->second);
    if (weight != weights_.end() && written_.insert(weight->first).second)
      graph_.initializers.emplace_back(weight->first, weight->second.to(Device::cpu()).plain());
    return found->second;
  }
  std::string name_of_input(const Call& call, std::size_t i) {
    if (i >= call.inputs.size() || !call.inputs[i].defined()) return {};
    // A constant that is not a weight must not depend on the input.
    const Tensor& here = call.inputs[i];
    if (!names_.contains(key_of(here)))
      require_constant(here, larger_.calls[call_].inputs[i], call);
    return name_of(here);
  }
  std::string name_of_setting(const Call& call, const char* setting) {
    const Tensor& here = call.settings.tensor(setting);
    if (!names_.contains(key_of(here)))
      require_constant(here, larger_.calls[call_].settings.tensor(setting), call);
    return name_of(here);
  }
  static void require_constant(const Tensor& here, const Tensor& there, const Call& call) {
    const Tensor a = here.to(Device::cpu()).plain(), b = there.to(Device::cpu()).plain();
    if (a.shape() != b.shape() || std::memcmp(a.raw(), b.raw(), a.bytes()) != 0)
      fail(ErrorKind::usage,
           "ONNX: {} uses an array of {} that is computed from the input without functions of "
           "tasuki::functions; it cannot be exported",
           call.name, here.shape().text());
  }

  // --- axes ---

  void name_axes(const Shape& small, const Shape& large, const std::vector<std::string>& names,
                 const std::string& input) {
    std::size_t next = 0;
    for (int axis = 0; axis < small.rank(); ++axis) {
      if (small[axis] == large[axis]) continue;
      TASUKI_CHECK(next < names.size(), "ONNX: an axis of {} has no name", input);
      sizes_.push_back({small[axis], large[axis], names[next++], input, axis});
    }
  }

  struct NamedSize {
    std::int64_t small, large;
    std::string name, input;
    int axis;
  };

  Value value_of(const std::string& name, const Tensor& here, const Tensor& there) const {
    Value value{name, here.dtype(), {}};
    for (int axis = 0; axis < here.shape().rank(); ++axis) {
      const std::int64_t small = here.shape()[axis], large = there.shape()[axis];
      if (small == large) {
        value.axes.push_back({small, {}});
        continue;
      }
      const auto known = std::ranges::find_if(sizes_, [&](const NamedSize& size) {
        return size.small == small && size.large == large;
      });
      value.axes.push_back(
          {0, known == sizes_.end() ? name + "_" + std::to_string(axis) : known->name});
    }
    return value;
  }

  const Shape& larger_result() const { return larger_.calls[call_].result.shape(); }
  bool varies(int axis) const {
    return pass_.calls[call_].result.shape()[axis] != larger_result()[axis];
  }

  // A result's shape as an array for Reshape and Expand.
  std::string shape_of_result(const Call& call, bool may_infer) {
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
      auto source = std::ranges::find_if(sizes_, [&](const NamedSize& size) {
        return small == size.small && large == size.large;
      });
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

  // Adds a node whose value has a name of its own, and returns that name.
  std::string emit(const std::string& op, Names inputs, std::vector<Attribute> attributes = {}) {
    const std::string name = unique(node_ + "/" + op);
    return emit_as(name, op, std::move(inputs), std::move(attributes));
  }
  std::string emit_as(const std::string& name, const std::string& op, Names inputs,
                      std::vector<Attribute> attributes = {}) {
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    graph_.nodes.push_back({op, name, std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  // The node that makes the call's result.
  void result(const std::string& op, Names inputs, std::vector<Attribute> attributes = {}) {
    know(pass_.calls[call_].result, emit_as(node_, op, std::move(inputs), std::move(attributes)),
         false);
  }
  // The same, with ReLU behind it if the call has it.
  void result_with_relu(const Call& call, const std::string& op, Names inputs,
                        std::vector<Attribute> attributes) {
    if (call.settings.number("relu") == 0)
      return result(op, std::move(inputs), std::move(attributes));
    result("Relu", {emit(op, std::move(inputs), std::move(attributes))});
  }

  // The layer whose weights a call uses and the function's name, such as "conv1/conv2d".
  std::string node_name(const Call& call) {
    for (const Tensor& input : call.inputs) {
      if (!input.defined()) continue;
      const auto found = names_.find(key_of(input));
      if (found == names_.end() || !weights_.contains(found->second)) continue;
      const std::size_t end = found->second.rfind('/');
      if (end != std::string::npos) return unique(found->second.substr(0, end) + "/" + call.name);
    }
    return unique(call.name);
  }

  // --- functions ---

  void translate(const Call& call) {
    if (pass_.calls[call_].name != larger_.calls[call_].name)
      fail(ErrorKind::usage,
           "ONNX: the forward pass calls {} for a small input and {} for a larger "
           "one; it cannot be exported",
           call.name, larger_.calls[call_].name);
    if (!call.settings.has_numbers_of(larger_.calls[call_].settings))
      fail(ErrorKind::usage,
           "ONNX: settings of {} depend on the size of the input; it cannot be exported",
           call.name);
    if (call.settings.has("result")) return take_result(call);
    if (call.name == "split" && !call.settings.has("begin")) return;  // the whole array, again
    node_ = node_name(call);
    if (call.settings.has("map")) return map(call);
    using Method = void (Translation::*)(const Call&);
    static const std::map<std::string_view, Method> methods = {
        {"linear", &Translation::linear},
        {"conv2d", &Translation::convolution},
        {"deconv2d", &Translation::deconvolution},
        {"embed_id", &Translation::embedding},
        {"max_pooling_2d", &Translation::pooling},
        {"average_pooling_2d", &Translation::pooling},
        {"relu_average_pooling_2d", &Translation::pooling},
        {"fixed_batch_norm", &Translation::batch_norm},
        {"layer_norm", &Translation::layer_norm},
        {"group_norm", &Translation::group_norm},
        {"local_response_norm", &Translation::local_response_norm},
        {"reshape", &Translation::reshape},
        {"broadcast_to", &Translation::broadcast},
        {"transpose", &Translation::transpose},
        {"slice", &Translation::slice},
        {"split", &Translation::slice},
        {"pad", &Translation::pad},
        {"concat", &Translation::concat},
        {"softmax", &Translation::softmax},
        {"log_softmax", &Translation::softmax},
        {"sum", &Translation::reduce},
        {"mean", &Translation::reduce},
        {"max", &Translation::reduce},
        {"matmul", &Translation::matmul},
        {"resize_images", &Translation::resize},
        {"self_attention", &Translation::self_attention},
        {"attention", &Translation::attention},
        {"recurrent", &Translation::recurrent},
        {"leaky_relu", &Translation::leaky_relu},
    };
    static const std::map<std::string_view, const char*> plain = {
        {"add", "Add"},         {"sub", "Sub"},     {"mul", "Mul"},     {"div", "Div"},
        {"pow", "Pow"},         {"maximum", "Max"}, {"minimum", "Min"}, {"relu", "Relu"},
        {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"},
    };
    if (const auto found = methods.find(call.name); found != methods.end())
      return (this->*found->second)(call);
    const auto found = plain.find(call.name);
    if (found == plain.end())
      fail(ErrorKind::usage,
           "ONNX: the function {} has no translation; a network that calls it in "
           "its forward pass cannot be exported",
           call.name);
    Names inputs;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) inputs.push_back(name_of_input(call, i));
    result(found->second, inputs);
  }

  void linear(const Call& call) {
    result_with_relu(call, "Gemm",
                     {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
                     {{"transB", std::int64_t{1}}});
  }

  static std::vector<Attribute> of_convolution(const Call& call) {
    const List& pad = call.settings.list("pad");
    const Shape& w = call.inputs[1].shape();
    return {{"kernel_shape", List{w[2], w[3]}},
            {"strides", call.settings.list("stride")},
            {"pads", List{pad[0], pad[1], pad[0], pad[1]}},
            {"dilations", call.settings.list("dilation")},
            {"group", call.settings.number("groups")}};
  }
  void convolution(const Call& call) {
    result("Conv", {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
           of_convolution(call));
  }
  void deconvolution(const Call& call) {
    std::vector<Attribute> attributes = of_convolution(call);
    const Shape &x = call.inputs[0].shape(), &w = call.inputs[1].shape(), &y = call.result.shape();
    const List &stride = call.settings.list("stride"), &pad = call.settings.list("pad"),
               &dilation = call.settings.list("dilation");
    List more;  // pixels beyond those that the input reaches
    for (int i = 0; i < 2; ++i) {
      const auto k = static_cast<std::size_t>(i);
      more.push_back(y[2 + i] -
                     (stride[k] * (x[2 + i] - 1) + dilation[k] * (w[2 + i] - 1) + 1 - 2 * pad[k]));
    }
    attributes.emplace_back("output_padding", more);
    result("ConvTranspose",
           {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
           std::move(attributes));
  }

  void embedding(const Call& call) {
    const std::string w = name_of_input(call, 0), ids = name_of_setting(call, "ids");
    if (!call.settings.has("ignore_label")) return result("Gather", {w, ids});
    // Rows of ignored ids are zeros.
    const Tensor ignored =
        Tensor::full({}, static_cast<double>(call.settings.number("ignore_label")), DType::int64);
    const Tensor none = Tensor::zeros({}, DType::int64);
    const std::string all = emit("Cast", {ids}, {{"to", std::int64_t{7}}});
    const std::string is_ignored = emit("Equal", {all, constant(node_ + "/ignored", ignored)});
    const std::string safe = emit("Where", {is_ignored, constant(node_ + "/zero", none), all});
    const std::string rows = emit("Gather", {w, safe});
    const std::string mask = emit(
        "Unsqueeze", {is_ignored, constant(node_ + "/axis", List{call.result.shape().rank() - 1})});
    result("Where", {mask, constant(node_ + "/zeros", scalar(0)), rows});
  }

  void pooling(const Call& call) {
    const List &window = call.settings.list("window"), &stride = call.settings.list("stride"),
               &pad = call.settings.list("pad");
    List after;  // windows may reach beyond the padding
    for (int i = 0; i < 2; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const std::int64_t in = call.inputs[0].shape()[2 + i], out = call.result.shape()[2 + i];
      after.push_back(std::max<std::int64_t>(0, (out - 1) * stride[k] + window[k] - in - pad[k]));
    }
    std::vector<Attribute> attributes = {{"kernel_shape", window},
                                         {"strides", stride},
                                         {"pads", List{pad[0], pad[1], after[0], after[1]}}};
    const std::string x = name_of_input(call, 0);
    if (call.name == "max_pooling_2d") return result("MaxPool", {x}, std::move(attributes));
    attributes.emplace_back("count_include_pad", std::int64_t{1});
    const bool has_relu = call.name == "relu_average_pooling_2d";
    result("AveragePool", {has_relu ? emit("Relu", {x}) : x}, std::move(attributes));
  }

  void batch_norm(const Call& call) {
    result_with_relu(call, "BatchNormalization",
                     {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2),
                      name_of_setting(call, "mean"), name_of_setting(call, "variance")},
                     {{"epsilon", static_cast<float>(call.settings.real("eps"))}});
  }

  void layer_norm(const Call& call) {
    const Shape &x = call.inputs[0].shape(), &gamma = call.inputs[1].shape();
    int axis = x.rank();
    std::int64_t length = 1;
    List row;
    while (length < gamma.count()) {
      length *= x[--axis];
      row.insert(row.begin(), x[axis]);
    }
    std::string scale = name_of_input(call, 1), shift = name_of_input(call, 2);
    if (row.size() > 1) {
      const std::string shape = constant(node_ + "/row", row);
      scale = emit("Reshape", {scale, shape});
      shift = emit("Reshape", {shift, shape});
    }
    result(
        "LayerNormalization", {name_of_input(call, 0), scale, shift},
        {{"axis", std::int64_t{axis}}, {"epsilon", static_cast<float>(call.settings.real("eps"))}});
  }

  // Groups are normalised as channels of one long row each, then scaled as they were.
  void group_norm(const Call& call) {
    const std::int64_t groups = call.settings.number("groups");
    const std::string x = name_of_input(call, 0);
    const std::string rows = emit("Reshape", {x, constant(node_ + "/groups", List{0, groups, -1})});
    const std::string normalised =
        emit("InstanceNormalization",
             {rows, constant(node_ + "/ones", Tensor::full({groups}, 1)),
              constant(node_ + "/zeros", Tensor::zeros({groups}))},
             {{"epsilon", static_cast<float>(call.settings.real("eps"))}});
    const std::string shaped = emit("Reshape", {normalised, emit("Shape", {x})});
    List channels(static_cast<std::size_t>(call.result.shape().rank()), 1);
    channels[1] = call.result.shape()[1];
    const std::string shape = constant(node_ + "/channels", channels);
    const std::string scaled =
        emit("Mul", {shaped, emit("Reshape", {name_of_input(call, 1), shape})});
    result("Add", {scaled, emit("Reshape", {name_of_input(call, 2), shape})});
  }

  void local_response_norm(const Call& call) {
    // An even number of channels counts as the next odd one; ONNX divides alpha by the number.
    const std::int64_t size = call.settings.number("window") / 2 * 2 + 1;
    const double alpha = call.settings.real("alpha") * static_cast<double>(size);
    result("LRN", {name_of_input(call, 0)},
           {{"size", size},
            {"alpha", static_cast<float>(alpha)},
            {"beta", static_cast<float>(call.settings.real("beta"))},
            {"bias", static_cast<float>(call.settings.real("k"))}});
  }

  void reshape(const Call& call) {
    result("Reshape", {name_of_input(call, 0), shape_of_result(call, true)});
  }
  void broadcast(const Call& call) {
    result("Expand", {name_of_input(call, 0), shape_of_result(call, false)});
  }
  void transpose(const Call& call) {
    result("Transpose", {name_of_input(call, 0)}, {{"perm", call.settings.list("axes")}});
  }

  // Also a part of a split array.
  void slice(const Call& call) {
    const List& begin = call.settings.list("begin");
    const Shape& x = call.inputs[0].shape();
    List axes, begins, ends;
    for (int axis = 0; axis < call.result.shape().rank(); ++axis) {
      const std::int64_t from = begin[static_cast<std::size_t>(axis)],
                         size = call.result.shape()[axis];
      if (from == 0 && size == x[axis] &&
          larger_result()[axis] == larger_.calls[call_].inputs[0].shape()[axis])
        continue;
      if (varies(axis))
        fail(ErrorKind::usage,
             "ONNX: {} takes a part of axis {}, whose size depends on the input; "
             "it cannot be exported",
             call.name, axis);
      axes.push_back(axis);
      begins.push_back(from);
      ends.push_back(from + size);
    }
    const std::string source = name_of_input(call, 0);
    if (axes.empty()) return result("Identity", {source});
    result("Slice", {source, constant(node_ + "/begin", begins), constant(node_ + "/end", ends),
                     constant(node_ + "/axes", axes)});
  }

  void pad(const Call& call) {
    const List& before = call.settings.list("before");
    const Shape &x = call.inputs[0].shape(), &y = call.result.shape();
    List widths = before;
    for (int axis = 0; axis < y.rank(); ++axis)
      widths.push_back(y[axis] - x[axis] - before[static_cast<std::size_t>(axis)]);
    result("Pad", {name_of_input(call, 0), constant(node_ + "/widths", widths),
                   constant(node_ + "/value", scalar(call.settings.real("value")))});
  }

  void concat(const Call& call) {
    Names parts;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) parts.push_back(name_of_input(call, i));
    result("Concat", parts, {{"axis", call.settings.number("axis")}});
  }
  void softmax(const Call& call) {
    result(call.name == "softmax" ? "Softmax" : "LogSoftmax", {name_of_input(call, 0)},
           {{"axis", call.settings.number("axis")}});
  }

  void reduce(const Call& call) {
    const List& axes = call.settings.list("axes");
    const std::string source = name_of_input(call, 0);
    std::string value = source;
    if (!axes.empty()) {
      if (call.name == "sum")
        value = emit("ReduceSum", {source, constant(node_ + "/axes", axes)});
      else
        value = emit(call.name == "mean" ? "ReduceMean" : "ReduceMax", {source}, {{"axes", axes}});
    }
    result("Reshape", {value, shape_of_result(call, true)});
  }

  std::string transposed_last(const std::string& name, const Shape& shape) {
    List order(static_cast<std::size_t>(shape.rank()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return emit("Transpose", {name}, {{"perm", order}});
  }
  void matmul(const Call& call) {
    Names operands;
    for (std::size_t i = 0; i < 2; ++i) {
      const bool is_transposed = call.settings.number(i == 0 ? "transpose_a" : "transpose_b") != 0;
      const std::string name = name_of_input(call, i);
      operands.push_back(is_transposed ? transposed_last(name, call.inputs[i].shape()) : name);
    }
    result("MatMul", operands);
  }

  void resize(const Call& call) {
    const bool is_nearest = call.settings.number("nearest") != 0;
    const bool is_aligned = call.settings.number("align_corners") != 0;
    std::vector<Attribute> attributes = {
        {"mode", is_nearest ? "nearest" : "linear"},
        {"coordinate_transformation_mode",
         is_nearest ? "asymmetric" : (is_aligned ? "align_corners" : "half_pixel")}};
    if (is_nearest) attributes.emplace_back("nearest_mode", "floor");
    result("Resize", {name_of_input(call, 0), "", "", shape_of_result(call, false)},
           std::move(attributes));
  }

  void leaky_relu(const Call& call) {
    result("LeakyRelu", {name_of_input(call, 0)},
           {{"alpha", static_cast<float>(call.settings.real("slope"))}});
  }

  // y = f(x) of each element.
  void map(const Call& call) {
    const double p = call.settings.real("p"), q = call.settings.real("q");
    const std::string x = name_of_input(call, 0);
    const auto number = [&](double value) { return constant(node_ + "/number", scalar(value)); };
    switch (static_cast<Map>(call.settings.number("map"))) {
      case Map::affine:
        if (p == 1) return result("Add", {x, number(q)});
        if (q == 0) return result("Mul", {x, number(p)});
        return result("Add", {emit("Mul", {x, number(p)}), number(q)});
      case Map::quotient:
        return result("Div", {number(p), x});
      case Map::power:
        return result("Pow", {x, number(p)});
      case Map::exp:
        return result("Exp", {x});
      case Map::log:
        return result("Log", {x});
      case Map::sqrt:
        return result("Sqrt", {x});
      case Map::abs:
        return result("Abs", {x});
      case Map::clip:
        return result("Clip", {x, number(p), number(q)});
      case Map::gelu: {
        const std::string part = emit("Erf", {emit("Mul", {x, number(0.70710678118654752)})});
        const std::string twice = emit("Mul", {x, emit("Add", {part, number(1)})});
        return result("Mul", {twice, number(0.5)});
      }
      case Map::gelu_tanh: {
        const std::string cube = emit("Mul", {emit("Pow", {x, number(3)}), number(0.044715)});
        const std::string inner =
            emit("Mul", {emit("Add", {x, cube}), number(0.79788456080286536)});
        const std::string twice = emit("Mul", {x, emit("Add", {emit("Tanh", {inner}), number(1)})});
        return result("Mul", {twice, number(0.5)});
      }
      case Map::silu:
        return result("Mul", {x, emit("Sigmoid", {x})});
      case Map::elu:
        return result("Elu", {x}, {{"alpha", static_cast<float>(p)}});
      case Map::softplus:
        return result("Div", {emit("Softplus", {emit("Mul", {x, number(p)})}), number(p)});
    }
  }

  // --- attention ---

  void self_attention(const Call& call) {
    const std::int64_t width = call.result.shape()[2];
    const std::string qkv = name_of_input(call, 0), axes = constant(node_ + "/axes", List{2});
    Names parts;
    for (std::int64_t i = 0; i < 3; ++i)
      parts.push_back(emit("Slice", {qkv, constant(node_ + "/begin", List{i * width}),
                                     constant(node_ + "/end", List{(i + 1) * width}), axes}));
    const std::int64_t length = call.result.shape()[1];
    attend(call, parts, length, length);
  }
  void attention(const Call& call) {
    attend(call, {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
           call.inputs[0].shape()[1], call.inputs[1].shape()[1]);
  }

  // softmax(scale q k^T + mask) v, for each head.
  void attend(const Call& call, const Names& qkv, std::int64_t queries, std::int64_t keys) {
    if (varies(1))
      fail(ErrorKind::usage, "ONNX: {} is exported for texts of one length", call.name);
    const std::int64_t width = call.result.shape()[2], heads = call.settings.number("heads");
    const std::string split = constant(node_ + "/heads", List{0, -1, heads, width / heads});
    const auto by_head = [&](std::size_t i, const List& order) {
      return emit("Transpose", {emit("Reshape", {qkv[i], split})}, {{"perm", order}});
    };
    std::string scores = emit("MatMul", {by_head(0, {0, 2, 1, 3}), by_head(1, {0, 2, 3, 1})});
    scores = emit("Mul", {scores, constant(node_ + "/scale", scalar(call.settings.real("scale")))});
    constexpr double unseen = -1e30;
    if (call.settings.number("causal") != 0) {
      const std::string all = emit("Expand", {constant(node_ + "/unseen", scalar(unseen)),
                                              constant(node_ + "/pairs", List{queries, keys})});
      const Tensor one = Tensor::full({}, 1, DType::int64);
      scores = emit("Add", {scores, emit("Trilu", {all, constant(node_ + "/above", one)},
                                         {{"upper", std::int64_t{1}}})});
    }
    std::string seen;  // N x 1 x 1 x keys
    if (call.settings.has("lengths")) {
      const Tensor numbers = Tensor::empty({1, 1, 1, keys}, DType::int64);
      for (std::int64_t i = 0; i < keys; ++i) numbers.data<std::int64_t>()[i] = i;
      const std::string lengths = emit("Unsqueeze", {name_of_setting(call, "lengths"),
                                                     constant(node_ + "/axes", List{1, 2, 3})});
      seen = emit("Less", {constant(node_ + "/places", numbers), lengths});
      scores = emit("Where", {seen, scores, constant(node_ + "/unseen", scalar(unseen))});
    }
    std::string weights = emit("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    // Queries without any key, and padding among them if there is one for each key, give zeros.
    if (!seen.empty())
      weights = emit("Where", {seen, weights, constant(node_ + "/zero", scalar(0))});
    const std::string y = emit("MatMul", {weights, by_head(2, {0, 2, 1, 3})});
    const std::string rows = emit("Transpose", {y}, {{"perm", List{0, 2, 1, 3}}});
    const std::string joined =
        emit("Reshape", {rows, constant(node_ + "/width", List{0, -1, width})});
    if (seen.empty() || call.settings.number("causal") == 0) return result("Identity", {joined});
    const std::string of_queries =
        emit("Reshape", {seen, constant(node_ + "/queries", List{0, queries, 1})});
    result("Where", {of_queries, joined, constant(node_ + "/zero", scalar(0))});
  }

  // --- recurrent layers ---

  // ONNX's order of the gates (i, o, f, c; z, r, h) in ours (i, f, c, o; r, z, h).
  static std::vector<std::size_t> gate_order(bool is_lstm) {
    if (is_lstm) return {0, 3, 1, 2};
    return {1, 0, 2};
  }
  std::string gates(const Call& call, std::size_t first, const std::vector<std::size_t>& order) {
    Names parts;
    for (const std::size_t gate : order) parts.push_back(name_of_input(call, first + gate));
    return emit("Concat", parts, {{"axis", std::int64_t{0}}});
  }
  std::string with_direction(const std::string& name) {
    return emit("Unsqueeze", {name, constant(node_ + "/axes", List{0})});
  }

  bool are_whole(const Call& call) {
    if (names_.contains(key_of(call.settings.tensor("lengths")))) return false;
    const auto is_whole = [](const Call& each) {
      const Tensor& lengths = each.settings.tensor("lengths");
      const std::span<const std::int64_t> all(lengths.data<std::int64_t>(),
                                              static_cast<std::size_t>(lengths.count()));
      return std::ranges::count(all, each.inputs[0].shape()[1]) == std::ssize(all);
    };
    return is_whole(call) && is_whole(larger_.calls[call_]);
  }

  void recurrent(const Call& call) {
    const bool is_lstm = call.settings.number("is_lstm") != 0;
    const std::vector<std::size_t> order = gate_order(is_lstm);
    const std::size_t count = order.size();
    const std::int64_t units = call.inputs[2].shape()[0];
    const std::string x = emit("Transpose", {name_of_input(call, 0)}, {{"perm", List{1, 0, 2}}});
    const std::string w = with_direction(gates(call, 2, order));
    const std::string r = with_direction(gates(call, 2 + count, order));
    const std::string b = with_direction(
        emit("Concat", {gates(call, 2 + 2 * count, order), gates(call, 2 + 3 * count, order)},
             {{"axis", std::int64_t{0}}}));
    // Not needed where each sequence is as long as the array.
    const std::string lengths = are_whole(call) ? ""
                                                : emit("Cast", {name_of_setting(call, "lengths")},
                                                       {{"to", std::int64_t{6}}});
    Names inputs = {x, w, r, b, lengths};
    const std::int64_t states = is_lstm ? 2 : 1;
    if (const std::string before = name_of_input(call, 1); !before.empty())
      for (std::int64_t s = 0; s < states; ++s) {
        const std::string one = emit(
            "Slice", {before, constant(node_ + "/begin", List{s}),
                      constant(node_ + "/end", List{s + 1}), constant(node_ + "/axes", List{1})});
        inputs.push_back(emit("Transpose", {one}, {{"perm", List{1, 0, 2}}}));
      }
    std::vector<Attribute> attributes = {
        {"hidden_size", units},
        {"direction", call.settings.number("is_reversed") != 0 ? "reverse" : "forward"}};
    if (!is_lstm) attributes.emplace_back("linear_before_reset", std::int64_t{1});
    Names outputs = {node_ + "/y", node_ + "/h"};
    if (is_lstm) outputs.push_back(node_ + "/c");
    graph_.nodes.push_back(
        {is_lstm ? "LSTM" : "GRU", node_, inputs, outputs, std::move(attributes)});

    const std::string rows = emit("Squeeze", {outputs[0], constant(node_ + "/axes", List{1})});
    Names last;
    for (std::size_t s = 1; s < outputs.size(); ++s)
      last.push_back(emit("Transpose", {outputs[s]}, {{"perm", List{1, 0, 2}}}));
    results_[key_of(call.result)] = {
        emit("Transpose", {rows}, {{"perm", List{1, 0, 2}}}),
        last.size() == 1 ? last[0] : emit("Concat", last, {{"axis", std::int64_t{1}}})};
  }

  // One of several results of a call.
  void take_result(const Call& call) {
    const auto found = results_.find(key_of(call.inputs.at(0)));
    if (found == results_.end())
      fail(ErrorKind::usage, "ONNX: the function {} has no translation", call.name);
    know(call.result, found->second.at(static_cast<std::size_t>(call.settings.number("result"))),
         false);
  }

  const Pass &pass_, &larger_;
  Graph graph_;
  std::size_t call_ = 0;
  std::string node_;                  // the name of the call's node
  std::map<Key, std::string> names_;  // of all known tensors
  std::map<std::string, Tensor> weights_;
  std::vector<Tensor> kept_;
  std::set<std::string> used_;     // names of values and nodes
  std::set<std::string> written_;  // weights that are initializers
  std::map<Key, Names> results_;   // of functions with several
  std::vector<NamedSize> sizes_;
};

}  // namespace

Graph translate(const Module& model, const Pass& pass, const Pass& larger,
                const std::vector<std::vector<std::string>>& axis_names) {
  return Translation(model, pass, larger, axis_names).take();
}

}  // namespace tasuki::onnx_graph
