// The groups of a training's flags, some of which programs that do not train have as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"

namespace tasuki::program {

// The most that flags take which count epochs, iterations, checkpoints, ...
inline constexpr std::int64_t billion = 1'000'000'000;

// --optimizer unless `has_name` is false, --lr and the other flags of the learning rate,
// --momentum, --weight-decay, ...
void add_optimizer_flags(Options& options, TrainingSettings& settings, bool has_name);
// Refuses flags that belong to another --lr-schedule.
void check_learning_rate_flags(const Options& options, const TrainingSettings& settings);

// --checkpoint-every, --keep, --keep-best, --snapshot-every.
void add_checkpoint_flags(Options& options, TrainingSettings& settings);
// Throws a usage error if these flags contradict each other.
void check_checkpoint_flags(const Options& options, const TrainingSettings& settings);
// The value of --checkpoint-every: "20it", "0.5epoch", "10min" or "90s". Throws
// std::invalid_argument with what was expected.
CheckpointPeriod parse_checkpoint_period(const std::string& text);
std::string to_text(const CheckpointPeriod& period);

// How ranks communicate: --communicator, --exchange, --compress, --node-weights, those below, ...
void add_communication_flags(Options& options, TrainingSettings& settings);
// --sync-every, --outer-optimizer, ...
void add_local_step_flags(Options& options, TrainingSettings& settings);
// Refuses what local steps exclude, and flags about them without --sync-every.
void check_local_step_flags(const Options& options, const TrainingSettings& settings);
// --allreduce; empty: `auto`.
void add_allreduce_flag(Options& options, std::optional<AllreduceAlgorithm>& algorithm);
// --probe
void add_probe_flag(Options& options, LinkProbe& probe);

// The devices that compute: --dtype, --graph, those below, ...; --devices and --split only if
// settings.workers is set.
void add_device_flags(Options& options, TrainingSettings& settings);
// --gpu (none, auto, or a number) and --share-gpu.
void add_gpu_flags(Options& options, GpuSettings& settings);
// The range of --threads and OMP_NUM_THREADS.
inline constexpr IntegerRange thread_numbers = {1, 4096};
// --threads and --conv.
void add_processor_flags(Options& options, std::optional<std::int64_t>& threads,
                         ConvAlgorithm& conv);
// --devices and --split.
void add_worker_flags(Options& options, WorkerSettings& settings);

// What names a map of names (saving/name_map.hpp) besides a file, and `auto`.
std::vector<std::string> name_map_words();

// The values of --wire-dtype and --dtype.
const std::vector<Choice<DType>>& wire_dtypes();
const std::vector<Choice<ComputeType>>& compute_types();

// "0,1" are GPUs by number, each once; "cpu" is a worker on the CPU, "cpu:2" are two. Throws
// std::invalid_argument with what was expected.
std::vector<Device> parse_devices(const std::string& text);
std::string devices_text(const std::vector<Device>& devices);
// "even", "auto", "3:1".
std::string split_text(const WorkerSettings& settings);

}  // namespace tasuki::program
