#include "tasuki/training/recording/device_steps.hpp"

#include <fmt/format.h>

#include <utility>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t most_scalars = 16;  // of a step

}  // namespace

DeviceSteps::DeviceSteps(Device device, GraphMode mode, RecordedSteps::Agree agree)
    : device_(device),
      block_(device),
      row_(block_.reserve(1, DType::int64)),
      recorded_(
          device.is_cpu() ? GraphMode::off : mode,
          [device](const RecordedSteps::Work& work) {
            return backend(device).record(device, work);
          },
          std::move(agree)) {
  if (!device.is_cpu()) journal_.emplace(device, most_scalars);
}

void DeviceSteps::join(Iterator& iterator) {
  if (device_.is_cpu()) return;
  iterator.join(block_);
  if (!iterator.can_be_recorded())
    recorded_.refuse(
        "batches come from an iterator that makes each in memory of its own, where a recorded step "
        "would not find the next one (Iterator::can_be_recorded)");
}

Observation DeviceSteps::run(const RecordedSteps::Key& key,
                             const std::function<Observation()>& work, bool is_alike) {
  if (!journal_) return work();
  block_.host<std::int64_t>(row_)[0] = journal_->open_row();
  block_.send();
  Report& report = reports_[key];
  recorded_.run(
      key, [&] { post(work(), report); }, is_alike);
  if (report.has_numbers_of_host)
    recorded_.refuse("what the loss function reports is computed by the host in each step");

  Observation seen = report.rest;
  for (std::size_t i = 0; i < report.columns.size(); ++i) {
    const auto& [name, factor] = report.columns[i];
    seen.add(name, journal_->cell(static_cast<std::int64_t>(i), factor), 0);
  }
  return seen;
}

void DeviceSteps::post(const Observation& found, Report& report) {
  report = {};
  std::vector<Tensor> scalars;
  for (const auto& [key, value] : found.known()) {
    report.rest.add(key, value.sum, value.count, value.reach);
    const auto terms = found.terms().find(key);
    if (terms == found.terms().end()) {
      report.has_numbers_of_host = true;
      continue;
    }
    for (const Observation::Term& term : terms->second) {
      scalars.push_back(term.value);
      report.columns.push_back({key, term.factor});
    }
  }
  journal_->post(block_.on_device(row_).reshape({}), scalars);
}

}  // namespace tasuki
