// dummy: leaves gradients as they are, to show what a step costs without communication. Every other
// operation is real. Because nothing is exchanged, ranks do not learn that the model changed on
// some of them (Optimizer::update), and those would wait for the others.
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

class DummyCommunicator : public Communicator {
 public:
  using Communicator::Communicator;
  bool exchanges_gradients() const override { return false; }

 protected:
  std::string describe_kind() const override {
    return "dummy: gradients are NOT exchanged (for timing only; ranks train apart)";
  }
  bool queues_on_gpu() const override { return true; }
};

// No type has an effect.
constexpr bool needs_gpu = false, takes_wire_dtype = true;
const CommunicatorRegistration<DummyCommunicator> registration{
    "dummy", "nothing: gradients stay apart, to time a step without communication", "-", needs_gpu,
    takes_wire_dtype};

}  // namespace
}  // namespace tasuki
