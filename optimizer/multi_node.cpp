// The multi-node part of Optimizer: what ranks compare and exchange.
#include <array>

#include "tasuki/communicator/agreement.hpp"
#include "tasuki/core/stop_request.hpp"
#include "tasuki/optimizer/module_exchange.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/clock_scope.hpp"

namespace tasuki {

std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator) {
  optimizer->communicator_ = &communicator;
  if (optimizer->model_) {
    optimizer->share_first_shapes();
    optimizer->build_arena();
    bcast_data(communicator, *optimizer->model_);
  }
  return optimizer;
}

void Optimizer::check_same_everywhere(bool changed) const {
  std::vector<std::string> lines = {"optimizer " + name()};
  for (const std::string& each : hyperparameters())
    lines.push_back(fmt::format("hyper-parameter {} = {}", each, get(each)));
  for (const auto& hook : hooks()) lines.push_back("hook " + hook->name());
  for (const Group& group : groups()) lines.push_back("group " + group.text());
  const auto add_lines = [&](const std::vector<Module::NamedParameter>& parameters) {
    for (const auto& [path, parameter] : parameters)
      lines.push_back(fmt::format("parameter {} {}{}", path, parameter->shape_text(),
                                  frozen_.has(path) ? ", frozen" : ""));
  };
  add_lines(model_->parameters());
  add_lines(model_->unshaped_parameters());
  for (const auto& [path, tensor] : model_->buffers())
    lines.push_back(
        fmt::format("buffer {} {} {}", path, tensor->shape().text(), name_of(tensor->dtype())));
  lines.emplace_back(changed ? "a model that changed since the last update"
                             : "a model as in the last update");
  check_agreement(*communicator_, lines,
                  "all ranks must train the same model with the same optimizer");
}

void Optimizer::share_first_shapes() const {
  if (!all_ranks(model_->unshaped_parameters().empty())) share_shapes(model_->all_parameters());
}

// Each rank sends which of the candidates have a shape: number, axes, sizes. If ranks found
// different shapes, or have different models, the comparison of the models afterwards reports it.
bool Optimizer::share_shapes(const std::vector<Module::NamedParameter>& candidates) const {
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].parameter->has_shape()) continue;
    const Shape& shape = candidates[i].parameter->shape();
    own.push_back(static_cast<std::int64_t>(i));
    own.push_back(shape.rank());
    own.insert(own.end(), shape.begin(), shape.end());
  }
  if (communicator_ == nullptr) return !own.empty();
  bool any = false;
  const Shape length{static_cast<std::int64_t>(own.size())};
  for (const Tensor& found :
       communicator_->allgather(Tensor::from(std::span<const std::int64_t>(own), length))) {
    const Tensor host = found.to(Device::cpu());
    const std::span<const std::int64_t> numbers = host.span<std::int64_t>();
    for (std::size_t at = 0; at < numbers.size();) {
      const auto number = static_cast<std::size_t>(numbers[at]);
      const Shape shape(numbers.subspan(at + 2, static_cast<std::size_t>(numbers[at + 1])));
      if (number < candidates.size() && candidates[number].parameter->accepts(shape))
        candidates[number].parameter->set_shape(shape);
      at += 2 + static_cast<std::size_t>(numbers[at + 1]);
      any = true;
    }
  }
  return any;
}

// Ranks whose model did not change learn of the change by the notice and then all compare their
// models. Nothing is lost if all changed alike, because no rank has computed gradients yet. On CPUs
// the notice is summed with the gradients, which those ranks are about to exchange. Reading it on a
// GPU would mean waiting for the whole step, so there a message between hosts precedes each step,
// while the device is busy with the previous one.
void Optimizer::follow_changed_model() {
  if (communicator_ && arena_->notice().device().is_cpu()) {
    arena_->notice().fill(1);
    communicator_->sum_gradients(arena_->gradient_view());
  }
  build_arena();
}

Optimizer::Agreement Optimizer::send_ahead(std::int64_t own_examples, int own_level,
                                           bool model_changed) {
  enum Place : std::size_t { changed, stop, examples, level_0, level_1, level_2 };
  std::array<std::int64_t, 6> told{};
  told[changed] = model_changed ? 1 : 0;
  told[stop] = stop_requested() ? 1 : 0;
  told[examples] = own_examples;
  // Number of ranks that are at this level or below.
  for (int level = 0; level < 3; ++level)
    told[level_0 + static_cast<std::size_t>(level)] = own_level <= level ? 1 : 0;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(told), {std::ssize(told)});
  communicator_->allreduce(sum);
  const auto of_all = sum.span<std::int64_t>();
  if (!model_changed && of_all[changed] != 0) check_same_everywhere(false);
  asked_to_stop_ = of_all[stop] != 0;
  Agreement agreement{of_all[examples], 3};
  for (int level = 2; level >= 0; --level)
    if (of_all[level_0 + static_cast<std::size_t>(level)] != 0) agreement.least_level = level;
  return agreement;
}

bool Optimizer::all_ranks(bool yes) const {
  if (communicator_ == nullptr) return yes;
  const Tensor no = Tensor::full({}, yes ? 0 : 1, DType::int32);
  communicator_->allreduce(no);
  return no.item() == 0;
}

std::int64_t Optimizer::exchange_over_ranks(std::optional<std::int64_t> global_examples) {
  constexpr std::int64_t unit = 4096;  // of the examples' notice
  const bool is_on_cpu = arena_->gradients().device().is_cpu();
  if (!is_on_cpu) {
    if (!has_met()) meet(examples_);
    if (!global_examples) global_examples = met_->agreement.global_examples;
    if (!communicator_->queues_exchanges())
      refuse_recording(fmt::format("communicator {} exchanges gradients by way of the host",
                                   communicator_->name()));
  }
  if (is_on_cpu && stop_requested()) arena_->stop_notice().fill(1);
  if (!global_examples) {
    float* const notice = arena_->examples_notice().data<float>();
    const std::int64_t units = examples_ / unit;
    notice[0] = static_cast<float>(examples_ - units * unit);
    notice[1] = static_cast<float>(units);
  }
  GradientView gradients = arena_->gradient_view();
  gradients.wire_scale_hint = static_cast<double>(global_examples.value_or(0));
  note_moment(StepClock::Moment::exchange);
  communicator_->sum_gradients(gradients);
  note_moment(StepClock::Moment::exchanged);
  if (is_on_cpu) {
    if (arena_->notice().item() != 0) check_same_everywhere(false);
    asked_to_stop_ = arena_->stop_notice().item() != 0;
    if (asked_to_stop_) arena_->stop_notice().fill(0);
  }
  if (!global_examples) {
    const Tensor notice = arena_->examples_notice();
    global_examples = static_cast<std::int64_t>(notice.data<float>()[0]) +
                      unit * static_cast<std::int64_t>(notice.data<float>()[1]);
    notice.fill(0);
  }
  return *global_examples;
}

}  // namespace tasuki
