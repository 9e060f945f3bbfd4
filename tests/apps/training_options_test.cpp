// Flags that all training programs share: batches, recipes, learning rates; the summary's text.

#include "program/flags/batch_sizes.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"

#include <gtest/gtest.h>

#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "program/report/summary.hpp"
#include "program/start/optimizer.hpp"
#include "program/start/precision.hpp"
#include "tensor/cuda_settings.hpp"
#include "training_flags_program.hpp"

namespace tasuki::program {
namespace {

using testing::Program;
using testing::usage_error_of;

TEST(StallFlags, AreInSeconds) {
  Program program;
  program.parse({"--stall-warning", "0", "--stall-timeout", "12.5"});
  EXPECT_EQ(program.settings.stalls.warning, 0);
  EXPECT_EQ(program.settings.stalls.timeout, 12.5);
  const std::string message = usage_error_of([] { Program().parse({"--stall-timeout", "-1"}); });
  EXPECT_EQ(message, "--stall-timeout: expected a number from 0 to 10000000, found '-1'");
}

TEST(Batch, IsDividedAmongRanks) {
  Program program;
  program.parse({"--global-batch", "256"});
  EXPECT_EQ(global_batch(program.settings, 3), 256);
  EXPECT_EQ(largest_rank_batch(program.settings, 3), 86);
  EXPECT_EQ(largest_rank_batch(program.settings, 256), 1);
  EXPECT_NE(usage_error_of([&] { global_batch(program.settings, 257); }).find("at least 257"),
            std::string::npos);
  program.parse({"-b", "10"});
  EXPECT_EQ(global_batch(program.settings, 3), 30);
  EXPECT_EQ(largest_rank_batch(program.settings, 3), 10);
}

TEST(Batch, UsesTheLastOfItsTwoFlags) {
  const auto together = [](const std::vector<std::string>& arguments,
                           const std::string& file = "") {
    Program program;
    program.settings.global_batch = 256;  // a program's default
    program.parse(arguments, file);
    return global_batch(program.settings, 2);
  };
  EXPECT_EQ(together({}), 256);
  EXPECT_EQ(together({"-b", "7"}), 14);
  EXPECT_EQ(together({"--global-batch", "none", "-b", "7"}), 14);
  EXPECT_EQ(together({"-b", "7", "--global-batch", "9"}), 9);
  EXPECT_EQ(together({"--config", "f", "-b", "7"}, "global-batch = 9\n"), 14);
  EXPECT_EQ(together({"--config", "f"}, "global-batch = 9\n"), 9);
  EXPECT_EQ(together({"--config", "f"}, "batchsize = 100\nglobal-batch = none\n"), 200);
}

// A printed configuration starts the same run, whichever of the two flags decided.
TEST(Batch, RoundTripsThroughPrintedConfiguration) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--global-batch", "9"}, {"-b", "7"}, {}}) {
    Program first, second;
    first.settings.global_batch = second.settings.global_batch = 256;
    first.parse(arguments);
    second.parse({"--config", "f"}, first.options.text(Options::Request::print_config));
    EXPECT_EQ(global_batch(first.settings, 2), global_batch(second.settings, 2));
  }
}

const Recipe recipe = {{"batchsize", "64"}, {"epoch", "300"},         {"optimizer", "momentum_sgd"},
                       {"lr", "0.05"},      {"weight-decay", "5e-4"}, {"lr-schedule", "halving"}};

TrainingSettings with_recipe(const std::vector<std::string>& arguments) {
  Program program;
  program.options.choose_defaults([&] { apply_recipe(recipe, program.options, program.settings); });
  program.parse(arguments);
  return program.settings;
}

TEST(Recipes, SetDefaults) {
  const TrainingSettings all = with_recipe({});
  EXPECT_EQ(all.batchsize, 64);
  EXPECT_EQ(all.epoch, 300);
  EXPECT_EQ(all.optimizer, "momentum_sgd");
  EXPECT_EQ(all.lr, 0.05);
  EXPECT_EQ(all.weight_decay, 5e-4);
  EXPECT_EQ(all.lr_schedule, LrSchedule::halving);
  const TrainingSettings given = with_recipe({"-e", "3", "--lr", "1", "--lr-schedule", "steps"});
  EXPECT_EQ(given.epoch, 3);
  EXPECT_EQ(given.lr, 1);
  EXPECT_EQ(given.lr_schedule, LrSchedule::steps);
  EXPECT_EQ(given.weight_decay, 5e-4);
}

TEST(Recipes, DoNotOverrideOptimizerOrGlobalBatch) {
  const TrainingSettings adam = with_recipe({"--optimizer", "adam", "--global-batch", "9"});
  EXPECT_EQ(adam.lr, std::nullopt);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_EQ(adam.lr_schedule, LrSchedule::constant);
  EXPECT_EQ(adam.epoch, 300);
  EXPECT_EQ(adam.global_batch, 9);
}

TEST(Recipes, AppearInHelpAndPrintedConfiguration) {
  for (const Options::Request request : {Options::Request::help, Options::Request::print_config}) {
    Program program;
    program.options.choose_defaults(
        [&] { apply_recipe(recipe, program.options, program.settings); });
    program.parse({request == Options::Request::help ? "--help" : "--print-config"});
    const std::string text = program.options.text(request);
    EXPECT_NE(text.find(request == Options::Request::help ? "(default: 300)" : "epoch = 300 "),
              std::string::npos)
        << text;
  }
}

// Also of those that follow from flags of the same line, which a wrong flag does not prevent.
TEST(Recipes, AppearInHelpForTheCommandLine) {
  Program program;
  program.options.choose_defaults([&] {
    if (program.settings.augment) apply_recipe(recipe, program.options, program.settings);
  });
  const std::vector<std::string> line = {"--epoch", "many", "--augment", "--help"};
  program.parse(line);
  EXPECT_NE(program.options.text(Options::Request::help).find("(default: 300)"), std::string::npos);
}

TEST(LearningRate, SchedulesMatchTheirHelp) {
  // The schedule for 20 epochs of 10 steps.
  const auto schedule_of = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    check_training_flags(program.options, program.settings);
    return rate_schedule(program.settings, 10);
  };
  using Decay = RateSchedule::Decay;
  const RateSchedule steps = schedule_of({"--lr-schedule", "steps", "--warmup", "1.5"});
  EXPECT_EQ(steps.drops, (std::vector<std::int64_t>{100, 160}));
  EXPECT_EQ(steps.gamma, 0.1);
  EXPECT_EQ(steps.warmup, 15);
  EXPECT_EQ(steps.decay, Decay::none);
  const RateSchedule chosen =
      schedule_of({"--lr-schedule", "steps", "--lr-drops", "2.5,10", "--lr-drop-factor", "0.2"});
  EXPECT_EQ(chosen.drops, (std::vector<std::int64_t>{25, 100}));
  EXPECT_EQ(chosen.gamma, 0.2);
  const RateSchedule halving = schedule_of({"--lr-schedule", "halving", "--epoch", "60"});
  EXPECT_EQ(halving.drops, (std::vector<std::int64_t>{250, 500}));
  EXPECT_EQ(halving.gamma, 0.5);
  const RateSchedule cosine =
      schedule_of({"--lr-schedule", "cosine", "--epoch", "7", "--max-iterations", "3"});
  EXPECT_EQ(cosine.decay, Decay::cosine);
  EXPECT_EQ(cosine.length, 70);
  EXPECT_TRUE(cosine.drops.empty());
  const RateSchedule polynomial = schedule_of({"--lr-schedule", "polynomial", "--lr-power", "2"});
  EXPECT_EQ(polynomial.decay, Decay::polynomial);
  EXPECT_EQ(polynomial.power, 2);

  const auto error = [&](const std::vector<std::string>& flags) {
    return usage_error_of([&] { schedule_of(flags); });
  };
  EXPECT_EQ(error({"--lr-drops", "3"}),
            "--lr-drops: --lr-schedule is constant; add --lr-schedule steps");
  EXPECT_EQ(error({"--lr-schedule", "cosine", "--lr-drop-factor", "0.5"}),
            "--lr-drop-factor: --lr-schedule is cosine; add --lr-schedule steps");
  EXPECT_EQ(error({"--lr-schedule", "steps", "--lr-power", "2"}),
            "--lr-power: --lr-schedule is steps; add --lr-schedule polynomial");
  // A default is as good as none: a printed configuration has all flags.
  EXPECT_EQ(error({"--lr-drops", "auto", "--lr-drop-factor", "0.1", "--lr-power", "1"}), "");
}

TEST(LearningRate, DescribesTheSchedule) {
  const auto text_of = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    return describe_schedule(program.settings);
  };
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({"--lr-schedule", "steps", "--warmup", "5"}),
            "x 0.1 after 50 % and 80 % of the epochs, rising for 5 epochs");
  EXPECT_EQ(text_of({"--lr-schedule", "steps", "--lr-drops", "100,150"}),
            "x 0.1 after epochs 100, 150");
  EXPECT_EQ(text_of({"--lr-schedule", "cosine"}), "falling to 0 in 20 epochs (cosine)");
  EXPECT_EQ(text_of({"--lr-schedule", "polynomial", "-e", "3"}),
            "falling to 0 in 3 epochs (polynomial, power 1)");
}

TEST(TrainingFlags, RejectConflictsWithResume) {
  const auto error = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    return usage_error_of([&] { check_resume_flags(program.settings); });
  };
  EXPECT_NE(error({"--init", "w", "--resume", "s"}), "");
  EXPECT_EQ(error({"--init", "w", "--resume", "auto"}), "") << "of a new run";
  for (const std::string from : {"s", "auto"})
    EXPECT_NE(error({"--overwrite", "--resume", from}), "");
}

TEST(TrainingFlags, RejectConflictingFlags) {
  const auto error = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    return usage_error_of([&] { check_training_flags(program.options, program.settings); });
  };
  EXPECT_NE(error({"--dry-run", "--find-batchsize"}), "");
  EXPECT_EQ(error({"--patience", "2"}),
            "--patience has no effect without --early-stopping KEY; add it");
  EXPECT_EQ(error({"--patience", "2", "--early-stopping", "main/loss"}), "");
  EXPECT_EQ(error({"--accumulate", "2", "--gpu"}), "");
  EXPECT_EQ(error({"--exchange", "double-buffered", "--gpu"}), "");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--accumulate", "2", "--gpu", "--graph", "on"},
        {"--exchange", "double-buffered", "--gpu", "--sync-bn"},
        {"--exchange", "double-buffered", "--gpu", "--dtype", "fp16"},
        {"--on-nan", "skip", "--exchange", "double-buffered"},
        {"--on-nan", "skip", "--compress", "powersgd:1"},
        {"--on-nan", "skip", "--error-feedback", "--wire-dtype", "fp16"}})
    EXPECT_NE(error(flags).find("leave one out"), std::string::npos) << flags[2];
  EXPECT_EQ(error({"--on-nan", "skip"}), "");
}

TEST(Compression, IsSelectedByMethodAndRank) {
  Program program;
  EXPECT_EQ(program.settings.power_sgd_rank, 0);
  program.parse({"--compress", "powersgd:4", "--wire-dtype", "bf16"});
  EXPECT_EQ(program.settings.power_sgd_rank, 4);
  const ExchangeSettings chosen = exchange_settings(program.settings);
  EXPECT_EQ(chosen.power_sgd_rank, 4);
  EXPECT_FALSE(chosen.error_feedback);
  program.parse({"--compress", "none", "--error-feedback"});
  EXPECT_EQ(program.settings.power_sgd_rank, 0);
  EXPECT_TRUE(exchange_settings(program.settings).error_feedback);
  for (const std::string text :
       {"powersgd", "powersgd:", "powersgd:0", "powersgd:x", "topk:4", "4"})
    EXPECT_NE(usage_error_of([&] { Program().parse({"--compress", text}); }), "") << text;
  EXPECT_EQ(usage_error_of([] {
              Program().parse({"--compress", "topk"});
            }),
            "--compress: expected 'none' or 'powersgd:R' with a rank R, such as powersgd:4, found "
            "'topk'");
}

TEST(Compression, RejectsConflictingFlags) {
  const auto error = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    return usage_error_of([&] { check_training_flags(program.options, program.settings); });
  };
  EXPECT_TRUE(error({"--error-feedback"}).ends_with("add --wire-dtype fp16 or bf16"));
  EXPECT_EQ(error({"--error-feedback", "--wire-dtype", "fp16"}), "");
  for (const std::string type : {"fp32", "fp16"})
    EXPECT_NE(error({"--error-feedback", "--compress", "powersgd:1", "--wire-dtype", type})
                  .find("leave one out"),
              std::string::npos);
  EXPECT_EQ(error({"--compress", "powersgd:1", "--exchange", "whole"}), "");
  EXPECT_NE(error({"--compress", "powersgd:1", "--exchange", "overlapped"}), "");
  EXPECT_NE(error({"--compress", "powersgd:1", "--bucket-mb", "2"}), "");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--compress", "powersgd:1", "--gpu"},
        std::vector<std::string>{"--error-feedback", "--wire-dtype", "fp16", "--gpu"}})
    EXPECT_NE(error(flags).find("leave it or --gpu out"), std::string::npos);
}

TEST(DoubleBuffering, RejectsRanges) {
  Program program;
  program.parse({"--exchange", "double-buffered", "--bucket-mb", "2"});
  EXPECT_NE(usage_error_of([&] {
              check_training_flags(program.options, program.settings);
            }).find("--bucket-mb: double-buffered gradients travel at once; leave one out"),
            std::string::npos);
}

double rate_of(const std::vector<std::string>& arguments, int ranks) {
  Program program;
  program.parse(arguments);
  const auto optimizer =
      create_optimizer(program.options, program.settings,
                       static_cast<double>(examples_of_update(program.settings, ranks)));
  return optimizer->get(optimizer->rule().rate_name());
}

TEST(LearningRate, ScalesWithTheGlobalBatch) {
  const std::vector<std::string> base = {"--optimizer",          "sgd", "--lr", "0.1", "-b", "128",
                                         "--lr-reference-batch", "128"};
  const auto scaled = [&](const std::string& scaling, int ranks) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--lr-scaling", scaling});
    return rate_of(arguments, ranks);
  };
  EXPECT_DOUBLE_EQ(scaled("none", 4), 0.1);
  EXPECT_DOUBLE_EQ(scaled("linear", 1), 0.1);
  EXPECT_DOUBLE_EQ(scaled("linear", 4), 0.4);
  EXPECT_DOUBLE_EQ(scaled("sqrt", 4), 0.2);
  EXPECT_DOUBLE_EQ(rate_of({"--lr-scaling", "linear", "-b", "50"}, 1), 0.0005) << "Adam's own";
  EXPECT_NE(usage_error_of([] {
              rate_of({"--optimizer", "adadelta", "--lr-scaling", "sqrt"}, 1);
            }).find("AdaDelta has no learning rate; leave --lr-scaling out"),
            std::string::npos);
}

TEST(Summary, ReportsFirstEpochAndMedianOfTheOthers) {
  EXPECT_EQ(describe_epochs({}), "");
  EXPECT_EQ(describe_epochs({2.5}), "epochs: 2.50 s (first)");
  EXPECT_EQ(describe_epochs({9, 3, 1, 2}),
            "epochs: 9.00 s (first), 2.00 s (median of the other 3)");
  EXPECT_EQ(describe_epochs({9, 4, 1, 2, 3}),
            "epochs: 9.00 s (first), 2.50 s (median of the other 4)");
}

TEST(Precision, DependsOnTheDevice) {
  const std::vector<Device> cpu = {Device::cpu()}, gpu = {Device::cuda(0)};
  EXPECT_EQ(choose_precision(ComputeType::fp32, cpu).activations, DType::float32);
  EXPECT_NE(usage_error_of([&] { choose_precision(ComputeType::fp16, cpu); }).find("--dtype fp16"),
            std::string::npos);
  EXPECT_NE(usage_error_of([&] { choose_precision(ComputeType::tf32, cpu); }).find("--gpu"),
            std::string::npos);
  EXPECT_FALSE(choose_precision(ComputeType::bf16, gpu).scales_losses);
  EXPECT_EQ(choose_precision(ComputeType::bf16, gpu).activations, DType::bfloat16);
  EXPECT_TRUE(choose_precision(ComputeType::fp16, gpu).scales_losses);
  EXPECT_EQ(choose_precision(ComputeType::tf32, gpu).activations, DType::float32);
  EXPECT_TRUE(cuda_settings().allow_tf32);
  choose_precision(ComputeType::fp32, gpu);
  EXPECT_FALSE(cuda_settings().allow_tf32);
}

// Whichever comes first.
TEST(Precision, IsSupportedByAllDevices) {
  const Device cpu = Device::cpu(), gpu = Device::cuda(1);
  for (const std::vector<Device>& devices : {std::vector{cpu, gpu}, std::vector{gpu, cpu}}) {
    for (const ComputeType dtype : {ComputeType::tf32, ComputeType::fp16})
      EXPECT_NE(usage_error_of([&] { choose_precision(dtype, devices); })
                    .find(fmt::format("--dtype {}", name_of(compute_types(), dtype)) +
                          ": CPUs compute in fp32 or bf16; leave CPUs out of --devices"),
                std::string::npos);
    EXPECT_EQ(choose_precision(ComputeType::fp32, devices).activations, DType::float32);
    EXPECT_EQ(choose_precision(ComputeType::bf16, devices).activations, DType::bfloat16);
  }
}

}  // namespace
}  // namespace tasuki::program
