// Weights in a file.
#include "saving/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/file.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "saving/npz.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

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

TEST(ModelFile, GivesLazyParametersTheirShapes) {
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

TEST(ModelFile, RoundTripsWeightsBitForBit) {
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

TEST(ModelFile, UsesChainersKeysAndShapes) {
  const TemporaryFolder folder;
  save_npz(folder / "model", *make_model(5, 1));
  const NpzFile file(folder / "model");
  EXPECT_THAT(file.names(), ElementsAre("predictor/l1/W", "predictor/l1/b", "predictor/l2/W",
                                        "predictor/l2/b", "predictor/l3/W", "predictor/l3/b"));
  EXPECT_EQ(file.find("predictor/l1/W")->shape, (Shape{5, 4}));  // out x in
}

TEST(ModelFile, KeepsBuffers) {
  const TemporaryFolder folder;
  save_npz(folder / "model", Averaging(0.25));
  const Averaging loaded(0);
  load_npz(folder / "model", loaded);
  EXPECT_EQ(loaded.mean.data<float>()[1], 0.25F);
}

TEST(ModelFile, ConvertsTypesAndIgnoresExtraEntries) {
  const TemporaryFolder folder;
  write_npz(folder / "model",
            {{"avg_mean", Tensor::full(Shape{2}, 3, DType::float64)}, {"other", std::string("x")}});
  const Averaging loaded(0);
  load_npz(folder / "model", loaded);
  EXPECT_EQ(loaded.mean.data<float>()[0], 3.0F);
}

// Entries of a file without a hash, of which one is damaged.
void write_damaged(const std::filesystem::path& path, std::vector<NpzEntry> entries,
                   const std::string& marker) {
  write_npz(path, entries);
  std::string bytes = read_file(path);
  bytes.replace(bytes.find("tasuki xxh3"), 6, "nobody");
  bytes[bytes.find(marker)] ^= 1;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(ModelFile, DoesNotReadUnusedEntries) {
  const TemporaryFolder folder;
  write_damaged(folder / "model",
                {{"avg_mean", Tensor::full(Shape{2}, 3)}, {"other", Tensor::full(Shape{2}, 7)}},
                std::string("\0\0\xe0\x40", 4));
  const NpzFile file(folder / "model");
  EXPECT_THAT(error_of([&] { file.read("other"); }), HasSubstr("other in "));
  const Averaging loaded(0);
  load_npz(file, loaded);
  EXPECT_EQ(loaded.mean.data<float>()[0], 3.0F);
  EXPECT_THAT(entries_not_in(loaded, file), ElementsAre("other"));
}

TEST(ModelFile, RejectsUnreadableEntriesOnlyWhenNeeded) {
  const TemporaryFolder folder;
  write_npz(folder / "model",
            {{"avg_mean", Tensor::full(Shape{2}, 3)}, {"other", Tensor::full(Shape{2}, 7)}});
  std::string bytes = read_file(folder / "model");
  bytes.replace(bytes.find("tasuki xxh3"), 6, "nobody");
  bytes.replace(bytes.rfind("<f4"), 3, "<i2");  // of the second
  write_file(folder / "model", bytes);
  const Averaging loaded(0);
  load_npz(folder / "model", loaded);
  EXPECT_EQ(loaded.mean.data<float>()[0], 3.0F);
  EXPECT_THAT(entries_not_in(loaded, NpzFile(folder / "model")), ElementsAre("other"));

  bytes.replace(bytes.find("<f4"), 3, "|O4");
  write_file(folder / "model", bytes);
  EXPECT_THAT(error_of([&] { load_npz(folder / "model", loaded); }),
              HasSubstr("avg_mean has elements of NumPy's type \"|O4\""));
}

TEST(ModelFile, ReportsUnusedEntriesBelowThePrefix) {
  const TemporaryFolder folder;
  const Tensor two = Tensor::full(Shape{2}, 1);
  write_npz(folder / "model",
            {{"m/avg_mean", two}, {"m/b", two}, {"m/a", two}, {"extensions/x", two}});
  const NpzFile file(folder / "model");
  EXPECT_THAT(entries_not_in(Averaging(0), file, "m/"), ElementsAre("b", "a"));
  const Linear lazy(std::nullopt, 2);
  EXPECT_THAT(entries_not_in(lazy, file, "m/"), ElementsAre("avg_mean", "a"));
}

// The weights come first in the file, the damage after them.
TEST(ModelFile, KeepsTheModelOnADamagedEntry) {
  const TemporaryFolder folder;
  Linear model(1, 2);
  model.initialize(1);
  const float before = model.parameters()[0].parameter->value().data<float>()[0];
  write_damaged(folder / "model",
                {{"W", Tensor::full(Shape{2, 1}, 3)}, {"b", Tensor::full(Shape{2}, 7)}},
                std::string("\0\0\xe0\x40", 4));
  EXPECT_THAT(error_of([&] { load_npz(folder / "model", model); }), HasSubstr("b in "));
  EXPECT_EQ(model.parameters()[0].parameter->value().data<float>()[0], before);
}

TEST(ModelFile, RejectsAnotherModelWithoutChanges) {
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
