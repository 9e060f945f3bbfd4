// How an UpdatePlan applies its rule: by a backend's kernel or by the rule's own functions.
#include <algorithm>
#include <exception>
#include <mutex>

#include "optimizer/update_plan.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

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
  UpdatePass arena{.device = update.arena.values().device(),
                   .kernel = kernel_rule_->kernel(),
                   .parameter = update.arena.shared_values().data<float>(),
                   .gradient = update.arena.gradients().data<float>(),
                   .count = update.arena.update_count(),
                   .factors = factors.of_all,
                   .table = factors.table,
                   .rows = rows_on_device(),
                   .skip = update.skip};
  if (const Tensor& rounded = update.arena.shared_rounded()) {
    arena.rounded = rounded.raw();
    arena.rounded_type = rounded.dtype();
  }
  const bool is_lamb = arena.kernel == UpdateKernel::lamb;
  if (is_lamb) arena.parameter_of = parameter_of_.data<std::int32_t>();
  UpdatePass all = part_of(arena, update.own.begin, update.own.end);
  std::ranges::copy(pointers_of(update.states), all.state);
  Tensor ratios;
  if (is_lamb) {
    ratios = trust_ratios(update, all);
    all.ratios = ratios.data<float>();
  }
  const ApplyRange apply = [&all](std::int64_t begin, std::int64_t end) {
    backend(all.device).update(part_of(all, begin, end));
  };
  update.for_all(all.count, apply);
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
  update.for_all(all.count, apply);
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
    parallel_for((end - begin) / line, elementwise_grain / line,
                 [&](std::int64_t first, std::int64_t last) {
                   const std::int64_t from = own.begin + begin;
                   failure.guard([&] { apply_to_all(from + first * line, from + last * line); });
                 });
    failure.rethrow();
  };
  update.for_all(own.size(), apply);
}

}  // namespace tasuki
