// TrainingProgram: the base of training programs, with the flags that all training programs share.
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

#include "communicator/communicator.hpp"
#include "dataset/dataset.hpp"
#include "dataset/iterators/iterator.hpp"
#include "nn/layer.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/multi_node_chain_list.hpp"
#include "program/data/program_data.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_flags.hpp"
#include "program/flags/training_settings.hpp"
#include "program/report/banner.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"
#include "training/training_model.hpp"

namespace tasuki {

class TrainingRun;

// What TrainingProgram::create_updater gets.
struct UpdaterParts {
  std::unique_ptr<Iterator> batches;
  NamedOptimizers optimizers;  // set up for TrainingModel::parts; they outlive the updater
  StandardUpdater::Settings settings;
};
// A Classifier of `predictor` with its classification_loss().
TrainingModel create_classifier(std::unique_ptr<Layer> predictor);
// create_classifier() for a rank's part of a predictor, such as a MultiNodeChainList. Inputs and
// loss may be on any of its ranks: every part is called with the batch's inputs (a chain list
// passes them to components that receive nothing else), and a part without the loss must return its
// delegate variable.
TrainingModel create_part_of_classifier(std::unique_ptr<Layer> predictor, bool has_loss);
// create_part_of_classifier() for a stage of a Pipeline (parallel/pipeline.hpp), which divides each
// batch into so many micro-batches; the last rank has the loss. Collective over the chain's ranks.
TrainingModel create_stage_of_classifier(std::unique_ptr<MultiNodeChainList> stage,
                                         std::int64_t micro_batches);

// Set the data (ProgramData), the model and whatever else differs from the defaults, then call
// run().
//
// Every rank calls these functions unless their comments say otherwise, in this order: recipe,
// check_flags, check, create_optimizer, stream_images, train_data, test_data, vocabularies, train,
// create_model or create_part, create_optimizer for each further part of the model, wrap_batches,
// create_updater, create_evaluator, extend, banner. Runs that do not train (--dry-run,
// --find-batchsize) call only some of them. An exception from one of them ends the job
// (run_job.hpp); throw an error that occurs on all ranks with fail_everywhere(), so that it is
// printed once.
struct TrainingProgram : program::ProgramData {
  // All three appear in --help. `example` is a command line; default: the program on 2 ranks.
  TrainingProgram(std::string name, std::string description, std::string example = "");

  // Before run(): the defaults. In the functions below: the values that the flags gave.
  program::TrainingSettings settings;
  // The program's additional flags: flags.add("unit,u", unit, {1, 1 << 20}, "N", "hidden units").
  program::Options flags;
  // Defaults that depend on flags, by name and text: {{"epoch", "300"}, {"lr", "0.05"}}. Called
  // when the command line has been read, also for --help.
  std::function<program::Recipe()> recipe;
  // Throws a usage error if flags contradict each other. Also called for --print-config, which
  // `tasuki-run` runs in a single process before it starts the ranks.
  std::function<void()> check_flags;
  // Throws a usage error if flags do not fit the number of ranks.
  std::function<void(const Communicator& communicator)> check;

  // If set, replaces create_model, create_part, wrap_batches, create_updater and create_evaluator,
  // which are then not called. It builds model, optimizer, updater and trainer from what `run`
  // provides (program/training_run.hpp).
  std::function<void(TrainingRun& run)> train;

  // The model for the training data. If any parameter that has a shape has no values yet,
  // all parameters are drawn from --seed, including those that have values. All ranks then take
  // rank 0's weights. With several devices in one process, the function is called once for each of
  // them, and with --reproducible once for each of --threads; keep references to the first model.
  // Models with TrainingModel::losses are trained by a JointUpdater.
  std::function<TrainingModel(const DatasetHeader& data)> create_model;
  // For a model on several ranks (settings.model_ranks), in place of create_model: creates this
  // rank's part. `model` has the ranks that hold the model, in the order of their parts; all of
  // them see the same batches. Flags that need whole models are refused, and each part has its own
  // snapshots. A program with both functions creates a part if model_ranks is not 1.
  std::function<TrainingModel(const DatasetHeader& data, Communicator& model)> create_part;
  // Creates the optimizer, in place of the flag --optimizer, which the program then does not have.
  // The other flags (--lr, --weight-decay, ...) are applied to it. Return an optimizer without a
  // communicator and without a model: the program calls create_multi_node_optimizer() and setup().
  std::function<std::unique_ptr<Optimizer>()> create_optimizer;
  // Creates the updater, for other kinds of steps; the flags have set UpdaterParts::settings.
  // Default: a StandardUpdater with the model's loss, or a JointUpdater with its losses. The
  // optimizers of TrainingModel::parts are made in the same way, by create_optimizer or the flags,
  // so that only their models differ. TrainingModel::loss is then used to evaluate and to measure
  // memory. Not with create_part or several devices in one process.
  std::function<std::unique_ptr<Updater>(UpdaterParts parts)> create_updater;
  // Wraps the iterator of the training batches, usually in a ForwardingIterator. The wrapped one
  // reads ahead (--loader-threads), and with --gpu its batches are on the GPU if the rank's share
  // fits there; the wrapper's next() runs in the thread that trains.
  std::function<std::unique_ptr<Iterator>(std::unique_ptr<Iterator> batches)> wrap_batches;

  // Creates what evaluates the model on the test batches: usually an Evaluator that overrides
  // evaluate_batch for other metrics, or a GenericEvaluator for values that are not sums over
  // examples; default: Evaluator(batches, loss). `loss` is the trained model's and stays valid
  // while the extension is attached. If the model is on several ranks, each must create an
  // evaluator that takes part in the other ranks' passes.
  std::function<std::unique_ptr<Extension>(std::unique_ptr<Iterator> batches, LossFunction loss)>
      create_evaluator;

  // Columns of the table: keys of the log. Columns without values stay empty.
  std::vector<std::string> columns = {"epoch",
                                      "main/loss",
                                      "validation/main/loss",
                                      "main/accuracy",
                                      "validation/main/accuracy",
                                      "elapsed_time"};
  // Attaches the program's extensions, before the run is resumed from a snapshot or checkpoint.
  std::function<void(Trainer& trainer)> extend;
  // Lines to print before training: {{"Hidden units", "1000"}}.
  std::function<program::BannerLines()> banner;

  // Trains as the flags say, between MPI_Init and MPI_Finalize; a caller that has initialised MPI
  // also finalises it (run_job.hpp). Returns main's exit code. May be called once.
  int run(int argc, char** argv);

 private:
  bool has_run_ = false;
};

}  // namespace tasuki
