// TrainingRun: one rank's run of a training program. A training function (TrainingProgram::train)
// takes from it what the flags ask for, and puts the parts together, as in apps/train_mnist.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "dataset/scatter.hpp"
#include "nn/module.hpp"
#include "optimizer/optimizer.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace tasuki {

struct TrainingProgram;

namespace program {
struct RankSetup;
struct TrainingData;
// Runs a step on n all-zero examples with the fields of `examples` (zero_batch), to measure the
// memory that a step needs. It may change the model.
using TrialStep = std::function<void(std::int64_t n, const DatasetHeader& examples)>;
}  // namespace program

// All ranks call initialize(), create_optimizer(), configure(), prepare(), the functions for shares
// of the data, and train(), in this order. The function given to train() makes the iterators and
// calls attach_extensions(). The other member functions may be called at any time, unless their
// comments say otherwise. Errors in flags and data are thrown on all ranks.
class TrainingRun {
 public:
  // Finds the program's data: rank 0 opens the files. Both arguments must outlive the run.
  TrainingRun(const TrainingProgram& program, program::RankSetup& setup);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // The communicator of all ranks, of the kind that --communicator names.
  Communicator& communicator() const;
  // The ranks that exchange gradients in each step, for create_multi_node_optimizer(): all, or with
  // --sync-every those of this machine.
  Communicator& gradient_communicator() const;
  // The device that this rank computes on: the CPU, or with --gpu one of its node's GPUs.
  Device device() const;
  // Number, shapes and classes of the examples to train on.
  const DatasetHeader& data_header() const;

  // If any weight has no value yet, draws all weights from --seed. With --init, rank 0 then reads
  // them from the file, and configure() sends them to all ranks. With --sync-bn, batch
  // normalisation uses the statistics of all ranks from now on. Call it before the model moves to a
  // GPU.
  void initialize(Module& model);
  // The optimizer of --optimizer (or TrainingProgram::create_optimizer), --lr, --weight-decay and
  // so on, without a communicator.
  std::unique_ptr<Optimizer> create_optimizer();
  // Optimizer::setup(model), with the settings of --exchange, --shard, --node-weights,
  // --dtype, --on-nan and --freeze. Call it when the model is on device().
  void configure(Optimizer& optimizer, Module& model);

  // Checks --resume and the data's files, and locks the output folder. Returns false if there is
  // nothing to train: after --dry-run has printed the plan, --summary its table or --find-batchsize
  // the batch size, or if the resumed run is at its end. The optimizer, the model and what `loss`
  // refers to must live until train() returns.
  bool prepare(Optimizer& optimizer, const LossFunction& loss);
  // The same for several optimizers of parts of `model`. `trial` is the step with which memory is
  // measured; by default it computes `loss`.
  bool prepare(const NamedOptimizers& optimizers, Module& model, const LossFunction& loss,
               program::TrialStep trial = {});

  // What scatter_dataset() takes. Only rank 0 opens the sources. scatter_options() is for the
  // training examples, which it shuffles by --seed before they are divided.
  OpenSource training_source();
  OpenSource test_source();
  ScatterOptions scatter_options() const;
  // This rank's share by scatter_dataset(), or taken without messages from data that every rank has
  // (ProgramData).
  Share training_share();
  Share test_share();
  bool has_test_data() const;

  // Batches of this rank's share, for device(). Training examples are shuffled, and the batches
  // never end; test batches come in order, for one epoch. --loader-threads read ahead; --augment
  // applies.
  std::unique_ptr<Iterator> training_iterator(Share share);
  std::unique_ptr<Iterator> test_iterator(Share share);
  // The loss function of a model, such that blocks of the model are recomputed as --recompute says
  // (nn/recompute.hpp). With the flag, a model without blocks is a usage error. For --trace, each
  // forward pass on a CPU is an event "activations" with its examples and the bytes that it keeps.
  LossFunction recomputing(LossFunction loss) const;
  LossesFunction recomputing(LossesFunction losses) const;
  // The settings of --seed, --accumulate and --graph. `create_copy` makes another model like the
  // trained one: with --reproducible, each of --threads but the first computes with a copy; without
  // the function, one thread computes. It must remain valid until train() returns.
  StandardUpdater::Settings updater_settings(std::function<TrainingModel()> create_copy = {}) const;
  // --epoch, --max-iterations, --early-stopping.
  std::unique_ptr<Trigger> stop_trigger() const;
  // The output folder: --out, or the free name chosen instead. Valid once prepare() has returned
  // true.
  std::shared_ptr<OutputFolder> output_folder() const;

  // Attaches log, table, progress, the learning-rate schedule, checkpoints, snapshots, and what
  // TrainingProgram::extend attaches. With --resume, then loads the saved state into the whole
  // trainer: model, optimizers, position, triggers and extensions.
  void attach_extensions(Trainer& trainer);
  // Calls `create_trainer`, which must call attach_extensions(); then prints the banner, trains and
  // prints the summary. If this rank runs out of memory in this function, the error says which
  // batch size would fit, unless the model is divided among several ranks.
  void train(const std::function<std::unique_ptr<Trainer>()>& create_trainer);

 private:
  program::RankSetup& setup() const;
  program::TrainingData& data() const;
  void draw(Module& model) const;
  void choose_blocks();
  template <class Loss>
  Loss follow_plan(Loss loss) const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tasuki
