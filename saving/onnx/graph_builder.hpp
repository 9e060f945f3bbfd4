// GraphBuilder: makes a graph of two recorded passes, with names for tensors, axes and nodes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nn/call_recorder.hpp"
#include "saving/onnx/graph.hpp"
#include "saving/onnx/translation.hpp"

namespace tasuki::onnx_graph {

using Names = std::vector<std::string>;
using List = std::vector<std::int64_t>;

inline Tensor scalar(double value) {
  return Tensor::full({}, value);
}

class GraphBuilder {
 public:
  GraphBuilder(const Module& model, const Pass& pass, const Pass& larger,
               const std::vector<std::vector<std::string>>& axis_names);
  Graph take() { return std::move(graph_); }

 protected:
  // Tensors are recognised by their memory. A call's tensors are kept in its pass, so no two of
  // them share memory by chance; a view, such as a reshaped array, differs in its shape.
  using Key = std::tuple<const void*, std::string, DType>;
  static Key key_of(const Tensor& tensor);

  void know(const Tensor& tensor, const std::string& name, bool is_weight);
  bool is_known(const Tensor& tensor) const { return names_.contains(key_of(tensor)); }
  // Not used before: name, name_2, ...
  std::string unique(const std::string& name);
  // A new initializer.
  std::string constant(const std::string& name, const Tensor& values);
  std::string constant(const std::string& name, const List& values);
  // The name of an input of the network, a result or a weight; others become constants.
  std::string name_of(const Tensor& tensor);
  // The same of a call's input ("" if it has none) or setting. A usage error if it is a constant
  // that differs between the passes.
  std::string name_of_input(const Call& call, std::size_t i);
  std::string name_of_setting(const Call& call, const char* setting);

  Value value_of(const std::string& name, const Tensor& here, const Tensor& there) const;
  const Call& larger_call() const { return larger_.calls[call_]; }
  const Shape& larger_result() const { return larger_call().result.shape(); }
  // Whether an axis of the call's result differs between the passes.
  bool varies(int axis) const { return call().result.shape()[axis] != larger_result()[axis]; }
  // The shape of the call's result as an array for Reshape and Expand; with `may_infer`, one axis
  // may be -1.
  std::string shape_of_result(const Call& call, bool may_infer);

  // Adds a node whose value has a name of its own, and returns that name.
  std::string emit(const std::string& op, Names inputs, std::vector<Attribute> attributes = {});
  std::string emit_as(const std::string& name, const std::string& op, Names inputs,
                      std::vector<Attribute> attributes = {});
  // The node that makes the call's result.
  void result(const std::string& op, Names inputs, std::vector<Attribute> attributes = {});
  // The same, with ReLU behind it if the call has it.
  void result_with_relu(const Call& call, const std::string& op, Names inputs,
                        std::vector<Attribute> attributes);
  // The layer whose weights a call uses and the function's name, such as "conv1/conv2d".
  std::string node_name(const Call& call);

  const Call& call() const { return pass_.calls[call_]; }

  const Pass &pass_, &larger_;
  Graph graph_;
  std::size_t call_ = 0;  // the number of the call that is translated
  std::string node_;      // the name of its node

 private:
  static void require_constant(const Tensor& here, const Tensor& there, const Call& call);
  void name_axes(const Shape& small, const Shape& large, const std::vector<std::string>& names,
                 const std::string& input);

  // The size of an axis of an input in both passes.
  struct NamedSize {
    std::int64_t small, large;
    std::string name, input;
    int axis;
  };

  std::map<Key, std::string> names_;  // of all known tensors
  std::map<std::string, Tensor> weights_;
  std::set<std::string> used_;     // names of values and nodes
  std::set<std::string> written_;  // weights that are initializers
  std::vector<NamedSize> sizes_;
};

}  // namespace tasuki::onnx_graph
