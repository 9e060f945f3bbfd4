// Times the exchange of gradients for vectors of several sizes, as nccl-tests does: communicators
// by name, from memory of the communicator and from private memory, and plain MPI_Allreduce; with
// --gpu from the GPUs' memory, until they are done.
//
//   mpirun -np 2 build/apps/bench_allreduce --communicator single_node --min 7200000 --max 7200000
//   mpirun -np 4 build/apps/bench_allreduce --gpu --communicator all --wire-dtype bf16

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "tasuki/communicator/gpu/mpi_on_gpus.hpp"
#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/start/device.hpp"
#include "tasuki/program/start/setup.hpp"
#include "tasuki/program/start/stalls.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki::program {
namespace {

struct Settings {
  std::int64_t min = 4 << 10, max = 16 << 20, factor = 4, iterations = 20, warmup = 5;
  std::string communicators = "auto";
  std::optional<std::string> json;
  StallSettings stalls;
  GpuSettings gpu;
  DType wire_dtype = DType::float32;
  std::optional<AllreduceAlgorithm> allreduce;
};

// One line of the table.
struct Row {
  std::string communicator, memory;
  std::int64_t count = 0;
  // Least, median and most over the exchanges, each as long as it took on the slowest rank.
  std::array<double, 3> seconds{};
  std::int64_t wrong = 0;  // elements, over all ranks
};

// Integers whose sums over the ranks are exact in float32.
float value_of(std::int64_t element, int rank) {
  return static_cast<float>(element % 97 + rank);
}
float sum_of(std::int64_t element, int ranks) {
  const std::int64_t sum = element % 97 * ranks + ranks * (ranks - 1) / 2;
  return static_cast<float>(sum);
}

// Largest relative error of a sum over this many ranks if values travel in `dtype`: it is rounded
// when it is sent, at most twice for each rank.
double tolerance(DType wire, int ranks) {
  if (wire == DType::float16) return 2 * ranks * std::ldexp(1, -11);
  if (wire == DType::bfloat16) return 2 * ranks * std::ldexp(1, -8);
  return 0;
}

class Bench {
 public:
  // Finds what cannot run here before any time is spent.
  Bench(const Settings& settings, std::unique_ptr<Communicator> everyone)
      : settings_(settings),
        everyone_(std::move(everyone)),
        device_(choose_device(settings.gpu, *everyone_)),
        wire_(settings.wire_dtype) {
    for (const std::string& name : names()) {
      try {
        communicators_.push_back(create_communicator(name, {.device = device(),
                                                            .wire_dtype = wire_,
                                                            .gpu_is_shared = settings_.gpu.share,
                                                            .algorithm = settings_.allreduce}));
      } catch (const Error& error) {
        // With `all`, communicators that this placement does not allow are left out.
        if (settings_.communicators != "all" || error.kind() != ErrorKind::config) throw;
      }
    }
    if (settings_.json) {
      run_on_root(*everyone_, 0, [&] {
        make_output_folder(std::filesystem::absolute(*settings_.json).parent_path());
        return Bytes{};
      });
      write_on_root("");
    }
  }

  // Returns the number of wrong elements over all lines.
  std::int64_t run() {
    print_header();
    if (device().is_cpu() || mpi_reduces_gpu_memory(DType::float32))
      measure_all("MPI_Allreduce", DType::float32, plain_mpi(), "private");
    for (auto& communicator : communicators_) {
      print(fmt::format("# {}\n", communicator->describe()));
      const std::string name = communicator->name();
      measure_all(name, wire_, exchange_of(*communicator, true), "allocated");
      measure_all(name, wire_, exchange_of(*communicator, false), "private");
      communicator.reset();  // the next one may need its memory
    }
    if (settings_.json) write_on_root(json_.dump(2) + "\n");
    return wrong_;
  }

 private:
  // Makes a vector, and the operation that exchanges it.
  using Case = std::pair<Tensor, std::function<void()>>;
  using MakeCase = std::function<Case(std::int64_t count)>;

  void write_on_root(const std::string& text) const {
    run_on_root(*everyone_, 0, [&] {
      write_file(*settings_.json, text);
      return Bytes{};
    });
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    if (settings_.communicators == "all") {
      for (const auto& kind : communicator_kinds())
        if (kind.name != "dummy") names.push_back(kind.name);
      return names;
    }
    std::istringstream list(settings_.communicators);
    for (std::string name; std::getline(list, name, ',');) names.push_back(name);
    return names;
  }

  Device device() const { return device_.device; }

  MakeCase plain_mpi() const {
    return [on = device()](std::int64_t count) -> Case {
      const Tensor values = Tensor::empty({count}, DType::float32, on);
      return {values, [values] {
                backend(values.device()).synchronize(values.device());
                allreduce(values.raw(), values.count(), DType::float32, ReduceOp::sum,
                          MPI_COMM_WORLD);
              }};
    };
  }

  MakeCase exchange_of(Communicator& communicator, bool allocated) const {
    return [&communicator, allocated, on = device()](std::int64_t count) -> Case {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
      const Tensor values =
          allocated ? Tensor(communicator.allocate(bytes, on), 0, {count}, DType::float32)
                    : Tensor::empty({count}, DType::float32, on);
      return {values, [&communicator, values] {
                const GradientView::Segment whole[] = {{0, values.count()}};
                communicator.sum_gradients({values, whole});
              }};
    };
  }

  // Exchanges, and waits for the end also on GPUs, which work asynchronously.
  static void finish(const Tensor& values, const std::function<void()>& exchange) {
    exchange();
    backend(values.device()).synchronize(values.device());
  }

  void measure_all(const std::string& name, DType wire, const MakeCase& make,
                   const std::string& memory) {
    for (std::int64_t bytes = settings_.min; bytes <= settings_.max; bytes *= settings_.factor) {
      const auto [values, exchange] = make(bytes / static_cast<std::int64_t>(sizeof(float)));
      const Row row{name, memory, values.count(), time(values, exchange),
                    check(values, exchange, wire)};
      print_row(row);
      if (settings_.factor == 1) break;
    }
  }

  std::array<double, 3> time(const Tensor& values, const std::function<void()>& exchange) {
    using clock = std::chrono::steady_clock;
    values.fill(0);
    for (std::int64_t turn = 0; turn < settings_.warmup; ++turn) finish(values, exchange);
    const Tensor slowest = Tensor::empty({settings_.iterations}, DType::float64);
    const std::span<double> seconds = slowest.span<double>();
    everyone_->barrier();
    for (double& turn : seconds) {
      const auto start = clock::now();
      finish(values, exchange);
      turn = std::chrono::duration<double>(clock::now() - start).count();
    }
    everyone_->allreduce(slowest, ReduceOp::max);
    std::ranges::sort(seconds);
    return {seconds.front(), seconds[seconds.size() / 2], seconds.back()};
  }

  std::int64_t check(const Tensor& values, const std::function<void()>& exchange, DType wire) {
    const Tensor own = Tensor::empty(values.shape());
    float* elements = own.data<float>();
    for (std::int64_t i = 0; i < own.count(); ++i) elements[i] = value_of(i, everyone_->rank());
    values.copy_from(own);
    finish(values, exchange);
    own.copy_from(values);
    const double off = tolerance(wire, everyone_->size());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < own.count(); ++i) {
      const double expected = sum_of(i, everyone_->size());
      wrong += std::abs(elements[i] - expected) <= off * expected ? 0 : 1;
    }
    const Tensor all = Tensor::full({}, static_cast<double>(wrong), DType::int64);
    everyone_->allreduce(all);
    return static_cast<std::int64_t>(all.item());
  }

  void print(const std::string& text) const {
    if (everyone_->rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  void print_header() {
    const Topology& topology = everyone_->topology();
    json_ = {
        {"ranks", topology.size}, {"hosts", topology.host_of}, {"rows", nlohmann::json::array()}};
    for (int node = 0; node < topology.inter_size; ++node) {
      const auto ranks = topology.ranks_of_node(node);
      print(fmt::format("# node {} ({}): ranks {}\n", node,
                        topology.host_of[static_cast<std::size_t>(ranks.front())],
                        fmt::join(ranks, " ")));
    }
    if (!device().is_cpu()) {
      const auto names = everyone_->allgather_bytes(text_to_bytes(device_.text));
      for (std::size_t rank = 0; rank < names.size(); ++rank) {
        print(fmt::format("# rank {}: {}\n", rank, bytes_to_text(names[rank])));
        json_["devices"].push_back(bytes_to_text(names[rank]));
      }
    }
    json_["wire_dtype"] = name_of(wire_dtypes(), settings_.wire_dtype);
    print("# times over the exchanges; algbw = bytes / median, busbw = algbw x 2 (p - 1) / p\n");
    print(fmt::format("{:>12} {:>10} {:<16} {:<10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>7}\n",
                      "bytes", "floats", "communicator", "memory", "min us", "median us", "max us",
                      "algbw", "busbw", "#wrong"));
  }

  void print_row(const Row& row) {
    const double bytes = static_cast<double>(row.count) * sizeof(float), ranks = everyone_->size();
    const double algorithm_rate = bytes / row.seconds[1] / 1e9;
    const double bus_rate = algorithm_rate * 2 * (ranks - 1) / ranks;
    print(fmt::format(
        "{:>12} {:>10} {:<16} {:<10} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.3f} {:>8.3f} {:>7}\n",
        row.count * 4, row.count, row.communicator, row.memory, row.seconds[0] * 1e6,
        row.seconds[1] * 1e6, row.seconds[2] * 1e6, algorithm_rate, bus_rate, row.wrong));
    json_["rows"].push_back({{"bytes", row.count * 4},
                             {"communicator", row.communicator},
                             {"memory", row.memory},
                             {"min_seconds", row.seconds[0]},
                             {"median_seconds", row.seconds[1]},
                             {"max_seconds", row.seconds[2]},
                             {"algbw_gb_per_s", algorithm_rate},
                             {"busbw_gb_per_s", bus_rate},
                             {"wrong", row.wrong}});
    wrong_ += row.wrong;
  }

  Settings settings_;
  std::unique_ptr<Communicator> everyone_;
  ChosenDevice device_;
  DType wire_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // to be measured
  nlohmann::json json_;
  std::int64_t wrong_ = 0;
};

int bench_allreduce(int argc, char** argv) {
  Settings settings;
  Options options("bench_allreduce", "times the exchange of gradients between all ranks",
                  "mpirun -np 4 bench_allreduce --communicator all --json allreduce.json");
  constexpr std::int64_t longest = std::int64_t{1} << 33;
  options.group("What to exchange");
  options.add("min", settings.min, {4, longest}, "BYTES", "smallest vector");
  options.add("max", settings.max, {4, longest}, "BYTES", "largest vector");
  options.add("factor", settings.factor, {1, 1 << 20}, "N",
              "from one size to the next; 1: --min only");
  options.add("communicator", settings.communicators, "NAMES",
              "communicators, separated by commas; `all`: those that can run here");
  add_allreduce_flag(options, settings.allreduce);
  add_gpu_flags(options, settings.gpu);
  options.add("wire-dtype", settings.wire_dtype, wire_dtypes(), "NAME",
              "fp32, fp16 or bf16: type in which gradients travel");
  options.group("How");
  options.add("iterations", settings.iterations, {1, 1'000'000}, "N", "timed exchanges per size");
  options.add("warmup", settings.warmup, {0, 1'000'000}, "N", "exchanges before the timed ones");
  add_stall_flags(options, settings.stalls);
  options.add("json", settings.json, "none", "FILE", "also write the table to this file");

  auto everyone = create_communicator("naive");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  check_same_program(*everyone, arguments);
  const auto request = options.parse(arguments, read_on_root(*everyone));
  if (request != Options::Request::run) {
    print_on_root(*everyone, options.text(request));
    return 0;
  }
  apply(settings.stalls);
  if (settings.min > settings.max)
    fail_everywhere(ErrorKind::usage, "--min {} is more than --max {}", settings.min, settings.max);
  return Bench(settings, std::move(everyone)).run() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tasuki::program

int main(int argc, char** argv) {
  return tasuki::run_job(argc, argv, tasuki::program::bench_allreduce);
}
