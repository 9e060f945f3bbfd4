// tasuki.h, called as a program in another language calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/tasuki.h"
#include "communicator/mpi_comm.hpp"
#include "models/catalog.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/initializer.hpp"
#include "nn/predict.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "tests/bindings/guest_calls.hpp"
#include "tests/bindings/in_c.h"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;

// y = 0 x.
class Zero : public Layer {
 public:
  Zero() { add("l", l_); }
  Variable forward(const Variable& x) override { return l_(x); }

 private:
  Linear l_{1, 1, true, initializers::constant(0)};
};

// Drops half of its inputs while it is trained.
class Dropping : public Layer {
 public:
  Dropping() { add("l", l_); }
  Variable forward(const Variable& x) override { return l_(functions::dropout(x)); }

 private:
  Linear l_{16, 2};
};

[[maybe_unused]] const bool registered = [] {
  register_model({.name = "zero", .summary = "y = 0 x", .create = [](const ModelTask&) {
                    return std::make_unique<Zero>();
                  }});
  register_model({.name = "dropping", .summary = "dropout", .create = [](const ModelTask&) {
                    return std::make_unique<Dropping>();
                  }});
  return true;
}();

TEST(CInterface, TrainsAsAnOptimizerDoes) {
  constexpr int steps = 6;
  std::vector<float> expected;
  {
    const auto communicator = create_communicator("auto", MPI_COMM_WORLD);
    Sequential network;
    network.append("l1", std::make_unique<Linear>(3, 8))
        .append(functions::tanh)
        .append("l2", std::make_unique<Linear>(8, 2));
    network.initialize(5);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
    optimizer->set("alpha", 0.01);
    optimizer->setup(network);
    for (int step = 0; step < steps; ++step) {
      StepExamples examples(step);
      const Tensor x = Tensor::from<float>(examples.x, {examples.count, 3});
      const Tensor t = Tensor::from<float>(examples.t, {examples.count, 2});
      optimizer->update([&] { return functions::mean_squared_error(network(Variable(x)), t); },
                        examples.count);
    }
    const Tensor y = predict(network, Tensor::from<float>(numbers(3 * 4, 77), {4, 3}));
    expected.assign(y.span<float>().begin(), y.span<float>().end());
  }
  const Model model;
  train(model, 0, steps);
  EXPECT_EQ(prediction_of(model), expected);
  EXPECT_EQ(model.get("steps"), steps);
  EXPECT_EQ(model.get("parameters"), 3 * 8 + 8 + 8 * 2 + 2);
  EXPECT_EQ(model.get("rank"), rank_of_job());
  EXPECT_EQ(model.get("ranks"), ranks_of_job());
  EXPECT_EQ(model.get("alpha"), 0.01);
}

TEST(CInterface, IsOneForC) {
  float prediction = 0;
  EXPECT_EQ(train_in_c(MPI_COMM_WORLD, 400, &prediction), TASUKI_OK) << tasuki_error();
  EXPECT_NEAR(prediction, 0.75, 0.05);
}

TEST(CInterface, ReadsAndWritesArraysInAnyOrder) {
  const Model model;
  std::vector<float> x = numbers(3 * 4, 1), y(2 * 4);
  const tasuki_array inputs = array_of(x, {4, 3}), results = array_of(y, {4, 2});
  expect_ok(tasuki_predict(model, &inputs, &results));

  // The same memory is (3, 4) in Fortran.
  std::vector<float> found(2 * 4);
  tasuki_array of_fortran = array_of(x, {3, 4}, TASUKI_FORTRAN_ORDER);
  tasuki_array to_fortran = array_of(found, {2, 4}, TASUKI_FORTRAN_ORDER);
  expect_ok(tasuki_predict(model, &of_fortran, &to_fortran));
  EXPECT_EQ(found, y);

  // float64, with results in every second element of rows that go backward.
  std::vector<double> x64(x.begin(), x.end()), y64(4 * 4, -7);
  const tasuki_array inputs64 = array_of(x64, {4, 3});
  tasuki_array results64 = array_of(y64, {4, 2});
  results64.data = y64.data() + 3 * 4;
  results64.strides[0] = -4;
  results64.strides[1] = 2;
  expect_ok(tasuki_predict(model, &inputs64, &results64));
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_EQ(static_cast<float>(y64[(3 - i) * 4 + 2 * j]), y[i * 2 + j]);
      EXPECT_EQ(y64[(3 - i) * 4 + 2 * j + 1], -7);
    }

  // A transposed array.
  std::vector<float> transposed(3 * 4);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 3; ++j) transposed[j * 4 + i] = x[i * 3 + j];
  tasuki_array strided = array_of(transposed, {4, 3});
  strided.strides[0] = 1;
  strided.strides[1] = 4;
  std::ranges::fill(found, 0);
  expect_ok(tasuki_predict(model, &strided, &results));
  expect_ok(tasuki_predict(model, &strided, &to_fortran));
  EXPECT_EQ(found, y);
}

TEST(CInterface, TakesImagesAsFortranHasThem) {
  const Model model("lenet classes=10 image=1x28x28", "softmax_cross_entropy",
                    "momentum_sgd lr=0.01");
  std::vector<float> images = numbers(2 * 28 * 28, 3), in_c(2 * 10), in_fortran(2 * 10);
  const tasuki_array x = array_of(images, {2, 1, 28, 28}), y = array_of(in_c, {2, 10});
  expect_ok(tasuki_predict(model, &x, &y));
  const tasuki_array xf = array_of(images, {28, 28, 1, 2}, TASUKI_FORTRAN_ORDER);
  const tasuki_array yf = array_of(in_fortran, {10, 2}, TASUKI_FORTRAN_ORDER);
  expect_ok(tasuki_predict(model, &xf, &yf));
  EXPECT_EQ(in_fortran, in_c);
  std::vector<std::int32_t> labels = {3, -1};
  const tasuki_array t = array_of(labels, {2});
  double loss = 0;
  expect_ok(tasuki_train_step(model, &xf, &t, &loss));
  // The label of the second image does not count.
  const auto first = std::vector<float>(in_c.begin(), in_c.begin() + 10);
  double exponentials = 0;
  for (const float score : first) exponentials += std::exp(static_cast<double>(score));
  EXPECT_NEAR(loss, std::log(exponentials) - static_cast<double>(first[3]), 1e-5);
}

TEST(CInterface, EvaluatesTheExamplesOfAllRanks) {
  const Model model;
  StepExamples examples(1);
  const tasuki_array x = examples.inputs(), t = examples.targets();
  double mean = -1;
  expect_ok(tasuki_evaluate(model, &x, &t, &mean));
  std::vector<float> y(examples.t.size());
  const tasuki_array results = array_of(y, {examples.count, 2});
  expect_ok(tasuki_predict(model, &x, &results));
  std::array<double, 2> sums{};
  for (std::size_t i = 0; i < y.size(); ++i)
    sums[0] += std::pow(static_cast<double>(y[i]) - static_cast<double>(examples.t[i]), 2);
  sums[1] = static_cast<double>(y.size());
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_NEAR(mean, sums[0] / sums[1], 1e-6);
  EXPECT_EQ(model.get("steps"), 0);

  tasuki_array none = x, no_targets = t;
  none.shape[0] = no_targets.shape[0] = 0;
  none.data = no_targets.data = nullptr;
  expect_ok(tasuki_evaluate(model, &none, &no_targets, &mean));
  EXPECT_TRUE(std::isnan(mean));
}

TEST(CInterface, GoesOnFromACheckpointWithTheSameBits) {
  const SharedFolder folder;
  const std::string file = folder / "training.npz";
  std::vector<float> expected;
  {
    const Model model;
    EXPECT_EQ(tasuki_resume(model, file.c_str()), TASUKI_MISSING);
    EXPECT_THAT(tasuki_error(), HasSubstr(file));
    train(model, 0, 4);
    expect_ok(tasuki_checkpoint(model, file.c_str()));
    train(model, 4, 8);
    expected = prediction_of(model);
  }
  const Model model("mlp 3-8-2 tanh", "mean_squared_error", "adam alpha=0.01 seed=6");
  expect_ok(tasuki_resume(model, file.c_str()));
  EXPECT_EQ(model.get("steps"), 4);
  train(model, 4, 8);
  EXPECT_EQ(prediction_of(model), expected);
}

TEST(CInterface, SavesAndLoadsWeights) {
  const SharedFolder folder;
  const Model trained;
  train(trained, 0, 3);
  const std::vector<float> expected = prediction_of(trained);
  expect_ok(tasuki_save(trained, (folder / "w.npz").c_str()));
  expect_ok(tasuki_save(trained, (folder / "w.safetensors").c_str()));
  expect_ok(tasuki_checkpoint(trained, (folder / "training.npz").c_str()));
  for (const char* const name : {"w.npz", "w.safetensors", "training.npz"}) {
    SCOPED_TRACE(name);
    const Model model("mlp 3-8-2 tanh", "mean_squared_error", "sgd seed=9");
    EXPECT_NE(prediction_of(model), expected);
    expect_ok(tasuki_load(model, (folder / name).c_str()));
    EXPECT_EQ(prediction_of(model), expected);
  }
  EXPECT_EQ(tasuki_save(trained, (folder / "w.pth").c_str()), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr(".safetensors or .onnx"));
  // The model can be used on after errors of all ranks.
  train(trained, 3, 4);
  const Model other("mlp 3-9-2 tanh");
  EXPECT_EQ(tasuki_load(other, (folder / "w.npz").c_str()), TASUKI_DATA);
  EXPECT_THAT(tasuki_error(), HasSubstr("l1/W"));
}

TEST(CInterface, SavesOnnx) {
  const SharedFolder folder;
  const std::string file = folder / "model.onnx";
  const Model model;
  const int code = tasuki_save(model, file.c_str());
  if (code == TASUKI_UNAVAILABLE) GTEST_SKIP() << tasuki_error();
  expect_ok(code);
  EXPECT_GT(std::filesystem::file_size(file), 100U);
}

TEST(CInterface, SetsHyperparameters) {
  const Model model;
  expect_ok(tasuki_set(model, "alpha", 0.5));
  EXPECT_EQ(model.get("alpha"), 0.5);
  EXPECT_EQ(tasuki_set(model, "lr", 0.5), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("alpha"));
  EXPECT_EQ(tasuki_set(model, "steps", 5), TASUKI_USAGE);
  double value = 3;
  EXPECT_EQ(tasuki_get(model, "speed", &value), TASUKI_USAGE);
  EXPECT_EQ(value, 3);
}

// Largest change of a prediction by one step.
double change_by_a_step(const char* settings) {
  const Model model("mlp 3-8-2", "mean_squared_error", settings);
  const std::vector<float> before = prediction_of(model);
  train(model, 0, 1);
  const std::vector<float> after = prediction_of(model);
  double change = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    change = std::max(change, static_cast<double>(std::abs(after[i] - before[i])));
  return change;
}

TEST(CInterface, SettingsAreWhatTheirNamesSay) {
  const double plain = change_by_a_step("sgd lr=1");
  const double clipped = change_by_a_step("sgd lr=1 clip=1e-3");
  EXPECT_GT(plain, 1e-2);
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, 1e-2);
  // The decay follows the clipped gradient.
  EXPECT_EQ(change_by_a_step("sgd lr=1 clip=1e-30"), 0);
  EXPECT_GT(change_by_a_step("sgd lr=1 clip=1e-30 weight_decay=0.5"), 1e-2);
  EXPECT_EQ(change_by_a_step("sgd lr=1d0"), plain);
  const Model decaying("mlp 3-2", "mean_squared_error", "adamw weight_decay=0.25");
  EXPECT_EQ(decaying.get("weight_decay_rate"), 0.25);
  const Model threaded("mlp 3-8-2", "mean_squared_error", "sgd lr=1 threads=2");
  train(threaded, 0, 1);
}

TEST(CInterface, ComputesItsLosses) {
  struct Case {
    const char* name;
    double expected;  // of the result 0
  };
  std::vector<float> x = {1}, t = {3};
  for (const auto& [name, expected] : {Case{"mean_squared_error", 9},
                                       {"mean_absolute_error", 3},
                                       {"huber_loss", 2.5},
                                       {"sigmoid_cross_entropy", std::log(2.0)}}) {
    SCOPED_TRACE(name);
    const Model model("zero image=1x1x1", name, "sgd");
    const tasuki_array inputs = array_of(x, {1, 1}), targets = array_of(t, {1});
    double loss = -1;
    expect_ok(tasuki_evaluate(model, &inputs, &targets, &loss));
    EXPECT_NEAR(loss, expected, 1e-6);
  }
  std::vector<std::int64_t> labels = {1};
  const tasuki_array inputs = array_of(x, {1, 1}), of_labels = array_of(labels, {1});
  const Model binary("zero image=1x1x1", "sigmoid_cross_entropy", "sgd");
  double loss = -1;
  expect_ok(tasuki_evaluate(binary, &inputs, &of_labels, &loss));
  EXPECT_NEAR(loss, std::log(2.0), 1e-6);
  labels = {2};
  EXPECT_EQ(tasuki_evaluate(binary, &inputs, &of_labels, &loss), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("labels from 0 to 1 (-1 does not count), found 2"));
}

TEST(CInterface, HasTheFunctionsOfItsNames) {
  namespace F = functions;
  const std::vector<std::pair<std::string, Sequential::Link>> named = {
      {"relu", F::relu},
      {"tanh", F::tanh},
      {"sigmoid", F::sigmoid},
      {"gelu", [](const Variable& x) { return F::gelu(x); }},
      {"silu", F::silu},
      {"elu", [](const Variable& x) { return F::elu(x); }},
      {"softplus", [](const Variable& x) { return F::softplus(x); }}};
  for (const auto& [name, function] : named) {
    SCOPED_TRACE(name);
    Sequential network;
    network.append("l1", std::make_unique<Linear>(3, 8))
        .append(function)
        .append("l2", std::make_unique<Linear>(8, 2));
    network.initialize(5);
    const Tensor y = predict(network, Tensor::from<float>(numbers(3 * 4, 77), {4, 3}));
    const Model model(("mlp 3-8-2 " + name).c_str());
    EXPECT_EQ(prediction_of(model),
              std::vector<float>(y.span<float>().begin(), y.span<float>().end()));
  }
}

TEST(CInterface, GoesOnWithTheSameDropout) {
  const SharedFolder folder;
  const std::string file = folder / "training.npz";
  std::vector<float> x = numbers(4 * 16, 3), t = numbers(4 * 2, 4);
  const tasuki_array inputs = array_of(x, {4, 16}), targets = array_of(t, {4, 2});
  const auto loss_of_step = [&](tasuki_model* model) {
    double loss = -1;
    expect_ok(tasuki_train_step(model, &inputs, &targets, &loss));
    return loss;
  };
  const char* const network = "dropping image=16x1x1";
  double expected = 0;
  {
    const Model model(network, "mean_squared_error", "sgd seed=1");
    loss_of_step(model);
    expect_ok(tasuki_checkpoint(model, file.c_str()));
    expected = loss_of_step(model);
    EXPECT_NE(loss_of_step(model), expected);
  }
  const Model model(network, "mean_squared_error", "sgd seed=2");
  expect_ok(tasuki_resume(model, file.c_str()));
  EXPECT_EQ(loss_of_step(model), expected);
}

}  // namespace
}  // namespace tasuki::testing
