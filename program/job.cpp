#include "tasuki/program/job.hpp"

#include <algorithm>
#include <cstdlib>

#include "tasuki/communicator/agreement.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/communicator/wire_format.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stop_request.hpp"
#include "tasuki/core/version.hpp"
#include "tasuki/program/console.hpp"
#include "tasuki/program/device.hpp"
#include "tasuki/program/resume.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/cpu/convolution.hpp"

namespace tasuki::program {
namespace {

ConvAlgorithm conv_algorithm_of(const std::string& flag) {
  if (flag == "direct") return ConvAlgorithm::direct;
  if (flag == "winograd") return ConvAlgorithm::winograd;
  if (flag == "interleaved") return ConvAlgorithm::interleaved;
  return ConvAlgorithm::fastest;
}

// Keeps this rank's threads on those of its CPUs that are next to its GPU, where there are any.
void prefer_cpus(std::span<const int> nearby, Job& job) {
  const std::vector<int> preferred = preferred_cpus(job.processors.cpus, nearby);
  if (preferred.size() == job.processors.cpus.size() || !run_on(preferred)) return;
  job.processors.cpus = preferred;
  if (job.threads.origin.empty())
    job.threads.threads = std::min(job.threads.threads, static_cast<int>(preferred.size()));
}

// A run that goes on may add to the results that its snapshot is one of, and to no other run's.
OldResults old_results(const TrainingSettings& settings) {
  std::error_code ignored;
  const bool goes_on = settings.resume && std::filesystem::equivalent(
                                              settings.out, folder_of(*settings.resume), ignored);
  return goes_on || settings.overwrite ? OldResults::join : OldResults::leave;
}

}  // namespace

void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments) {
  std::vector<std::string> lines = {fmt::format("Tasuki {}", version())};
  for (const std::string& argument : arguments) lines.push_back("argument " + argument);
  check_agreement(communicator, lines, "all ranks must be started with the same arguments");
}

std::optional<Job> start_job(Options& options, TrainingSettings& settings, int argc, char** argv) {
  // A communicator that works wherever MPI does, until the settings have named one.
  const auto starting = create_communicator("naive");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  check_same_program(*starting, arguments);
  const Options::Request request = options.parse(arguments, read_on_root(*starting));
  if (request == Options::Request::run || request == Options::Request::print_config)
    inherit_flags(options, settings, *starting);
  if (request != Options::Request::run) {
    print_on_root(*starting, options.text(request));
    return std::nullopt;
  }
  if (settings.communicator == "help") {
    print_on_root(*starting, communicator_help());
    return std::nullopt;
  }
  if (starting->rank() == 0) announce_training();
  apply(settings.stalls);
  configure_log(starting->rank(), settings.quiet     ? LogLevel::warning
                                  : settings.verbose ? LogLevel::verbose
                                                     : LogLevel::info);

  Job job;
  const ChosenDevice chosen = choose_device(settings.gpu, settings.share_gpu, *starting);
  job.device = chosen.device;
  job.device_text = chosen.text;
  job.communicator =
      create_communicator(settings.communicator, {.device = job.device,
                                                  .wire_dtype = wire_dtype(settings.wire_dtype),
                                                  .gpu_is_shared = settings.share_gpu});
  job.processors = find_processors();
  job.threads = plan_threads(requested_threads(settings.threads, std::getenv("OMP_NUM_THREADS")),
                             job.processors.cores, job.communicator->intra_size(),
                             static_cast<int>(job.processors.cpus.size()));
  prefer_cpus(chosen.cpus_nearby, job);
  set_cpu_threads(job.threads.threads);
  set_conv_algorithm(conv_algorithm_of(settings.conv));
  return job;
}

Options::FileReader read_on_root(Communicator& communicator) {
  return [&communicator](const std::filesystem::path& path) {
    return std::string(bytes_to_text(
        run_on_root(communicator, 0, [&] { return text_to_bytes(read_file(path)); })));
  };
}

std::shared_ptr<OutputFolder> take_output_folder(Communicator& communicator,
                                                 const TrainingSettings& settings) {
  auto output = std::make_shared<OutputFolder>(settings.out);
  const Bytes path = run_on_root(communicator, 0, [&] {
    output->take(old_results(settings));
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

std::shared_ptr<OutputFolder> find_output_folder(Communicator& communicator,
                                                 const TrainingSettings& settings) {
  const Bytes path = run_on_root(communicator, 0, [&] {
    const auto folder = OutputFolder::find(settings.out, old_results(settings));
    check_output_folder(folder);
    return text_to_bytes(folder.string());
  });
  return std::make_shared<OutputFolder>(bytes_to_text(path));
}

}  // namespace tasuki::program
