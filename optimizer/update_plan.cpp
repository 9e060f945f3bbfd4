#include "tasuki/optimizer/update_plan.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>

#include "tasuki/optimizer/kernel_hook.hpp"
#include "tasuki/tensor/cpu/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t floats_of_row = sizeof(UpdateFactors) / sizeof(float);

std::span<UpdateFactors> as_table(std::span<float> numbers) {
  return {reinterpret_cast<UpdateFactors*>(numbers.data()),
          numbers.size() / static_cast<std::size_t>(floats_of_row)};
}

UpdatePass combination(const Tensor& gradients, const Tensor& values, std::int64_t count) {
  UpdatePass pass;
  pass.device = gradients.device();
  pass.kernel = UpdateKernel::combine;
  pass.parameter = gradients.data<float>();
  pass.gradient = values.data<float>();
  pass.count = count;
  return pass;
}

// Elements [begin, end) of an update.
UpdatePass part_of(const UpdatePass& whole, std::int64_t begin, std::int64_t end) {
  UpdatePass part = whole;
  part.parameter += begin;
  part.gradient += begin;
  for (float*& state : part.state)
    if (state != nullptr) state += begin;
  if (part.rows != nullptr) part.rows += begin / elements_per_row_number;
  if (part.parameter_of != nullptr) part.parameter_of += begin / elements_per_row_number;
  if (part.rounded != nullptr)
    part.rounded = static_cast<std::byte*>(part.rounded) +
                   static_cast<std::size_t>(begin) * size_of(part.rounded_type);
  part.count = end - begin;
  return part;
}

std::vector<float*> pointers_of(std::span<const Tensor> states) {
  std::vector<float*> pointers;
  pointers.reserve(states.size());
  for (const Tensor& state : states) pointers.push_back(state.data<float>());
  return pointers;
}

// The first exception of several threads.
class FirstFailure {
 public:
  template <class Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

UpdatePlan::UpdatePlan(std::shared_ptr<const UpdateRule> rule, const Hyperparameters& values,
                       const std::int64_t& t)
    : rule_(std::move(rule)),
      kernel_rule_(rule_->as_kernel_rule()),
      values_(values),
      t_(t),
      late_table_([this](std::span<float> out) {
        const double examples = expected_ * examples_for_each_;
        drawn_ = {StepScope::number(), examples};
        std::span<UpdateFactors> left = as_table(out);
        // As many as in a step before that had other hooks or groups: they are not read.
        if (std::ssize(left) != tables() * std::ssize(rows_)) {
          std::ranges::fill(out, 0.0F);
          return;
        }
        for (const Stage& stage : stages_) {
          if (!stage.has_table()) continue;
          fill_table(stage, stage.takes_mean ? 1 / examples : 1, left.first(rows_.size()));
          left = left.subspan(rows_.size());
        }
      }),
      late_mean_([this](std::span<double> out) {
        const double examples = expected_ * examples_for_each_;
        drawn_ = {StepScope::number(), examples};
        out[0] = 1 / examples;
      }) {
  make_stages();
}

// --- one update ---

void UpdatePlan::run(const ParameterArena& arena, const SliceOwners& owners,
                     std::span<const Tensor> states, const float* skip, std::int64_t examples,
                     const SpreadUpdate& spread) {
  if (!unmet_.empty()) fail_everywhere(ErrorKind::usage, "{}", unmet_);
  const auto count = static_cast<double>(examples);
  const Device device = arena.values().device();
  const Update update{
      arena, owners, states, skip, spread, count, !device.is_cpu() && follow(count)};
  double scale = 1 / count;  // that remains to be applied
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (stage.then == nullptr) return apply_rule(update, i, scale);
    // A hook before this one may have left a scale to the update; an ArrayHook sees it applied.
    const bool is_of_arrays = stage.then->kind_ == OptimizerHook::Kind::arrays;
    if (stage.writes || (is_of_arrays && scale != 1)) {
      write(update, i, scale);
      scale = 1;
    }
    // Factors are in stage.factors.
    if (const NormHook* hook = norm_hook_of(*stage.then, device))
      scale = apply_norm_hook(update, *hook, scale);
    else if (stage.then->kind_ == OptimizerHook::Kind::kernel)
      scale = apply_kernel_hook(update, stage, scale);
    else if (is_of_arrays)
      apply_array_hook(update, static_cast<ArrayHook&>(*stage.then));
  }
}

bool UpdatePlan::follow(double examples) {
  if (has_norm_hooks_) return false;
  if (expected_ * examples_for_each_ != examples) examples_for_each_ = examples / expected_;
  const bool is_drawn = StepScope::is_open() && drawn_.step == StepScope::number();
  if (expected_ * examples_for_each_ == examples && (!is_drawn || drawn_.examples == examples))
    return true;
  refuse_recording("updates divide by numbers of examples that are unlike those of the batches");
  return false;
}

UpdatePlan::Factors UpdatePlan::factors_on(const Update& update, std::size_t stage, double scale,
                                           Place place) const {
  const Device device = update.arena.values().device();
  const auto rows = std::ssize(rows_);
  Factors factors;
  if (update.is_late)
    factors.memory = late_table_.on_if_carried(device, tables() * rows * floats_of_row);
  if (factors.memory) {
    const std::int64_t before =
        std::count_if(stages_.begin(), stages_.begin() + static_cast<std::ptrdiff_t>(stage),
                      [](const Stage& each) { return each.has_table(); });
    factors.table =
        as_table({factors.memory.data<float>(), static_cast<std::size_t>(factors.memory.count())})
            .data() +
        before * rows;
    return factors;
  }
  if (rows == 1) factors.of_all = factors_of(stages_[stage], rows_[0], scale);
  if (rows == 1 && place == Place::anywhere) return factors;
  const Tensor made = Tensor::empty({rows * floats_of_row});
  fill_table(stages_[stage], scale, as_table(made.span<float>()));
  factors.memory = made.to(device);
  factors.table =
      as_table({factors.memory.data<float>(), static_cast<std::size_t>(made.count())}).data();
  return factors;
}

const FactorRow* UpdatePlan::rows_on_device() const {
  return row_numbers_ ? reinterpret_cast<const FactorRow*>(row_numbers_.data<std::uint8_t>())
                      : nullptr;
}

// --- hooks ---

void UpdatePlan::write(const Update& update, std::size_t stage, double scale) const {
  const Factors factors = factors_on(update, stage, scale, Place::anywhere);
  UpdatePass all = combination(update.arena.gradients(), update.arena.shared_values(),
                               update.arena.update_count());
  all.factors = factors.of_all;
  all.table = factors.table;
  all.rows = rows_on_device();
  const Range own = update.owners.own();
  backend(all.device).update(part_of(all, own.begin, own.end));
}

void UpdatePlan::apply_array_hook(const Update& update, ArrayHook& hook) const {
  if (update.owners.are_several())
    fail_everywhere(ErrorKind::usage,
                    "hook {} works on all gradients, of which each rank has only a part where "
                    "ranks share the optimizer's states: train without --shard-optimizer "
                    "(Optimizer::shard_states), or write it as a FactorHook or a NormHook",
                    hook.name());
  const ParameterArena& arena = update.arena;
  const std::int64_t elements = arena.update_count();
  hook.apply({arena, arena.values().slice(0, elements), arena.gradients().slice(0, elements)});
}

double UpdatePlan::apply_kernel_hook(const Update& update, const Stage& stage, double scale) const {
  LateScale late{scale};
  const Device device = update.arena.values().device();
  Tensor memory;
  if (update.is_late && stage.takes_mean && !stage.writes)
    memory = late_mean_.on_if_carried(device, 1);
  if (memory) late.on_device = memory.data<double>();
  return static_cast<const KernelHook&>(*stage.then)
      .apply({update.arena, update.owners, infos_, late});
}

double UpdatePlan::apply_norm_hook(const Update& update, const NormHook& hook, double scale) const {
  refuse_recording(fmt::format("hook {} reads norms on the host", hook.name()));
  const Tensor found = norms(update, {}).to(Device::cpu());
  const std::span<const double> numbers = found.span<double>();
  std::vector<ParameterNorms> of_parameters;
  double squares = 0;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const double g = numbers[2 * i + 1] * scale;
    of_parameters.push_back({infos_[i], numbers[2 * i], g});
    squares += g * g;
  }
  std::vector<GradientFactors> factors(infos_.size());
  hook.adjust(factors, of_parameters, std::sqrt(squares), t_ + 1);

  const bool is_one_scale = std::ranges::all_of(factors, [&](const GradientFactors& each) {
    return each.scale == factors[0].scale && each.decay == 0;
  });
  if (is_one_scale) return scale * factors[0].scale;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const ParameterArena::Entry& entry = update.arena.entries()[i];
    const Range own = update.owners.own();
    const std::int64_t begin = std::max(own.begin, entry.offset);
    const std::int64_t end = std::min(own.end, entry.offset + entry.count);
    if (begin >= end) continue;
    UpdatePass pass = combination(update.arena.gradients().slice(begin, end),
                                  update.arena.shared_values().slice(begin, end), end - begin);
    pass.factors.scale = static_cast<float>(scale * factors[i].scale);
    pass.factors.decay = static_cast<float>(factors[i].decay);
    backend(pass.device).update(pass);
  }
  return 1;
}

// --- the rule, by a backend's kernel or by the rule's functions ---

void UpdatePlan::apply_rule(const Update& update, std::size_t stage, double scale) const {
  const bool is_on_cpu = update.arena.values().device().is_cpu();
  const bool needs_memory = kernel_rule_ == nullptr && !is_on_cpu;
  const Factors factors =
      factors_on(update, stage, scale, needs_memory ? Place::on_device : Place::anywhere);
  if (kernel_rule_ != nullptr) return apply_kernel(update, factors);
  if (!is_on_cpu)
    apply_on_gpu(update, factors);
  else if (update.skip == nullptr || *update.skip == 0)
    apply_on_cpu(update, factors);
  update.arena.round_values();
}

void UpdatePlan::apply_kernel(const Update& update, const Factors& factors) const {
  UpdatePass arena;
  arena.device = update.arena.values().device();
  arena.kernel = kernel_rule_->kernel();
  arena.parameter = update.arena.shared_values().data<float>();
  arena.gradient = update.arena.gradients().data<float>();
  arena.count = update.arena.update_count();
  arena.factors = factors.of_all;
  arena.table = factors.table;
  arena.rows = rows_on_device();
  arena.skip = update.skip;
  if (const Tensor& rounded = update.arena.shared_rounded()) {
    arena.rounded = rounded.raw();
    arena.rounded_type = rounded.dtype();
  }
  const bool is_lamb = arena.kernel == UpdateKernel::lamb;
  if (is_lamb) arena.parameter_of = parameter_of_.data<std::int32_t>();
  const Range own = update.owners.own();
  UpdatePass all = part_of(arena, own.begin, own.end);
  std::ranges::copy(pointers_of(update.states), all.state);
  Tensor ratios;
  if (is_lamb) {
    ratios = trust_ratios(update, all);
    all.ratios = ratios.data<float>();
  }
  const ApplyRange apply = [&all](std::int64_t begin, std::int64_t end) {
    backend(all.device).update(part_of(all, begin, end));
  };
  if (update.spread)
    update.spread(apply, all.count);
  else
    apply(0, all.count);
}

Tensor UpdatePlan::trust_ratios(const Update& update, const UpdatePass& own) const {
  Tensor ratios = Tensor::empty({std::ssize(infos_)}, DType::float32, own.device);
  LambPass pass;
  pass.device = own.device;
  pass.parameter = own.parameter;
  pass.gradient = own.gradient;
  std::ranges::copy(own.state, pass.state);
  pass.factors = own.factors;
  pass.table = own.table;
  pass.rows = own.rows;
  pass.skip = update.skip;
  if (!own.device.is_cpu()) {
    pass.segments = segments_.data<std::int64_t>();
    pass.parameters = std::ssize(infos_);
    pass.ratios = ratios.data<float>();
    backend(own.device).lamb(pass);
    return ratios;
  }
  const std::vector<double> squares =
      sums_of_pieces(update, [&](std::span<const std::int64_t> pieces, double* sums) {
        // From the begin of the slice.
        std::vector<std::int64_t> segments(pieces.begin(), pieces.end());
        for (std::size_t i = 0; i < segments.size(); i += 2)
          segments[i] -= update.owners.own().begin;
        pass.segments = segments.data();
        pass.parameters = std::ssize(segments) / 2;
        pass.squares = sums;
        backend(own.device).lamb(pass);
      });
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const UpdateFactors& factors = own.table != nullptr ? own.table[row_of_[i]] : own.factors;
    ratios.data<float>()[i] =
        LambPass::ratio(squares[2 * i], squares[2 * i + 1], double{factors.of_rule[7]});
  }
  return ratios;
}

void UpdatePlan::apply_on_gpu(const Update& update, const Factors& factors) const {
  const Tensor& values = update.arena.shared_values();
  const Tensor found = rule_->needs_norms() ? norms(update, factors) : Tensor();
  const std::vector<float*> states = pointers_of(update.states);
  const RuleArena all{
      .device = values.device(),
      .stream = backend(values.device()).queue(values.device()),
      .parameters = values.data<float>(),
      .gradients = update.arena.gradients().data<float>(),
      .states = states,
      .count = update.arena.update_count(),
      .factors = factors.table,
      .rows = rows_on_device(),
      .norms = found ? found.data<double>() : nullptr,
      .parameter_of = parameter_of_ ? parameter_of_.data<std::int32_t>() : nullptr,
      .skip = update.skip,
  };
  const ApplyRange apply = [&](std::int64_t begin, std::int64_t end) {
    TASUKI_CHECK(begin == 0 && end == all.count, "a rule of a GPU updates the whole arena at once");
    rule_->apply_on_gpu(all);
  };
  if (update.spread)
    update.spread(apply, all.count);
  else
    apply(0, all.count);
}

void UpdatePlan::apply_on_cpu(const Update& update, const Factors& factors) const {
  const std::vector<ParameterArena::Entry>& entries = update.arena.entries();
  float* const parameters = update.arena.shared_values().data<float>();
  const float* const gradients = update.arena.gradients().data<float>();
  const std::vector<float*> states = pointers_of(update.states);
  const auto factor_count = rule_->factors(values_, t_ + 1).size();
  const Range own = update.owners.own();
  Tensor found;
  if (rule_->needs_norms()) found = norms(update, factors);

  const auto apply_to = [&](std::size_t entry, std::int64_t begin, std::int64_t end) {
    const UpdateFactors& k =
        factors.table != nullptr ? factors.table[row_of_[entry]] : factors.of_all;
    std::vector<float*> from = states;
    for (float*& state : from) state += begin - own.begin;
    const double* const norm = found ? found.data<double>() + 2 * entry : nullptr;
    rule_->apply({.info = infos_[entry],
                  .parameter = parameters + begin,
                  .gradient = gradients + begin,
                  .states = from,
                  .count = end - begin,
                  .factors = std::span(k.of_rule).first(factor_count),
                  .w_norm = norm != nullptr ? norm[0] : 0,
                  .g_norm = norm != nullptr ? norm[1] : 0,
                  .scale = k.scale,
                  .decay = k.decay});
  };
  const auto apply_to_all = [&](std::int64_t begin, std::int64_t end) {
    auto entry = std::ranges::upper_bound(entries, begin, {}, &ParameterArena::Entry::offset);
    if (entry != entries.begin()) --entry;
    for (; entry != entries.end() && entry->offset < end; ++entry) {
      const std::int64_t first = std::max(begin, entry->offset);
      const std::int64_t last = std::min(end, entry->offset + entry->count);
      if (first < last) apply_to(static_cast<std::size_t>(entry - entries.begin()), first, last);
    }
  };
  const ApplyRange apply = [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t line = elements_per_row_number;
    FirstFailure failure;
    parallel_for((end - begin) / line, eltwise_grain / line,
                 [&](std::int64_t first, std::int64_t last) {
                   const std::int64_t from = own.begin + begin;
                   failure.guard([&] { apply_to_all(from + first * line, from + last * line); });
                 });
    failure.rethrow();
  };
  if (update.spread)
    update.spread(apply, own.size());
  else
    apply(0, own.size());
}

Tensor UpdatePlan::norms(const Update& update, const Factors& factors) const {
  NormPass pass;
  pass.device = update.arena.values().device();
  pass.parameter = update.arena.shared_values().data<float>();
  pass.gradient = update.arena.gradients().data<float>();
  pass.factors = factors.of_all;
  pass.table = factors.table;
  pass.rows = factors.table != nullptr ? rows_on_device() : nullptr;
  if (pass.device.is_cpu()) return norms_on_cpu(update, pass);
  Tensor found = Tensor::empty({2 * std::ssize(infos_)}, DType::float64, pass.device);
  pass.segments = segments_.data<std::int64_t>();
  pass.parameters = std::ssize(infos_);
  pass.norms = found.data<double>();
  backend(pass.device).norms(pass);
  return found;
}

Tensor UpdatePlan::norms_on_cpu(const Update& update, NormPass pass) const {
  const std::vector<double> squares =
      sums_of_pieces(update, [&](std::span<const std::int64_t> pieces, double* sums) {
        pass.segments = pieces.data();
        pass.parameters = std::ssize(pieces) / 2;
        pass.norms = sums;
        pass.squared = true;
        backend(pass.device).norms(pass);
      });
  Tensor found = Tensor::empty({std::ssize(squares)}, DType::float64);
  std::ranges::transform(squares, found.data<double>(), [](double sum) { return std::sqrt(sum); });
  return found;
}

// Owners exchange the sums of their pieces. Every rank adds them in the arena's order.
std::vector<double> UpdatePlan::sums_of_pieces(const Update& update,
                                               const SumPieces& of_pieces) const {
  const Range own = update.owners.own();
  const auto piece_from = [this](std::int64_t element) {
    return static_cast<std::size_t>(std::ranges::lower_bound(piece_begins_, element) -
                                    piece_begins_.begin());
  };
  const std::size_t first = piece_from(own.begin), last = piece_from(own.end);
  const Tensor sums = Tensor::zeros({2 * std::ssize(piece_begins_)}, DType::float64);
  const std::span<double> of_piece = sums.span<double>();
  of_pieces(std::span(norm_pieces_).subspan(2 * first, 2 * (last - first)),
            of_piece.data() + 2 * first);
  update.owners.share_numbers(sums, piece_begins_, 2);

  std::vector<double> of_parameters(2 * infos_.size());
  for (std::size_t piece = 0; piece < piece_begins_.size(); ++piece) {
    const std::size_t parameter = parameter_of_piece_[piece];
    of_parameters[2 * parameter] += of_piece[2 * piece];
    of_parameters[2 * parameter + 1] += of_piece[2 * piece + 1];
  }
  return of_parameters;
}

}  // namespace tasuki
