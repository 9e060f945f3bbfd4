#include "training/extensions/step_writer.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "training/extensions/log_report.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

constexpr std::size_t most_rows = 1000;

const LogReport* find_log(const Trainer& trainer) {
  for (const std::string& name : trainer.extension_names())
    if (const auto* const found = trainer.find_extension<LogReport>(name)) return found;
  return nullptr;
}

std::int64_t iteration_of(const nlohmann::ordered_json& entry) {
  const auto found = entry.find("iteration");
  return found != entry.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

}  // namespace

void StepWriter::initialize(Trainer& trainer) {
  log_ = find_log(trainer);
  last_entry_ =
      log_ == nullptr || log_->entries().empty() ? 0 : iteration_of(log_->entries().back());
  rows_.begin(trainer);
  const auto work = [&] {
    open(trainer);
    is_open_ = true;
    return Bytes{};
  };
  if (trainer.communicator() != nullptr)
    run_on_root(*trainer.communicator(), 0, work);
  else
    work();
}

bool StepWriter::has_new_entry() const {
  return log_ != nullptr && !log_->entries().empty() &&
         iteration_of(log_->entries().back()) > last_entry_;
}

void StepWriter::run(Trainer& trainer) {
  rows_.add(trainer);
  if (!has_new_entry() && rows_.count() < most_rows) return;
  add_steps(trainer);
  add_new_entries(trainer, false);
  write_or_warn(trainer);
}

void StepWriter::before_save(Trainer& trainer) {
  if (rows_.count() > 0) add_steps(trainer);
  write_or_warn(trainer);
}

void StepWriter::finalize(Trainer& trainer) {
  add_steps(trainer);
  add_new_entries(trainer, true);
  if (!trainer.is_root()) return;
  trainer.restore_output();
  write(trainer);
}

void StepWriter::on_error(Trainer& trainer) {
  if (!is_open_) return;
  const Communicator* const communicator = trainer.communicator();
  if (communicator == nullptr || communicator->size() == 1) add_rows(trainer, rows_.take(nullptr));
  write(trainer);
}

void StepWriter::add_steps(Trainer& trainer) {
  std::vector<StepRow> rows = rows_.take(trainer.communicator());
  if (!rows.empty()) add_rows(trainer, std::move(rows));
}

void StepWriter::add_new_entries(Trainer& trainer, bool may_change) {
  if (!has_new_entry()) return;
  const std::int64_t last = std::exchange(last_entry_, iteration_of(log_->entries().back()));
  if (!trainer.is_root()) return;
  const auto& entries = log_->entries();
  auto next = entries.end();
  while (next != entries.begin() && iteration_of(*std::prev(next)) > last) --next;
  for (; next != entries.end(); ++next) add_entry(trainer, *next, may_change);
}

void StepWriter::add_all_entries(Trainer& trainer) {
  if (log_ == nullptr) return;
  for (const auto& entry : log_->entries()) add_entry(trainer, entry, false);
}

void StepWriter::write_or_warn(Trainer& trainer) {
  if (!trainer.is_root()) return;
  try {
    trainer.restore_output();
    write(trainer);
  } catch (const Error& error) {
    log_warning("{}; training continues", error.what());
  }
}

}  // namespace tasuki
