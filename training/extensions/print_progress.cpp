#include "training/extensions/print_progress.hpp"

#include <algorithm>
#include <utility>

#include "core/terminal.hpp"
#include "training/trainer.hpp"

namespace tasuki {

PrintProgress::PrintProgress(double interval, std::int64_t examples, std::FILE* out)
    : interval_(interval), examples_(examples), out_(out) {}

void PrintProgress::initialize(Trainer& trainer) {
  constexpr double first = 5;  // seconds
  is_wanted_ = trainer.is_root() && interval_ > 0 && !moves_cursor(out_);
  has_report_ = false;
  last_ = {trainer.elapsed_time(), trainer.updater().epoch_detail()};
  due_ = last_.seconds + std::min(first, interval_);
  if (!is_wanted_) return;
  for (const std::string& name : trainer.extension_names())
    trainer.find_extension(name)->watch([this, &trainer](std::int64_t batch, std::int64_t batches) {
      run_in_pass(trainer, batch, batches);
    });
}

void PrintProgress::run_in_pass(const Trainer& trainer, std::int64_t batch, std::int64_t batches) {
  const double now = trainer.elapsed_time();
  if (now < due_) return;
  fmt::print(out_, "evaluating, batch {} of {}\n", batch, batches);
  std::fflush(out_);
  due_ = now + interval_;
}

void PrintProgress::run(Trainer& trainer) {
  if (!is_wanted_) return;
  const Updater& updater = trainer.updater();
  const Moment now = {trainer.elapsed_time(), updater.epoch_detail()};
  const bool has_report = std::exchange(has_report_, false);
  if (!has_report && now.seconds < due_) return;
  if (!has_report) {
    trainer.announce_own_report();
    const auto loss = trainer.observation().mean("main/loss");
    const auto epochs = trainer.length().epochs;
    const bool is_alone = !trainer.communicator() || trainer.communicator()->size() == 1;
    fmt::print(out_, "iteration {}, epoch {:.2f}{}{}, {:.1f} examples/s\n", updater.iteration(),
               now.epoch, epochs ? fmt::format(" of {:g}", *epochs) : "",
               loss ? fmt::format(", loss {:.4g}{}", *loss, is_alone ? "" : " on rank 0") : "",
               (now.epoch - last_.epoch) * static_cast<double>(examples_) /
                   std::max(now.seconds - last_.seconds, 1e-9));
    std::fflush(out_);
  }
  last_ = now;
  due_ = now.seconds + interval_;
}

}  // namespace tasuki
