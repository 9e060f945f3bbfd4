#include "program/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tensor/cuda_loading/loader.hpp"

namespace tasuki::program {
namespace {

constexpr const char* expected_devices =
    "numbers of different GPUs (0,1), or a number of workers on the CPU (cpu:2)";
constexpr std::size_t most_workers = 1024;

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text + separator);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

void append_devices(const std::string& word, std::vector<Device>& devices) {
  if (word == "cpu" || word.starts_with("cpu:")) {
    const std::int64_t count =
        word == "cpu" ? 1 : parse_integer(word.substr(4), {1, std::int64_t{most_workers}});
    devices.insert(devices.end(), static_cast<std::size_t>(count), Device::cpu());
    return;
  }
  const Device gpu = Device::cuda(static_cast<int>(parse_integer(word, {0, 1023})));
  if (std::ranges::find(devices, gpu) != devices.end())
    throw std::invalid_argument(expected_devices);
  devices.push_back(gpu);
}

}  // namespace

std::vector<Device> parse_devices(const std::string& text) {
  std::vector<Device> devices;
  try {
    for (const std::string& word : split_at(text, ',')) append_devices(word, devices);
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument(expected_devices);
  }
  if (devices.empty() || devices.size() > most_workers)
    throw std::invalid_argument(expected_devices);
  return devices;
}

std::string devices_text(const std::vector<Device>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    if (i > 0) text += ',';
    std::size_t end = i + 1;
    if (devices[i].is_cpu()) {
      while (end < devices.size() && devices[end].is_cpu()) ++end;
      text += fmt::format("cpu:{}", end - i);
    } else {
      text += std::to_string(devices[i].index);
    }
    i = end;
  }
  return text;
}

std::string worker_names(const std::vector<Device>& devices) {
  std::string text;
  std::vector<Device> seen;
  for (const Device device : devices) {
    if (std::ranges::find(seen, device) != seen.end()) continue;
    seen.push_back(device);
    text += (text.empty() ? "" : ", ") + device.text();
  }
  return text;
}

namespace {

using Split = WorkerSettings::Split;

void parse_split(const std::string& text, WorkerSettings& settings) {
  std::vector<double> parts;
  if (text != "even" && text != "auto") {
    try {
      for (const std::string& part : split_at(text, ':'))
        parts.push_back(parse_number(part, {0, 1e9}));
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument("even, auto, or parts such as 3:1");
    }
  }
  settings.split = text == "even" ? Split::even : text == "auto" ? Split::measured : Split::fixed;
  settings.parts = std::move(parts);
}

}  // namespace

std::string split_text(const WorkerSettings& settings) {
  if (settings.split == Split::fixed) return fmt::format("{}", fmt::join(settings.parts, ":"));
  return settings.split == Split::even ? "even" : "auto";
}

BatchSplit split_of(const WorkerSettings& settings) {
  const std::size_t workers = settings.devices.size();
  if (settings.split == Split::even) return BatchSplit::even(workers);
  if (settings.split == Split::measured) return BatchSplit::measured(workers);
  if (settings.parts.size() != workers || std::ranges::max(settings.parts) <= 0)
    fail_everywhere(
        ErrorKind::usage,
        "--split: expected a part for each of {} devices, at least one of them above 0, found '{}'",
        workers, split_text(settings));
  return BatchSplit::fixed(settings.parts);
}

void add_worker_flags(Options& options, WorkerSettings& settings) {
  Option devices;
  devices.value_name = "LIST";
  devices.help =
      "devices to train on: GPUs by number (`0,1`), or workers on the CPU (`cpu:2`), each with its "
      "threads";
  devices.set = [&settings](const std::string& text) { settings.devices = parse_devices(text); };
  devices.get = [&settings] { return devices_text(settings.devices); };
  options.add("devices", devices).common();
  Option split;
  split.value_name = "RATIO";
  split.help =
      "how a batch is divided among the devices: `even`, `auto` (in proportion to their measured "
      "speed) or parts such as `3:1`";
  split.set = [&settings](const std::string& text) { parse_split(text, settings); };
  split.get = [&settings] { return split_text(settings); };
  options.add("split", split).common("parts of a batch for the devices");
}

int threads_of_worker(const Processors& processors, const ThreadPlan& threads,
                      std::size_t workers) {
  const int count = static_cast<int>(workers);
  // A requested number of threads is for each worker.
  if (!threads.origin.empty()) return threads.threads;
  return plan_threads(std::nullopt, processors.cores, count,
                      static_cast<int>(processors.cpus.size()) / count)
      .threads;
}

void prepare_devices(const std::vector<Device>& devices) {
  for (const Device device : devices) {
    if (device.is_cpu()) continue;
    int visible = 0;
    try {
      visible = load_cuda_backend();
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("--devices: {} (on the CPU: --devices cpu:2)", error.what()),
                  ErrorScope::every_rank);
    }
    if (device.index >= visible)
      fail_everywhere(
          ErrorKind::config,
          "--devices: GPU {} does not exist, this process sees {} (nvidia-smi lists them)",
          device.index, visible);
  }
}

}  // namespace tasuki::program
