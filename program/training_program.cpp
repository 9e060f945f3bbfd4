#include "tasuki/program/training_program.hpp"

#include <algorithm>

#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/dataset/iterators/device_iterator.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/program/about.hpp"
#include "tasuki/program/batch_size.hpp"
#include "tasuki/program/data.hpp"
#include "tasuki/program/initial_state.hpp"
#include "tasuki/program/input.hpp"
#include "tasuki/program/precision.hpp"
#include "tasuki/program/report.hpp"
#include "tasuki/program/resume.hpp"
#include "tasuki/tensor/cuda_settings.hpp"
#include "tasuki/training/extensions/allreduce_persistent.hpp"
#include "tasuki/training/extensions/device_monitor.hpp"
#include "tasuki/training/extensions/evaluator.hpp"
#include "tasuki/training/extensions/print_progress.hpp"
#include "tasuki/training/extensions/report_step_times.hpp"

namespace tasuki::program {
namespace {

bool has_gpu(const std::vector<Device>& devices) {
  return !std::ranges::all_of(devices, &Device::is_cpu);
}

GraphMode graph_mode(const TrainingSettings& settings, Device device, bool has_engine) {
  if (settings.graph == "on" && has_engine)
    fail_everywhere(ErrorKind::usage,
                    "--graph on: steps on several devices of one process are not recorded");
  if (settings.graph == "on" && device.is_cpu())
    fail_everywhere(ErrorKind::usage, "--graph on: CPUs record no steps; add --gpu");
  if (settings.graph == "on") return GraphMode::on;
  return settings.graph == "off" ? GraphMode::off : GraphMode::automatic;
}

void choose_gpu_algorithms(const TrainingSettings& settings, const std::vector<Device>& devices,
                           bool has_engine) {
  if (settings.autotune && settings.deterministic)
    fail_everywhere(ErrorKind::usage,
                    "--autotune and --deterministic: algorithms that are chosen by timing differ "
                    "from run to run, and so do the last bits; leave one out");
  if ((settings.autotune || settings.deterministic) && !has_gpu(devices))
    fail_everywhere(ErrorKind::usage, "--{} is about algorithms on GPUs; {}{}",
                    settings.autotune ? "autotune" : "deterministic",
                    has_engine ? "name one by --devices" : "add --gpu",
                    settings.autotune ? "" : " (on CPUs, --conv direct gives the same bits)");
  cuda_settings().autotune = settings.autotune;
  cuda_settings().deterministic = settings.deterministic;
}

TrainingEngine create_standard_engine(Classifier& model, Optimizer& optimizer,
                                      std::unique_ptr<Iterator> batches,
                                      const TrainingSettings& settings, GraphMode graph) {
  StandardUpdater::Settings updating;
  updating.seed = static_cast<std::uint64_t>(settings.seed);
  updating.graph = graph;
  LossFunction loss = classification_loss(model);
  return {std::make_unique<StandardUpdater>(std::move(batches), optimizer, loss, updating), loss};
}

std::string describe_output(const TrainingSettings& settings, const std::filesystem::path& out) {
  if (out == settings.out) return settings.out;
  return fmt::format("{} ({} is another run's)", out.string(), settings.out);
}

}  // namespace

void run_training(const Job& job, const TrainingSettings& settings,
                  const TrainingProgram& program) {
  Communicator& comm = *job.communicator;
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  const std::int64_t batch = global_batch(settings, comm.size());
  // Before files are looked for: flags that do not fit are the first thing to say.
  if (settings.init && settings.resume)
    fail_everywhere(ErrorKind::usage,
                    "--init and --resume: a run starts from weights or goes on; leave one out");
  if (settings.overwrite && settings.resume)
    fail_everywhere(ErrorKind::usage,
                    "--overwrite and --resume: a run goes on with the results that are there or "
                    "replaces them; leave one out");
  if (settings.dry_run && settings.find_batchsize)
    fail_everywhere(ErrorKind::usage,
                    "--dry-run and --find-batchsize are two things to do without training; give "
                    "one of them");
  auto base = create_optimizer(settings, comm.size());
  const bool has_engine = program.create_engine != nullptr;
  const std::vector<Device> devices = has_engine ? program.engine_devices : std::vector{job.device};
  // An engine of the program's own hands batches from the host out to its devices.
  const Device device = has_engine ? Device::cpu() : job.device;
  const Precision precision = choose_precision(settings.dtype, devices);
  if (has_engine && precision.scales_losses)
    fail_everywhere(ErrorKind::usage,
                    "--dtype {}: several devices in one process scale no losses; take bf16",
                    settings.dtype);
  const GraphMode graph = graph_mode(settings, device, has_engine);
  choose_gpu_algorithms(settings, devices, has_engine);

  const auto folder = find_data(comm, program.dataset, settings);
  const auto open = [&](DataSplit split, std::optional<std::int64_t> limit) {
    return open_split(program.dataset, folder, split, program.example_shape, limit,
                      program.image_side);
  };
  const auto open_train = open(DataSplit::train, settings.examples);
  const auto open_test = open(DataSplit::test, settings.test_examples);
  const DataSummary data = {folder, broadcast_header(open_train, comm),
                            broadcast_header(open_test, comm), open_train, open_test};
  for (const bool is_test : {false, true})
    if ((is_test ? data.test : data.train).count == 0)
      fail_everywhere(ErrorKind::data, "{}: expected examples to {}, found none", folder.string(),
                      is_test ? "evaluate on" : "train on");

  Classifier model(program.create_model(data.train));
  model.initialize(seed);
  load_initial_weights(settings, model, comm);
  model.to(job.device);
  const auto optimizer = create_multi_node_optimizer(std::move(base), comm);
  optimizer->setup(model);
  if (precision.scales_losses) optimizer->scale_losses({});
  // Workers update their parts of the weights by themselves.
  if (!has_engine) optimizer->compute_in(precision.activations);

  std::optional<RunPosition> resumed;
  if (settings.resume) resumed = check_resume(settings, *optimizer, data.train.count, comm);
  if (resumed && !settings.find_batchsize) {
    const std::string end = describe_end(settings, *resumed);
    if (!end.empty() && comm.rank() == 0) log_warning("nothing to do: {}", end);
    if (!end.empty() && !settings.dry_run) return;
  }
  const auto say_banner = [&](const std::filesystem::path& out) {
    BannerLines banner = banner_lines(job, settings, *optimizer, data);
    banner.insert(banner.begin() + 2, program.banner.begin(), program.banner.end());
    banner.emplace_back("Output", describe_output(settings, out));
    if (settings.init) banner.emplace_back("Weights", *settings.init);
    if (resumed) banner.emplace_back("Resumed", describe_resume(settings, *resumed));
    print_banner(job, banner);
  };
  // Files that cannot be read are the last thing to find before anything is written.
  auto train_source = open_checked(open_train, comm), test_source = open_checked(open_test, comm);
  if (settings.dry_run) {
    say_banner(find_output_folder(comm, settings)->path());
    print_plan(job, settings, *optimizer, precision, classification_loss(model), data);
    return;
  }

  const auto output = settings.find_batchsize ? nullptr : take_output_folder(comm, settings);
  // Rank 0 reads the files; every rank gets its share only.
  ScatterOptions scattering;
  scattering.shuffle = true;
  scattering.seed = seed;
  scattering.shards = static_cast<int>(settings.shards.value_or(0));
  const Share train = with_augmentation(
      scatter_dataset([&] { return std::move(train_source); }, comm, scattering), settings);
  const Share test =
      with_standardization(scatter_dataset([&] { return std::move(test_source); }, comm), settings);

  const auto create_engine = [&](std::unique_ptr<Iterator> batches) {
    return has_engine
               ? program.create_engine(data.train, model, *optimizer, std::move(batches),
                                       precision.activations)
               : create_standard_engine(model, *optimizer, std::move(batches), settings, graph);
  };
  StepsInMemory steps = {data.train, train, test, devices, precision, classification_loss(model),
                         {}};
  if (has_engine)
    steps.create_updater = [&](std::unique_ptr<Iterator> batches) {
      return create_engine(std::move(batches)).updater;
    };
  if (settings.find_batchsize) return print_largest_batch(job, settings, steps);

  ShareIteratorOptions reading;
  reading.global_batch = batch;
  reading.shuffle = true;
  reading.seed = seed;
  const auto batches_of = [&](std::unique_ptr<ShareIterator> iterator,
                              const DatasetHeader& header) {
    return device.is_cpu() ? read_ahead(std::move(iterator), settings, header)
                           : create_device_iterator(
                                 std::move(iterator), device,
                                 std::max(1, static_cast<int>(loader_threads(settings, header))));
  };
  std::optional<Trainer> trainer;
  const auto run = [&] {
    TrainingEngine engine =
        create_engine(batches_of(std::make_unique<ShareIterator>(train, reading), data.train));
    trainer.emplace(std::move(engine.updater),
                    stop_after(static_cast<double>(settings.epoch), settings.max_iterations),
                    output);
    trainer->extend(allreduce_persistent());
    trainer->extend(std::make_unique<Evaluator>(
        batches_of(create_serial_iterator(test, largest_batch(settings, comm.size())), data.test),
        std::move(engine.evaluation_loss)));
    trainer->extend(report_step_times());
    if (settings.monitor) trainer->extend(monitor_devices(devices, *settings.monitor));
    trainer->extend(keep_data(data.train, train));
    if (!settings.quiet)
      trainer->extend(std::make_unique<PrintProgress>(settings.progress_every, data.train.count));
    extend_and_resume(*trainer, settings);

    remove_old_results(comm, settings, *output);
    write_about(job, settings, *output, folder);
    if (!settings.quiet) say_banner(output->path());
    RunSummary summary(*trainer, devices);
    trainer->run();
    if (!settings.quiet) summary.print(comm);
  };
  train_within_memory(job, settings, steps, run, [&trainer] { trainer.reset(); });
}

}  // namespace tasuki::program
