#include "common/training_options.hpp"

#include <limits>
#include <stdexcept>

#include "tasuki/training/extensions/fail_on_non_number.hpp"
#include "tasuki/training/extensions/log_report.hpp"
#include "tasuki/training/extensions/print_report.hpp"
#include "tasuki/training/extensions/progress_bar.hpp"

namespace tasuki::apps {
namespace {

constexpr std::int64_t billion = 1'000'000'000;
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

Option gpu_option(std::string& gpu) {
  Option option;
  option.value_name = "N";
  option.help =
      "compute on GPUs: each rank on that of its number within the node, or all on number N";
  option.implicit = "auto";
  option.set = [&gpu](const std::string& text) {
    if (text != "none" && text != "auto") {
      try {
        parse_integer(text, {0, 1023});
      } catch (const std::invalid_argument& expected) {
        throw std::invalid_argument(fmt::format("{}, 'auto' or 'none'", expected.what()));
      }
    }
    gpu = text;
  };
  option.get = [&gpu] { return gpu; };
  return option;
}

}  // namespace

void add_training_options(Options& options, TrainingSettings& settings) {
  options.group("Run");
  options.add("batchsize,b", settings.batchsize, {1, 1 << 24}, "N", "examples per rank and step");
  options.add("epoch,e", settings.epoch, {1, billion}, "N", "passes over the training data");
  options.add("max-iterations", settings.max_iterations, "none", {1, unlimited}, "N",
              "end after this many steps, if that comes before the last epoch's end");
  options.add("seed", settings.seed, {0, unlimited}, "N",
              "of initial weights and the order of examples");
  options.add("resume,r", settings.resume, "none", "FILE", "go on from this snapshot");
  options.add("dry-run", settings.dry_run,
              "set everything up and say what would be done, without training");

  options.group("Data");
  options.add("data", settings.data, "auto", "DIR",
              "folder with the data set's files; by itself the first there is of "
              "$TASUKI_DATA/<data set>, ~/.cache/tasuki/<data set> and Debian's package");
  options.add("examples", settings.examples, "all", {1, unlimited}, "N",
              "train on the first N examples only");
  options.add("test-examples", settings.test_examples, "all", {1, unlimited}, "N",
              "evaluate on the first N examples only");
  options.add(
      "shards", settings.shards, "none", {1, 1 << 20}, "V",
      "deal the data to V virtual shards, a multiple of the number of ranks: global batches "
      "are then the same for any number of ranks");

  options.group("Optimizer");
  options.add("optimizer", settings.optimizer, optimizer_names(), "NAME", "update rule");
  options.add("lr", settings.lr, "auto", {0.0, 1e6}, "X",
              "learning rate (Adam's alpha); by itself Chainer's default of the optimizer");

  options.group("Communication and devices");
  options.add("communicator", settings.communicator, "NAME",
              "how gradients are averaged; `help` lists the names");
  options.add("gpu,g", gpu_option(settings.gpu));
  options.add("threads", settings.threads, "auto", {1, 4096}, "N",
              "threads per rank; by itself the node's cores shared among its ranks, as far as the "
              "binding allows");

  options.group("Output");
  options.add("out,o", settings.out, "DIR", "folder for log and snapshots");
  options.add("log-every", settings.log_every, "epoch", {1, unlimited}, "N",
              "iterations between lines of the log; by itself one each epoch");
  options.add("snapshot-every", settings.snapshot_every, "end", {1, billion}, "N",
              "epochs between snapshots; by itself one at the end");
  options.add("quiet", settings.quiet, "print warnings and errors only");
}

std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings) {
  auto optimizer = tasuki::create_optimizer(settings.optimizer);
  if (settings.lr) {
    if (optimizer->rate_name().empty())
      fail_everywhere(ErrorKind::usage, "--lr: {} has no learning rate; leave --lr out",
                      settings.optimizer);
    optimizer->set(optimizer->rate_name(), *settings.lr);
  }
  return optimizer;
}

void extend_and_resume(Trainer& trainer, const TrainingSettings& settings) {
  trainer.extend(std::make_unique<FailOnNonNumber>());
  auto due = settings.log_every ? every(static_cast<double>(*settings.log_every), Unit::iteration)
                                : every(1, Unit::epoch);
  trainer.extend(std::make_unique<LogReport>(std::move(due)));
  if (!settings.quiet) {
    std::vector<std::string> columns = {"epoch",
                                        "main/loss",
                                        "validation/main/loss",
                                        "main/accuracy",
                                        "validation/main/accuracy",
                                        "elapsed_time"};
    if (settings.log_every) columns.insert(columns.begin() + 1, "iteration");
    trainer.extend(std::make_unique<PrintReport>(std::move(columns)));
    trainer.extend(std::make_unique<ProgressBar>());
  }
  Snapshot::Settings saving;
  saving.at_end = true;
  Attachment attachment;
  attachment.trigger = settings.snapshot_every
                           ? every(static_cast<double>(*settings.snapshot_every), Unit::epoch)
                           : at({}, Unit::epoch);
  trainer.extend(std::make_unique<Snapshot>(saving), std::move(attachment));
  if (settings.resume) resume(*settings.resume, trainer);
}

}  // namespace tasuki::apps
