// Errors about an example say its number in the data set.
#include "training/named_examples.hpp"

#include <gtest/gtest.h>

#include "dataset/in_memory.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/views.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/updater.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::expect_error;

constexpr std::int64_t examples = 12, bad = 10;

// Nothing says how many classes there are; the last example but one has label 7.
std::shared_ptr<Dataset> unchecked() {
  std::vector<float> values(static_cast<std::size_t>(examples * 12), 0.5F);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(examples), 1);
  labels[bad] = 7;
  return make_dataset({12}, 0, values, labels);
}

TEST(NamedExamples, NameLabelsInTrainingAndEvaluation) {
  const auto model = testing::small_model();
  const LossFunction loss = classification_loss(*model);
  // Other positions than numbers.
  const Share share = Share::whole(subset_of(unchecked(), {11, 10, 3, 2}));
  const std::vector<std::string> line = {"example 10 has label 7, expected 0 .. 3"};
  Evaluator evaluator(create_serial_iterator(share, 3), loss);
  expect_error(ErrorKind::data, line, [&] { evaluator.evaluate(); });
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(*model);
  StandardUpdater updater(create_serial_iterator(share, 3), *optimizer, loss, {});
  Observation seen;
  expect_error(ErrorKind::data, line, [&] { updater.update(seen); });
}

// By its value, because a loss may have reordered the labels; or the error is as it was.
TEST(NamedExamples, AreFoundByTheirValues) {
  const Batch batch = read_batch(*unchecked(), std::vector<std::int64_t>{3, 10, 4});
  expect_error(ErrorKind::data, {"example 10 has label 7, expected 0 .. 2 for a model of 3"},
               [&] { naming_examples(batch, [] { throw bad_label(7, 0, 3, -1); }); });
  expect_error(ErrorKind::data, {"label 8 at position 0 of the batch"},
               [&] { naming_examples(batch, [] { throw bad_label(8, 0, 3, -1); }); });
  const Tensor ids = batch["t"];
  const Variable table(Tensor::zeros({5, 2}));
  expect_error(ErrorKind::data, {"example 10 has id 7, expected 0 .. 4"},
               [&] { naming_examples(batch, [&] { F::embed_id(ids, table); }); });
  const Variable scores(Tensor::zeros({3, 4}));
  expect_error(ErrorKind::data, {"example 10 has label 7, expected 0 .. 3"}, [&] {
    naming_examples(batch,
                    [&] { F::softmax_cross_entropy(scores, ids, {.label_smoothing = 0.1F}); });
  });
}

// A value that is too large for one of two fields may be right in the other: nobody can tell whose
// it is.
TEST(NamedExamples, AreNotGuessedForAmbiguousValues) {
  const auto ids = [](std::vector<std::int64_t> values) {
    return Tensor::from(std::span<const std::int64_t>(values), Shape{std::ssize(values)});
  };
  const Batch batch({{"source", ids({9, 1, 2})}, {"target", ids({3, 4, 9})}}, {20, 21, 22});
  expect_error(ErrorKind::data, {"label 9 at position 2 of the batch"},
               [&] { naming_examples(batch, [] { throw bad_label(9, 2, 5, -1); }); });
  expect_error(ErrorKind::data, {"example 21 has label 4, expected 0 .. 3 for a model of 4"},
               [&] { naming_examples(batch, [] { throw bad_label(4, 1, 4, -1); }); });
}

// Values of int32 are compared as they are, not cut to 32 bits.
TEST(NamedExamples, AreNotFoundByPartOfTheirValues) {
  const Batch batch = read_batch(*unchecked(), std::vector<std::int64_t>{3, 10, 4});
  const std::int64_t large = (std::int64_t{1} << 32) + 7;
  expect_error(ErrorKind::data, {"label 4294967303 at position 0 of the batch"},
               [&] { naming_examples(batch, [&] { throw bad_label(large, 0, 3, -1); }); });
}

}  // namespace
}  // namespace tasuki
