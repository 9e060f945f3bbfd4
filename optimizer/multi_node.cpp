// The multi-node part of Optimizer: what ranks compare and exchange.
#include "tasuki/communicator/agreement.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/optimizer/optimizer.hpp"

namespace tasuki {

std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator) {
  optimizer->communicator_ = &communicator;
  if (optimizer->model_) optimizer->build_arena();
  return optimizer;
}

void Optimizer::check_same_everywhere(bool changed) const {
  std::vector<std::string> lines = {"optimizer " + name()};
  for (std::size_t i = 0; i < hyperparameters_.size(); ++i)
    lines.push_back(
        fmt::format("hyper-parameter {} = {}", rule_.hyperparameters[i].name, hyperparameters_[i]));
  for (const auto& hook : hooks_) lines.push_back("hook " + hook->name());
  for (const auto& [path, parameter] : model_->parameters())
    lines.push_back(fmt::format("parameter {} {}", path, parameter->shape().text()));
  for (const auto& [path, tensor] : model_->buffers())
    lines.push_back(
        fmt::format("buffer {} {} {}", path, tensor->shape().text(), name_of(tensor->dtype())));
  lines.push_back(changed ? "a model that changed since the last update"
                          : "a model as in the last update");
  check_agreement(*communicator_, lines,
                  "all ranks must train the same model with the same optimizer");
}

// Ranks whose model did not change learn of the change by the notice and then all compare their
// models. Nothing is lost where all changed alike, because no rank has computed gradients yet. On
// CPUs the notice is summed with the gradients, which those ranks are about to exchange; to read it
// on a GPU would be to wait for the whole step, so there a message between hosts goes ahead of each
// step, while the device is busy with the one before.
void Optimizer::follow_changed_model() {
  if (communicator_ && arena_->notice().device().is_cpu()) {
    arena_->notice().fill(1);
    communicator_->sum_gradients(arena_->gradient_view());
  }
  build_arena();
}

void Optimizer::announce_step(bool model_changed) const {
  if (arena_->notice().device().is_cpu()) return;
  const Tensor changed = Tensor::full({}, model_changed ? 1 : 0, DType::int32);
  communicator_->allreduce(changed);
  if (!model_changed && changed.item() != 0) check_same_everywhere(false);
}

void Optimizer::exchange_gradients(std::int64_t global_examples) {
  GradientView gradients = arena_->gradient_view();
  gradients.divisor = static_cast<double>(global_examples);
  Stopwatch watch;
  communicator_->sum_gradients(gradients);
  exchange_seconds_ += watch.lap();
  const Tensor notice = arena_->notice();
  if (notice.device().is_cpu() && notice.item() != 0) check_same_everywhere(false);
}

}  // namespace tasuki
