#include "common/batch_size.hpp"

#include <algorithm>
#include <new>

#include "common/console.hpp"
#include "common/input.hpp"
#include "common/precision.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/host_memory.hpp"
#include "tasuki/tensor/out_of_memory.hpp"
#include "tasuki/tensor/storage.hpp"
#include "tasuki/training/batch_memory.hpp"

namespace tasuki::apps {
namespace {

// Without agreement between ranks.
BatchSearch search_on(const Job& job, const TrainingSettings& settings, const DatasetHeader& train,
                      const LossFunction& loss) {
  const Device device = job.device;
  const DeviceMemory memory = backend(device).memory(device);
  // Ranks of a node share its memory; some is left to what grows besides (MPI, the C library).
  const std::size_t free = device.is_cpu()
                               ? find_host_memory({}, job.communicator->intra_size()).free +
                                     host_pool_statistics().cached
                               : memory.free;
  const double usable = 0.95 * static_cast<double>(free);
  // Batches that were read ahead lie in host memory.
  const std::size_t ahead =
      device.is_cpu()
          ? static_cast<std::size_t>(batches_ahead(settings, train) * train.example_shape.count()) *
                sizeof(float)
          : 0;
  BatchSearch search;
  search.capacity = memory.in_use + static_cast<std::size_t>(usable);
  search.limit = std::clamp<std::int64_t>(train.count / job.communicator->size(), 1, 1 << 24);
  search.peak_of = [device, dtype = choose_precision(settings.dtype, job.device).activations, train,
                    loss, ahead](std::int64_t n) {
    return measure_step(n, train, device, dtype, loss).peak + static_cast<std::size_t>(n) * ahead;
  };
  return search;
}

std::string advice(std::int64_t batch) {
  return batch > 0 ? fmt::format("the largest batch that fits is --batchsize {}", batch)
                   : "not even one example fits: take a smaller model";
}

}  // namespace

void print_largest_batch(const Job& job, const TrainingSettings& settings,
                         const DatasetHeader& train, const LossFunction& loss) {
  Communicator& comm = *job.communicator;
  BatchSearch search = search_on(job, settings, train, loss);
  search.least = [&comm](std::int64_t own) {
    const Tensor least = Tensor::from(std::span<const std::int64_t>(&own, 1), Shape{});
    comm.allreduce(least, ReduceOp::min);
    return *least.data<std::int64_t>();
  };
  search.trying = [](std::int64_t n) { log_info("trying a step of {} examples on each rank", n); };
  const std::int64_t found = find_largest_batch(search);
  if (found == 0) fail_everywhere(ErrorKind::unavailable, "--find-batchsize: {}", advice(0));
  const bool is_limit = found == search.limit;
  print_on_root(comm,
                fmt::format("Largest batch: --batchsize {} ({})\n", found,
                            is_limit ? "all examples of a rank"
                                     : fmt::format("with {:.0f} MB of memory for a rank",
                                                   static_cast<double>(search.capacity) / 1e6)));
}

void train_within_memory(const Job& job, const TrainingSettings& settings,
                         const DatasetHeader& data, const LossFunction& loss,
                         const std::function<void()>& train) {
  std::string problem;
  try {
    return train();
  } catch (const OutOfMemory& error) {
    problem = error.what();
  } catch (const std::bad_alloc&) {
    problem = fmt::format("out of memory, {:.0f} MB are free",
                          static_cast<double>(backend(job.device).memory(job.device).free) / 1e6);
  }
  // What the failed step held is free again here. The other ranks wait, and say nothing.
  BatchSearch search = search_on(job, settings, data, loss);
  search.trying = [&problem](std::int64_t n) {
    log_warning("{}; trying whether a step of {} examples fits", problem, n);
  };
  fail(ErrorKind::unavailable, "{}; {}", problem, advice(find_largest_batch(search)));
}

}  // namespace tasuki::apps
