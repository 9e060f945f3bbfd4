#include "tasuki/training/extensions/keep_best.hpp"

#include <system_error>
#include <utility>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/extensions/snapshot.hpp"
#include "tasuki/training/trainer.hpp"
#include "tasuki/training/watched_value.hpp"

namespace tasuki {
namespace {

// The same on all ranks.
bool has_best_snapshot(const Trainer& trainer, const std::string& suffix) {
  const auto look = [&] {
    std::error_code ignored;
    const auto path = trainer.out() / (best_snapshot_name + suffix);
    return Bytes(std::filesystem::exists(path, ignored) ? 1 : 0);
  };
  Communicator* const communicator = trainer.communicator();
  return !(communicator ? run_on_root(*communicator, 0, look) : look()).empty();
}

class KeepBest final : public Extension {
 public:
  KeepBest(const std::string& key, std::unique_ptr<Trigger> check,
           std::shared_ptr<const ReplicaSet> replicas)
      : value_(key, better_of(key), std::move(check)), replicas_(std::move(replicas)) {
    value_.demand("the best snapshot");
  }

  std::string default_name() const override { return "BestSnapshot"; }
  int priority() const override { return priority_snapshot; }
  void initialize(Trainer& trainer) override {
    if (!has_best_snapshot(trainer, replicas_ ? replicas_->suffix() : "")) value_.set_best({});
  }

  void run(Trainer& trainer) override {
    const WatchedValue::Best before = value_.best();
    if (value_.look(trainer) != WatchedValue::Finding::better) return;
    try {
      trainer.restore_output_everywhere();
      save_snapshot(trainer.out() / best_snapshot_name, trainer, replicas_.get());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cannot_write) throw;
      value_.set_best(before);
      if (trainer.is_root()) log_warning("{}; training continues", error.what());
    }
  }

  void serialize(const Serializer& serializer) override { value_.serialize(serializer); }

 private:
  WatchedValue value_;
  std::shared_ptr<const ReplicaSet> replicas_;
};

}  // namespace

std::unique_ptr<Extension> keep_best(std::string key, std::unique_ptr<Trigger> check,
                                     std::shared_ptr<const ReplicaSet> replicas) {
  return std::make_unique<KeepBest>(key, std::move(check), std::move(replicas));
}

}  // namespace tasuki
