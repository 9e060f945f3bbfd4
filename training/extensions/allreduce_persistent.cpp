#include "tasuki/training/extensions/allreduce_persistent.hpp"

#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

class AllreducePersistent final : public Extension {
 public:
  std::string default_name() const override { return "AllreducePersistent"; }
  int priority() const override { return priority_writer + 1; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void run(Trainer& trainer) override {
    Communicator* communicator = trainer.communicator();
    if (communicator == nullptr || communicator->size() == 1) return;
    for (const auto& [path, buffer] : trainer.updater().optimizer().model().buffers()) {
      if (buffer->dtype() != DType::float32) continue;
      communicator->allreduce(*buffer);
      backend(buffer->device()).scale(*buffer, 1.0F / static_cast<float>(communicator->size()));
    }
  }
};

}  // namespace

std::unique_ptr<Extension> allreduce_persistent() {
  return std::make_unique<AllreducePersistent>();
}

}  // namespace tasuki
