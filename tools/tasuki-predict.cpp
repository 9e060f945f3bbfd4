// Applies trained models: classes of images, with probabilities and accuracy; translations;
// continuations of a text.
//
//   build/apps/tasuki-predict result                      # the run in result, on its own test data
//   build/apps/tasuki-predict result cat.jpg dog.png
//   build/apps/tasuki-predict result/best --data FOLDER --format json

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "job/run_job.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/device.hpp"
#include "program/start/processors.hpp"
#include "program/start/rank_setup.hpp"
#include "program/start/same_program.hpp"
#include "tensor/backend.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/tasks.hpp"
#include "tools/take_words.hpp"

namespace tasuki::predict {
namespace {

using program::Options;

constexpr std::int64_t most_examples = std::int64_t{1} << 40;

void add_flags(Options& options, PredictionSettings& settings, std::optional<std::string>& data,
               const Tasks& tasks) {
  options.group("Model and input");
  add_model_flags(options, settings, tasks);
  options
      .add("data", data, "auto", "PATH",
           "images (a file, a folder or a data set; docs/predict.md), or text files (for "
           "translation: sentences); `auto`: the run's test data. Inputs may also follow the "
           "model without a flag")
      .in_short("images or texts to predict");
  options
      .add("batchsize,b", settings.batchsize, program::batch_sizes, "N",
           "examples per rank to compute at a time")
      .in_short("examples per rank at a time");
  options.add("examples", settings.examples, "all", {1, most_examples}, "N",
              "use only the first N examples");
  options
      .add("seed", settings.seed, "auto", {0, std::numeric_limits<std::int64_t>::max()}, "N",
           "seed of generated images and text; `auto`: the run's")
      .in_short("seed of generated images and text");
  for (const auto& task : tasks) task->add_flags(options);
  add_network_flags(options, settings, tasks);
  options.group("Output");
  options
      .add("format", settings.format,
           {{"table", Format::table}, {"json", Format::json}, {"csv", Format::csv}}, "NAME",
           "table, json (one object per line, the summary last) or csv")
      .in_short("table, json or csv");
  options
      .add("out,o", settings.out, "none", "FILE",
           "write the result for each example to this file; the summary is printed")
      .in_short("file for each example's line");
  options.add("quiet", settings.quiet, "print only the summary");
  options.group("Devices", program::OnScreen::no);
  program::add_gpu_flags(options, settings.gpu);
  program::add_processor_flags(options, settings.threads, settings.conv);
  program::add_stall_flags(options, settings.stalls);
}

void use_words(const std::vector<std::string>& words, const std::optional<std::string>& data,
               const Options& options, PredictionSettings& settings) {
  if (data) settings.inputs = {*data};
  use_model_word(words, options, settings);
  if (words.size() <= 1) return;
  if (data) fail_everywhere(ErrorKind::usage, "--data and {}: give the input once", words[1]);
  settings.inputs.assign(words.begin() + 1, words.end());
}

int predict(int argc, char** argv) {
  PredictionSettings settings;
  std::optional<std::string> data;
  const Tasks tasks = create_tasks();
  Options options("tasuki-predict",
                  "applies a trained model to images or text, and measures how often it is right",
                  "tasuki-predict result cat.jpg dog.png --top 3");
  add_flags(options, settings, data, tasks);

  const auto communicator = create_communicator("naive");
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  program::check_same_program(*communicator, arguments);
  const std::vector<std::string> words = take_words(arguments);
  const auto request = options.parse(arguments, program::read_on_root(*communicator));
  if (request != Options::Request::run) {
    program::print_on_root(*communicator, options.text(request));
    return 0;
  }
  use_words(words, data, options, settings);
  apply(settings.stalls);
  configure_log(communicator->rank(), LogLevel::warning);
  run_on_root(*communicator, 0, [&] {
    check_output(settings);
    return Bytes{};
  });

  const Device device = program::choose_device(settings.gpu, *communicator).device;
  const program::Processors processors = program::find_processors();
  const auto wanted = program::requested_threads(settings.threads, std::getenv("OMP_NUM_THREADS"));
  set_cpu_threads(program::plan_threads(wanted, processors.cores, communicator->intra_size(),
                                        static_cast<int>(processors.cpus.size()))
                      .threads);
  set_conv_algorithm(settings.conv);

  const TrainedModel trained = find_trained_model(settings, *communicator);
  const auto [task, network] = choose_task(tasks, settings, trained);
  task->run({settings, trained, network, *communicator, device});
  return 0;
}

}  // namespace
}  // namespace tasuki::predict

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::predict::predict);
}
