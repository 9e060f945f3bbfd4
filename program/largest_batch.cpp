#include "program/largest_batch.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/log.hpp"
#include "core/printable.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "program/data/training_data.hpp"
#include "program/flags/batch_sizes.hpp"
#include "tensor/backend.hpp"
#include "tensor/host_memory.hpp"
#include "tensor/out_of_memory.hpp"
#include "tensor/storage.hpp"
#include "training/batch_memory.hpp"

namespace tasuki::program {
namespace {

// The part of the free memory that the largest batch may fill. The rest is for memory that does not
// grow in proportion to the batch, as the prediction assumes.
constexpr double usable_part = 0.95;

// A memory that a step fills, and what data occupy in it.
struct Place {
  Device device;
  std::size_t free = 0;      // bytes
  std::size_t resident = 0;  // bytes that data and their loaders will occupy in a run
  std::size_t each = 0;      // bytes of data per example of a batch, besides those of the step
};

// A thread takes a stack and an arena of malloc's, most of which is never touched: they count only
// if address space itself is limited (ulimit -v).
std::size_t address_space_of_loaders(const TrainingSettings& settings, const TrainingData& data) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  // Defaults of Linux and glibc: a stack of 8 MiB, an arena of 64 MiB.
  constexpr std::size_t of_thread = std::size_t{8 + 64} << 20;
  const std::int64_t threads =
      loader_threads(settings, data.train.header) +
      (data.test ? loader_threads(settings, data.test->share->dataset->header()) : 0);
  return of_thread * static_cast<std::size_t>(threads);
}

// Ranks of a node share its memory; some is left for what else grows (MPI, the C library). The
// shares are loaded already; batches are read ahead.
Place host_memory(const RankSetup& setup, const TrainingSettings& settings,
                  const TrainingData& data) {
  Place place{.device = Device::cpu()};
  const std::size_t unused = find_host_memory({}, setup.communicator->intra_size()).free;
  const std::size_t cached = host_pool_statistics().cached;
  const std::size_t free = unused + std::min(cached, ~std::size_t{0} - unused);
  place.free = free - std::min(free, host_memory_reserve);
  place.resident = address_space_of_loaders(settings, data);
  place.each = static_cast<std::size_t>(batches_ahead(settings, data.train.header)) *
               batch_bytes(data.longest);
  return place;
}

// If batches are made on the GPU, it holds the shares, or else the batches in use.
Place gpu_memory(Device device, const RankSetup& setup, const TrainingData& data) {
  Place place{.device = device, .free = backend(device).memory(device).free};
  if (setup.batch_device != device) return place;
  std::vector<const Share*> shares = {&*data.train.share};
  if (data.test) shares.push_back(&*data.test->share);
  for (const Share* share : shares) {
    if (lives_on_device(*share->dataset, place.free - place.resident))
      place.resident += resident_bytes(*share->dataset);
    else
      place.each += batch_bytes(data.longest);
  }
  return place;
}

std::vector<Place> places_of(const RankSetup& setup, const TrainingSettings& settings,
                             const TrainingData& data) {
  // Batches that are dealt to devices come from the host.
  std::vector<Device> devices = setup.devices;
  devices.push_back(setup.batch_device);
  std::vector<Place> places;
  for (const Device device : devices)
    if (std::ranges::find(places, device, &Place::device) == places.end())
      places.push_back(device.is_cpu() ? host_memory(setup, settings, data)
                                       : gpu_memory(device, setup, data));
  return places;
}

// Searches without agreement between ranks.
BatchSearch search_in(const std::vector<Place>& places, const RankSetup& setup,
                      const TrainingData& data, const TrialStep& trial) {
  BatchSearch search;
  std::vector<std::size_t> most;  // upper limits of the bytes in use
  for (const Place& place : places) {
    const std::size_t in_use = backend(place.device).memory(place.device).in_use;
    const std::size_t free = place.free - std::min(place.free, place.resident);
    const double usable = usable_part * static_cast<double>(free);
    search.capacities.push_back(in_use + static_cast<std::size_t>(usable));
    most.push_back(in_use + free);
  }
  search.limit = std::clamp<std::int64_t>(data.train.header.count / setup.communicator->size(), 1,
                                          batch_sizes.most);
  search.peaks_of = [places, most, &data, &trial](std::int64_t n) {
    // What an earlier step has left in the pool would reduce what libraries can take, and they do
    // not always notice.
    give_back_cached_host_memory();
    for (const Place& place : places) backend(place.device).reset_peak_memory(place.device);
    trial(n, data.longest);
    std::vector<std::size_t> peaks;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      peaks.push_back(backend(place.device).memory(place.device).peak +
                      static_cast<std::size_t>(n) * place.each);
      // The memory of data that are not loaded in this step.
      if (peaks.back() > most[i]) throw std::bad_alloc();
    }
    return peaks;
  };
  return search;
}

std::string advice(std::int64_t batch) {
  return batch > 0 ? fmt::format("{}{}", advice_on_batch, batch)
                   : "not even one example fits: use a smaller model";
}

double megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

std::string describe(const std::vector<Place>& places, const BatchSearch& search) {
  if (places.size() == 1)
    return fmt::format("with {:.0f} MB of memory per rank", megabytes(search.capacities[0]));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < places.size(); ++i)
    texts.push_back(
        fmt::format("{:.0f} MB on {}", megabytes(search.capacities[i]), places[i].device.text()));
  return fmt::format("with {}", join(texts, ", "));
}

}  // namespace

void print_largest_batch(const RankSetup& setup, const TrainingSettings& settings,
                         const TrainingData& data, const TrialStep& trial) {
  Communicator& comm = *setup.communicator;
  const std::vector<Place> places = places_of(setup, settings, data);
  BatchSearch search = search_in(places, setup, data, trial);
  search.least = [&comm](std::int64_t own) {
    const Tensor least = Tensor::from(std::span<const std::int64_t>(&own, 1), Shape{});
    comm.allreduce(least, ReduceOp::min);
    return *least.data<std::int64_t>();
  };
  search.trying = [](std::int64_t n) { log_info("trying a step of {} examples on each rank", n); };
  const std::int64_t found = find_largest_batch(search);
  if (found == 0) fail_everywhere(ErrorKind::unavailable, "--find-batchsize: {}", advice(0));
  const bool is_limit = found == search.limit;
  report_on_root(comm, fmt::format("Largest batch: --batchsize {} ({})\n", found,
                                   is_limit ? "all examples of a rank" : describe(places, search)) +
                           (settings.recompute == Recompute::none
                                ? ""
                                : "This is with all blocks recomputed (--recompute)\n"));
}

StepRoom room_beside_step(const RankSetup& setup, const TrainingSettings& settings,
                          const TrainingData& data, const TrialStep& trial, std::int64_t n) {
  const std::vector<Place> places = places_of(setup, settings, data);
  const BatchSearch search = search_in(places, setup, data, trial);
  const auto own = std::ranges::find(places, setup.device(), &Place::device) - places.begin();
  const auto i = static_cast<std::size_t>(own);
  const std::size_t before = backend(setup.device()).memory(setup.device()).in_use;
  try {
    const std::size_t peak = search.peaks_of(n).at(i);
    return {peak - std::min(peak, before),
            search.capacities[i] - std::min(peak, search.capacities[i])};
  } catch (const OutOfMemory&) {
    return {};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void run_within_memory(const RankSetup& setup, const TrainingSettings& settings,
                       const TrainingData& data, const TrialStep& trial, const RecomputePlan& plan,
                       const std::function<void()>& run, const std::function<void()>& end) {
  std::string problem;
  try {
    return run();
  } catch (const OutOfMemory& error) {
    problem = error.what();
  } catch (const std::bad_alloc&) {
    const Device device = setup.device();
    problem = fmt::format("out of memory; {:.0f} MB are free",
                          megabytes(backend(device).memory(device).free));
  }
  // Not while the exception unwinds, when nothing waits for a GPU. The other ranks wait silently.
  end();
  BatchSearch search = search_in(places_of(setup, settings, data), setup, data, trial);
  search.trying = [&problem](std::int64_t n) {
    log_warning("{}; trying whether a step of {} examples fits", problem, n);
  };
  const std::string batch = advice(find_largest_batch(search));
  const std::size_t kept = plan.blocks() - plan.recomputed();
  fail(ErrorKind::unavailable, "{}; {}{}", problem, batch,
       kept > 0 ? fmt::format(", and --recompute {} takes less memory ({} of the model's {} blocks "
                              "keep what they compute)",
                              settings.recompute == Recompute::none && !settings.workers &&
                                      !settings.sync_bn
                                  ? "auto"
                                  : "all",
                              kept, plan.blocks())
                : "");
}

}  // namespace tasuki::program
