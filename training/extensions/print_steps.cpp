#include "training/extensions/print_steps.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/terminal.hpp"
#include "training/trainer.hpp"

namespace tasuki {

PrintSteps::PrintSteps(std::int64_t interval, std::string key, std::FILE* out)
    : interval_(interval), key_(std::move(key)), out_(out), moves_cursor_(moves_cursor(out)) {
  if (interval < 1)
    fail_everywhere(ErrorKind::usage, "PrintSteps: expected an interval of at least 1, found {}",
                    interval);
}

void PrintSteps::initialize(Trainer& trainer) {
  last_line_at_ = trainer.elapsed_time();
}

void PrintSteps::run(Trainer& trainer) {
  pending_.add_value_of(trainer.observation(), key_);
  ++batches_;
  const std::int64_t step = trainer.updater().iteration();
  if (step % interval_ != 0) return;

  const Observation all = pending_.over_ranks(trainer.communicator());
  trainer.announce_report(all);
  const double now = trainer.elapsed_time();
  const auto loss = all.values().find(key_);
  if (trainer.is_root() && loss != all.values().end()) {
    fmt::print(out_, "{}{}\n", moves_cursor_ ? erase_below : "",
               text(step, loss->second.mean(), loss->second.count, batches_, now - last_line_at_));
    std::fflush(out_);
  }
  pending_.clear();
  batches_ = 0;
  last_line_at_ = now;
}

std::string PrintSteps::text(std::int64_t step, double loss, std::int64_t examples,
                             std::int64_t batches, double seconds) {
  seconds = std::max(seconds, 1e-9);
  return fmt::format("step {}, loss = {:.2f} ({:.1f} examples/sec; {:.3f} sec/batch)", step, loss,
                     static_cast<double>(examples) / seconds,
                     seconds / static_cast<double>(batches));
}

}  // namespace tasuki
