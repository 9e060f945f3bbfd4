// every_seconds: clocks differ between ranks, so rank 0's decides.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "communicator/bytes.hpp"
#include "core/error.hpp"
#include "saving/serializer.hpp"
#include "training/trainer.hpp"
#include "training/trigger.hpp"

namespace tasuki {
namespace {

class Timed final : public Trigger {
 public:
  explicit Timed(double seconds) : seconds_(seconds), due_(seconds) {
    if (!(seconds > 0))
      fail_everywhere(ErrorKind::usage, "a trigger's period must be positive, not {} s", seconds);
  }

  bool fires(Trainer& trainer) override {
    const std::int64_t iteration = trainer.updater().iteration();
    if (iteration < next_meeting_) return false;
    Decision decision = decide(trainer.elapsed_time(), iteration);
    if (Communicator* communicator = trainer.communicator()) {
      const Bytes bytes =
          bcast_bytes(*communicator, std::as_bytes(std::span(&decision, std::size_t{1})));
      std::memcpy(&decision, bytes.data(), sizeof(decision));
    }
    due_ = decision.due;
    next_meeting_ = decision.next_meeting;
    return decision.fires != 0;
  }

  void serialize(const Serializer& serializer) override {
    serialize_seconds(serializer, "due", due_);
  }

 private:
  struct Decision {
    double due;
    std::int64_t next_meeting;
    std::int64_t fires;
  };

  // Meets again after half the iterations that seem to be left, so that the number of meetings in a
  // period grows with the logarithm of its iterations.
  Decision decide(double now, std::int64_t iteration) {
    // A resumed run may have another period than the one before.
    due_ = std::min(due_, now + seconds_);
    const bool fires = now >= due_;
    const double due = fires ? now + seconds_ - std::fmod(now - due_, seconds_) : due_;
    constexpr double most_iterations = 1e9;  // fits every type that counts iterations
    double skip = 1;
    if (last_iteration_ > 0 && now > last_seconds_) {
      const double speed = static_cast<double>(iteration - last_iteration_) / (now - last_seconds_);
      skip = std::clamp(std::floor((due - now) * speed / 2), 1.0, most_iterations);
    }
    last_iteration_ = iteration;
    last_seconds_ = now;
    return {due, iteration + static_cast<std::int64_t>(skip), fires};
  }

  double seconds_;
  double due_;  // in the run's elapsed time
  std::int64_t next_meeting_ = 0;
  std::int64_t last_iteration_ = 0;  // of the last meeting, on rank 0
  double last_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Trigger> every_seconds(double seconds) {
  return std::make_unique<Timed>(seconds);
}

}  // namespace tasuki
