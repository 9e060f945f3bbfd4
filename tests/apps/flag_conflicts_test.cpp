// Flags that do not fit each other are found by --print-config as at the start, so that tasuki-run
// refuses them before it starts ranks.
#include <gtest/gtest.h>

#include <future>

#include "tests/support/launch.hpp"

namespace tasuki::testing {
namespace {

using Words = std::vector<std::string>;

Finished start(Words words, const std::string& more) {
  words.push_back(more);
  return run_program(words, 100);
}

void expect_refusal(const Words& words) {
  const Finished asked = start(words, "--print-config");
  EXPECT_EQ(asked.exit_code, 64) << asked.all();
  EXPECT_EQ(asked.out, "");
  EXPECT_EQ(count_of(asked.err, "\n"), 1) << asked.err;
  const Finished started = start(words, "--dry-run");
  EXPECT_EQ(started.exit_code, 64) << started.all();
  EXPECT_EQ(started.err, asked.err);
}

TEST(FlagConflicts, AreReportedBeforeTheStart) {
  const std::vector<Words> conflicts = {
      {TRAIN_MNIST, "--init", "a.npz", "--resume", "b"},
      {TRAIN_MNIST, "--patience", "9"},
      {TRAIN_MNIST, "--histograms", "9"},
      {TRAIN_MNIST, "--log-steps", "steps.txt"},
      {TRAIN_MNIST, "--keep", "2", "--checkpoint-every", "none"},
      {TRAIN_MNIST, "--on-nan", "skip", "--compress", "powersgd:2"},
      {TRAIN_MNIST, "--lr-drop-factor", "3"},
      {TRAIN_MNIST, "--optimizer", "adadelta", "--lr", "0.1"},
      {TRAIN_MNIST, "--optimizer", "adam", "--momentum", "0.5"},
      {TRAIN_MNIST, "--no-decay-1d"},
      {TRAIN_MNIST, "--no-decay-1d", "--lars"},
      {TRAIN_MNIST, "--dtype", "fp16"},
      {TRAIN_MNIST, "--graph", "on"},
      {TRAIN_MNIST, "--deterministic"},
      {TRAIN_MNIST, "--autotune", "--deterministic"},
      {TRAIN_MNIST, "--share-gpu"},
      {TRAIN_MNIST, "--reproducible", "--wire-dtype", "bf16"},
      {TRAIN_MNIST, "--reproducible", "--compress", "powersgd:2"},
      {TRAIN_MNIST, "--reproducible", "--allreduce", "mpi"},
      {TRAIN_MNIST, "--reproducible", "--communicator", "dummy"},
      {TRAIN_MNIST, "--reproducible", "--sync-bn"},
      {TRAIN_MNIST, "--reproducible", "--gpu"},
      {TRAIN_MNIST, "--reproducible", "--find-batchsize"},
      {TRAIN_MNIST, "--reproducible", "--autotune"},
      {TRAIN_MNIST, "--reproducible", "--exchange", "double-buffered", "--checkpoint-every", "5m"},
      {TRAIN_MNIST_DATA_PARALLEL, "--reproducible"},
      {TRAIN_MNIST, "--shard", "none", "--shard-optimizer"},
      {TRAIN_MNIST, "--shard", "gradients", "--exchange", "whole"},
      {TRAIN_MNIST, "--shard", "gradients", "--exchange", "double-buffered"},
      {TRAIN_MNIST, "--shard", "gradients", "--compress", "powersgd:2"},
      {TRAIN_MNIST, "--shard", "gradients", "--error-feedback", "--wire-dtype", "bf16"},
      {TRAIN_MNIST, "--shard", "gradients", "--gpu"},
      {TRAIN_MNIST, "--shard", "weights", "--gpu"},
      {TRAIN_MNIST, "--shard", "weights", "--exchange", "whole"},
      {TRAIN_MNIST, "--shard", "weights", "--devices", "cpu,cpu"},
      {TRAIN_MNIST, "--shard", "weights", "--sync-every", "4"},
      {TRAIN_MNIST, "--shard", "weights", "--ema", "0.9"},
      {TRAIN_MNIST, "--shard", "weights", "--snapshot-every", "1"},
      {TRAIN_MNIST, "--shard", "weights", "--histograms", "1", "--tensorboard"},
      {TRAIN_MNIST, "--shard", "weights", "--recompute", "auto"},
      {TRAIN_MNIST, "--shard-unit", "predictor/*"},
      {TRAIN_MNIST, "--sync-warmup", "9"},
      {TRAIN_MNIST, "--sync-overlap"},
      {TRAIN_MNIST, "--outer-optimizer", "nesterov"},
      {TRAIN_MNIST, "--outer-lr", "0.5", "--sync-every", "4"},
      {TRAIN_MNIST, "--outer-momentum", "0.5", "--sync-every", "4"},
      {TRAIN_MNIST, "--sync-every", "0"},
      {TRAIN_MNIST, "--sync-every", "4", "--gpu"},
      {TRAIN_MNIST, "--sync-every", "4", "--reproducible"},
      {TRAIN_MNIST, "--sync-every", "4", "--sync-bn"},
      {TRAIN_MNIST, "--sync-every", "4", "--exchange", "double-buffered"},
      {TRAIN_MNIST, "--sync-every", "4", "--compress", "powersgd:2"},
      {TRAIN_MNIST, "--sync-every", "4", "--error-feedback", "--wire-dtype", "bf16"},
      {TRAIN_MNIST, "--sync-every", "4", "--communicator", "dummy"},
      {TRAIN_MNIST, "--sync-every", "4", "--on-nan", "skip"},
      {TRAIN_MNIST, "--sync-every", "4", "--check-replicas", "4"},
      {TRAIN_MNIST, "--sync-every", "4", "--ema", "0.9"},
      {TRAIN_MNIST_DATA_PARALLEL, "--sync-every", "4"},
      {TRAIN_MNIST_DUAL_PARALLEL, "--sync-every", "4"},
      {TRAIN_MNIST_DUAL_PARALLEL, "--reproducible"},
      {TRAIN_MNIST_DATA_PARALLEL, "--gpu"},
      {TRAIN_MNIST_DUAL_PARALLEL, "--clip-norm", "1"},
      {TRAIN_LM, "--heads", "3", "--width", "32"},
      {TRAIN_SEQ2SEQ, "--source", "a.en"},
      {TRAIN_IMAGENET, "--train", "a.txt"}};
  // At once, as a process alone mostly waits for MPI.
  std::vector<std::future<void>> refusals;
  refusals.reserve(conflicts.size());
  for (const Words& words : conflicts)
    refusals.push_back(std::async(std::launch::async, expect_refusal, words));
  for (auto& refusal : refusals) refusal.get();
}

}  // namespace
}  // namespace tasuki::testing
