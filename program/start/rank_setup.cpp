#include "program/start/rank_setup.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "communicator/objects.hpp"
#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/stop_request.hpp"
#include "core/terminal.hpp"
#include "job/stall_limits.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/device.hpp"
#include "program/start/remembered_links.hpp"
#include "program/start/same_program.hpp"
#include "saving/state.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/instruction_set.hpp"

namespace tasuki::program {
namespace {

// Binds this rank's threads to those of its CPUs that are next to its GPU, if there are any.
void prefer_cpus(std::span<const int> nearby, RankSetup& setup) {
  const std::vector<int> preferred = preferred_cpus(setup.processors.cpus, nearby);
  if (preferred.size() == setup.processors.cpus.size() || !run_on(preferred)) return;
  setup.processors.cpus = preferred;
  if (setup.threads.origin.empty())
    setup.threads.threads = std::min(setup.threads.threads, static_cast<int>(preferred.size()));
}

// Whether the communicator sends an allreduce's messages itself and may choose how: between
// machines, or inside one, too, where these kinds round what they send.
bool chooses_algorithm(const TrainingSettings& settings, const Topology& topology) {
  // Shards are added in one order.
  if (settings.allreduce || settings.probe == LinkProbe::off || settings.reproducible) return false;
  const bool rounds = settings.wire_dtype != DType::float32;
  if (settings.communicator == "naive") return rounds;
  if (topology.inter_size == 1) return settings.communicator == "flat" && rounds;
  const auto& kinds = communicator_kinds();
  const auto kind = std::ranges::find(kinds, settings.communicator, &CommunicatorKind::name);
  return kind != kinds.end() && kind->takes_algorithm;
}

// A continued run adds to its own results only.
OldResults old_results(const RankSetup& setup, const TrainingSettings& settings) {
  const bool joins = settings.overwrite || setup.resumption.goes_on_in(settings);
  return joins ? OldResults::join : OldResults::leave;
}

// Several devices of one process, instead of the rank's own.
void take_worker_devices(const std::string& program, const TrainingSettings& settings,
                         RankSetup& setup) {
  if (setup.communicator->size() > 1)
    fail_everywhere(ErrorKind::usage,
                    "{} is one process for several devices, but {} processes were started; start "
                    "it without mpirun",
                    program, setup.communicator->size());
  setup.devices = settings.workers->devices;
  setup.batch_device = Device::cpu();
  prepare_devices(setup.devices);
  setup.device_text = worker_names(setup.devices);
}

}  // namespace

void apply(const StallSettings& settings) {
  StallLimits limits;
  limits.warning = settings.warning;
  limits.timeout = settings.timeout;
  limits.silence = settings.silence;
  limits.way_out =
      fmt::format("set --stall-timeout higher than {} (0: no limit)", to_text(settings.timeout));
  limits.way_out_of_silence =
      fmt::format("set --silence-timeout higher than {}", to_text(settings.silence));
  set_stall_limits(limits);
}

std::vector<Device> devices_in_flags(const TrainingSettings& settings) {
  if (settings.workers) return settings.workers->devices;
  return {settings.gpu.is_wanted ? Device::cuda(0) : Device::cpu()};
}

void check_device_flags(const TrainingSettings& settings) {
  if (settings.workers && settings.gpu.is_wanted)
    fail_everywhere(ErrorKind::usage,
                    "--gpu: this program takes GPUs from --devices, for example --devices 0,1");
  if (settings.gpu.share && !settings.gpu.is_wanted)
    fail_everywhere(ErrorKind::usage, "--share-gpu is for ranks on GPUs; add --gpu");
}

namespace {

// Ranks on other processors, or with other libraries, may round differently, and which shards they
// have depends on the number of ranks.
void compare_processors(Communicator& communicator) {
  const std::string own = fmt::format("{}", fmt::join(computed_on(), ", "));
  const std::vector<nlohmann::json> all = allgather_object(communicator, own);
  for (std::size_t rank = 1; rank < all.size() && communicator.rank() == 0; ++rank)
    if (all[rank] != all[0])
      return log_warning(
          "--reproducible: rank {} on {} computes on {}; rank 0 on {}; with another number of "
          "ranks "
          "results may differ in their last bits",
          rank, communicator.topology().host_of[rank], all[rank].get<std::string>(), own);
}

}  // namespace

std::optional<RankSetup> set_up_rank(Options& options, TrainingSettings& settings, int argc,
                                     char** argv, const std::function<void()>& check_flags) {
  // A communicator that works wherever MPI does, until the settings are known.
  const auto before_flags = create_communicator("naive");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  check_same_program(*before_flags, arguments);
  const Options::Request request = options.parse(arguments, read_on_root(*before_flags));
  RankSetup setup;
  if (request == Options::Request::run || request == Options::Request::print_config) {
    setup.resumption = find_resumption(options, settings, *before_flags);
    check_flags();
    apply_reproducible(settings);
  }
  if (request != Options::Request::run) {
    print_on_root(*before_flags, options.text(request));
    return std::nullopt;
  }
  if (std::getenv(supervisor_variable) != nullptr)
    drop_last_words();  // tasuki-run says what was saved
  else if (before_flags->rank() == 0)
    announce_training();
  apply(settings.stalls);
  configure_log(before_flags->rank(), settings.quiet     ? LogLevel::warning
                                      : settings.verbose ? LogLevel::verbose
                                                         : LogLevel::info);

  limit_instructions(settings.isa);
  const ChosenDevice chosen = choose_device(settings.gpu, *before_flags);
  setup.devices = {chosen.device};
  setup.batch_device = chosen.device;
  setup.device_text = chosen.text;
  if (chooses_algorithm(settings, before_flags->topology()))
    setup.links = find_links(*before_flags, settings.out);
  const Links& links = setup.links;
  setup.communicator = create_communicator(
      settings.communicator, {.device = chosen.device,
                              .wire_dtype = settings.wire_dtype,
                              .gpu_is_shared = chosen.gpu_is_shared,
                              .algorithm = settings.allreduce,
                              .link = links.between.value_or(gigabit_ethernet),
                              .link_inside = links.inside.value_or(shared_memory_messages)});
  if (settings.reproducible) compare_processors(*setup.communicator);
  setup.processors = find_processors();
  setup.threads = plan_threads(requested_threads(settings.threads, std::getenv("OMP_NUM_THREADS")),
                               setup.processors.cores, setup.communicator->intra_size(),
                               static_cast<int>(setup.processors.cpus.size()));
  prefer_cpus(chosen.cpus_nearby, setup);
  // The bits of products depend on the number of threads.
  set_cpu_threads(settings.reproducible ? 1 : setup.threads.threads);
  set_conv_algorithm(settings.conv);
  if (settings.workers) take_worker_devices(options.program(), settings, setup);
  setup.precision = apply_compute_flags(settings, setup.devices);
  setup.grid = std::make_unique<ModelGrid>(*setup.communicator, settings, options.program());
  if (const auto local = local_step_settings(settings)) {
    setup.local_steps = std::make_unique<LocalSteps>(*setup.communicator, *local);
    const bool is_alone = setup.local_steps->groups() == 1;
    if (is_alone) setup.local_steps.reset();
    if (setup.communicator->rank() == 0 && is_alone)
      log_warning("--sync-every has no effect: all ranks are on one machine");
    else if (setup.communicator->rank() == 0 && local->overlap &&
             !setup.communicator->supports(Background::thread))
      log_warning(
          "--sync-overlap has no effect: this MPI does not allow calls from several threads, so "
          "differences travel at the next synchronisation");
  }
  return setup;
}

Options::FileReader read_on_root(Communicator& communicator) {
  return [&communicator](const std::filesystem::path& path) {
    return std::string(bytes_to_text(
        run_on_root(communicator, 0, [&] { return text_to_bytes(read_text_file(path)); })));
  };
}

void print_on_root(const Communicator& communicator, const std::string& text) {
  if (communicator.rank() != 0) return;
  std::fputs(printable_lines(text).c_str(), stdout);
  std::fflush(stdout);
}

void report_on_root(const Communicator& communicator, const std::string& text) {
  print_on_root(communicator, wrap_lines(text, line_width(stdout)));
}

std::shared_ptr<OutputFolder> take_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings) {
  Communicator& communicator = *setup.communicator;
  auto output = std::make_shared<OutputFolder>(settings.out);
  const Bytes path = run_on_root(communicator, 0, [&] {
    output->take(old_results(setup, settings));
    return text_to_bytes(output->name().string());
  });
  if (communicator.rank() != 0) output->follow(bytes_to_text(path));
  return output;
}

void remove_old_results(Communicator& communicator, const TrainingSettings& settings,
                        const OutputFolder& output) {
  if (!settings.overwrite) return;
  // Where other machines see rank 0's disk, it has removed everything before they look.
  for (const bool is_roots_turn : {true, false})
    run_on_all(communicator, [&] {
      if (communicator.intra_rank() == 0 && (communicator.rank() == 0) == is_roots_turn)
        remove_results(output.path());
    });
}

std::shared_ptr<OutputFolder> find_output_folder(const RankSetup& setup,
                                                 const TrainingSettings& settings) {
  const Bytes path = run_on_root(*setup.communicator, 0, [&] {
    const auto folder = OutputFolder::find(settings.out, old_results(setup, settings));
    check_output_folder(folder);
    return text_to_bytes(folder.string());
  });
  return std::make_shared<OutputFolder>(bytes_to_text(path));
}

}  // namespace tasuki::program
