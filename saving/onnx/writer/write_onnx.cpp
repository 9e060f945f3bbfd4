// libtasuki_onnx.so: writes a graph by ONNX's own protocol buffers.
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <exception>

#include "saving/onnx/entry.hpp"

namespace tasuki {
namespace {

using namespace onnx_graph;

// TensorProto's numbers of types.
int type_of(DType type) {
  switch (type) {
    case DType::float32:
      return onnx::TensorProto::FLOAT;
    case DType::float64:
      return onnx::TensorProto::DOUBLE;
    case DType::int32:
      return onnx::TensorProto::INT32;
    case DType::int64:
      return onnx::TensorProto::INT64;
    case DType::uint8:
      return onnx::TensorProto::UINT8;
    case DType::float16:
      return onnx::TensorProto::FLOAT16;
    case DType::bfloat16:
      return onnx::TensorProto::BFLOAT16;
  }
  return onnx::TensorProto::UNDEFINED;
}

void write(const Attribute& from, onnx::AttributeProto& to) {
  to.set_name(from.name);
  switch (from.kind) {
    case Attribute::Kind::number:
      to.set_type(onnx::AttributeProto::INT);
      to.set_i(from.number);
      break;
    case Attribute::Kind::real:
      to.set_type(onnx::AttributeProto::FLOAT);
      to.set_f(from.real);
      break;
    case Attribute::Kind::text:
      to.set_type(onnx::AttributeProto::STRING);
      to.set_s(from.text);
      break;
    case Attribute::Kind::list:
      to.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t each : from.list) to.add_ints(each);
      break;
  }
}

void write(const Value& from, onnx::ValueInfoProto& to) {
  to.set_name(from.name);
  onnx::TypeProto::Tensor& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(type_of(from.type));
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  for (const Axis& axis : from.axes) {
    onnx::TensorShapeProto::Dimension& dimension = *shape.add_dim();
    if (axis.name.empty())
      dimension.set_dim_value(axis.size);
    else
      dimension.set_dim_param(axis.name);
  }
}

onnx::ModelProto model_of(const Graph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(8);  // with opset 17
  model.set_producer_name("Tasuki");
  model.add_opset_import()->set_version(17);
  for (const auto& [name, value] : graph.notes) {
    onnx::StringStringEntryProto& note = *model.add_metadata_props();
    note.set_key(name);
    note.set_value(value);
  }
  onnx::GraphProto& to = *model.mutable_graph();
  to.set_name(graph.name);
  for (const Node& node : graph.nodes) {
    onnx::NodeProto& made = *to.add_node();
    made.set_op_type(node.op);
    made.set_name(node.name);
    for (const std::string& input : node.inputs) made.add_input(input);
    for (const std::string& output : node.outputs) made.add_output(output);
    for (const Attribute& attribute : node.attributes) write(attribute, *made.add_attribute());
  }
  for (const auto& [name, tensor] : graph.initializers) {
    onnx::TensorProto& made = *to.add_initializer();
    made.set_name(name);
    made.set_data_type(type_of(tensor.dtype()));
    for (const std::int64_t size : tensor.shape()) made.add_dims(size);
    made.set_raw_data(tensor.raw(), tensor.bytes());
  }
  for (const Value& value : graph.inputs) write(value, *to.add_input());
  for (const Value& value : graph.outputs) write(value, *to.add_output());
  return model;
}

}  // namespace
}  // namespace tasuki

extern "C" __attribute__((visibility("default"))) bool tasuki_write_onnx_1(
    const tasuki::onnx_graph::Graph& graph, std::string& bytes, std::string& error) {
  try {
    onnx::ModelProto model = tasuki::model_of(graph);
    constexpr std::size_t most_bytes = (std::size_t{1} << 31) - 1;  // protocol buffers' limit
    if (model.ByteSizeLong() > most_bytes) {
      error = "it has " + std::to_string(model.ByteSizeLong()) + " bytes, and at most " +
              std::to_string(most_bytes) + " are possible";
      return false;
    }
    onnx::checker::check_model(model);
    // Types and shapes that do not fit each other are errors.
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(true, 1));
    return model.SerializeToString(&bytes);
  } catch (const std::exception& problem) {
    error = problem.what();
    std::ranges::replace(error, '\n', ' ');
    return false;
  }
}
