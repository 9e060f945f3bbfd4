#include "training/extensions/allreduce_persistent.hpp"

#include "communicator/packed_arrays.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

class AllreducePersistent final : public Extension {
 public:
  std::string default_name() const override { return "AllreducePersistent"; }
  int priority() const override { return priority_writer + 1; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  void run(Trainer& trainer) override {
    Communicator* communicator = trainer.updater().replicas();
    if (communicator == nullptr || communicator->size() == 1) return;
    // Ranks without examples (if there are more ranks than examples) have no statistics.
    const bool counts = trainer.updater().has_seen_examples();
    const Tensor ranks = Tensor::full({}, counts ? 1 : 0, DType::int32);
    communicator->allreduce(ranks);
    if (ranks.item() == 0) return;
    std::vector<Tensor> statistics;
    for (const NamedOptimizer& each : trainer.updater().optimizers())
      for (const auto& [path, buffer] : each.optimizer->model().buffers())
        if (buffer->dtype() == DType::float32) statistics.push_back(*buffer);
    combine_packed(statistics, [&](const Tensor& sums) {
      if (!counts) sums.fill(0);
      communicator->allreduce(sums);
      backend(sums.device()).scale(sums, 1 / static_cast<float>(ranks.item()));
    });
  }
};

}  // namespace

std::unique_ptr<Extension> allreduce_persistent() {
  return std::make_unique<AllreducePersistent>();
}

}  // namespace tasuki
