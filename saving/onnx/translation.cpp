#include "saving/onnx/translation.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "saving/onnx/sequence_translation.hpp"
#include "tensor/element_functions.hpp"

namespace tasuki::onnx_graph {
namespace {

class Translation final : public SequenceTranslation {
 public:
  Translation(const Module& model, const Pass& pass, const Pass& larger,
              const std::vector<std::vector<std::string>>& axis_names)
      : SequenceTranslation(model, pass, larger, axis_names) {
    for (call_ = 0; call_ < pass.calls.size(); ++call_) translate(pass.calls[call_]);
    for (std::size_t i = 0; i < pass.results.size(); ++i) {
      const auto& [name, result] = pass.results[i];
      graph_.nodes.push_back({"Identity", name, {name_of(result)}, {name}, {}});
      graph_.outputs.push_back(value_of(name, result, larger.results[i].second));
    }
  }

 private:
  void translate(const Call& call) {
    if (call.name != larger_call().name)
      fail(ErrorKind::usage,
           "ONNX: the forward pass calls {} for a small input and {} for a larger "
           "one; it cannot be exported",
           call.name, larger_call().name);
    if (!call.settings.has_numbers_of(larger_call().settings))
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
        {"add_linear", &Translation::add_linear},
        {"linear_gelu", &Translation::linear_gelu},
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

  std::string linear_sum(const Call& call) {
    return emit("Gemm", {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
                {{"transB", std::int64_t{1}}});
  }
  void add_linear(const Call& call) {
    const std::string product = linear_sum(call);
    result("Add", {name_of_input(call, 3), product});
  }
  void linear_gelu(const Call& call) {
    gelu(linear_sum(call), call.settings.number("approximate") != 0);
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
    result_with_relu(call, "Conv",
                     {name_of_input(call, 0), name_of_input(call, 1), name_of_input(call, 2)},
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
          larger_result()[axis] == larger_call().inputs[0].shape()[axis])
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

  std::string number(double value) { return constant(node_ + "/number", scalar(value)); }

  void gelu(const std::string& x, bool approximate) {
    std::string part;
    if (approximate) {
      const std::string cube = emit("Mul", {emit("Pow", {x, number(3)}), number(0.044715)});
      part = emit("Tanh", {emit("Mul", {emit("Add", {x, cube}), number(0.79788456080286536)})});
    } else {
      part = emit("Erf", {emit("Mul", {x, number(0.70710678118654752)})});
    }
    const std::string twice = emit("Mul", {x, emit("Add", {part, number(1)})});
    result("Mul", {twice, number(0.5)});
  }

  // y = f(x) of each element.
  void map(const Call& call) {
    const double p = call.settings.real("p"), q = call.settings.real("q");
    const std::string x = name_of_input(call, 0);
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
      case Map::gelu:
        return gelu(x, false);
      case Map::gelu_tanh:
        return gelu(x, true);
      case Map::silu:
        return result("Mul", {x, emit("Sigmoid", {x})});
      case Map::elu:
        return result("Elu", {x}, {{"alpha", static_cast<float>(p)}});
      case Map::softplus:
        return result("Div", {emit("Softplus", {emit("Mul", {x, number(p)})}), number(p)});
    }
  }
};

}  // namespace

Graph translate(const Module& model, const Pass& pass, const Pass& larger,
                const std::vector<std::vector<std::string>>& axis_names) {
  return Translation(model, pass, larger, axis_names).take();
}

}  // namespace tasuki::onnx_graph
