#include "tasuki/program/workers.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tasuki/tensor/cuda_loader.hpp"

namespace tasuki::program {
namespace {

constexpr const char* expected_devices =
    "GPUs by number, each once, or workers on the CPU: 0,1 or cpu:2";
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

BatchSplit parse_split(const std::string& text, std::size_t workers) {
  if (text == "even") return BatchSplit::even(workers);
  if (text == "auto") return BatchSplit::measured(workers);
  std::vector<double> weights;
  weights.reserve(workers);
  try {
    for (const std::string& part : split_at(text, ':'))
      weights.push_back(parse_number(part, {0, 1e9}));
  } catch (const std::invalid_argument&) {
    fail_everywhere(ErrorKind::usage, "--split: expected even, auto, or parts as 3:1, found '{}'",
                    text);
  }
  if (weights.size() != workers || std::ranges::max(weights) <= 0)
    fail_everywhere(ErrorKind::usage,
                    "--split: expected a part for each of {} devices, one of them above 0, found "
                    "'{}'",
                    workers, text);
  return BatchSplit::fixed(std::move(weights));
}

void add_worker_options(Options& options, WorkerSettings& settings) {
  Option devices;
  devices.value_name = "LIST";
  devices.help =
      "what to train on: GPUs by number (`0,1`) or workers on the CPU, each with threads of its "
      "own "
      "(`cpu:2`)";
  devices.set = [&settings](const std::string& text) { settings.devices = parse_devices(text); };
  devices.get = [&settings] { return devices_text(settings.devices); };
  options.add("devices", devices);
  options.add(
      "split", settings.split, "RATIO",
      "how a batch is dealt to the devices: `even`, `auto` (in proportion to their measured "
      "speed) or parts as `3:1`");
}

int threads_of_worker(const Job& job, std::size_t workers) {
  const int count = static_cast<int>(workers);
  // A request is for each of them.
  if (!job.threads.origin.empty()) return job.threads.threads;
  return plan_threads(std::nullopt, job.processors.cores, count,
                      static_cast<int>(job.processors.cpus.size()) / count)
      .threads;
}

void prepare_devices(const std::vector<Device>& devices) {
  for (const Device device : devices) {
    if (device.is_cpu()) continue;
    int visible = 0;
    try {
      visible = load_cuda_backend();
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("--devices: {} (--devices cpu:2)", error.what()),
                  ErrorScope::every_rank);
    }
    if (device.index >= visible)
      fail_everywhere(ErrorKind::config,
                      "--devices: GPU {} was asked for, this process sees {}; see nvidia-smi",
                      device.index, visible);
  }
}

}  // namespace tasuki::program
