// Times the exchange of gradients for vectors of several sizes, like nccl-tests: communicators by
// name, from the communicator's memory and from private memory, and plain MPI_Allreduce; with --gpu
// from the GPUs' memory, until they have finished.
//
//   mpirun -np 2 tasuki-bench-allreduce --communicator single_node --min 7200000 --max 7200000
//   mpirun -np 4 tasuki-bench-allreduce --gpu --communicator all --wire-dtype bf16
//   mpirun -np 4 tasuki-bench-allreduce --allreduce all --wire-dtype all --link-rate 1000

#include <fmt/format.h>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "communicator/algorithms/link_probe.hpp"
#include "communicator/gpu/mpi_on_gpus.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/named_file.hpp"
#include "job/run_job.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/device.hpp"
#include "program/start/rank_setup.hpp"
#include "program/start/same_program.hpp"
#include "tensor/backend.hpp"
#include "tools/bench_allreduce/choices.hpp"
#include "tools/bench_allreduce/table.hpp"

namespace tasuki::program {
namespace {

struct Settings {
  std::int64_t min = 8, max = 16 << 20, factor = 4, iterations = 20, warmup = 5;
  std::string communicators = "auto", algorithms = "auto", wires = "fp32";
  std::optional<double> link_rate;  // Mbit/s
  std::optional<std::string> json;
  StallSettings stalls;
  GpuSettings gpu;
};

// Integers whose sums over the ranks are exact in float32.
float value_of(std::int64_t element, int rank) {
  return static_cast<float>(element % 97 + rank);
}
float sum_of(std::int64_t element, int ranks) {
  const std::int64_t sum = element % 97 * ranks + ranks * (ranks - 1) / 2;
  return static_cast<float>(sum);
}

// The largest relative error of a sum over this many ranks if values travel in `dtype`: the sum is
// rounded each time it is sent, at most twice per rank.
double tolerance(DType wire, int ranks) {
  if (wire == DType::float16) return 2 * ranks * std::ldexp(1, -11);
  if (wire == DType::bfloat16) return 2 * ranks * std::ldexp(1, -8);
  return 0;
}

class Bench {
 public:
  // Finds early what cannot run here.
  Bench(const Settings& settings, std::unique_ptr<Communicator> everyone)
      : settings_(settings),
        everyone_(std::move(everyone)),
        device_(choose_device(settings.gpu, *everyone_)),
        algorithms_(algorithms_in(settings.algorithms)),
        wires_(wires_in(settings.wires)),
        setting_{.ranks = everyone_->size(), .nodes = everyone_->inter_size()} {
    if (settings_.link_rate) setting_.link_rate = *settings_.link_rate * 1e6 / 8;
    links_ = probe_links(*everyone_);
    for (const std::string& name : names_in(settings_.communicators, all_kinds())) {
      try {
        const std::vector<Variant> of_kind = variants_of(name);
        (void)create(of_kind.front());
        variants_.insert(variants_.end(), of_kind.begin(), of_kind.end());
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
      measure_all({"MPI_Allreduce", "", "private"}, plain_mpi());
    std::string described;
    for (const Variant& variant : variants_) {
      const auto communicator = create(variant);
      const std::string description = communicator->describe();
      if (std::exchange(described, description) != description)
        print(fmt::format("# {}\n", description));
      ExchangeRow row{variant.communicator,
                      variant.algorithm ? name_of(*variant.algorithm) : "auto", "allocated",
                      variant.wire};
      measure_all(row, exchange_of(*communicator, true));
      row.memory = "private";
      measure_all(row, exchange_of(*communicator, false));
    }
    if (settings_.json) write_on_root(json_text(json_, 2) + "\n");
    return wrong_;
  }

 private:
  // Makes a vector and the operation that exchanges it.
  using Case = std::pair<Tensor, std::function<void()>>;
  using MakeCase = std::function<Case(std::int64_t count)>;

  void write_on_root(const std::string& text) const {
    run_on_root(*everyone_, 0, [&] {
      write_named_file(*settings_.json, text);
      return Bytes{};
    });
  }

  // One way to exchange.
  struct Variant {
    std::string communicator;
    std::optional<AllreduceAlgorithm> algorithm;
    DType wire;
  };

  static std::vector<std::string> all_kinds() {
    std::vector<std::string> names;
    for (const auto& kind : communicator_kinds())
      if (kind.name != "dummy") names.push_back(kind.name);
    return names;
  }

  // With several algorithms or types, those that the communicator does not support are left out.
  std::vector<Variant> variants_of(const std::string& name) const {
    const auto& kinds = communicator_kinds();
    const auto kind = std::ranges::find(kinds, name, &CommunicatorKind::name);
    const bool is_known = kind != kinds.end();
    std::vector<Variant> variants;
    for (const auto& algorithm : algorithms_) {
      if (is_known && algorithms_.size() > 1 && algorithm && !kind->takes_algorithm) continue;
      for (const DType wire : wires_) {
        const bool can_round =
            (!is_known || kind->takes_wire_dtype) && algorithm != AllreduceAlgorithm::mpi;
        if (wires_.size() > 1 && wire != DType::float32 && !can_round) continue;
        variants.push_back({name, algorithm, wire});
      }
    }
    if (variants.empty())
      fail_everywhere(ErrorKind::config, "the communicator {} takes none of {} and {}", name,
                      settings_.algorithms, settings_.wires);
    return variants;
  }

  std::unique_ptr<Communicator> create(const Variant& variant) const {
    return create_communicator(variant.communicator,
                               {.device = device(),
                                .wire_dtype = variant.wire,
                                .gpu_is_shared = device_.gpu_is_shared,
                                .algorithm = variant.algorithm,
                                .link = links_.between.value_or(gigabit_ethernet),
                                .link_inside = links_.inside.value_or(shared_memory_messages)});
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

  // Exchanges, and waits for the end, on asynchronous GPUs, too.
  static void finish(const Tensor& values, const std::function<void()>& exchange) {
    exchange();
    backend(values.device()).synchronize(values.device());
  }

  void measure_all(ExchangeRow row, const MakeCase& make) {
    for (std::int64_t bytes = settings_.min; bytes <= settings_.max; bytes *= settings_.factor) {
      const auto [values, exchange] = make(bytes / static_cast<std::int64_t>(sizeof(float)));
      row.count = values.count();
      row.seconds = time(values, exchange);
      row.wrong = check(values, exchange, row.wire);
      add(row);
      if (settings_.factor == 1) break;
    }
  }

  Percentiles time(const Tensor& values, const std::function<void()>& exchange) {
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
    return percentiles_of({seconds.begin(), seconds.end()});
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
      const auto names = allgather_bytes(*everyone_, text_to_bytes(device_.text));
      for (std::size_t rank = 0; rank < names.size(); ++rank) {
        print(fmt::format("# rank {}: {}\n", rank, bytes_to_text(names[rank])));
        json_["devices"].push_back(bytes_to_text(names[rank]));
      }
    }
    const auto say = [&](const char* place, const char* key, const std::optional<Link>& link) {
      if (!link) return;
      print(fmt::format("# the link {}: {:.1f} us, {:.1f} MB/s, as measured\n", place,
                        link->latency * 1e6, link->bytes_per_second / 1e6));
      json_[key] = {{"latency", link->latency}, {"bytes_per_second", link->bytes_per_second}};
    };
    say("between machines", "link", links_.between);
    say("inside a machine, of messages", "link_inside", links_.inside);
    print(
        "# times over the exchanges; busbw (GB/s) = bytes / median x 2 (p - 1) / p; %bound: of "
        "what --link-rate allows\n");
    print(table_heading());
  }

  void add(const ExchangeRow& row) {
    print(text_of(row, setting_));
    json_["rows"].push_back(json_of(row, setting_));
    wrong_ += row.wrong;
  }

  Settings settings_;
  std::unique_ptr<Communicator> everyone_;
  ChosenDevice device_;
  Algorithms algorithms_;
  std::vector<DType> wires_;
  ExchangeSetting setting_;
  Links links_;                    // as measured
  std::vector<Variant> variants_;  // to be measured
  nlohmann::json json_;
  std::int64_t wrong_ = 0;
};

int bench_allreduce(int argc, char** argv) {
  Settings settings;
  Options options("tasuki-bench-allreduce", "times the exchange of gradients between all ranks",
                  "mpirun -np 4 tasuki-bench-allreduce --communicator all --json allreduce.json");
  constexpr std::int64_t longest = std::int64_t{1} << 33;
  std::vector<std::string> kinds = {"all"}, algorithms = {"all", "auto"};
  for (const CommunicatorKind& kind : communicator_kinds()) kinds.push_back(kind.name);
  for (const AllreduceAlgorithm each : allreduce_algorithms())
    algorithms.emplace_back(name_of(each));
  options.group("What to exchange");
  options.add("min", settings.min, {4, longest}, "BYTES", "smallest vector");
  options.add("max", settings.max, {4, longest}, "BYTES", "largest vector");
  options.add("factor", settings.factor, {1, 1 << 20}, "N",
              "ratio of each size to the previous one; 1: only --min");
  options
      .add("communicator", settings.communicators, "NAMES",
           "communicators, separated by commas; `all`: those that can run here")
      .in_short("communicators, or `all`")
      .choices = kinds;
  options
      .add("allreduce", settings.algorithms, "NAMES",
           "algorithms of communicators that send an allreduce's messages themselves: some of "
           "auto, ring, halving-doubling, tree, direct and mpi, separated by commas, or `all`")
      .in_short("algorithms, or `all`")
      .choices = algorithms;
  options
      .add("wire-dtype", settings.wires, "NAMES",
           "types of gradients on the wire: some of fp32, fp16 and bf16, separated by commas, or "
           "`all`")
      .choices = {"all", "fp32", "fp16", "bf16"};
  add_gpu_flags(options, settings.gpu);
  options.group("How");
  options.add("iterations", settings.iterations, {1, 1'000'000}, "N", "timed exchanges per size");
  options.add("warmup", settings.warmup, {0, 1'000'000}, "N", "exchanges before the timed ones");
  options
      .add("link-rate", settings.link_rate, "none", {0.001, 1e9}, "MBIT",
           "Mbit/s between two machines, in each direction: the table then shows the share of it "
           "that the exchanges reach")
      .in_short("Mbit/s between two machines");
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
