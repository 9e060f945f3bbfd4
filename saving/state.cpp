#include "saving/state.hpp"

#include <fmt/core.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "core/processor.hpp"
#include "core/version.hpp"
#include "nn/normalization.hpp"
#include "nn/value_memory.hpp"
#include "saving/serializer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/instruction_set.hpp"

namespace tasuki {
namespace {

// All buffers one after the other, in plain order on the host.
Bytes pack(const std::vector<Module::NamedBuffer>& buffers) {
  Bytes bytes;
  for (const auto& [path, buffer] : buffers) {
    const Tensor host = buffer->to(Device::cpu()).plain();
    const auto* raw = static_cast<const std::byte*>(host.raw());
    bytes.insert(bytes.end(), raw, raw + host.bytes());
  }
  return bytes;
}

void unpack(const Bytes& bytes, const std::vector<Module::NamedBuffer>& buffers) {
  std::size_t at = 0;
  for (const auto& [path, buffer] : buffers) {
    const Tensor host = Tensor::empty(buffer->shape(), buffer->dtype());
    if (host.bytes() > bytes.size() - at)
      fail_everywhere(ErrorKind::data, "a rank's own buffers end at {}", path);
    if (host.bytes() > 0) std::memcpy(host.raw(), bytes.data() + at, host.bytes());
    buffer->copy_from(host);
    at += host.bytes();
  }
}

}  // namespace

std::vector<std::string> computed_on() {
  std::vector<std::string> texts = {processor_type(), instruction_set(),
                                    fmt::format("glibc {}", gnu_get_libc_version()),
                                    backend(Device::cpu()).describe()};
  for (const std::string& build : loaded_builds()) texts.push_back(build);
  return texts;
}

void load_shapes(const Serializer& serializer, Optimizer& optimizer) {
  if (!serializer.is_loading()) return;
  for (const auto& [path, parameter] : optimizer.model().unshaped_parameters())
    if (const auto shape = serializer.find_shape(path)) parameter->set_shape(*shape);
  optimizer.follow_shapes();
}

void serialize_model(const Serializer& serializer, const Module& model, bool are_alike) {
  for (const auto& [path, parameter] : model.parameters()) {
    const ValueMemory* const memory = parameter->value_memory();
    const bool is_divided = memory != nullptr && memory->is_divided();
    if (serializer.is_loading()) {
      const Tensor values = is_divided ? Tensor::empty(parameter->shape()) : parameter->value();
      serializer(path, values);
      if (is_divided)
        parameter->write_value(values);
      else
        parameter->value_changed();
    } else if (is_divided && serializer.takes_pieces()) {
      const auto [begin, values] = memory->own_part(*parameter);
      if (values) serializer.save_piece(path, parameter->shape(), begin, values);
    } else {
      serializer(path, parameter->read_value());
    }
  }
  const auto buffers = model.buffers();
  for (const auto& [path, buffer] : buffers) serializer(path, *buffer);
  const Communicator* communicator = serializer.communicator();
  const std::string key = "buffers_of_rank";
  if (buffers.empty() || (serializer.is_loading() && !serializer.contains(key))) return;
  if (are_alike || (!serializer.is_loading() && communicator == nullptr)) return;
  const std::vector<Bytes> parts = serializer.of_every_rank(key, pack(buffers));
  if (serializer.is_loading() && communicator &&
      parts.size() == static_cast<std::size_t>(communicator->size()))
    unpack(parts[static_cast<std::size_t>(communicator->rank())], buffers);
}

namespace {

// Settings that a program makes: a run continues with its own, and says where the snapshot differs.
void compare(const Serializer& serializer, const char* key, const char* what,
             const std::vector<std::string>& texts, const char* separator,
             const char* consequence = "") {
  const std::string here = texts.empty() ? "none" : join(texts, separator);
  std::string stored = here;
  if (!serializer.is_loading() || serializer.contains(key)) serializer(key, stored);
  const Communicator* communicator = serializer.communicator();
  if (stored != here && (communicator == nullptr || communicator->rank() == 0))
    log_warning("the snapshot's run had {} {}; continuing with this run's: {}{}", what, stored,
                here, consequence);
}

void serialize_hooks_and_groups(const Serializer& serializer, const Optimizer& optimizer) {
  std::vector<std::string> hooks, groups;
  for (const auto& hook : optimizer.hooks()) hooks.push_back(hook->name());
  for (const Optimizer::Group& group : optimizer.groups()) groups.push_back(group.text());
  compare(serializer, "hooks", "gradient hooks", hooks, ", ");
  compare(serializer, "groups", "parameter groups", groups, "; ");
}

// A single process has no such settings: it trains alike with all of them. With shards it has, as
// its steps are those of several ranks.
void serialize_data_parallelism(const Serializer& serializer, const Optimizer& optimizer) {
  const bool has_shards = optimizer.shards() > 0;
  if (optimizer.step_exchange().gradient_exchange() == nullptr && !has_shards) return;
  if (has_shards) {
    compare(serializer, "shards",
            "gradients added in an order of shards:", {std::to_string(optimizer.shards())}, ", ");
    compare(serializer, "computed_on", "results computed on", computed_on(), ", ",
            "; results may differ in their last bits");
  }
  // Other settings change results by rounding alone.
  const ExchangeSettings& settings = optimizer.step_exchange().settings();
  std::vector<std::string> exchange = {
      settings.mode == ExchangeMode::double_buffered ? "double-buffered" : "in their own step"};
  if (settings.power_sgd_rank > 0)
    exchange.push_back(fmt::format("by PowerSGD of rank {}", settings.power_sgd_rank));
  if (settings.error_feedback) exchange.emplace_back("with error feedback");
  compare(serializer, "exchange", "gradients exchanged", exchange, ", ");

  std::vector<std::string> statistics;
  for (Module* module : optimizer.model().modules()) {
    const auto* const layer = dynamic_cast<const BatchNorm*>(module);
    if (layer != nullptr && (statistics.empty() || layer->communicates()))
      statistics = {layer->communicates() ? "all ranks"
                    : has_shards          ? "each shard"
                                          : "each rank's own batch"};
  }
  if (!statistics.empty())
    compare(serializer, "batch_norm", "batch normalisation by statistics of", statistics, ", ");
}

std::string on_one_line(std::string lines) {
  if (lines.empty()) return "none";
  if (lines.ends_with('\n')) lines.pop_back();
  std::ranges::replace(lines, '\n', ' ');
  return lines;
}

// What is frozen may change during a run, so a run continues with what the snapshot has. Snapshots
// of older versions have no such entry.
void serialize_frozen(const Serializer& serializer, Optimizer& optimizer) {
  const std::string key = "frozen", here = optimizer.frozen().text();
  std::string stored = here;
  if (serializer.is_loading() && !serializer.contains(key)) return;
  serializer(key, stored);
  if (serializer.is_loading()) optimizer.freeze_only(FrozenPaths::parse(stored));
  if (stored == here) return;
  const Communicator* communicator = serializer.communicator();
  if (communicator == nullptr || communicator->rank() == 0)
    log_info("continuing with the snapshot's frozen parameters: {}", on_one_line(stored));
}

// A run that continues in another type starts with, or drops, the scale.
void serialize_loss_scale(const Serializer& serializer, const LossScaler* scaler) {
  if (scaler == nullptr || (serializer.is_loading() && !serializer.contains("loss_scale"))) return;
  double scale = scaler->scale();
  std::int64_t good_steps = scaler->good_steps();
  serialize_finite(serializer, "loss_scale", scale);
  serialize_count(serializer, "loss_scale_good_steps", good_steps);
  if (serializer.is_loading()) scaler->restore(scale, good_steps);
}

// What steps leave for the next one differs between ranks: a run on another number of ranks, or
// that exchanges gradients in another way, starts without it.
void serialize_exchange(const Serializer& serializer, const Optimizer& optimizer) {
  const std::string key = "exchange_of_rank";
  const GradientExchange* const exchange = optimizer.step_exchange().gradient_exchange();
  std::vector<Tensor> own = exchange ? exchange->carried_over() : std::vector<Tensor>();
  std::vector<Module::NamedBuffer> buffers;
  std::size_t bytes = 0;
  for (Tensor& each : own) {
    buffers.push_back({key, &each});
    bytes += each.bytes();
  }
  if (!serializer.is_loading()) {
    if (!buffers.empty()) serializer.of_every_rank(key, pack(buffers));
    return;
  }
  const bool is_stored = serializer.contains(key);
  if (buffers.empty() && !is_stored) return;
  if (!buffers.empty() && is_stored) {
    const Bytes part = serializer.of_own_rank(key);
    if (part.size() == bytes) return unpack(part, buffers);
  }
  const Communicator* communicator = serializer.communicator();
  if (communicator != nullptr && communicator->rank() != 0) return;
  log_warning("{}; continuing without it",
              buffers.empty()
                  ? "the snapshot has what compressing or rounding gradients has left for the next "
                    "step, and this run neither compresses gradients nor keeps what rounding takes"
                  : "the snapshot does not have what compressing or rounding gradients has left "
                    "for the next step on so many ranks");
}

}  // namespace

void serialize_kind(const Serializer& serializer, const Optimizer& optimizer) {
  std::string name = optimizer.rule().name();
  serializer("name", name);
  if (name != optimizer.rule().name())
    fail_everywhere(ErrorKind::config,
                    "the snapshot's run used {}, this run uses {}: resume with the same optimizer, "
                    "or load only the weights (load_npz; programs: --init)",
                    name, optimizer.rule().name());
}

void save_state_pieces(const Serializer& of_parameter, const OptimizerStates& states,
                       const ParameterArena::Entry& entry) {
  for (const std::string& name : states.names()) {
    const auto [own, values] = states.own(name);
    const std::int64_t begin = std::max(own.begin, entry.offset);
    const std::int64_t end = std::min(own.end, entry.offset + entry.count);
    if (begin < end)
      of_parameter.save_piece(name, entry.parameter->shape(), begin - entry.offset,
                              values.slice(begin - own.begin, end - own.begin));
  }
}

namespace {

// States of the parameters that updates change.
void serialize_states(const Serializer& serializer, const Optimizer& optimizer,
                      const LocalSteps* local_steps,
                      const std::function<void(const Serializer& of_parameter)>& serialize_t) {
  const OptimizerStates& states = optimizer.states();
  const std::vector<std::string> names = states.names();
  const bool in_pieces = serializer.takes_pieces() && states.are_sharded();
  // All of each state while it is saved: on the rank that saves, or on all that may.
  std::vector<Tensor> whole;
  whole.reserve(names.size());
  const std::optional<int> saver =
      local_steps != nullptr || serializer.communicator() == optimizer.communicator()
          ? std::optional(0)
          : std::nullopt;
  const bool are_saved = local_steps == nullptr || local_steps->own_group() == 0;
  for (const std::string& name : names)
    whole.push_back(
        serializer.is_loading() || in_pieces || !are_saved ? Tensor() : states.gather(name, saver));
  for (const ParameterArena::Entry& entry : optimizer.arena().entries()) {
    const Serializer of_parameter = serializer[entry.path];
    const Shape& shape = entry.parameter->shape();
    serialize_t(of_parameter);
    if (in_pieces) {
      if (are_saved) save_state_pieces(of_parameter, states, entry);
      continue;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor values =
          whole[i] ? ParameterArena::part(whole[i], entry).reshape(shape) : Tensor::empty(shape);
      of_parameter(names[i], values);
      if (serializer.is_loading()) states.set(*entry.parameter, names[i], values);
    }
  }
}

}  // namespace

void serialize_optimizer(const Serializer& serializer, Optimizer& optimizer,
                         const LocalSteps* local_steps) {
  serialize_kind(serializer, optimizer);
  serialize_hooks_and_groups(serializer, optimizer);
  // All ranks must compare or none, and a group of a single rank exchanges no gradients.
  if (local_steps == nullptr) serialize_data_parallelism(serializer, optimizer);
  serialize_frozen(serializer, optimizer);
  std::int64_t t = optimizer.t();
  serialize_count(serializer, "t", t);
  optimizer.set_t(t);
  const Serializer hyperparameters = serializer["hyperparameters"];
  for (const std::string& each : optimizer.hyperparameters()) {
    double value = optimizer.get(each);
    serialize_finite(hyperparameters, each, value);
    if (serializer.is_loading()) optimizer.set(each, value);
  }
  serialize_loss_scale(serializer, optimizer.guard().loss_scaler());
  serialize_exchange(serializer, optimizer);
  const auto serialize_t = [&](const Serializer& of_parameter) {
    if (!serializer.is_loading()) of_parameter("t", t);
  };
  serialize_states(serializer, optimizer, local_steps, serialize_t);
  // What was unfrozen since the last update still lies with the frozen ones; the run that loads it
  // wants its states.
  const OptimizerStates& states = optimizer.states();
  const auto saves_states = [&](const ParameterArena::Entry& entry) {
    return states.has(*entry.parameter) || !optimizer.frozen().has(entry.path);
  };
  for (const ParameterArena::Entry& entry : optimizer.arena().frozen())
    if (serializer.is_loading() ? serializer[entry.path].contains("t") : saves_states(entry)) {
      serialize_t(serializer[entry.path]);
      for (const std::string& name : states.names())
        serializer[entry.path](name, states.of(*entry.parameter, name));
    }
}

void serialize_optimizers(const Serializer& serializer, const NamedOptimizers& optimizers,
                          std::int64_t epoch, const LocalSteps* local_steps) {
  for (const auto& [name, optimizer] : optimizers) {
    const Serializer of_model = serializer["model:" + name];
    const Serializer of_optimizer = serializer["optimizer:" + name];
    load_shapes(of_model, *optimizer);
    serialize_model(of_model, optimizer->model(), local_steps || optimizer->shards() > 0);
    serialize_optimizer(of_optimizer, *optimizer, local_steps);
    if (!serializer.is_loading()) of_optimizer("epoch", epoch);
  }
}

}  // namespace tasuki
