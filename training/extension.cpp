#include "training/extension.hpp"

#include <utility>

namespace tasuki {
namespace {

class FunctionExtension final : public Extension {
 public:
  FunctionExtension(std::string name, std::function<void(Trainer&)> run, int priority)
      : name_(std::move(name)), run_(std::move(run)), priority_(priority) {}
  std::string default_name() const override { return name_; }
  int priority() const override { return priority_; }
  void run(Trainer& trainer) override { run_(trainer); }

 private:
  std::string name_;
  std::function<void(Trainer&)> run_;
  int priority_;
};

}  // namespace

std::unique_ptr<Extension> make_extension(std::string name, std::function<void(Trainer&)> run,
                                          int priority) {
  return std::make_unique<FunctionExtension>(std::move(name), std::move(run), priority);
}

}  // namespace tasuki
