#include "optimizer/local_steps.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "communicator/agreement.hpp"
#include "communicator/packed_arrays.hpp"
#include "core/error.hpp"
#include "core/stop_request.hpp"
#include "core/stopwatch.hpp"

namespace tasuki {
namespace {

void check_settings(const LocalStepSettings& settings) {
  const auto refuse = [](const char* flag, auto found, const char* expected) {
    fail_everywhere(ErrorKind::usage, "{} {}: expected {}", flag, found, expected);
  };
  if (settings.every < 1) refuse("--sync-every", settings.every, "a number of steps, at least 1");
  if (settings.warmup < 0) refuse("--sync-warmup", settings.warmup, "a number of steps");
  if (!(settings.lr > 0)) refuse("--outer-lr", settings.lr, "a number above 0");
  if (!(settings.momentum >= 0 && settings.momentum < 1))
    refuse("--outer-momentum", settings.momentum, "a number from 0 to below 1");
}

std::vector<std::string> statements(const LocalStepSettings& settings) {
  return {fmt::format("synchronised every {} steps, after {} steps of warm-up", settings.every,
                      settings.warmup),
          settings.outer == OuterOptimizer::mean
              ? std::string("outer optimizer none")
              : fmt::format("outer optimizer nesterov, lr {}, momentum {}", settings.lr,
                            settings.momentum),
          settings.overlap ? "exchanges that travel during steps" : "exchanges between steps"};
}

// Adds the seconds from its construction to its end.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += stopwatch_.lap(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  Stopwatch stopwatch_;
};

// result[i] = change(result[i], others[i]...)
template <class Change, class... Others>
void change_each(const Tensor& result, std::int64_t count, const Change& change,
                 const Others&... others) {
  float* const to = result.data<float>();
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = change(to[i], others.template data<float>()[i]...);
}

}  // namespace

LocalSteps::LocalSteps(Communicator& all, const LocalStepSettings& settings,
                       std::optional<int> group)
    : all_(all), settings_(settings), numbers_(Tensor::zeros({2}, DType::int64)) {
  check_agreement(all, statements(settings), "all ranks need the same settings of local steps");
  check_settings(settings);
  group_ = all.split(group.value_or(all.topology().inter_rank), all.rank());
  travel_ = all.split(0, all.rank());
  // Groups are numbered in the order of their first ranks.
  const Tensor is_first = Tensor::zeros({all.size()}, DType::int64);
  const auto flags = is_first.span<std::int64_t>();
  if (group_->rank() == 0) flags[static_cast<std::size_t>(all.rank())] = 1;
  all.allreduce(is_first);
  const Tensor first = Tensor::full({1}, all.rank(), DType::int64);
  group_->bcast_data(first);
  groups_ = static_cast<int>(std::ranges::count(flags, 1));
  const auto before = flags.first(static_cast<std::size_t>(*first.data<std::int64_t>()));
  own_group_ = static_cast<int>(std::ranges::count(before, 1));
}

LocalSteps::~LocalSteps() = default;

std::string LocalSteps::why_not(const Optimizer& optimizer) const {
  const ParameterArena& arena = optimizer.arena();
  if (optimizer.communicator() != group_.get())
    return "an optimizer trains with other ranks than the group's; make it by "
           "create_multi_node_optimizer(..., LocalSteps::group())";
  if (!group_->exchanges_gradients())
    return fmt::format("the communicator {} exchanges no gradients", all_.name());
  if (!arena.values().device().is_cpu()) return "weights on a GPU; local steps are for CPUs only";
  if (!arena.unshaped().empty())
    return fmt::format("parameter {} has no shape yet; give the layer its input size",
                       arena.unshaped().front().path);
  const ExchangeSettings& exchange = optimizer.step_exchange().settings();
  if (exchange.mode == ExchangeMode::double_buffered)
    return "gradients are used a step late (double buffering), which local steps exclude";
  if (exchange.power_sgd_rank > 0 || exchange.error_feedback)
    return "gradients are compressed or rounded with feedback, which local steps exclude; the "
           "differences of weights have feedback themselves";
  const StepGuard& guard = optimizer.guard();
  if (guard.skips_non_finite() || guard.loss_scaler() != nullptr)
    return "steps that are not finite are left out, or losses are scaled, which all groups would "
           "have to do alike";
  if (optimizer.model().communicates())
    return "layers exchange messages in each step (synchronised batch normalisation, for example)";
  for (const Module::NamedBuffer& buffer : optimizer.model().buffers())
    if (const DType type = buffer.tensor->dtype(); type != DType::float32 && type != DType::int64)
      return fmt::format("buffer {} has type {}; expected float32 or int64", buffer.path,
                         name_of(type));
  return "";
}

std::vector<std::string> LocalSteps::layout() const {
  std::vector<std::string> lines;
  for (const Optimizer* optimizer : optimizers_) {
    for (const ParameterArena::Entry& entry : optimizer->arena().entries())
      lines.push_back(fmt::format("parameter {} {} at {}", entry.path,
                                  entry.parameter->shape().text(), entry.offset));
    for (const Module::NamedBuffer& buffer : optimizer->model().buffers())
      lines.push_back(fmt::format("buffer {} {}", buffer.path, buffer.tensor->shape().text()));
  }
  return lines;
}

std::vector<std::string> LocalSteps::rules() const {
  std::vector<std::string> lines;
  for (const Optimizer* optimizer : optimizers_) {
    lines.push_back("optimizer " + optimizer->rule().name());
    for (const std::string& name : optimizer->hyperparameters())
      lines.push_back(fmt::format("{} {}", name, optimizer->get(name)));
    for (const auto& hook : optimizer->hooks()) lines.push_back("gradient hook " + hook->name());
  }
  return lines;
}

void LocalSteps::follow(std::vector<Optimizer*> optimizers) {
  TASUKI_CHECK(optimizers_.empty() && !optimizers.empty(), "LocalSteps::follow() is called once");
  if (std::ranges::any_of(optimizers, &Optimizer::divides_weights))
    fail_everywhere(
        ErrorKind::usage,
        "local steps and divided weights (Optimizer::shard): between synchronisations each "
        "machine has weights of its own; leave one out");
  optimizers_ = std::move(optimizers);
  try {
    agree_to_follow();
  } catch (...) {
    optimizers_.clear();
    throw;
  }
  for (Optimizer* optimizer : optimizers_) {
    const ParameterArena& arena = optimizer->arena();
    all_.bcast_data(arena.values());
    arena.begin_update();
    arena.round_values();
    arena.end_update();
    for (const Module::NamedBuffer& buffer : optimizer->model().buffers())
      all_.bcast_data(*buffer.tensor);
  }
  make_arrays();
}

void LocalSteps::agree_to_follow() const {
  std::string refusal;
  for (const Optimizer* optimizer : optimizers_)
    if (refusal.empty()) refusal = why_not(*optimizer);
  // Before anything is exchanged: a group alone must not fail.
  check_agreement(all_, {"local steps are possible: " + (refusal.empty() ? "yes" : refusal)},
                  "all groups train the same model");
  if (!refusal.empty())
    fail_everywhere(ErrorKind::usage, "local steps (--sync-every): {}", refusal);
  check_agreement(all_, rules(), "all groups train with the same optimizers");
  check_agreement(all_, layout(), "all groups train the same model");
}

void LocalSteps::follow_changes() {
  TASUKI_CHECK(is_synchronised(), "parameters have changed since the last synchronisation");
  if (layout() == layout_) return;
  check_agreement(all_, layout(), "all groups train the same model");
  make_arrays();
}

void LocalSteps::make_arrays() {
  layout_ = layout();
  statistics_.clear();
  counters_.clear();
  weights_ = 0;
  std::int64_t buffered = 0;
  std::set<const void*> known;  // a layer may be in several places
  for (const Optimizer* optimizer : optimizers_) {
    weights_ += optimizer->arena().update_count();
    for (const Module::NamedBuffer& buffer : optimizer->model().buffers()) {
      if (!known.insert(buffer.tensor->raw()).second) continue;
      const bool is_mean = buffer.tensor->dtype() == DType::float32;
      (is_mean ? statistics_ : counters_).push_back(*buffer.tensor);
      if (is_mean) buffered += buffer.tensor->count();
    }
  }
  count_ = weights_ + buffered;
  segments_ = {{0, count_}};
  outer_ = Tensor::zeros({count_});
  sums_ = Tensor(travel_->allocate(static_cast<std::size_t>(count_) * sizeof(float)), 0, {count_},
                 DType::float32);
  if (all_.options().wire_dtype != DType::float32) residual_ = Tensor::zeros({count_});
  if (settings_.overlap) sent_ = Tensor::zeros({count_});
  if (settings_.outer == OuterOptimizer::nesterov) momentum_ = Tensor::zeros({weights_});
  read(outer_);
}

void LocalSteps::check() const {
  if (optimizers_.empty() || layout() != layout_)
    fail(ErrorKind::usage,
         "local steps: call LocalSteps::follow() before the first step, and follow_changes() at a "
         "synchronisation if parameters were added, removed, frozen or unfrozen");
}

// --- values of this rank's models ---

void LocalSteps::read(const Tensor& to) const {
  std::int64_t begin = 0;
  const auto copy = [&](const Tensor& values) {
    to.slice(begin, begin + values.count()).copy_from(values.reshape({values.count()}));
    begin += values.count();
  };
  for (const Optimizer* optimizer : optimizers_)
    copy(optimizer->arena().values().slice(0, optimizer->arena().update_count()));
  for (const Tensor& each : statistics_) copy(each);
}

// Where ranks of a machine share weights, each writes a part of them.
void LocalSteps::write(const std::function<void(const Tensor& values, Range)>& change) const {
  std::int64_t begin = 0;
  for (Optimizer* optimizer : optimizers_) {
    const ParameterArena& arena = optimizer->arena();
    const Range own{arena.own_slice().begin, std::min(arena.own_slice().end, arena.update_count())};
    arena.begin_update();
    if (own.size() > 0)
      change(arena.shared_values().slice(own.begin, own.end), {begin + own.begin, begin + own.end});
    arena.round_values();
    arena.end_update();
    begin += arena.update_count();
  }
  for (const Tensor& each : statistics_) {
    change(each.reshape({each.count()}), {begin, begin + each.count()});
    begin += each.count();
  }
}

void LocalSteps::merge_counters() const {
  combine_packed(counters_, [&](const Tensor& latest) { all_.allreduce(latest, ReduceOp::max); });
}

// --- synchronisations ---

bool LocalSteps::is_due() const {
  return steps_ <= settings_.warmup || steps_ - last_ >= settings_.every;
}

void LocalSteps::end_step(std::int64_t examples) {
  ++steps_;
  examples_ += examples;
  is_changed_ = true;
  if (!is_due()) return;
  if (!settings_.overlap || steps_ <= settings_.warmup) return bring_together();
  const Timed timed(seconds_);
  check();
  const bool has_examples = agree();
  if (under_way_) receive();
  if (has_examples) send(true);
}

void LocalSteps::synchronise() {
  if (!is_synchronised()) bring_together();
  if (residual_) residual_.fill(0);
}

void LocalSteps::continue_from(std::int64_t steps) {
  TASUKI_CHECK(under_way_ == nullptr, "a run continues while an exchange is under way");
  steps_ = last_ = steps;
  examples_ = 0;
  is_changed_ = false;
  if (residual_) residual_.fill(0);
  read(outer_);
}

Tensor LocalSteps::momentum_of(const Optimizer& optimizer) const {
  if (!momentum_) return {};
  std::int64_t begin = 0;
  for (const Optimizer* const each : optimizers_) {
    const std::int64_t count = each->arena().update_count();
    if (each == &optimizer) return momentum_.slice(begin, begin + count);
    begin += count;
  }
  fail(ErrorKind::internal, "LocalSteps does not follow this optimizer");
}

std::size_t LocalSteps::bytes() const {
  std::size_t sum = 0;
  for (const Tensor* const each : {&outer_, &sums_, &sent_, &momentum_, &residual_})
    if (*each) sum += each->bytes();
  return sum;
}

void LocalSteps::bring_together() {
  const Timed timed(seconds_);
  check();
  const bool has_examples = agree();
  if (under_way_) receive();
  if (has_examples) {
    send(false);
    receive();
  }
  // The weights become exactly the outer ones: w - w0 + w0 may be rounded.
  write([this](const Tensor& values, Range part) {
    values.copy_from(outer_.slice(part.begin, part.end));
  });
  merge_counters();
  is_changed_ = false;
}

bool LocalSteps::agree() {
  auto* const numbers = numbers_.data<std::int64_t>();
  const bool is_agreed = agreements_++ > 0;
  const auto sum_over = [&](Communicator& ranks) {
    numbers[0] = examples_;
    numbers[1] = stop_requested() ? 1 : 0;
    ranks.allreduce(numbers_, ReduceOp::sum, is_agreed);
    return numbers[0];
  };
  const auto of_group = static_cast<double>(sum_over(*group_));
  const std::int64_t of_all = sum_over(all_);
  asked_to_stop_ = numbers[1] > 0;
  const auto scale = of_all > 0 ? 1 / static_cast<double>(of_all) : 0;
  group_weight_ = of_group * scale;
  own_weight_ = static_cast<double>(examples_) * scale;
  examples_ = 0;
  last_ = steps_;
  return of_all > 0;
}

// One rank of each group brings the difference of its weights; each rank has running statistics of
// its own.
void LocalSteps::send(bool in_background) {
  read(sums_);
  change_each(
      sums_, count_, [](float now, float outer) { return now - outer; }, outer_);
  if (in_background) sent_.copy_from(sums_);
  const auto scale = [this](Range part, double weight) {
    change_each(sums_.slice(part.begin, part.end), part.size(),
                [factor = static_cast<float>(weight)](float value) { return factor * value; });
  };
  if (group_->rank() == 0)
    scale({0, weights_}, group_weight_);
  else
    sums_.slice(0, weights_).fill(0);
  scale({weights_, count_}, own_weight_);
  is_in_background_ = in_background;
  takes_mean_ = settings_.outer == OuterOptimizer::mean || steps_ <= settings_.warmup;
  under_way_ = travel_->start_sum_gradients({.arena = sums_,
                                             .segments = segments_,
                                             .residual = residual_,
                                             .is_agreed = exchanges_++ > 0,
                                             .is_unhurried = in_background});
}

void LocalSteps::receive() {
  under_way_->wait();
  under_way_.reset();
  if (!travel_->sums_alike()) travel_->bcast_data(sums_);
  // From here on `sums_` is by how much the outer weights change.
  if (!takes_mean_) {
    const auto lr = static_cast<float>(settings_.lr),
               momentum = static_cast<float>(settings_.momentum);
    change_each(
        momentum_, weights_, [momentum](float sum, float mean) { return momentum * sum - mean; },
        sums_);
    change_each(
        sums_, weights_,
        [lr, momentum](float mean, float sum) { return lr * (mean - momentum * sum); }, momentum_);
  }
  change_each(
      outer_, count_, [](float outer, float change) { return outer + change; }, sums_);
  if (!is_in_background_) return;
  write([this](const Tensor& values, Range part) {
    change_each(
        values, part.size(),
        [](float own, float change, float sent) { return own + (change - sent); },
        sums_.slice(part.begin, part.end), sent_.slice(part.begin, part.end));
  });
}

}  // namespace tasuki
