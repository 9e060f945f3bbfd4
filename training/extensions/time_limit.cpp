#include "tasuki/training/extensions/time_limit.hpp"

#include "tasuki/core/job_age.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/core/stop_request.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

class TimeLimit : public Extension {
 public:
  explicit TimeLimit(double seconds) : seconds_(seconds) {}

  std::string default_name() const override { return "TimeLimit"; }
  void run(Trainer& trainer) override {
    if (!trainer.is_root() || stop_requested() || job_age() < seconds_) return;
    log_info("the time limit of {} s is reached: stopping", seconds_);
    request_stop();
  }

 private:
  double seconds_;
};

}  // namespace

std::unique_ptr<Extension> time_limit(double seconds) {
  return std::make_unique<TimeLimit>(seconds);
}

}  // namespace tasuki
