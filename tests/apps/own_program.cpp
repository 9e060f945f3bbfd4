// A program with much of what a TrainingProgram can be given: data with field names of its own, a
// check, and, told by its first word, an optimizer (own-optimizer; own-adam and own-hook decay
// weights), an evaluator (own-evaluator), an extension in its place (largest-sum), epochs without
// their last step (short-epochs), a rate that an extension sets (own-schedule), metrics that are
// not finite (own-metrics), more weights (wide), also with shards in a wrong order
// (wide-swapped), data on every rank (data-everywhere; with a transform: transformed), or
// sequences of any length (sequences; transformed-sequences), for which memory may not do
// (large-sequences). Or it runs twice (twice), twice in an MPI of its own (own-mpi), or has an
// extension that changes the working folder (moving).
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>
#include <string_view>

#include "communicator/text_bytes.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/tensor_dataset.hpp"
#include "dataset/transform.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/sequential.hpp"
#include "optimizer/hook.hpp"
#include "program/training_program.hpp"
#include "program/training_run.hpp"
#include "training/extensions/generic_evaluator.hpp"

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

// Says how many of its kind are in memory.
class CountedDataset : public Dataset {
 public:
  explicit CountedDataset(std::vector<TensorField> fields) : all_(std::move(fields)) { ++alive; }
  CountedDataset(const CountedDataset&) = delete;
  ~CountedDataset() override { --alive; }
  const DatasetHeader& header() const override { return all_.header(); }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    all_.read(i, field, into);
  }
  static inline int alive = 0;

 private:
  TensorDataset all_;
};

// Sums of two numbers.
std::unique_ptr<Dataset> sums(const char* split, std::int64_t count) {
  std::fprintf(stderr, "made %s data\n", split);
  std::vector<float> pairs, results;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto a = static_cast<float>(i % 7) / 7, b = static_cast<float>(i % 11) / 11;
    pairs.insert(pairs.end(), {a, b});
    results.push_back(a + b);
  }
  TensorField sum = vector_field("sum", results, {1});
  sum.is_target = true;
  return std::make_unique<CountedDataset>(std::vector{vector_field("pair", pairs, {2}), sum});
}

// One of 300 values, the others of one to five.
std::unique_ptr<Dataset> sequences(std::int64_t count) {
  auto dataset = std::make_unique<InMemoryDataset>(
      DatasetHeader{count,
                    {{.name = "x", .shape = {0}, .is_ragged = true},
                     {.name = "length", .shape = {1}, .is_target = true}}});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<float> values(i == count / 2 ? 300 : static_cast<std::size_t>(1 + i % 5));
    const auto length = static_cast<float>(values.size());
    const std::span<const std::byte> example[] = {std::as_bytes(std::span(values)),
                                                  std::as_bytes(std::span(&length, 1))};
    dataset->set(i, i, example);
  }
  return dataset;
}

// Halves field `name`, one float.
std::shared_ptr<const Dataset> halved(std::shared_ptr<const Dataset> dataset, const char* name) {
  const Transform halve{[](const std::byte* stored, const ExampleKey&, float* value) {
                          *value = *reinterpret_cast<const float*>(stored) / 2;
                        },
                        {}};
  return transformed(std::move(dataset), halve, name);
}

// Leaves the last step of each epoch out.
class ShortEpochs final : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;
  std::int64_t steps_per_epoch() const override {
    return ForwardingIterator::steps_per_epoch() - 1;
  }
  Batch next() override {
    Batch batch = inner().next();
    if (const IteratorState now = state(); now.step == steps_per_epoch())
      restore({now.epoch + 1, 0});
    return batch;
  }
};

// In iteration 7, two neighbouring shards of rank 1 that are not added to each other change places.
// They must have equally many examples.
class SwappedShards final : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;
  Batch next() override {
    Batch batch = inner().next();
    const std::vector<std::int64_t> shards = batch.shards();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (++iteration_ != 7 || rank != 1) return batch;
    const auto first = static_cast<std::size_t>(shards.at(0));
    const auto count = static_cast<std::size_t>(shards.at(1));
    if (shards.at(2) != shards.at(1)) std::abort();
    std::vector<std::int64_t> ids(batch.ids().begin(), batch.ids().end());
    const auto swap = [first, count](auto* values, std::size_t size) {
      values += first * size;
      std::swap_ranges(values, values + count * size, values + count * size);
    };
    swap(ids.data(), 1);
    std::vector<BatchField> fields = batch.fields();
    for (const BatchField& field : fields)
      swap(static_cast<std::byte*>(field.values.raw()), field.values.bytes() / ids.size());
    Batch swapped(fields, ids, batch.epoch());
    swapped.set_global_size(batch.global_size());
    swapped.set_shards(shards);
    return swapped;
  }

 private:
  int iteration_ = 0;
};

// Says how long its batches are.
TrainingModel create_sequence_model(bool is_large) {
  auto model = std::make_unique<Linear>(1, 1);
  LossFunction loss = [model = model.get(), is_large](const Batch& batch, Observation&) {
    // Examples of a trial are all of number 0.
    const bool is_trial = std::ranges::all_of(batch.ids(), [](std::int64_t id) { return id == 0; });
    if (is_large && !is_trial) throw std::bad_alloc();
    std::fprintf(stderr, "padded to %d%s\n", static_cast<int>(batch["x"].shape()[1]),
                 is_trial ? " on trial" : "");
    return F::mean_squared_error((*model)(Variable(Tensor::zeros({batch.size(), 1}))),
                                 batch["length"]);
  };
  return {std::move(model), std::move(loss)};
}

TrainingModel with_loss(std::unique_ptr<Sequential> model) {
  LossFunction loss = [model = model.get()](const Batch& batch, Observation&) {
    return F::mean_squared_error((*model)(Variable(batch["pair"])), batch["sum"]);
  };
  return {std::move(model), std::move(loss)};
}

TrainingModel create_model(const DatasetHeader& data) {
  auto model = std::make_unique<Sequential>();
  model->append("l", std::make_unique<Linear>(data.field("pair").shape[0], 1));
  return with_loss(std::move(model));
}

// Whose gradients are too many to be the same by chance.
TrainingModel create_wide_model(const DatasetHeader& data) {
  auto model = std::make_unique<Sequential>();
  model->append("hidden", std::make_unique<Linear>(data.field("pair").shape[0], 50));
  model->append([](const Variable& h) { return F::tanh(h); });
  model->append("l", std::make_unique<Linear>(50, 1));
  return with_loss(std::move(model));
}

// As the program does it by itself, without an evaluator if there are no test data.
void train_by_hand(TrainingRun& run) {
  const TrainingModel made = create_model(run.data_header());
  run.initialize(*made.model);
  made.model->to(run.device());
  const auto optimizer = create_multi_node_optimizer(run.create_optimizer(), run.communicator());
  run.configure(*optimizer, *made.model);
  if (!run.prepare(*optimizer, made.loss)) return;
  const Share share =
      scatter_dataset(run.training_source(), run.communicator(), run.scatter_options());
  run.train([&] {
    auto updater = std::make_unique<StandardUpdater>(run.training_iterator(share), *optimizer,
                                                     made.loss, run.updater_settings());
    auto trainer =
        std::make_unique<Trainer>(std::move(updater), run.stop_trigger(), run.output_folder());
    if (run.has_test_data())
      trainer->extend(std::make_unique<Evaluator>(run.test_iterator(run.test_share()), made.loss));
    run.attach_extensions(*trainer);
    return trainer;
  });
}

// Reports what has no value in each batch, as a precision of 0 / 0, and what is infinite.
TrainingModel create_model_with_metrics(const DatasetHeader& data) {
  TrainingModel made = create_model(data);
  made.loss = [loss = std::move(made.loss)](const Batch& batch, Observation& seen) {
    seen.add_mean("precision", std::numeric_limits<double>::quiet_NaN(), batch.size());
    seen.add_mean("psnr", std::numeric_limits<double>::infinity(), batch.size());
    return loss(batch, seen);
  };
  return made;
}

// Observes the mean square of the targets, too.
class Power final : public Evaluator {
 public:
  using Evaluator::Evaluator;

 protected:
  void evaluate_batch(const Batch& batch, Observation& seen) override {
    Evaluator::evaluate_batch(batch, seen);
    const Tensor& sums = batch["sum"];
    const Tensor zeros = Tensor::zeros(sums.shape(), sums.dtype(), sums.device());
    seen.add_mean("power", F::mean_squared_error(Variable(sums), zeros).value(), batch.size());
  }
};

// Observes the largest sum of all examples, which is not a sum over them.
std::unique_ptr<Extension> largest_sum(std::unique_ptr<Iterator> batches) {
  return std::make_unique<GenericEvaluator>(
      std::move(batches),
      [](const Batch& batch) {
        const Tensor sums = batch["sum"].to(Device::cpu());
        return text_to_bytes(std::to_string(std::ranges::max(sums.span<float>())));
      },
      [](const std::vector<Bytes>& results, Observation& found) {
        double largest = 0;
        for (const Bytes& each : results)
          largest = std::max(largest, std::stod(std::string(bytes_to_text(each))));
        found.set("largest", largest);
      });
}

int run_program(std::string_view kind, int argc, char** argv) {
  TrainingProgram program("own_program", "adds two numbers");
  program.settings.epoch = 2;
  program.settings.optimizer = "momentum_sgd";
  std::int64_t least_ranks = 1;
  program.flags.add("least-ranks", least_ranks, {1, 100}, "N", "ranks that the job must have");
  double decay = 0.01;
  program.flags.add("decay", decay, {0.0, 1.0}, "X", "decay of weights by the program's optimizer");
  program.check = [&](const Communicator& ranks) {
    if (ranks.size() < least_ranks)
      fail_everywhere(ErrorKind::usage, "--least-ranks {}: the job has {}", least_ranks,
                      ranks.size());
  };
  program.train_data = [] { return sums("training", 300); };
  // As csv_dataset and other functions hand them out.
  program.test_data = [] { return std::shared_ptr<const Dataset>(sums("test", 50)); };
  program.every_rank_has_data = kind == "data-everywhere";
  program.create_model = kind.starts_with("wide") ? create_wide_model : create_model;
  if (kind == "transformed") {
    program.every_rank_has_data = true;
    program.train_data = [] { return halved(sums("training", 300), "sum"); };
  }
  const bool is_large = kind == "large-sequences";
  if (kind.ends_with("sequences")) {
    program.train_data = [] { return sequences(200); };
    if (kind == "transformed-sequences") {
      program.every_rank_has_data = true;
      program.train_data = [] { return halved(sequences(200), "length"); };
    }
    program.test_data = nullptr;
    program.create_model = [is_large](const DatasetHeader&) {
      return create_sequence_model(is_large);
    };
  }
  program.extend = [kind](Trainer& trainer) {
    std::fprintf(stderr, "whole data sets in memory: %d\n", CountedDataset::alive);
    if (kind == "moving")
      trainer.extend(make_extension("move", [](Trainer&) { std::filesystem::current_path("/"); }));
  };
  if (kind == "own-schedule")
    program.extend = [](Trainer& trainer) {
      trainer.extend(make_extension("own schedule", [](Trainer& running) {
        const auto done = static_cast<double>(running.updater().iteration());
        running.updater().optimizer().set("lr", 0.01 * (1 + done));
      }));
    };
  if (kind.starts_with("own-training")) {
    program.train = train_by_hand;
    if (kind == "own-training-without-tests") program.test_data = nullptr;
    if (kind != "own-training-and-model") program.create_model = nullptr;
  }
  if (kind == "own-metrics") program.create_model = create_model_with_metrics;
  if (kind == "own-optimizer")
    program.create_optimizer = [] { return create_optimizer("momentum_sgd"); };
  if (kind == "own-adam")
    program.create_optimizer = [&decay] {
      auto adam = create_optimizer("adam");
      adam->set("weight_decay_rate", decay);
      return adam;
    };
  if (kind == "own-hook")
    program.create_optimizer = [&decay] {
      auto sgd = create_optimizer("sgd");
      sgd->add_hook(weight_decay(decay));
      return sgd;
    };
  if (kind == "own-evaluator")
    program.create_evaluator = [](std::unique_ptr<Iterator> batches, LossFunction loss) {
      return std::make_unique<Power>(std::move(batches), std::move(loss));
    };
  if (kind == "largest-sum")
    program.create_evaluator = [](std::unique_ptr<Iterator> batches, const LossFunction&) {
      return largest_sum(std::move(batches));
    };
  if (kind == "short-epochs")
    program.wrap_batches = [](std::unique_ptr<Iterator> batches) {
      return std::make_unique<ShortEpochs>(std::move(batches));
    };
  if (kind == "wide-swapped")
    program.wrap_batches = [](std::unique_ptr<Iterator> batches) {
      return std::make_unique<SwappedShards>(std::move(batches));
    };
  const int exit_code = program.run(argc - 1, argv + 1);
  return kind == "twice" && exit_code == 0 ? program.run(argc - 1, argv + 1) : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argv[1];
  if (kind != "own-mpi") return run_program(kind, argc, argv);
  MPI_Init(&argc, &argv);
  int exit_code = 0;
  for (int i = 0; i < 2 && exit_code == 0; ++i) exit_code = run_program("plain", argc, argv);
  for (const MPI_Comm communicator : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(communicator, &handler);
    std::fprintf(stderr, "%s\n", handler == MPI_ERRORS_ARE_FATAL ? "as before" : "changed");
    MPI_Errhandler_free(&handler);
  }
  MPI_Finalize();
  std::fprintf(stderr, "finalised\n");
  return exit_code;
}
