// What tests of tasuki.h share: a model that is destroyed, arrays, the examples of a step.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bindings/tasuki.h"
#include "communicator/mpi_comm.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {

inline int rank_of_job() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int ranks_of_job() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

inline void expect_ok(int code) {
  EXPECT_EQ(code, TASUKI_OK) << tasuki_error();
}

// A folder that all ranks see under one name.
class SharedFolder {
 public:
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::unique_ptr<Communicator> communicator_ = create_communicator("naive", MPI_COMM_WORLD);
  TemporaryFolder folder_{communicator_.get()};
};

// On the device that the environment names.
class Model {
 public:
  explicit Model(const char* network = "mlp 3-8-2 tanh", const char* loss = "mean_squared_error",
                 const char* settings = "adam alpha=0.01 seed=5") {
    const char* const device = std::getenv("TASUKI_TEST_DEVICE");
    const std::string all = std::string(settings) + (device == nullptr ? "" : " device=") +
                            (device == nullptr ? "" : device);
    expect_ok(tasuki_create(MPI_COMM_WORLD, network, loss, all.c_str(), &model_));
  }
  ~Model() { expect_ok(tasuki_destroy(model_)); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  operator tasuki_model*() const { return model_; }

  double get(const char* name) const {
    double value = -1;
    expect_ok(tasuki_get(model_, name, &value));
    return value;
  }

 private:
  tasuki_model* model_ = nullptr;
};

template <class Number>
inline constexpr tasuki_type type_of = TASUKI_FLOAT32;
template <>
inline constexpr tasuki_type type_of<double> = TASUKI_FLOAT64;
template <>
inline constexpr tasuki_type type_of<std::int32_t> = TASUKI_INT32;
template <>
inline constexpr tasuki_type type_of<std::int64_t> = TASUKI_INT64;

template <class Number>
tasuki_array array_of(std::vector<Number>& values, const std::vector<std::int64_t>& shape,
                      tasuki_order order = TASUKI_C_ORDER) {
  tasuki_array made{};
  made.data = values.data();
  made.type = type_of<Number>;
  made.order = order;
  made.axes = static_cast<int>(shape.size());
  std::ranges::copy(shape, made.shape);
  return made;
}

template <class Number = float>
std::vector<Number> numbers(std::int64_t count, std::int64_t seed) {
  std::vector<Number> made(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    made[static_cast<std::size_t>(i)] = static_cast<Number>((13 * i + 7 * seed) % 29) / 29;
  return made;
}

// Examples of a step: rank r has (r + step) % 3 of them, so some ranks have none.
struct StepExamples {
  explicit StepExamples(int step)
      : count((rank_of_job() + step) % 3 + (ranks_of_job() == 1 ? 1 : 0)),
        x(numbers(3 * count, step + 10 * rank_of_job())),
        t(numbers(2 * count, step + 10 * rank_of_job() + 5)) {}
  tasuki_array inputs() { return array_of(x, {count, 3}); }
  tasuki_array targets() { return array_of(t, {count, 2}); }

  std::int64_t count;
  std::vector<float> x, t;
};

inline void train(tasuki_model* model, int first, int end) {
  for (int step = first; step < end; ++step) {
    StepExamples examples(step);
    const tasuki_array x = examples.inputs(), t = examples.targets();
    expect_ok(tasuki_train_step(model, &x, &t, nullptr));
  }
}

inline std::vector<float> prediction_of(tasuki_model* model) {
  std::vector<float> x = numbers(3 * 4, 77), y(2 * 4, -1.0F);
  const tasuki_array inputs = array_of(x, {4, 3}), results = array_of(y, {4, 2});
  expect_ok(tasuki_predict(model, &inputs, &results));
  return y;
}

}  // namespace tasuki::testing
