#include "training/updater.hpp"

namespace tasuki {

double Updater::epoch_detail() const {
  const IteratorState now = state();
  return static_cast<double>(now.epoch) +
         static_cast<double>(now.step) / static_cast<double>(steps_per_epoch());
}

void Updater::flush() {
  for (const NamedOptimizer& each : optimizers()) each.optimizer->flush();
}

}  // namespace tasuki
