// Makes the arrays of an Optimizer's model, and compares and shares the model between ranks, in
// setup() and again when the model changes.
#include <algorithm>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/exchanges_under_way.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "optimizer/divided_weights.hpp"
#include "optimizer/gradient_slots.hpp"
#include "optimizer/module_exchange.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/range_exchange.hpp"
#include "optimizer/update_plan.hpp"
#include "optimizer/weight_units.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

std::unique_ptr<Optimizer> create_multi_node_optimizer(std::unique_ptr<Optimizer> optimizer,
                                                       Communicator& communicator) {
  // The exchange through another communicator ends here, if there was one.
  optimizer->flush();
  optimizer->exchange_.leave_communicator();
  if (optimizer->divided_)
    fail(
        ErrorKind::usage,
        "create_multi_node_optimizer() for another communicator: the weights are divided among the "
        "nodes of the former one (--shard weights)");
  optimizer->trained_.communicator = &communicator;
  optimizer->gathering_.reset();
  if (optimizer->trained_.model) {
    optimizer->trained_.share_first_shapes();
    // A rank keeps a part of divided values only, so they are the same before.
    if (optimizer->sharding_ == Sharding::weights)
      bcast_data(communicator, *optimizer->trained_.model);
    optimizer->build_arena();
    if (!optimizer->divided_) bcast_data(communicator, *optimizer->trained_.model);
  }
  return optimizer;
}

void Optimizer::setup(Module& model, std::size_t size_of_model) {
  TrainedModel::check_registered(model, size_of_model);
  if (divided_ && trained_.model == &model)
    fail_everywhere(ErrorKind::usage,
                    "setup() a second time: the model's weights are divided among nodes (--shard "
                    "weights); make a new optimizer for a new model");
  trained_.model = &model;
  for (const std::string& pattern : frozen_.patterns()) trained_.check_pattern(pattern);
  t_ = 0;
  learning_rate_.reset();
  exchange_.leave_arena();
  if (const auto old = std::exchange(divided_, nullptr)) old->close();
  trained_.arena.reset();
  states_.clear();
  trained_.share_first_shapes();
  build_arena();
}

void Optimizer::build_arena() {
  flush();
  if (divided_) {  // a forward pass that found shapes
    divided_->end_pass();
    divided_->settle();
  }
  if (trained_.communicator) check_same_everywhere(true);
  if (exchange_.batches() > 0 && exchange_.exchanges_each_pass())
    fail_everywhere(ErrorKind::usage,
                    "--shard gradients: the model's parameters changed between two batches of a "
                    "step, whose sums of gradients would be lost; give layers their input size, or "
                    "leave out --accumulate or --shard gradients");
  trained_.check_parameters(frozen_);
  plan_->check(trained_.model->device());
  if (sharding_ >= Sharding::gradients && states_.will_be_sharded() &&
      !trained_.model->device().is_cpu())
    fail_everywhere(ErrorKind::usage, "{}",
                    conflict_in({}, {.is_on_gpu = true,
                                     .keeps_sums_only = true,
                                     .divides_weights = sharding_ == Sharding::weights}));
  if (states_.will_be_sharded() && !plan_->can_update_slices(trained_.model->device()))
    fail_everywhere(ErrorKind::usage,
                    "--shard and --gpu: an update by {} needs the states of all parameters "
                    "on each GPU; leave one out, or choose another --optimizer",
                    rule_->name());
  // If only the set of frozen parameters has changed, ranks have the same values already, and
  // running statistics remain those of each rank.
  const bool has_same_parameters =
      trained_.all_ranks(trained_.arena && trained_.arena->matches(*trained_.model));
  // The old arena and its sharers live until its values and states have moved.
  const std::unique_ptr<Communicator> old_sharers = weights_.find_sharers(plan_->hook_of_arrays());
  const std::optional<ParameterArena::DividedValues> divided = divide_values(has_same_parameters);
  auto arena = std::make_unique<ParameterArena>(
      *trained_.model, trained_.communicator, frozen_, weights_.sharers(), trained_.shards,
      will_keep_sums_only(), divided ? &*divided : nullptr);
  exchange_.leave_arena();
  states_.move_to(*arena);
  if (const auto old = std::exchange(divided_, nullptr)) old->close();
  trained_.arena = std::move(arena);
  if (divided) divide_weights();
  exchange_.follow_arena();
  sharded_.follow_arena();
  plan_changed();
  graph_is_checked_ = false;
  if (trained_.communicator && !has_same_parameters) {
    if (!divided_) trained_.communicator->bcast_data(trained_.arena->values());
    for (const Module::NamedBuffer& buffer : trained_.model->buffers())
      trained_.communicator->bcast_data(*buffer.tensor);
  }
  if (compute_type_ != DType::float32) trained_.arena->keep_rounded(compute_type_);
  // Each sharer has written its values for itself alone; this publishes them.
  trained_.arena->begin_update();
  trained_.arena->end_update();
  // The parameters' former memory would stay unused, because batches need other sizes. Memory
  // cached from earlier batches is freed with it, and allocated again in the next step.
  give_back_cached_host_memory();
}

// Slots would take more memory than the slices of others if one parameter is most of the model.
bool Optimizer::will_keep_sums_only() const {
  if (sharding_ < Sharding::gradients || !states_.will_be_sharded() || trained_.shards > 0)
    return false;
  const auto entries = ParameterArena::trained_entries(*trained_.model, frozen_);
  const std::int64_t count = ParameterArena::end_of(entries);
  const std::int64_t of_slots =
      GradientSlots::elements_for(slot_ranges(entries, count, exchange_settings_));
  return of_slots + count / trained_.communicator->size() < count;
}

bool Optimizer::will_divide_weights() const {
  if (sharding_ != Sharding::weights || !states_.will_be_sharded()) return false;
  const std::vector<int> holders = weights_.holders();
  return std::ranges::any_of(holders, [&](int holder) { return holder != holders.front(); });
}

// How the next arena gets the values that this rank keeps: parameter by parameter, from rank 0
// unless all ranks have them.
std::optional<ParameterArena::DividedValues> Optimizer::divide_values(
    bool has_same_parameters) const {
  if (!will_divide_weights()) return std::nullopt;
  if (!ExchangesUnderWay::can_use_thread())
    fail_everywhere(
        ErrorKind::unavailable,
        "--shard weights needs an MPI with MPI_THREAD_MULTIPLE: weights are gathered by "
        "a thread; choose --shard gradients");
  if (weights_.are_shared() && !weights_.are_by_node())
    fail_everywhere(
        ErrorKind::usage,
        "--shard weights: the ranks of a node keep their weights together, not in several "
        "groups (SharedWeights::share)");
  Communicator& all = *trained_.communicator;
  const auto entries = ParameterArena::trained_entries(*trained_.model, frozen_);
  const std::int64_t count = ParameterArena::end_of(entries);
  const std::vector<Range> slices = arena_slices(count, all.size());
  const Range own = slices[static_cast<std::size_t>(all.rank())];
  std::vector<Range> of_node;
  const std::vector<int> holders = weights_.holders();
  for (std::size_t rank = 0; rank < slices.size(); ++rank)
    if (holders[rank] == holders[static_cast<std::size_t>(all.rank())])
      of_node.push_back(slices[rank]);
  const auto units = weight_units(entries, default_unit_bytes(entries), unit_patterns_);
  return ParameterArena::DividedValues{
      .own_slice = own,
      .expected = DividedWeights::expected_elements(of_node, units),
      .take = [&all, own, has_same_parameters](const ParameterArena::Entry& entry,
                                               const Tensor& place, bool is_frozen) {
        const Tensor values = entry.parameter->read_value();
        if (!has_same_parameters) all.bcast_data(values);
        if (is_frozen) return place.copy_from(values);
        const std::int64_t begin = std::max(own.begin, entry.offset) - entry.offset;
        const std::int64_t end = std::min(own.end, entry.offset + entry.count) - entry.offset;
        if (begin < end)
          place.reshape({entry.count})
              .slice(begin, end)
              .copy_from(values.plain().reshape({entry.count}).slice(begin, end));
      }};
}

void Optimizer::divide_weights() {
  Communicator& all = *trained_.communicator;
  const ParameterArena& arena = *trained_.arena;
  if (!gathering_) gathering_ = all.split(0, all.rank());
  divided_ = std::make_shared<DividedWeights>(
      arena, arena_slices(arena.update_count(), all.size()),
      weight_units(arena.entries(), default_unit_bytes(arena.entries()), unit_patterns_),
      gathering_, arena.is_shared() ? weights_.sharers() : nullptr);
  for (const ParameterArena::Entry& entry : arena.entries())
    entry.parameter->keep_values_by(divided_);
}

void Optimizer::set_exchange(const ExchangeSettings& settings) {
  flush();
  const ExchangeSettings before = std::exchange(exchange_settings_, settings);
  if (!trained_.arena) return;
  try {
    exchange_.follow_settings();
  } catch (...) {
    // All ranks refuse the settings alike, and continue with the former ones.
    exchange_settings_ = before;
    exchange_.follow_settings();
    throw;
  }
  trained_.revision.advance();
}

void Optimizer::set_shards(std::int64_t shards) {
  ParameterArena::check_shards(shards, communicator() ? communicator()->size() : 1);
  trained_.shards = shards;
  if (trained_.arena) build_arena();
}

void Optimizer::set_copies(std::vector<Module*> copies, SpreadUpdate spread) {
  if (!copies.empty() && divided_)
    fail(ErrorKind::usage,
         "set_copies(): the copies would read weights that are divided among nodes (--shard "
         "weights); compute with one thread");
  if (!copies.empty() && (!sharded_.is_on() || !trained_.arena))
    fail(ErrorKind::usage,
         "set_copies() comes after set_shards(), which divides steps, and setup()");
  for (const Module* copy : copies)
    TASUKI_CHECK(copy->unshaped_parameters().empty(),
                 "parameter {} of a copy has no shape yet: give the layer its input size",
                 copy->unshaped_parameters().front().path);
  sharded_.set_copies(std::move(copies), std::move(spread));
}

void Optimizer::follow_shapes() {
  if (!arena().unshaped().empty() && trained_.share_shapes(trained_.arena->unshaped()))
    build_arena();
}

void Optimizer::check_same_everywhere(bool changed) const {
  std::vector<std::string> lines = {"optimizer " + rule_->name()};
  for (const std::string& each : hyperparameters())
    lines.push_back(fmt::format("hyper-parameter {} = {}", each, get(each)));
  lines.push_back("gradients exchanged " + exchange_settings_.text());
  if (trained_.shards > 0) lines.push_back(fmt::format("steps of {} shards", trained_.shards));
  lines.emplace_back(states_.setting());
  if (sharding_ >= Sharding::gradients) lines.emplace_back("gradients shared by the ranks");
  if (sharding_ == Sharding::weights)
    lines.push_back(
        fmt::format("weights divided among the nodes, units {}", join(unit_patterns_, ", ")));
  lines.emplace_back(weights_.setting());
  // Ranks on GPUs exchange a message before each step that ranks on CPUs do not expect.
  lines.emplace_back(trained_.model->device().is_cpu() ? "a model on a CPU" : "a model on a GPU");
  for (const auto& hook : hooks()) lines.push_back("hook " + hook->name());
  for (const Group& group : groups()) lines.push_back("group " + group.text());
  const auto add_lines = [&](const std::vector<Module::NamedParameter>& parameters) {
    for (const auto& [path, parameter] : parameters)
      lines.push_back(fmt::format("parameter {} {}{}", path, parameter->shape_text(),
                                  frozen_.has(path) ? ", frozen" : ""));
  };
  add_lines(trained_.model->parameters());
  add_lines(trained_.model->unshaped_parameters());
  for (const auto& [path, tensor] : trained_.model->buffers())
    lines.push_back(
        fmt::format("buffer {} {} {}", path, tensor->shape().text(), name_of(tensor->dtype())));
  lines.emplace_back(changed ? "a model that changed since the last update"
                             : "a model as in the last update");
  check_agreement(*trained_.communicator, lines,
                  "all ranks must train the same model with the same optimizer");
}

}  // namespace tasuki
