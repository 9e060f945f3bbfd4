#include "tasuki/program/start/job.hpp"

#include <algorithm>
#include <cstdlib>

#include "tasuki/communicator/agreement.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stop_request.hpp"
#include "tasuki/core/version.hpp"
#include "tasuki/program/start/console.hpp"
#include "tasuki/program/start/device.hpp"
#include "tasuki/program/start/stalls.hpp"
#include "tasuki/program/training_flags.hpp"
#include "tasuki/program/workers.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/cpu/convolution.hpp"

namespace tasuki::program {
namespace {

// Binds this rank's threads to those of its CPUs that are next to its GPU, if there are any.
void prefer_cpus(std::span<const int> nearby, Job& job) {
  const std::vector<int> preferred = preferred_cpus(job.processors.cpus, nearby);
  if (preferred.size() == job.processors.cpus.size() || !run_on(preferred)) return;
  job.processors.cpus = preferred;
  if (job.threads.origin.empty())
    job.threads.threads = std::min(job.threads.threads, static_cast<int>(preferred.size()));
}

// A continued run adds to its own results only.
OldResults old_results(const Job& job, const TrainingSettings& settings) {
  const bool joins = settings.overwrite || job.continuation.goes_on_in(settings);
  return joins ? OldResults::join : OldResults::leave;
}

// Several devices of one process, instead of the rank's own.
void take_worker_devices(const std::string& program, const TrainingSettings& settings, Job& job) {
  if (job.communicator->size() > 1)
    fail_everywhere(ErrorKind::usage,
                    "{} is one process for several devices, but {} processes were started; start "
                    "it without mpirun",
                    program, job.communicator->size());
  if (settings.gpu.is_wanted)
    fail_everywhere(ErrorKind::usage,
                    "--gpu: this program takes GPUs from --devices, for example --devices 0,1");
  job.devices = settings.workers->devices;
  prepare_devices(job.devices);
  job.device_text = worker_names(job.devices);
}

}  // namespace

void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments) {
  std::vector<std::string> lines = {fmt::format("Tasuki {}", version())};
  for (const std::string& argument : arguments) lines.push_back("argument " + argument);
  check_agreement(communicator, lines, "all ranks must be started with the same arguments");
}

std::optional<Job> start_job(Options& options, TrainingSettings& settings, int argc, char** argv) {
  // A communicator that works wherever MPI does, until the settings are known.
  const auto starting = create_communicator("naive");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  check_same_program(*starting, arguments);
  const Options::Request request = options.parse(arguments, read_on_root(*starting));
  Job job;
  if (request == Options::Request::run || request == Options::Request::print_config)
    job.continuation = find_continuation(options, settings, *starting);
  if (request != Options::Request::run) {
    print_on_root(*starting, options.text(request));
    return std::nullopt;
  }
  if (settings.communicator == list_communicators) {
    print_on_root(*starting, communicator_help());
    return std::nullopt;
  }
  if (starting->rank() == 0) announce_training();
  apply(settings.stalls);
  configure_log(starting->rank(), settings.quiet     ? LogLevel::warning
                                  : settings.verbose ? LogLevel::verbose
                                                     : LogLevel::info);

  const ChosenDevice chosen = choose_device(settings.gpu, *starting);
  job.devices = {chosen.device};
  job.device_text = chosen.text;
  job.communicator =
      create_communicator(settings.communicator, {.device = chosen.device,
                                                  .wire_dtype = settings.wire_dtype,
                                                  .gpu_is_shared = settings.gpu.share});
  job.processors = find_processors();
  job.threads = plan_threads(requested_threads(settings.threads, std::getenv("OMP_NUM_THREADS")),
                             job.processors.cores, job.communicator->intra_size(),
                             static_cast<int>(job.processors.cpus.size()));
  prefer_cpus(chosen.cpus_nearby, job);
  set_cpu_threads(job.threads.threads);
  set_conv_algorithm(settings.conv);
  if (settings.workers) take_worker_devices(options.program(), settings, job);
  return job;
}

Options::FileReader read_on_root(Communicator& communicator) {
  return [&communicator](const std::filesystem::path& path) {
    return std::string(bytes_to_text(
        run_on_root(communicator, 0, [&] { return text_to_bytes(read_file(path)); })));
  };
}

std::shared_ptr<OutputFolder> take_output_folder(const Job& job, const TrainingSettings& settings) {
  Communicator& communicator = *job.communicator;
  auto output = std::make_shared<OutputFolder>(settings.out);
  const Bytes path = run_on_root(communicator, 0, [&] {
    output->take(old_results(job, settings));
    return text_to_bytes(output->path().string());
  });
  if (communicator.rank() != 0) output = std::make_shared<OutputFolder>(bytes_to_text(path));
  return output;
}

void remove_old_results(Communicator& communicator, const TrainingSettings& settings,
                        const OutputFolder& output) {
  if (!settings.overwrite) return;
  run_on_root(communicator, 0, [&] {
    remove_results(output.path());
    return Bytes{};
  });
}

std::shared_ptr<OutputFolder> find_output_folder(const Job& job, const TrainingSettings& settings) {
  const Bytes path = run_on_root(*job.communicator, 0, [&] {
    const auto folder = OutputFolder::find(settings.out, old_results(job, settings));
    check_output_folder(folder);
    return text_to_bytes(folder.string());
  });
  return std::make_shared<OutputFolder>(bytes_to_text(path));
}

}  // namespace tasuki::program
