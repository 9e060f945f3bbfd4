// A small but complete training run: every kind of state that a snapshot must keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "communicator/communicator.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "nn/classifier.hpp"
#include "optimizer/local_steps.hpp"
#include "optimizer/optimizer.hpp"
#include "training/extensions/log_report.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace tasuki::testing {

std::shared_ptr<const Dataset> synthetic(std::int64_t count, std::uint64_t split = 0);

// This rank's share; all of it without a communicator.
Share share_of(std::shared_ptr<const Dataset> dataset, Communicator* communicator, int shards = 0);

// Dropout draws random numbers, batch normalisation keeps averages of each rank's own. `lazy`:
// fully connected layers learn the number of their inputs in the first forward pass.
std::unique_ptr<Classifier> small_model(std::int64_t units = 8, std::uint64_t seed = 5,
                                        bool lazy = false);

// Hides how large global batches are, as a program's own iterator may.
struct Unknowing : ForwardingIterator {
  using ForwardingIterator::ForwardingIterator;
  Batch next() override {
    Batch batch = inner().next();
    batch.set_global_size({});
    return batch;
  }
};

struct SmallRun {
  struct Options {
    std::string optimizer = "adam";
    std::int64_t examples = 97, batch = 7;
    double epochs = 3;
    std::optional<std::int64_t> iterations = std::nullopt;
    std::uint64_t seed = 3;
    std::int64_t units = 8;
    bool lazy = false;
    int shards = 0;  // 0: one per rank
    Device device = Device::cpu();
    DType dtype = DType::float32;  // what the model computes in
    GraphMode graph = GraphMode::off;
    bool is_resident = true;  // on another device than a CPU
    std::string frozen = "";  // a pattern; from before the setup
    bool sharded = false;     // the optimizer's states
    bool shares = false;      // weights, among the ranks of a node ...
    int sockets = 1;          // ... or of each of so many sockets
    std::int64_t accumulate = 1;
    std::optional<ExchangeMode> exchange = std::nullopt;
    std::int64_t power_sgd_rank = 0;
    bool skips_non_finite = false;
    // Groups of neighbouring ranks, as even as possible, that train by themselves.
    std::optional<LocalStepSettings> local = std::nullopt;
    int groups = 2;
  };

  SmallRun(const std::filesystem::path& out, Communicator* communicator, Options options);

  // The batches in `options.device`'s memory.
  static std::unique_ptr<Iterator> on_device(std::unique_ptr<ShareIterator> iterator,
                                             const Options& options);

  std::unique_ptr<LocalSteps> local_steps;  // null without Options::local
  std::unique_ptr<Classifier> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
  LogReport* log = nullptr;
};

}  // namespace tasuki::testing
