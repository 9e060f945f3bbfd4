// ProgressBar: shows a run's progress and estimated end on a terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>

#include "core/terminal.hpp"
#include "training/extension.hpp"

namespace tasuki {

// Chainer's four lines: total, this epoch, counts, speed with estimated time to finish. Printed by
// rank 0 if `out` is a terminal. They fit the terminal, also after it is resized.
class ProgressBar : public Extension {
 public:
  // Redrawn at most every `update_interval` seconds.
  explicit ProgressBar(double update_interval = 0.5, std::FILE* out = stdout);
  // Removes the bar, also after an exception.
  ~ProgressBar() override { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  std::string default_name() const override { return "ProgressBar"; }
  int priority() const override { return priority_reader - 20; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer&) override { erase(); }

  // The bar as plain text: four lines of at most `width` characters.
  struct Progress {
    std::int64_t iteration = 0;
    double epoch_detail = 0;
    TrainingLength length;
    std::int64_t steps_per_epoch = 1;
    double iterations_per_second = 0;
  };
  static std::string draw(const Progress& progress, std::size_t width = unlimited_width);

 private:
  struct Moment {
    std::int64_t iteration;
    double seconds;
  };

  void erase();

  double update_interval_;
  std::FILE* out_;
  bool is_shown_ = false;  // there is a terminal
  bool is_drawn_ = false;
  std::deque<Moment> recent_;
};

}  // namespace tasuki
