// Weights in a file of their own.
#include "tasuki/training/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "errors.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/nn/classifier.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::unique_ptr<Classifier> make_model(std::int64_t units, std::uint64_t seed) {
  auto model = std::make_unique<Classifier>(std::make_unique<MLP>(4, units, 3));
  model->initialize(seed);
  return model;
}

TEST(ModelFile, ParametersWithoutAShapeTakeTheFiles) {
  const TemporaryFolder folder;
  Linear saved(3, 5), lazy(std::nullopt, 5), other(std::nullopt, 4);
  saved.initialize(1);
  save_npz(folder / "model", saved);
  load_npz(folder / "model", lazy);
  const Tensor &x = saved.parameters()[0].parameter->value(),
               &y = lazy.parameters()[0].parameter->value();
  ASSERT_EQ(x.shape(), y.shape());
  EXPECT_EQ(std::memcmp(x.raw(), y.raw(), x.bytes()), 0);
  EXPECT_THAT(error_of([&] { load_npz(folder / "model", other); }),
              HasSubstr("W is 5x3 in the file and 4x? in the model (2 of the model's 2 arrays"));
  // What has no shape is not saved, and what is not in a file waits for its shape.
  save_npz(folder / "unshaped", other);
  EXPECT_THAT(NpzFile(folder / "unshaped").names(), ElementsAre("b"));
  load_npz(folder / "unshaped", other);
  EXPECT_EQ(other.unshaped_parameters().size(), 1U);
}

// A model with a running statistic.
struct Averaging : Module {
  Tensor& mean;
  explicit Averaging(double value) : mean(add_buffer("avg_mean", Tensor::full(Shape{2}, value))) {}
};

TEST(ModelFile, WeightsComeBackBitForBit) {
  const TemporaryFolder folder;
  const auto saved = make_model(5, 1), loaded = make_model(5, 2);
  save_npz(folder / "model", *saved);
  load_npz(folder / "model", *loaded);
  const auto a = saved->parameters(), b = loaded->parameters();
  ASSERT_EQ(a.size(), 6U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor &x = a[i].parameter->value(), &y = b[i].parameter->value();
    EXPECT_EQ(std::memcmp(x.raw(), y.raw(), x.bytes()), 0) << a[i].path;
  }
}

TEST(ModelFile, KeysAndShapesAreChainers) {
  const TemporaryFolder folder;
  save_npz(folder / "model", *make_model(5, 1));
  const NpzFile file(folder / "model");
  EXPECT_THAT(file.names(), ElementsAre("predictor/l1/W", "predictor/l1/b", "predictor/l2/W",
                                        "predictor/l2/b", "predictor/l3/W", "predictor/l3/b"));
  EXPECT_EQ(file.find("predictor/l1/W")->shape, (Shape{5, 4}));  // out x in
}

TEST(ModelFile, BuffersAreKept) {
  const TemporaryFolder folder;
  save_npz(folder / "model", Averaging(0.25));
  const Averaging loaded(0);
  load_npz(folder / "model", loaded);
  EXPECT_EQ(loaded.mean.data<float>()[1], 0.25F);
}

TEST(ModelFile, OtherTypesAreConvertedAndMoreEntriesIgnored) {
  const TemporaryFolder folder;
  write_npz(folder / "model",
            {{"avg_mean", Tensor::full(Shape{2}, 3, DType::float64)}, {"other", std::string("x")}});
  const Averaging loaded(0);
  load_npz(folder / "model", loaded);
  EXPECT_EQ(loaded.mean.data<float>()[0], 3.0F);
}

TEST(ModelFile, AnotherModelIsRefusedAndNothingChanges) {
  const TemporaryFolder folder;
  const auto model = make_model(5, 1);
  const float before = model->parameters()[0].parameter->value().data<float>()[0];
  save_npz(folder / "wide", *make_model(6, 2));
  EXPECT_THAT(error_of([&] { load_npz(folder / "wide", *model); }),
              HasSubstr("predictor/l1/W is 6x4 in the file and 5x4 in the model (5 of the model's "
                        "6 arrays differ)"));
  save_npz(folder / "other", Averaging(0));
  EXPECT_THAT(error_of([&] { load_npz(folder / "other", *model); }),
              HasSubstr("predictor/l1/W (5x4) is not in the file (6 of"));
  EXPECT_EQ(model->parameters()[0].parameter->value().data<float>()[0], before);
}

}  // namespace
}  // namespace tasuki
