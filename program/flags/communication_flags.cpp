// --communicator, --exchange and the other flags about how ranks sum gradients and share weights.
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "communicator/registry.hpp"
#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

void add_communicator_flag(Options& options, TrainingSettings& settings) {
  std::vector<std::string> names(communicator_kinds().size());
  std::ranges::transform(communicator_kinds(), names.begin(), &CommunicatorKind::name);
  options
      .add("communicator", settings.communicator, names, "NAME",
           "how gradients are summed over the ranks; `help` lists the names")
      .common("how to sum gradients, or `help`")
      .listing = communicator_help;
}

Option compress_flag(TrainingSettings& settings) {
  Option option;
  option.value_name = "METHOD";
  option.help =
      "none or powersgd:R: on CPUs, send a low-rank approximation (matrix rank R) of each "
      "parameter's gradient (PowerSGD), and add its error to the next step's gradient. Gradients "
      "then travel after the backward pass";
  option.choices = {"none", "powersgd:4"};
  option.set = [&settings](const std::string& text) {
    const std::string method = "powersgd:";
    if (text != "none" && !text.starts_with(method))
      throw std::invalid_argument("'none' or 'powersgd:R' with a rank R, such as powersgd:4");
    settings.power_sgd_rank =
        text == "none" ? 0 : parse_integer(std::string_view(text).substr(method.size()), {1, 1024});
  };
  option.get = [&settings]() -> std::string {
    return settings.power_sgd_rank == 0 ? "none"
                                        : fmt::format("powersgd:{}", settings.power_sgd_rank);
  };
  return option;
}

}  // namespace

const std::vector<Choice<DType>>& wire_dtypes() {
  static const std::vector<Choice<DType>> types = {
      {"fp32", DType::float32}, {"fp16", DType::float16}, {"bf16", DType::bfloat16}};
  return types;
}

void add_allreduce_flag(Options& options, std::optional<AllreduceAlgorithm>& algorithm) {
  std::vector<Choice<AllreduceAlgorithm>> choices;
  for (const AllreduceAlgorithm each : allreduce_algorithms())
    choices.push_back({name_of(each), each});
  options.add(
      "allreduce", algorithm, "auto", choices, "NAME",
      "auto, ring, halving-doubling, tree, direct or mpi: algorithm of hierarchical, "
      "two_dimensional, non_cuda_aware and flat; `auto`: the one with the lowest predicted time "
      "(flat: MPI_Allreduce). No effect where MPI itself sums values in GPU memory");
}

void add_probe_flag(Options& options, LinkProbe& probe) {
  options.add(
      "probe", probe,
      std::vector<Choice<LinkProbe>>{{"on", LinkProbe::on}, {"off", LinkProbe::off}}, "on|off",
      "on: at the start, measure latency and bandwidth of messages between and inside machines (at "
      "most 0.3 s) for `--allreduce auto` without `--reproducible`; later runs read them from "
      "link.json in the output folder; off: assume 50 us and 1 Gbit/s between machines, 1 us and 4 "
      "GB/s inside");
}

void add_communication_flags(Options& options, TrainingSettings& settings) {
  add_communicator_flag(options, settings);
  options.add(
      "wire-dtype", settings.wire_dtype, wire_dtypes(), "NAME",
      "fp32, fp16 or bf16: type of gradients on the wire between machines (naive, flat and NCCL: "
      "between ranks); 16 bits halve the traffic, but round sums each time they are sent");
  add_allreduce_flag(options, settings.allreduce);
  add_probe_flag(options, settings.probe);
  options.add(
      "exchange", settings.exchange, "auto",
      std::vector<Choice<ExchangeMode>>{{"overlapped", ExchangeMode::overlapped},
                                        {"slices", ExchangeMode::slices},
                                        {"thread", ExchangeMode::thread},
                                        {"whole", ExchangeMode::whole},
                                        {"double-buffered", ExchangeMode::double_buffered}},
      "NAME",
      "when gradients are exchanged. On CPUs, `slices`: during the backward pass, by the computing "
      "thread, a piece after each layer (hierarchical and two_dimensional on several machines, "
      "flat with --allreduce; otherwise like whole); `thread`: during the backward pass, by a "
      "second thread; `whole`: after the backward pass; `overlapped`: slices or thread, whichever "
      "is possible and faster in the first "
      "steps; `auto`: if ranks are on several machines, the fastest of slices, thread and whole, "
      "else `whole`. On GPUs, `whole`: after the backward pass; `auto`, `overlapped`, `slices` and "
      "`thread`: during the backward pass if the communicator is pure_nccl or single_node and "
      "--sync-bn is not given, otherwise after the backward pass. `double-buffered`, on CPUs and "
      "GPUs: during the next step, whose update uses "
      "these gradients, as in ChainerMN; the first step updates nothing, and evaluations and "
      "snapshots wait for the last gradients; on GPUs not with --sync-bn. All choices except "
      "`double-buffered` give the same results up to rounding");
  options.add("bucket-mb", settings.bucket_mb, "auto", {0.001, 1e5}, "MB",
              "MiB of gradients sent at a time; `auto`: a sixteenth of all gradients, but at least "
              "1 (on GPUs 4) and at most 25. If --exchange is not given either, all gradients are "
              "sent at once on CPUs of one machine. On GPUs, `auto` does not divide a layer's "
              "weights, and sends all gradients at once after the backward pass (--exchange whole, "
              "--sync-bn); a 16-bit --wire-dtype takes memory of half of what is sent at a time. "
              "Communicators other than "
              "pure_nccl and single_node always send all gradients of GPUs at once");
  options.add(
      "sync-bn", settings.sync_bn,
      "batch normalisation over the global batch, with two small allreduces per layer and step");
  options.add(
      "error-feedback", settings.error_feedback,
      "on CPUs, with a 16-bit --wire-dtype: keep the rounding errors of gradients (4 bytes of "
      "memory each) and add them in the next step; cannot be combined with --compress");
  options.add("compress", compress_flag(settings));
  options.add(
      "node-weights", settings.node_weights,
      {{"shared", NodeWeights::shared}, {"private", NodeWeights::separate}}, "NAME",
      "shared: on CPUs, the ranks of a machine (of a socket, if they are bound to sockets) share "
      "one copy of weights and optimizer states, and each updates a part (with naive, flat and "
      "dummy each rank has its own copy nevertheless); private: each rank has its own copy. "
      "Results are the same");
  add_local_step_flags(options, settings);
}

}  // namespace tasuki::program
