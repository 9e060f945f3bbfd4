// --gpu, --threads, --dtype and the other flags about the devices that compute.
#include <fmt/core.h>

#include <stdexcept>

#include "program/flags/flag_groups.hpp"

namespace tasuki::program {

const std::vector<Choice<ComputeType>>& compute_types() {
  static const std::vector<Choice<ComputeType>> types = {{"fp32", ComputeType::fp32},
                                                         {"tf32", ComputeType::tf32},
                                                         {"bf16", ComputeType::bf16},
                                                         {"fp16", ComputeType::fp16}};
  return types;
}

void add_gpu_flags(Options& options, GpuSettings& settings) {
  Option option;
  option.value_name = "N";
  option.help =
      "compute on GPUs. Without a value, or with `auto`, each rank uses the GPU whose number is "
      "its rank within the node; with N, every rank uses GPU N, which allows only one rank per "
      "node (unless --share-gpu is given)";
  option.implicit = "auto";
  option.choices = {"auto", "none"};
  option.set = [&settings](const std::string& text) {
    std::optional<int> number;
    if (text != "none" && text != "auto") {
      try {
        number = static_cast<int>(parse_integer(text, {0, 1023}));
      } catch (const std::invalid_argument& expected) {
        throw std::invalid_argument(fmt::format("{}, 'auto' or 'none'", expected.what()));
      }
    }
    settings.is_wanted = text != "none";
    settings.number = number;
  };
  option.get = [&settings]() -> std::string {
    if (!settings.is_wanted) return "none";
    return settings.number ? std::to_string(*settings.number) : "auto";
  };
  options.add("gpu,g", option).common("compute on GPUs, or on GPU N");
  options.add("share-gpu", settings.share,
              "let several ranks compute on one GPU: correct but slow, for tests");
}

void add_processor_flags(Options& options, std::optional<std::int64_t>& threads,
                         ConvAlgorithm& conv) {
  options
      .add("threads", threads, "auto", thread_numbers, "N",
           "threads per rank; `auto`: OMP_NUM_THREADS if set, else the node's cores divided "
           "among its ranks, at most the cores to which mpirun binds the rank")
      .common();
  options.add("conv", conv,
              {{"auto", ConvAlgorithm::fastest},
               {"direct", ConvAlgorithm::direct},
               {"winograd", ConvAlgorithm::winograd},
               {"interleaved", ConvAlgorithm::interleaved},
               {"by-shape", ConvAlgorithm::by_shape}},
              "NAME",
              "auto, direct, winograd, interleaved or by-shape: convolution algorithm on CPUs; "
              "`auto` times the promising ones once per shape and keeps the fastest; `by-shape` "
              "chooses by a table, without timing; all but `auto` give the same bits in every run");
}

void add_device_flags(Options& options, TrainingSettings& settings) {
  add_gpu_flags(options, settings.gpu);
  add_processor_flags(options, settings.threads, settings.conv);
  options.add("isa", settings.isa,
              {{"native", InstructionLimit::none},
               {"avx2", InstructionLimit::avx2},
               {"avx512", InstructionLimit::avx512}},
              "SET",
              "native, avx2 or avx512: the most capable instructions to compute with on CPUs. With "
              "--reproducible, processors of several types may then round alike; see "
              "docs/reproducibility.md");
  options.add(
      "dtype", settings.dtype, compute_types(), "NAME",
      "fp32, tf32, bf16 or fp16: number type for computations; bf16 and fp16 are that of "
      "activations, their gradients and the factors of products, tf32 that of the factors alone. "
      "Weights and sums stay fp32. tf32 and fp16 need a GPU; fp16 uses dynamic loss scaling");
  options.add("graph", settings.graph,
              {{"auto", GraphMode::automatic}, {"on", GraphMode::on}, {"off", GraphMode::off}},
              "WHEN",
              "auto, on or off: record a training step on a GPU as a CUDA graph and replay it; "
              "`auto`: if possible; `on`: fail if it is not possible");
  options.add("step-times", settings.step_times,
              {{"auto", StepTiming::automatic}, {"on", StepTiming::on}, {"off", StepTiming::off}},
              "WHEN",
              "auto, on or off: on GPUs, time the parts of each step, for the log's time/ keys and "
              "the table at the end; that takes three kernels of about 3 us a step; `auto`: with "
              "several devices. CPUs always do");
  options.add(
      "autotune", settings.autotune,
      "on GPUs, time all of cuDNN's algorithms once per shape instead of asking cuDNN for one");
  options.add("deterministic", settings.deterministic,
              "on GPUs, use only algorithms that give the same bits in every run; cannot be "
              "combined with --autotune");
  if (settings.workers) add_worker_flags(options, *settings.workers);
}

}  // namespace tasuki::program
