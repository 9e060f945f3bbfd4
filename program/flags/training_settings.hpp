// TrainingSettings: a value for each flag that all training programs have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dataset/images/exif.hpp"
#include "optimizer/local_step_settings.hpp"
#include "optimizer/sharding.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/instruction_set.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"
#include "training/updater.hpp"

namespace tasuki::program {

// How the learning rate grows with the global batch: not at all, in proportion to it (Goyal et al.,
// arXiv 1706.02677), or with its square root (Krizhevsky, arXiv 1404.5997).
enum class LrScaling : std::uint8_t { none, linear, sqrt };

// How the learning rate changes in the course of a run (start/optimizer.hpp).
enum class LrSchedule : std::uint8_t { constant, steps, halving, cosine, polynomial };

// The number type of computations. Weights, their gradients and optimizer states are float32 in
// every case.
enum class ComputeType : std::uint8_t { fp32, tf32, bf16, fp16 };

struct GpuSettings {
  bool is_wanted = false;
  std::optional<int> number = {};  // of the GPU; default: the rank's number in the node
  bool share = false;              // several ranks may share one
};

// What a run continues from.
struct ResumeSettings {
  // automatic: the newest checkpoint or snapshot in the output folder, or a new run if there is
  // none. path: a checkpoint, a snapshot, or the newest of them in an output folder.
  enum class From : std::uint8_t { nothing, automatic, path } from = From::nothing;
  std::filesystem::path path = {};
};

// How often a checkpoint is saved.
enum class PeriodUnit : std::uint8_t { iteration, epoch, minute, second };
struct CheckpointPeriod {
  double count = 10;
  PeriodUnit unit = PeriodUnit::minute;
};

// When a stalled job is warned about and ended: seconds, 0 for never.
struct StallSettings {
  double warning = 60, timeout = 300, silence = 15;
};

// Whether the link between machines is measured at the start (start/remembered_links.hpp).
enum class LinkProbe : std::uint8_t { on, off };

// One process that computes on several devices.
struct WorkerSettings {
  enum class Split : std::uint8_t { even, measured, fixed };
  std::vector<Device> devices = {Device::cpu(), Device::cpu()};  // of each worker
  Split split = Split::even;
  std::vector<double> parts = {};  // of a fixed split, one for each worker
};

// Whether the ranks of a node share one copy of the weights (SharedWeights::share).
enum class NodeWeights { shared, separate };

// What happens if a loss or gradient is not finite.
enum class OnNan : std::uint8_t { abort, skip };

// Whether the parts of a GPU's steps are timed. `automatic`: where there are several devices.
enum class StepTiming : std::uint8_t { automatic, on, off };
// Which of a model's blocks run again in the backward pass (nn/recompute.hpp).
enum class Recompute : std::uint8_t { none, automatic, all };

// Names and defaults are ChainerMN's if it has them.
struct TrainingSettings {
  std::int64_t batchsize = 100;              // examples per rank (or model) and step
  std::optional<std::int64_t> global_batch;  // examples of all ranks, instead of batchsize
  std::int64_t accumulate = 1;               // batches of an iteration
  Recompute recompute = Recompute::none;
  std::int64_t epoch = 20;
  std::optional<std::int64_t> max_iterations;
  std::optional<double> time_limit;           // seconds
  std::optional<std::string> early_stopping;  // the observed value that must improve
  std::int64_t patience = 3;                  // epochs without improvement
  // Ranks that hold one model together, for programs that set TrainingProgram::create_part; 0: all
  // ranks of the job. Batches are then for each model.
  std::int64_t model_ranks = 1;
  std::int64_t seed = 0;
  double max_loss = 1e6;  // times the first loss; 0: no limit
  OnNan on_nan = OnNan::abort;
  std::optional<std::int64_t> check_replicas;  // iterations
  ResumeSettings resume;
  std::optional<std::string> init;      // file of initial weights
  std::optional<std::string> init_map;  // of the names in it
  std::vector<std::string> init_skip;   // patterns of paths (program/data/chosen_parameters.hpp)
  std::vector<std::string> freeze;      // as init_skip
  std::optional<double> ema;            // decay of an average of the weights
  bool dry_run = false;
  bool summary = false;
  bool find_batchsize = false;
  StallSettings stalls;

  std::optional<std::string> data;  // folder
  std::optional<std::int64_t> examples, test_examples;
  std::optional<std::int64_t> shards;
  bool augment = false;
  std::optional<std::int64_t> loader_threads;
  Exif exif = Exif::apply;                     // of image files
  std::optional<bool> check_data;              // empty: with dry_run
  bool skip_damaged = false;                   // image files that cannot be read
  std::optional<std::int64_t> test_batchsize;  // per rank in evaluations (reproducible: of all);
                                               // empty: as in training

  std::string optimizer = "adam";  // a rule's name; unused if the program creates the optimizer
  std::optional<double> lr;
  LrScaling lr_scaling = LrScaling::none;
  std::int64_t reference_batch = 100;  // global batch that lr is for
  LrSchedule lr_schedule = LrSchedule::constant;
  std::vector<double> lr_drops;  // epochs; empty: after 50 % and 80 % of them
  double lr_drop_factor = 0.1;
  double lr_power = 1;
  double warmup = 0;  // epochs
  std::optional<double> momentum;
  double weight_decay = 0;
  std::optional<double> clip_norm;
  bool no_decay_1d = false;  // weight_decay leaves out parameters with one axis
  bool lars = false;
  Sharding shard = Sharding::none;
  std::vector<std::string> shard_unit;
  bool shard_optimizer = false;  // an older name of Sharding::states; sharding_of()
  // The same bits on any number of ranks (apply_reproducible() in training_flags.hpp).
  bool reproducible = false;
  NodeWeights node_weights = NodeWeights::shared;

  std::string communicator = "auto";
  DType wire_dtype = DType::float32;
  std::optional<AllreduceAlgorithm> allreduce;  // empty: as CommunicatorOptions::algorithm says
  LinkProbe probe = LinkProbe::on;
  std::optional<ExchangeMode> exchange;  // empty: as ExchangeSettings chooses
  std::optional<double> bucket_mb;       // MiB; empty: as ExchangeSettings chooses
  bool error_feedback = false;
  std::int64_t power_sgd_rank = 0;  // 0: gradients are not compressed
  bool sync_bn = false;             // statistics of the global batch
  // Empty: machines exchange gradients in each step. Replaces LocalStepSettings::every.
  std::optional<std::int64_t> sync_every;
  LocalStepSettings local_steps;
  GpuSettings gpu;
  std::optional<WorkerSettings> workers;  // in place of gpu
  std::optional<std::int64_t> threads;
  ConvAlgorithm conv = ConvAlgorithm::fastest;
  InstructionLimit isa = InstructionLimit::none;
  ComputeType dtype = ComputeType::fp32;
  GraphMode graph = GraphMode::automatic;
  StepTiming step_times = StepTiming::automatic;
  bool autotune = false;       // cuda_settings.hpp
  bool deterministic = false;  // cuda_settings.hpp

  std::string out = "result";
  bool overwrite = false;                   // results of another run
  std::optional<std::int64_t> log_every;    // iterations; default: an epoch
  std::optional<std::int64_t> print_every;  // iterations
  double progress_every = 30;               // seconds
  // Empty: never.
  std::optional<CheckpointPeriod> checkpoint_every = CheckpointPeriod();
  std::int64_t keep = 3;                       // checkpoints
  std::optional<std::string> keep_best;        // the observed value
  std::optional<std::int64_t> snapshot_every;  // epochs; default: at the end only
  std::optional<double> monitor;               // seconds
  std::optional<std::string> trace;            // file
  std::int64_t trace_steps = 50;
  bool tensorboard = false;
  std::int64_t histograms = 0;             // steps; 0: never
  std::optional<std::string> log_steps;    // file
  std::optional<std::int64_t> hash_every;  // iterations
  bool quiet = false;
  bool verbose = false;
};

}  // namespace tasuki::program
