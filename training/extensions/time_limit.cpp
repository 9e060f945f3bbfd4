#include "training/extensions/time_limit.hpp"

#include "core/job_process.hpp"
#include "core/log.hpp"
#include "core/stop_request.hpp"
#include "training/trainer.hpp"

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
