// Errors of tasuki.h: codes, messages, and what ranks learn of each other's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/tasuki.h"
#include "models/catalog.hpp"
#include "nn/connection.hpp"
#include "nn/initializer.hpp"
#include "tests/bindings/guest_calls.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CErrors, RanksThatSetDifferentValuesAreNamed) {
  if (ranks_of_job() == 1) GTEST_SKIP() << "needs 2 ranks";
  const Model model;
  expect_ok(tasuki_set(model, "alpha", rank_of_job() == 1 ? 0.5 : 0.25));
  StepExamples examples(0);
  const tasuki_array x = examples.inputs(), t = examples.targets();
  EXPECT_EQ(tasuki_train_step(model, &x, &t, nullptr), TASUKI_DISAGREEMENT);
  EXPECT_THAT(tasuki_error(), HasSubstr("alpha 0.5"));
  expect_ok(tasuki_set(model, "alpha", 0.25));
  train(model, 0, 1);
}

struct BadLine {
  const char* network;
  const char* loss;
  const char* settings;
  int code;
  const char* expected;
};

TEST(CErrors, RefusesBadLines) {
  const char* const good = "mlp 3-8-2";
  const char* const mse = "mean_squared_error";
  const std::vector<BadLine> lines = {
      {"", mse, "sgd", TASUKI_USAGE, "network: expected a line such as"},
      {nullptr, mse, "sgd", TASUKI_USAGE, "network: expected a line such as"},
      {"mlp", mse, "sgd", TASUKI_USAGE, "\"mlp 3-64-64-1 tanh\""},
      {"mlp 3", mse, "sgd", TASUKI_USAGE, "at least 2 sizes"},
      {"mlp 3--1", mse, "sgd", TASUKI_USAGE, "a size from 1"},
      {"mlp 3-0-1", mse, "sgd", TASUKI_USAGE, "a size from 1"},
      {"mlp 3-99999999999999999999-1", mse, "sgd", TASUKI_USAGE, "a size from 1"},
      {"mlp 4-4611686018427387905-1", mse, "sgd", TASUKI_USAGE, "a size from 1 to 100000000"},
      {"mlp 3-8-2 sine", mse, "sgd", TASUKI_USAGE, "relu, tanh, sigmoid"},
      {"mlp 3-8-2 tanh tanh", mse, "sgd", TASUKI_USAGE, "found 4 words"},
      {"resnet1", mse, "sgd", TASUKI_USAGE, "resnet18"},
      {"resnet18 image=3x32", mse, "sgd", TASUKI_USAGE, "3 sizes"},
      {"resnet18 colours=3", mse, "sgd", TASUKI_USAGE, "classes=N"},
      {"resnet18 3", mse, "sgd", TASUKI_USAGE, "name=value"},
      {"lenet image=3x32x32", mse, "sgd", TASUKI_CONFIG, "1x28x28"},
      {good, "mse", "sgd", TASUKI_USAGE, "mean_squared_error, mean_absolute_error"},
      {good, nullptr, "sgd", TASUKI_USAGE, "mean_squared_error, mean_absolute_error"},
      {good, mse, "", TASUKI_USAGE, "an optimizer first"},
      {good, mse, "adam2", TASUKI_USAGE, "adam"},
      {good, mse, "adam lr=1", TASUKI_USAGE, "alpha, beta1"},
      {good, mse, "adam alpha", TASUKI_USAGE, "name=value"},
      {good, mse, "adam alpha=fast", TASUKI_USAGE, "alpha: expected a number such as 1e-3"},
      {good, mse, "adam alpha=1 alpha=2", TASUKI_USAGE, "alpha is given twice"},
      {good, mse, "adam alpha=nan", TASUKI_USAGE, "alpha: expected a number"},
      {good, mse, "adam beta1=2", TASUKI_USAGE, "beta1"},
      {good, mse, "adam threads=0", TASUKI_USAGE,
       "threads: expected a whole number from 1 to 4096"},
      {good, mse, "adam threads=4097", TASUKI_USAGE, "threads: expected a whole number"},
      {good, mse, "adam seed=-1", TASUKI_USAGE, "seed: expected a whole number from 0"},
      {good, mse, "adam clip=0", TASUKI_USAGE, "clip: expected a number above 0"},
      {good, mse, "adam device=tpu", TASUKI_USAGE, "cpu or gpu"},
      {good, mse, "adam communicator=pigeon", TASUKI_USAGE, "auto"}};
  for (const auto& [network, loss, settings, code, expected] : lines) {
    SCOPED_TRACE(std::string(network == nullptr ? "null" : network) + ", " + settings);
    tasuki_model* model = nullptr;
    EXPECT_EQ(tasuki_create(MPI_COMM_WORLD, network, loss, settings, &model), code);
    EXPECT_EQ(model, nullptr);
    EXPECT_THAT(tasuki_error(), HasSubstr(expected));
  }
}

TEST(CErrors, RefusesWhatItCannotUse) {
  tasuki_model* model = nullptr;
  EXPECT_EQ(tasuki_create(MPI_COMM_NULL, "mlp 3-2", "mean_squared_error", "sgd", &model),
            TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("comm: expected a communicator"));
  EXPECT_EQ(tasuki_create(MPI_COMM_SELF, "mlp 3-2", "mean_squared_error", "sgd", nullptr),
            TASUKI_USAGE);
  EXPECT_EQ(tasuki_train_step(nullptr, nullptr, nullptr, nullptr), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("model"));
  expect_ok(tasuki_destroy(nullptr));
  EXPECT_THAT(tasuki_version(), HasSubstr("."));

  // On one rank, so that errors of this rank alone end nothing.
  expect_ok(tasuki_create(MPI_COMM_SELF, "mlp 3-8-2", "mean_squared_error", "sgd", &model));
  std::vector<float> x = numbers(12, 1), t = numbers(8, 2);
  std::vector<std::int32_t> labels(4);
  const tasuki_array good_x = array_of(x, {4, 3}), good_t = array_of(t, {4, 2});
  const auto refused = [&](const tasuki_array* inputs, const tasuki_array* targets,
                           const char* expected) {
    EXPECT_EQ(tasuki_train_step(model, inputs, targets, nullptr), TASUKI_USAGE);
    EXPECT_THAT(tasuki_error(), HasSubstr(expected));
  };
  refused(nullptr, &good_t, "x: expected an address");
  refused(&good_x, nullptr, "t: expected an address");
  const tasuki_array of_labels = array_of(labels, {4});
  refused(&good_x, &of_labels, "mean_squared_error takes float32 or float64, found int32");
  refused(&of_labels, &good_t, "x: expected float32 or float64, found int32");
  const tasuki_array few = array_of(t, {2, 2}), wide = array_of(t, {4, 1, 1});
  refused(&good_x, &few, "targets of 4 examples, as x has, found 2");
  refused(&good_x, &wide,
          "expected 4x2 for this network and mean_squared_error (4 examples), found 4x1x1");
  const tasuki_array few_features = array_of(x, {6, 2});
  refused(&few_features, &good_t, "x: expected 6x3 for this network (6 examples), found 6x2");
  tasuki_array of_fortran = array_of(x, {3, 4}, TASUKI_FORTRAN_ORDER);
  tasuki_array wide_fortran = array_of(t, {1, 1, 4}, TASUKI_FORTRAN_ORDER);
  refused(&of_fortran, &wide_fortran, "expected 2x4 for this network");
  const auto with = [&](auto change) {
    tasuki_array changed = good_x;
    change(changed);
    return changed;
  };
  const tasuki_array no_axes = with([](tasuki_array& a) { a.axes = 0; });
  refused(&no_axes, &good_t, "1 to 6 axes, found 0");
  const tasuki_array negative = with([](tasuki_array& a) { a.shape[1] = -3; });
  refused(&negative, &good_t, "sizes from 0, found -3");
  const tasuki_array nowhere = with([](tasuki_array& a) { a.data = nullptr; });
  refused(&nowhere, &good_t, "the address of 12 elements");
  const tasuki_array huge = with([](tasuki_array& a) { a.shape[0] = a.shape[1] = 1LL << 40; });
  refused(&huge, &good_t, "at most 281474976710656 elements");
  const tasuki_array long_vector = with([](tasuki_array& a) {
    a.axes = 1;
    a.shape[0] = (1LL << 62) + 1;
  });
  refused(&long_vector, &good_t, "at most 281474976710656 elements");
  const tasuki_array of_another_type = with([](tasuki_array& a) { a.type = tasuki_type(9); });
  refused(&of_another_type, &good_t, "enum tasuki_type, found 9");

  std::vector<float> y(8);
  const tasuki_array too_small = array_of(y, {3, 2}), too_narrow = array_of(y, {4, 1});
  EXPECT_EQ(tasuki_predict(model, &good_x, &too_small), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("room for 4 examples, as x has, found 3"));
  EXPECT_EQ(tasuki_predict(model, &good_x, &too_narrow), TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("an array of 4x2 for the result, found 4x1"));
  EXPECT_EQ(tasuki_predict(model, &good_x, &of_labels), TASUKI_USAGE);

  for (const char* const path : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_EQ(tasuki_save(model, path), TASUKI_USAGE);
    EXPECT_EQ(tasuki_load(model, path), TASUKI_USAGE);
    EXPECT_EQ(tasuki_checkpoint(model, path), TASUKI_USAGE);
    EXPECT_EQ(tasuki_resume(model, path), TASUKI_USAGE);
    EXPECT_THAT(tasuki_error(), HasSubstr("expected the name of a file"));
  }
  EXPECT_EQ(tasuki_resume(model, "/tmp"), TASUKI_DATA);

  // The model is as before.
  double loss = -1;
  expect_ok(tasuki_train_step(model, &good_x, &good_t, &loss));
  EXPECT_GT(loss, 0);
  expect_ok(tasuki_evaluate(model, &good_x, &good_t, &loss));
  const TemporaryFolder folder;
  expect_ok(tasuki_save(model, (folder / "w.npz").c_str()));
  expect_ok(tasuki_checkpoint(model, (folder / "training.npz").c_str()));
  expect_ok(tasuki_resume(model, (folder / "training.npz").c_str()));
  expect_ok(tasuki_destroy(model));
}

TEST(CErrors, SaysThatThereIsNotEnoughMemory) {
  tasuki_model* model = nullptr;
  EXPECT_EQ(
      tasuki_create(MPI_COMM_WORLD, "mlp 3000000-3000000-1", "mean_squared_error", "sgd", &model),
      TASUKI_NO_MEMORY);
  EXPECT_THAT(tasuki_error(), HasSubstr("out of memory"));
  EXPECT_EQ(model, nullptr);
}

TEST(CErrors, LinesThatDifferBetweenRanksAreAnErrorOnAll) {
  if (ranks_of_job() == 1) GTEST_SKIP() << "needs 2 ranks";
  tasuki_model* model = nullptr;
  const char* const own = rank_of_job() == 1 ? "mlp 3-9-2" : "mlp 3-8-2";
  EXPECT_EQ(tasuki_create(MPI_COMM_WORLD, own, "mean_squared_error", "sgd", &model),
            TASUKI_DISAGREEMENT);
  EXPECT_THAT(tasuki_error(), HasSubstr("3-9-2"));
  const char* const bad = rank_of_job() == 1 ? "adam2" : "adam";
  EXPECT_EQ(tasuki_create(MPI_COMM_WORLD, "mlp 3-2", "mean_squared_error", bad, &model),
            TASUKI_USAGE);
  EXPECT_THAT(tasuki_error(), HasSubstr("adam2"));
}

TEST(CErrors, AnArrayOfOneRankThatIsWrongIsAnErrorOfAll) {
  if (ranks_of_job() == 1) GTEST_SKIP() << "needs 2 ranks";
  const bool fails = rank_of_job() == 1;
  for (const char* const kind : {"auto", "flat", "naive"}) {
    SCOPED_TRACE(kind);
    const Model model("mlp 3-8-2", "mean_squared_error",
                      (std::string("adam communicator=") + kind).c_str());
    train(model, 0, 2);
    std::vector<float> x = numbers(12, 1), t = numbers(8, 2);
    const tasuki_array inputs = array_of(x, {4, 3});
    const tasuki_array targets = array_of(t, {4, fails ? 1 : 2});
    double loss = -1;
    for (const int code : {tasuki_train_step(model, &inputs, &targets, &loss),
                           tasuki_evaluate(model, &inputs, &targets, &loss)}) {
      EXPECT_EQ(code, TASUKI_USAGE);
      EXPECT_THAT(tasuki_error(), StartsWith("rank 1 on "));
      EXPECT_THAT(tasuki_error(), HasSubstr("expected 4x2 for this network"));
      EXPECT_EQ(loss, -1);
    }
    EXPECT_EQ(model.get("steps"), 2);
    train(model, 2, 3);
  }
}

// While it is set, passes of the network "failing" fail.
bool is_failing = false;

// y = 0 x, unless it fails.
class Failing : public Layer {
 public:
  Failing() { add("l", l_); }
  Variable forward(const Variable& x) override {
    if (is_failing) throw std::runtime_error("the network exploded");
    return l_(x);
  }

 private:
  Linear l_{1, 1, true, initializers::constant(0)};
};

[[maybe_unused]] const bool failing_is_registered = [] {
  register_model({.name = "failing", .summary = "y = 0 x", .create = [](const ModelTask&) {
                    return std::make_unique<Failing>();
                  }});
  return true;
}();

TEST(CErrors, AnErrorOfOneRankInAStepReachesTheOthers) {
  if (ranks_of_job() == 1) GTEST_SKIP() << "needs 2 ranks";
  const Model model("failing image=1x1x1", "mean_squared_error", "sgd");
  const bool fails = rank_of_job() == 1;
  std::vector<float> x = {1}, t = {3};
  const tasuki_array inputs = array_of(x, {1, 1}), targets = array_of(t, {1});
  expect_ok(tasuki_train_step(model, &inputs, &targets, nullptr));
  MPI_Barrier(MPI_COMM_WORLD);
  is_failing = fails;
  int code = TASUKI_OK;
  for (int step = 0; step < 2 && code == TASUKI_OK; ++step)
    code = tasuki_train_step(model, &inputs, &targets, nullptr);
  is_failing = false;
  EXPECT_EQ(code, fails ? TASUKI_INTERNAL : TASUKI_IO);
  EXPECT_THAT(tasuki_error(), HasSubstr("the network exploded"));
  EXPECT_THAT(tasuki_error(), HasSubstr("rank 1 on "));
  EXPECT_EQ(tasuki_train_step(model, &inputs, &targets, nullptr), TASUKI_IO);
  EXPECT_THAT(tasuki_error(), HasSubstr("can only predict and be destroyed"));
  std::vector<float> y = {7};
  const tasuki_array result = array_of(y, {1});
  expect_ok(tasuki_predict(model, &inputs, &result));
  EXPECT_TRUE(std::isfinite(y[0]));
}

}  // namespace
}  // namespace tasuki::testing
