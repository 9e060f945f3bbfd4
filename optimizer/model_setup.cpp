// The model of an Optimizer: the arrays that hold it, and what ranks compare and share of it, in
// setup() and again when the model changes.
#include <algorithm>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/run_on_root.hpp"
#include "core/log.hpp"
#include "optimizer/module_exchange.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/update_plan.hpp"
#include "tensor/storage.hpp"

namespace tasuki {
namespace {

// For a parameter that belongs to no model and so has no path.
std::string text_of(const Parameter& parameter) {
  const std::string layer = parameter.layer();
  return fmt::format("a parameter {} ({}){}", parameter.name(), parameter.shape_text(),
                     layer.empty() ? "" : " of a layer " + layer);
}

}  // namespace

std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator) {
  // The exchange through another communicator ends here, if there was one.
  optimizer->flush();
  optimizer->drop_exchange();
  optimizer->second_communicator_.reset();
  optimizer->communicator_ = &communicator;
  if (optimizer->model_) {
    optimizer->share_first_shapes();
    optimizer->build_arena();
    bcast_data(communicator, *optimizer->model_);
  }
  return optimizer;
}

void Optimizer::setup(Module& model, std::size_t size_of_model) {
  for (const Parameter* parameter : model.unregistered_parameters(size_of_model))
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "{} is in a member of the model that is not registered: add(\"name\", layer) "
                      "in the constructor of the module that has it; a layer that is not to be "
                      "trained with the model is held by pointer",
                      text_of(*parameter));
  model_ = &model;
  for (const std::string& pattern : frozen_.patterns()) check_pattern(pattern);
  t_ = 0;
  learning_rate_.reset();
  drop_exchange();
  arena_.reset();
  owners_.reset();
  shards_states_ = false;
  frozen_states_.clear();
  share_first_shapes();
  build_arena();
}

void Optimizer::build_arena() {
  flush();
  if (communicator_) check_same_everywhere(true);
  check_model();
  plan_->check(model_->device());
  check_sharded_rule();
  // If only the set of frozen parameters has changed, ranks have the same values already, and
  // running statistics remain those of each rank.
  const bool has_same_parameters = all_ranks(arena_ && arena_->matches(*model_));
  // The old arena and its sharers live until its values and states have moved.
  const std::unique_ptr<Communicator> old_sharers = find_sharers();
  auto arena = std::make_unique<ParameterArena>(*model_, communicator_, frozen_, sharers_.get());
  const SliceOwners owners = owners_of(*arena);
  move_states(*arena, owners);
  drop_exchange();
  arena_ = std::move(arena);
  owners_ = owners;
  shards_states_ = are_states_sharded();
  needed_ = needed_of(*arena_, owners);
  prepare_exchange();
  plan_changed();
  graph_is_checked_ = false;
  if (communicator_ && !has_same_parameters) {
    communicator_->bcast_data(arena_->values());
    for (const Module::NamedBuffer& buffer : model_->buffers())
      communicator_->bcast_data(*buffer.tensor);
  }
  if (compute_type_ != DType::float32) arena_->keep_rounded(compute_type_);
  // Each sharer has written its values for itself alone; this publishes them.
  arena_->begin_update();
  arena_->end_update();
  // The parameters' former memory would lie idle, as batches ask for other sizes. What batches have
  // left goes, too, and is taken anew in the next step.
  give_back_cached_host_memory();
}

void Optimizer::prepare_exchange() {
  if (!has_peers()) return;
  check_exchange_settings();
  ExchangeSettings settings = exchange_settings_;
  if (exchanges_after_backward()) {
    if (!settings.mode && settings.range_bytes == 0)
      settings.range_bytes = static_cast<std::int64_t>(arena_->gradients().bytes());
    settings.mode = ExchangeMode::whole;
  }
  exchange_ =
      create_gradient_exchange(*arena_, *communicator_, second_communicator_, settings, needed_);
  tells_ahead_ = must_tell_ahead();
  if (communicator_->rank() == 0 && exchange_->power_sgd() == nullptr)
    log_verbose("gradients are exchanged {}", exchange_->describe());
}

// Two exchanges of NCCL's at a time may block each other.
bool Optimizer::exchanges_after_backward() const {
  return !arena_->gradients().device().is_cpu() && model_->communicates();
}

void Optimizer::drop_exchange() {
  earlier_times_ = transfer_times();
  exchange_.reset();
}

void Optimizer::check_exchange_settings() const {
  if (!has_peers()) return;
  const std::string conflict =
      conflict_in(exchange_settings_, {.is_on_gpu = !arena_->gradients().device().is_cpu(),
                                       .wire_dtype = communicator_->options().wire_dtype,
                                       .scales_losses = loss_scaler_.has_value(),
                                       .skips_non_finite = guard_.has_value(),
                                       .layers_communicate = model_->communicates()});
  if (!conflict.empty()) fail_everywhere(ErrorKind::usage, "{}", conflict);
}

void Optimizer::set_exchange(const ExchangeSettings& settings) {
  flush();
  exchange_settings_ = settings;
  if (!arena_) return;
  if (exchange_) exchange_->leave();
  drop_exchange();
  prepare_exchange();
  revision_.advance();
}

// --- changes ---

// Ranks whose model did not change learn of the change by the notice, and then all ranks compare
// their models. Nothing is lost if all changed alike, because no rank has computed gradients yet.
//
// On CPUs the notice is summed with the gradients, which the other ranks are about to exchange. On
// GPUs, reading it would mean waiting for the whole step, so the hosts exchange a message before
// each step, while the device is busy with the previous one. They also do so if ranks exchange
// something else before those gradients: in the forward pass (Module::communicates), or between two
// steps while double-buffered gradients wait.
void Optimizer::follow_changed_model() {
  if (has_peers() && !tells_ahead_) {
    arena_->notice().fill(1);
    exchange_->begin_without_gradients();
    exchange_->finish();
  }
  build_arena();
}

void Optimizer::follow_shapes() {
  if (!arena().unshaped().empty() && share_shapes(arena_->unshaped())) build_arena();
}

// --- checks ---

void Optimizer::check_model() const {
  if (model_->all_parameters().empty())
    fail_everywhere(ErrorKind::internal,
                    "the optimizer's model has no parameters: register its layers, add(\"name\", "
                    "layer), in the constructor of the module that has them as members");
  if (std::ranges::all_of(model_->all_parameters(),
                          [this](const auto& named) { return frozen_.has(named.path); }))
    fail_everywhere(ErrorKind::usage, "all parameters of the optimizer's model are frozen");
  const auto check_values = [this] {
    for (const auto& [path, parameter] : model_->parameters())
      if (!parameter->has_values())
        fail(ErrorKind::internal,
             "parameter {} ({}) has no values yet: call the model's initialize(seed), or load a "
             "file, before the optimizer's setup; where zeros are meant, call the parameter's "
             "value_changed()",
             path, parameter->shape_text());
    return Bytes{};
  };
  // The other ranks take rank 0's.
  if (communicator_)
    run_on_root(*communicator_, 0, check_values);
  else
    check_values();
}

void Optimizer::check_graph(const Variable& loss) {
  if (std::exchange(graph_is_checked_, true)) return;
  for (const Parameter* parameter : parameters_below(loss)) {
    if (std::ranges::count(arena_->entries(), parameter, &ParameterArena::Entry::parameter))
      continue;
    if (!parameter->has_values())
      fail_everywhere(ErrorKind::internal,
                      "the loss depends on {} that the model does not have and that has no values: "
                      "register its layer, add(\"name\", layer), in the constructor of the module "
                      "that has it as a member; of a frozen layer whose zeros are meant, call the "
                      "parameter's value_changed()",
                      text_of(*parameter));
    if (!parameter->has_optimizer() && (!communicator_ || communicator_->rank() == 0))
      log_warning(
          "the loss depends on {} that no optimizer updates: its layer is not registered, "
          "add(\"name\", layer), in the model",
          text_of(*parameter));
  }
}

void Optimizer::check_same_everywhere(bool changed) const {
  std::vector<std::string> lines = {"optimizer " + name()};
  for (const std::string& each : hyperparameters())
    lines.push_back(fmt::format("hyper-parameter {} = {}", each, get(each)));
  lines.push_back("gradients exchanged " + exchange_settings_.text());
  lines.emplace_back(wants_sharded_states_ ? "states shared by the ranks" : "states on every rank");
  lines.emplace_back(wants_shared_weights_ ? "weights once per node" : "weights on every rank");
  // Ranks on GPUs exchange a message before each step that ranks on CPUs do not expect.
  lines.emplace_back(model_->device().is_cpu() ? "a model on a CPU" : "a model on a GPU");
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

// --- what ranks tell each other ---

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

bool Optimizer::all_ranks(bool yes) const {
  return sum_over_ranks(yes ? 0 : 1) == 0;
}

std::int64_t Optimizer::sum_over_ranks(std::int64_t own) const {
  if (communicator_ == nullptr) return own;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&own, 1), {1});
  communicator_->allreduce(sum);
  return *sum.data<std::int64_t>();
}

}  // namespace tasuki
