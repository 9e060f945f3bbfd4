// The flags of one process that computes on several devices: --devices and --split.
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "core/text_parts.hpp"
#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

constexpr const char* expected_devices =
    "numbers of different GPUs (0,1), or a number of workers on the CPU (cpu:2)";
constexpr std::size_t most_workers = 1024;

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
    for (const std::string& word : text_parts(text, ',')) append_devices(word, devices);
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

namespace {

using Split = WorkerSettings::Split;

void parse_split(const std::string& text, WorkerSettings& settings) {
  std::vector<double> parts;
  if (text != "even" && text != "auto") {
    try {
      for (const std::string& part : text_parts(text, ':'))
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

void add_worker_flags(Options& options, WorkerSettings& settings) {
  Option devices;
  devices.value_name = "LIST";
  devices.help =
      "devices to train on: GPUs by number (`0,1`), or workers on the CPU (`cpu:2`), each with "
      "its own threads";
  devices.set = [&settings](const std::string& text) { settings.devices = parse_devices(text); };
  devices.get = [&settings] { return devices_text(settings.devices); };
  options.add("devices", devices).common();
  Option split;
  split.value_name = "RATIO";
  split.help =
      "how a batch is divided among the devices: `even`, `auto` (in proportion to their measured "
      "speed) or parts such as `3:1`";
  split.choices = {"even", "auto"};
  split.set = [&settings](const std::string& text) { parse_split(text, settings); };
  split.get = [&settings] { return split_text(settings); };
  options.add("split", split).common("parts of a batch for the devices");
}

}  // namespace tasuki::program
