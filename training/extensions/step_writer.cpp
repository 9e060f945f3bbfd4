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
// Bytes: histograms and images that are written before the log's next entry, and what waits for a
// disk.
constexpr std::int64_t much = std::int64_t{4} << 20, most_waiting = std::int64_t{64} << 20;

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
  if (!has_new_entry() && rows_.count() < most_rows) {
    if (trainer.is_root() && !is_failing_ && waiting() > much) write_or_warn(trainer);
    return;
  }
  add_steps(trainer);
  add_new_entries(trainer, false);
  write_or_warn(trainer);
}

void StepWriter::before_save(Trainer& trainer) {
  if (rows_.count() > 0) add_steps(trainer);
  write_or_warn(trainer, /*before_save=*/true);
}

void StepWriter::finalize(Trainer& trainer) {
  add_steps(trainer);
  add_new_entries(trainer, true);
  if (!trainer.is_root()) return;
  trainer.restore_output();
  write_and_tell(trainer);
}

void StepWriter::on_error(Trainer& trainer) {
  if (!is_open_) return;
  const Communicator* const communicator = trainer.communicator();
  if (communicator == nullptr || communicator->size() == 1)
    for (const StepRow& row : rows_.take(nullptr)) add_row(row);
  write(trainer);
}

void StepWriter::add_steps(Trainer& trainer) {
  for (const StepRow& row : rows_.take(trainer.communicator())) {
    const bool is_kept = has_room();
    if (is_kept) add_row(row);
    (is_kept ? unwritten_ : lost_).add(row.iteration);
  }
}

bool StepWriter::has_room() const {
  return !is_failing_ || waiting() < most_waiting;
}

void StepWriter::Steps::add(std::int64_t iteration) {
  if (count++ == 0) first = iteration;
  last = iteration;
}

void StepWriter::add_new_entries(Trainer& trainer, bool may_change) {
  if (!has_new_entry()) return;
  const std::int64_t last = std::exchange(last_entry_, iteration_of(log_->entries().back()));
  if (!trainer.is_root() || !has_room()) return;
  const auto& entries = log_->entries();
  auto next = entries.end();
  while (next != entries.begin() && iteration_of(*std::prev(next)) > last) --next;
  for (; next != entries.end(); ++next) add_entry(trainer, *next, may_change);
}

void StepWriter::add_all_entries(Trainer& trainer) {
  if (log_ == nullptr) return;
  for (const auto& entry : log_->entries()) add_entry(trainer, entry, false);
}

void StepWriter::write_or_warn(Trainer& trainer, bool before_save) {
  if (!trainer.is_root()) return;
  try {
    trainer.restore_output();
    write_and_tell(trainer);
    if (before_save) note_save();
  } catch (const Error& error) {
    const bool begins = !std::exchange(is_failing_, true);
    if (begins)
      log_warning(
          "{}; training continues, and up to {} MiB of what is to be written wait in memory",
          error.what(), most_waiting >> 20);
    if (lost_.count > 0 && !std::exchange(has_told_loss_, true))
      log_warning("{}; {} MiB wait in memory, and steps from iteration {} on are lost",
                  error.what(), most_waiting >> 20, lost_.first);
  }
}

void StepWriter::write_and_tell(Trainer& trainer) {
  write(trainer);
  const Steps late = std::exchange(unwritten_, {}), lost = std::exchange(lost_, {});
  has_told_loss_ = false;
  if (!std::exchange(is_failing_, false)) return;
  const std::string loss = lost.count == 0 ? ""
                                           : fmt::format("; {} steps are lost, iterations {} to {}",
                                                         lost.count, lost.first, lost.last);
  log_warning("{} can be written again: {} steps came late{}", place(trainer), late.count, loss);
}

}  // namespace tasuki
