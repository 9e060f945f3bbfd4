// The functions of classifiers, as reference_check.hpp says.
#include "reference_check.hpp"

#include <gtest/gtest.h>

#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/random.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_case;
using testing::check_file;
using testing::Inputs;
using testing::optional;
using testing::random_tensor;
using testing::read_reference_cases;
using testing::reference_tolerance;
using testing::ReferenceCase;
using testing::relative_error;
using testing::Subject;

Variable run_conv2d(const Inputs& in, const ReferenceCase& test) {
  Conv2dOptions o;
  o.stride_h = test.options["stride"][0], o.stride_w = test.options["stride"][1];
  o.pad_h = test.options["pad"][0], o.pad_w = test.options["pad"][1];
  o.dilation_h = test.options["dilation"][0], o.dilation_w = test.options["dilation"][1];
  o.groups = test.options["groups"];
  return F::conv2d(in.at("x"), in.at("w"), optional(in, "b"), o);
}

TEST(Reference, Linear) {
  check_file("linear", [](const Inputs& in, const ReferenceCase&) {
    return F::linear(in.at("x"), in.at("w"), optional(in, "b"));
  });
}

TEST(Reference, Conv2d) {
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct, ConvAlgorithm::winograd,
                                        ConvAlgorithm::interleaved, ConvAlgorithm::fastest}) {
    set_conv_algorithm(algorithm);
    check_file("conv2d", run_conv2d);
  }
}

TEST(Reference, MaxPooling2d) {
  check_file("max_pooling_2d", [](const Inputs& in, const ReferenceCase& test) {
    const auto& o = test.options;
    return F::max_pooling_2d(in.at("x"), o["window"], o["stride"], o["pad"], o["cover_all"]);
  });
}

TEST(Reference, AveragePooling2d) {
  check_file("average_pooling_2d", [](const Inputs& in, const ReferenceCase& test) {
    const auto& o = test.options;
    return F::average_pooling_2d(in.at("x"), o["window"], o["stride"], o["pad"]);
  });
}

TEST(Reference, GlobalAveragePooling2d) {
  check_file("global_average_pooling_2d", [](const Inputs& in, const ReferenceCase&) {
    return F::global_average_pooling_2d(in.at("x"));
  });
}

TEST(Reference, BatchNorm) {
  check_file("batch_norm", [](const Inputs& in, const ReferenceCase& test) {
    return F::batch_norm(in.at("x"), in.at("gamma"), in.at("beta"), 2e-5f, test.options["relu"]);
  });
}

TEST(Reference, Activations) {
  check_file("activations", [](const Inputs& in, const ReferenceCase& test) {
    const Variable& x = in.at("x");
    if (test.name == "relu") return F::relu(x);
    if (test.name == "leaky_relu") return F::leaky_relu(x);
    if (test.name == "sigmoid") return F::sigmoid(x);
    return F::tanh(x);
  });
}

TEST(Reference, SoftmaxCrossEntropy) {
  for (const DType labels : {DType::int32, DType::int64}) {
    check_file("softmax_cross_entropy", [&](const Inputs& in, const ReferenceCase&) {
      return F::softmax_cross_entropy(in.at("x"), in.at("t").value().to(labels));
    });
  }
}

TEST(Reference, MeanSquaredError) {
  check_file("mean_squared_error", [](const Inputs& in, const ReferenceCase&) {
    return F::mean_squared_error(in.at("input"), in.at("target").value());
  });
}

TEST(Reference, AddConcatReshape) {
  check_file("shapes", [](const Inputs& in, const ReferenceCase& test) {
    if (test.name == "add") return F::add(in.at("a"), in.at("b"));
    if (test.name == "add_self") return in.at("a") + in.at("a");
    if (test.name == "reshape") return F::reshape(in.at("a"), {4, 6});
    return F::concat({in.at("a"), in.at("b"), in.at("c")}, test.options["axis"]);
  });
}

// The functions key by (seed, epoch, call); here the backend's part is compared.
TEST(Reference, Dropout) {
  for (const ReferenceCase& test : read_reference_cases("dropout")) {
    const auto numbers = test.options["ids"].get<std::vector<std::int64_t>>();
    const Tensor ids = Tensor::from(std::span(numbers), {std::ssize(numbers)});
    const auto key =
        static_cast<std::int64_t>(std::stoull(test.options["seed"].get<std::string>()));
    const Tensor seed = Tensor::from(std::span(&key, 1), {1});
    const float ratio = test.options["ratio"];
    Backend& cpu = backend(Device::cpu());
    EXPECT_LT(relative_error(cpu.dropout(test.inputs.at("x"), ratio, seed, ids), test.result),
              reference_tolerance);
    EXPECT_LT(relative_error(cpu.dropout(test.upstream, ratio, seed, ids), test.gradients.at("x")),
              reference_tolerance);
  }
}

TEST(Reference, DropoutGradients) {
  ReferenceCase test{
      "dropout", {}, {{"x", random_tensor({4, 33}, 1)}}, {}, random_tensor({4, 33}, 2), {}};
  const Subject run = [](const Inputs& in, const ReferenceCase&) {
    RandomKeys keys(0);
    const RandomScope random(keys);
    return F::dropout(in.at("x"), 0.3f);
  };
  const Variable x(test.inputs["x"], true);
  const Variable y = run({{"x", x}}, test);
  test.result = y.value();
  testing::weighted_sum(y, test.upstream).backward();
  test.gradients["x"] = x.grad();
  check_case(run, test);
}

TEST(Reference, MlpClassifier) {
  for (const ReferenceCase& test : read_reference_cases("mlp")) {
    Classifier model(std::make_unique<MLP>(6, 8, 4));
    for (const auto& [path, parameter] : model.parameters())
      parameter->value().copy_from(test.inputs.at(path));
    const auto result = model(Variable(test.inputs.at("x")), test.inputs.at("t"));
    EXPECT_LT(relative_error(result.loss.value(), test.result), reference_tolerance);
    result.loss.backward(*test.upstream.data<float>());
    ASSERT_EQ(model.parameters().size(), test.gradients.size());
    for (const auto& [path, parameter] : model.parameters())
      EXPECT_LT(relative_error(parameter->grad(), test.gradients.at(path)), reference_tolerance)
          << path;
  }
}

TEST(Reference, BatchNormLayer) {
  for (const auto& test : testing::read_reference("batch_norm_layer")) {
    BatchNorm layer(3);
    layer.initialize(1);
    layer(Variable(testing::tensor_from(test["first"])));
    layer(Variable(testing::tensor_from(test["second"])));
    for (const auto& [path, tensor] : layer.buffers()) {
      if (path == "N") continue;
      EXPECT_LT(relative_error(*tensor, testing::tensor_from(test[path])), reference_tolerance)
          << path;
    }
    const TrainingMode evaluation(false);
    const Variable y = layer(Variable(testing::tensor_from(test["last"])));
    EXPECT_LT(relative_error(y.value(), testing::tensor_from(test["result"])), reference_tolerance);
  }
}

}  // namespace
}  // namespace tasuki
