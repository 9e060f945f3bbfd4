// What networks become in ONNX: names, axes of any size, and refusals. ONNX's own programs look at
// the rest (scripts/check_clients.sh).
#include "saving/onnx/translation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "nn/sequential.hpp"
#include "saving/onnx/export_onnx.hpp"

namespace tasuki::testing {
namespace {

namespace F = functions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace onnx_graph;

Pass pass_of(Layer& model, const Shape& x) {
  const TrainingMode evaluation(false);
  const CallRecorder recorder;
  const Variable input(Tensor::full(x, 0.5));
  Pass pass{{{"x", input.value()}}, {}, {}};
  pass.results.emplace_back("y", model(input).value());
  pass.calls = recorder.calls();
  return pass;
}

Graph graph_of(Layer& model, const Shape& x) {
  return translate(model, pass_of(model, x), pass_of(model, x.with_items(x[0] + 1)), {{"batch"}});
}

class OneCall : public Layer {
 public:
  explicit OneCall(Sequential::Link call) : call_(std::move(call)) {}
  Variable forward(const Variable& x) override { return call_(x); }

 private:
  Sequential::Link call_;
};

std::string refusal_of(Sequential::Link call, const Shape& x = {2, 3}) {
  OneCall layer(std::move(call));
  try {
    graph_of(layer, x);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "none";
}

TEST(OnnxGraph, HasTheNamesOfLayersAndWeights) {
  Sequential net;
  net.append("conv", std::make_unique<Conv2d>(1, 2, 3)).append(F::relu);
  net.append("top", std::make_unique<Linear>(32, 4));
  net.initialize(1);
  const Graph graph = graph_of(net, {2, 1, 6, 6});
  std::vector<std::string> nodes, weights;
  for (const Node& node : graph.nodes) nodes.push_back(node.name + " " + node.op);
  for (const auto& [name, values] : graph.initializers) weights.push_back(name);
  EXPECT_THAT(nodes, ElementsAre("conv/conv2d Conv", "relu Relu", "reshape Reshape",
                                 "top/linear Gemm", "y Identity"));
  EXPECT_THAT(weights, ElementsAre("conv/W", "conv/b", "reshape/shape", "top/W", "top/b"));
  ASSERT_EQ(graph.inputs.size(), 1U);
  const auto text = [](const Value& value) {
    std::string axes = value.name;
    for (const Axis& axis : value.axes)
      axes += " " + (axis.name.empty() ? std::to_string(axis.size) : axis.name);
    return axes;
  };
  EXPECT_EQ(text(graph.inputs[0]), "x batch 1 6 6");
  EXPECT_EQ(text(graph.outputs.at(0)), "y batch 4");
}

TEST(OnnxGraph, RefusesWhatItCannotSay) {
  const Tensor t = Tensor::zeros({2}, DType::int32);
  EXPECT_THAT(
      refusal_of([](const Variable& x) { return F::where(F::greater(x, x * 2), x, x + 1); }),
      HasSubstr("the function where has no translation"));
  EXPECT_THAT(refusal_of([](const Variable& x) {
                return x + Variable(Tensor::full({x.shape()[0], 1}, 2));
              }),
              HasSubstr("add uses an array of 2x1 that is computed from the input"));
  EXPECT_THAT(refusal_of([](const Variable& x) {
                return F::slice(x, {{0, -1}});
              }),
              HasSubstr("slice takes a part of axis 0, whose size depends on the input"));
  EXPECT_THAT(refusal_of([](const Variable& x) {
                return F::sum(x) * (1.0f / static_cast<float>(x.shape()[0]));
              }),
              HasSubstr("settings of mul depend on the size of the input"));
  EXPECT_THAT(refusal_of([](const Variable& x) { return x.shape()[0] == 2 ? x * 2 : F::exp(x); }),
              HasSubstr("calls mul for a small input and exp for a larger one"));
}

TEST(OnnxGraph, FilesNeedTheLibrary) {
  OneCall layer([](const Variable& x) { return x * 2; });
  const std::string file = ::testing::TempDir() + "twice.onnx";
#ifdef TASUKI_TEST_HAS_ONNX
  export_onnx(layer, Tensor::zeros({1, 3}), file, {{"made by", "a test"}});
  EXPECT_THAT(read_file(file), HasSubstr("made by"));
  EXPECT_THROW(export_onnx(layer, Tensor::zeros({0, 3}), file), Error);
#else
  try {
    export_onnx(layer, Tensor::zeros({1, 3}), file);
    FAIL() << "a build without libonnx wrote a file";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("libonnx-dev"));
  }
#endif
}

}  // namespace
}  // namespace tasuki::testing
