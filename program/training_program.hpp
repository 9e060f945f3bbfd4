// TrainingProgram: a training program with all flags of train_mnist, in a page.
//
//   int main(int argc, char** argv) {
//     tasuki::TrainingProgram program("my_training", "trains a perceptron on my patterns");
//     program.settings.epoch = 5;  // a default
//     program.train_data = [] { return std::make_unique<MyPatterns>("train"); };
//     program.test_data = [] { return std::make_unique<MyPatterns>("test"); };
//     program.create_model = [](const tasuki::DatasetHeader& data) {
//       return tasuki::create_classifier(std::make_unique<MyModel>(data.field("t").classes));
//     };
//     return program.run(argc, argv);
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/dataset/dataset.hpp"
#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/nn/layer.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/training_flags.hpp"
#include "tasuki/program/training_settings.hpp"
#include "tasuki/training/extensions/evaluator.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {

namespace program {
// "Num unit", "1000": lines of the banner, as "name: value".
using BannerLines = std::vector<std::pair<std::string, std::string>>;
}  // namespace program

// A model, and its loss on a batch. The loss refers to the model.
struct TrainingModel {
  std::unique_ptr<Module> model;
  LossFunction loss;
};
// A Classifier of `predictor` with its classification_loss().
TrainingModel create_classifier(std::unique_ptr<Layer> predictor);

// Fill in data and model, and what else differs from the defaults, then call run().
//
// All functions are called on every rank unless they say otherwise, in the order in which they
// stand here. An exception from one of them ends the job (run_job.hpp); errors that all ranks meet
// alike are best thrown by fail_everywhere().
struct TrainingProgram {
  // `name` and `description` are for --help, and so is `example`, a command line (by default the
  // program on 2 ranks).
  TrainingProgram(std::string name, std::string description, std::string example = "");

  // Defaults before run(); in the functions below, what the flags say.
  program::TrainingSettings settings;
  // Flags of the program's own: flags.add("unit,u", unit, {1, 1 << 20}, "N", "hidden units").
  program::Options flags;
  // Defaults that depend on flags, by name and text: {{"epoch", "300"}, {"lr", "0.05"}}. Called
  // when the flags that were given are known, also for --help.
  std::function<program::Recipe()> recipe;
  // Throws a usage error if flags do not fit each other.
  std::function<void(const Communicator& communicator)> check;

  // The data. Either the name of a data set whose files --data finds (dataset/catalog.hpp), with
  // the shape that the model takes (default: the data set's) and the height and width that images
  // of a folder are scaled to, ...
  std::string dataset;
  std::optional<Shape> example_shape;
  std::int64_t image_side = 32;
  // ... or the program's data sets, made on rank 0, which gives each rank its share. Without test
  // data nothing is evaluated.
  std::function<std::shared_ptr<const Dataset>()> train_data, test_data;
  // Every rank calls them and takes its share without communication: for data that all ranks can
  // reach.
  bool every_rank_has_data = false;

  // The model for the training data. It is initialised by --seed unless all its parameters have
  // values already; rank 0's weights count. With several devices in one process the function is
  // called once for each of them.
  std::function<TrainingModel(const DatasetHeader& data)> create_model;
  // An optimizer instead of --optimizer's. The other flags (--lr, --weight-decay, ...) are applied
  // to it.
  std::function<std::unique_ptr<Optimizer>()> create_optimizer;
  // Takes the iterator of the training batches and returns the one to train with, as a rule a
  // ForwardingIterator around it.
  std::function<std::unique_ptr<Iterator>(std::unique_ptr<Iterator> batches)> wrap_batches;

  // An evaluator for the test batches in place of the usual Evaluator(batches, loss): as a rule one
  // that overrides evaluate_batch for other metrics. `loss` is that of the model that is trained,
  // and is valid as long as the evaluator is attached.
  std::function<std::unique_ptr<Evaluator>(std::unique_ptr<Iterator> batches, LossFunction loss)>
      create_evaluator;

  // Columns of the table: keys of the log. Columns without values stay empty.
  std::vector<std::string> columns = {"epoch",
                                      "main/loss",
                                      "validation/main/loss",
                                      "main/accuracy",
                                      "validation/main/accuracy",
                                      "elapsed_time"};
  // Attaches the program's extensions, before a snapshot is resumed.
  std::function<void(Trainer& trainer)> extend;
  // Lines to print before training: {{"Hidden units", "1000"}}.
  std::function<program::BannerLines()> banner;

  // Trains according to the flags, between MPI_Init and MPI_Finalize. Returns main's exit code.
  int run(int argc, char** argv);
};

}  // namespace tasuki
