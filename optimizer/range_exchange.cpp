#include "optimizer/range_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "communicator/bytes.hpp"
#include "core/log.hpp"
#include "core/trace.hpp"
#include "optimizer/power_sgd.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

bool is_on_gpu(const ParameterArena& arena) {
  return !arena.gradients().device().is_cpu();
}

ExchangeMode mode_of(const ExchangeSettings& settings, const ParameterArena& arena,
                     const Communicator& communicator) {
  if (arena.keeps_sums_only()) return settings.mode.value_or(ExchangeMode::overlapped);
  if (!communicator.exchanges_gradients() || settings.power_sgd_rank > 0)
    return ExchangeMode::whole;
  if (is_on_gpu(arena)) {
    const bool is_wanted = settings.mode.value_or(ExchangeMode::overlapped) != ExchangeMode::whole;
    return is_wanted && communicator.queues_exchanges() ? ExchangeMode::overlapped
                                                        : ExchangeMode::whole;
  }
  if (settings.mode) return *settings.mode;
  return communicator.inter_size() > 1 ? ExchangeMode::overlapped : ExchangeMode::whole;
}

// The modes that the first steps try. A GPU has one way to overlap, a CPU has two.
std::vector<ExchangeMode> modes_to_try(const ExchangeSettings& settings, ExchangeMode mode,
                                       const ParameterArena& arena,
                                       const Communicator& communicator) {
  if (mode != ExchangeMode::overlapped || is_on_gpu(arena)) return {mode};
  std::vector<ExchangeMode> modes;
  if (communicator.supports(Background::thread)) modes.push_back(ExchangeMode::thread);
  if (communicator.supports(Background::slices)) modes.push_back(ExchangeMode::slices);
  // With slots, `whole` is each range when it is complete, by a call that waits for it.
  if (modes.empty() || (!settings.mode && !arena.keeps_sums_only()))
    modes.push_back(ExchangeMode::whole);
  return modes;
}

std::int64_t sixteenth(std::int64_t bytes, std::int64_t least) {
  return std::clamp(bytes / 16, least, 25 * mebibyte);
}

std::vector<Range> ranges_for(const ExchangeSettings& settings, ExchangeMode mode,
                              const ParameterArena& arena, const Communicator& communicator) {
  const std::vector<ParameterArena::Entry>& entries = arena.entries();
  const std::int64_t count = arena.gradients().count();
  if (arena.keeps_sums_only()) return slot_ranges(entries, count, settings);
  std::vector<Range> one{{0, count}};
  const bool on_gpu = is_on_gpu(arena);
  if (settings.power_sgd_rank > 0 || (on_gpu && !communicator.queues_exchanges())) return one;
  if (settings.range_bytes > 0) return exchange_ranges(entries, count, settings.range_bytes);
  // Without overlap more ranges only cost more messages. On CPUs a mode that was asked for has
  // ranges all the same, so that its sums have the bits of the others.
  if (mode == ExchangeMode::whole && (on_gpu || !settings.mode)) return one;
  // NCCL needs longer messages than MPI for its rate. On GPUs all parts of a parameter would start
  // together, so it is not divided.
  return exchange_ranges(
      entries, count, sixteenth(count * std::int64_t{sizeof(float)}, (on_gpu ? 4 : 1) * mebibyte),
      /*whole=*/on_gpu);
}

}  // namespace

std::vector<Range> exchange_ranges(const std::vector<ParameterArena::Entry>& entries,
                                   std::int64_t count, std::int64_t range_bytes, bool whole) {
  constexpr std::int64_t step = 16;  // elements
  const std::int64_t most = std::max(step, range_bytes / std::int64_t{sizeof(float)} / step * step);
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  const auto end_range = [&](std::int64_t end) {
    if (end > begin) ranges.push_back({begin, end});
    begin = end;
  };
  for (const ParameterArena::Entry& entry : entries) {
    const std::int64_t end = entry.offset + (entry.count + step - 1) / step * step;
    // Small parameters before a large one share its range if that is not divided, so that ranges
    // have similar sizes.
    if (end - begin > most && (!whole || entry.offset - begin >= most / 2)) end_range(entry.offset);
    while (!whole && end - begin > most) end_range(begin + most);
  }
  end_range(count);
  return ranges;
}

std::vector<Range> slot_ranges(const std::vector<ParameterArena::Entry>& entries,
                               std::int64_t count, const ExchangeSettings& settings) {
  const std::int64_t bytes = count * std::int64_t{sizeof(float)};
  return exchange_ranges(
      entries, count, settings.range_bytes > 0 ? settings.range_bytes : sixteenth(bytes, mebibyte),
      /*whole=*/true);
}

RangeExchange::RangeExchange(const ParameterArena& arena, Communicator& communicator,
                             const ExchangeSettings& settings, std::span<const Range> needed)
    : RangeExchange(mode_of(settings, arena, communicator), arena, communicator, settings, needed) {
}

RangeExchange::RangeExchange(ExchangeMode mode, const ParameterArena& arena,
                             Communicator& communicator, const ExchangeSettings& settings,
                             std::span<const Range> needed)
    : GradientExchange(mode, ranges_for(settings, mode, arena, communicator), communicator),
      arena_(arena),
      communicator_(communicator),
      needed_(needed),
      segments_(ranges().size()),
      parameters_in_(ranges().size(), 0),
      examples_of_errors_(Tensor::zeros({1}, DType::float64, Device::cpu())),
      order_(ranges().size()),
      trials_(modes_to_try(settings, mode, arena, communicator)) {
  if (settings.power_sgd_rank > 0)
    power_sgd_ = std::make_unique<PowerSgd>(arena, communicator, settings.power_sgd_rank);
  else if (settings.error_feedback)
    residual_ = Tensor::zeros(arena.gradients().shape(), DType::float32, Device::cpu());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (arena.keeps_sums_only()) {
    slots_ = std::make_shared<GradientSlots>(arena, ranges(), communicator,
                                             [this](std::size_t range) { wait_for(range); });
    for (const ParameterArena::Entry& entry : arena.entries())
      entry.parameter->place_grad_by(slots_);
  }
  for (const GradientView::Segment& segment : arena.gradient_view().segments) {
    for (std::size_t i = 0; i < ranges().size(); ++i) {
      const std::int64_t begin = std::max(segment.offset, ranges()[i].begin);
      const std::int64_t end = std::min(segment.offset + segment.count, ranges()[i].end);
      if (begin < end) segments_[i].push_back({begin - ranges()[i].begin, end - begin});
    }
  }
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const auto has_ended = [&](const Range& range) { return range.end <= entry.offset; };
    const auto begins_behind = [&](const Range& range) {
      return range.begin >= entry.offset + entry.count;
    };
    const auto first = std::ranges::find_if_not(ranges(), has_ended);
    const auto last = std::find_if(first, ranges().end(), begins_behind);
    ranges_of_[entry.parameter] = {first - ranges().begin(), last - ranges().begin()};
    for (auto range = first; range != last; ++range)
      ++parameters_in_[static_cast<std::size_t>(range - ranges().begin())];
  }
}

RangeExchange::~RangeExchange() = default;

std::vector<Tensor> RangeExchange::carried_over() const {
  if (power_sgd_) return {power_sgd_->errors(), power_sgd_->directions(), examples_of_errors_};
  if (residual_.defined()) return {residual_, examples_of_errors_};
  return {};
}

Tensor RangeExchange::errors() const {
  return power_sgd_ ? power_sgd_->errors() : residual_;
}

void RangeExchange::set_examples(std::int64_t examples) {
  if (examples > 0) examples_of_errors_.data<double>()[0] = static_cast<double>(examples);
}

// Errors are sums over the examples of the step that left them, as gradients are. This step's
// update divides by its own number of examples. So errors are multiplied by the ratio of the two
// numbers, which adds to this mean exactly what the last mean lacked.
void RangeExchange::adapt_errors() {
  double& before = *examples_of_errors_.data<double>();
  takes_errors_ = true;
  if (!errors().defined() || before == 0 || !communicator_.exchanges_gradients()) return;
  auto now = static_cast<double>(examples_.global.value_or(0));
  if (now == 0) {
    const Tensor of_all = Tensor::full({}, static_cast<double>(examples_.own), DType::float64);
    communicator_.allreduce(of_all);
    now = of_all.item();
  }
  // No update follows, so errors wait for the next step.
  takes_errors_ = now > 0;
  if (!takes_errors_ || now == before) return;
  backend(Device::cpu()).scale(errors(), static_cast<float>(now / before));
  before = now;
}

GradientView RangeExchange::view_of(std::size_t range) {
  const auto [begin, end] = ranges()[range];
  const bool has_notices = range + 1 == ranges().size();
  return {.arena = slots_ ? taken(range) : arena_.gradients().slice(begin, end),
          .segments = segments_[range],
          .wire_scale_hint = wire_scale_hint(),
          .exact_at_end = has_notices ? end - arena_.update_count() : 0,
          .residual = residual_.defined() && takes_errors_ ? residual_.slice(begin, end) : Tensor(),
          .first = begin,
          .is_agreed = has_exchanged_ && !power_sgd_,
          .needed = needed_,
          .shards = arena_.shards()};
}

void RangeExchange::begin(const Examples& examples) {
  if (mode() != ExchangeMode::whole && has_exchanged_ && !is_agreed_) agree_on_order();
  examples_ = examples;
  content_ = Content::gradients;
  is_last_pass_ = true;
  kept_ = 0;
  if (slots_) slots_->begin_pass();
  adapt_errors();
  mode_of_step_ = trials_.mode();
  has_gradient_ = false;
  since_first_gradient_.lap();
  incomplete_ = parameters_in_;
  completed_.clear();
}

void RangeExchange::begin_without_gradients() {
  begin({0, has_exchanged_ ? examples_.global : 1});
  content_ = Content::no_gradients;
}

void RangeExchange::begin_pass() {
  begin({});
  is_last_pass_ = false;
}

void RangeExchange::begin_after_passes(const Examples& examples) {
  begin(examples);
  content_ = Content::notices_alone;
}

void RangeExchange::ready(Parameter& parameter) {
  const auto found = ranges_of_.find(&parameter);
  if (found == ranges_of_.end()) return;
  if (!std::exchange(has_gradient_, true)) since_first_gradient_.lap();
  // The parameter has no gradient if none reached the functions that use it.
  parameter.fill_missing_grad();
  for (std::int64_t i = found->second.begin; i < found->second.end; ++i)
    if (--incomplete_[static_cast<std::size_t>(i)] == 0) complete(static_cast<std::size_t>(i));
  if (overlaps()) start_complete_ranges(/*may_move=*/false);
}

std::string RangeExchange::describe() const {
  return fmt::format("in {} range(s) {} the backward pass", ranges().size(),
                     mode() == ExchangeMode::whole ? "after" : "during");
}

void RangeExchange::complete(std::size_t range) {
  completed_.push_back(range);
  if (!is_tracing()) return;
  const double now = trace_clock();
  trace({.name = "complete",
         .row = TraceRow::gradients,
         .begin = now,
         .end = now,
         .number = ranges()[range].begin,
         .bytes = ranges()[range].size() * std::int64_t{sizeof(float)}});
}

// `may_move`: no function of the backward pass is under way, whose gradients would have to stay.
void RangeExchange::start_complete_ranges(bool may_move) {
  const Background how =
      mode_of_step_ == ExchangeMode::slices ? Background::slices : Background::thread;
  while (under_way_.size() < order_.size() && incomplete_[order_[under_way_.size()]] == 0) {
    const std::size_t range = order_[under_way_.size()];
    if (slots_ && !may_move && !slots_->is_in_place(range)) return;
    start(range, how);
  }
}

void RangeExchange::start(std::size_t range, Background how) {
  const GradientView view = view_of(range);
  if (slots_ && mode_of_step_ == ExchangeMode::whole) {
    communicator_.sum_gradients(view);
    under_way_.push_back(nullptr);
    wait_for(range);
  } else {
    under_way_.push_back(communicator_.start_sum_gradients(view, how));
  }
}

// --- with slots ---

// And for all that were started before it.
void RangeExchange::wait_for(std::size_t range) {
  bool is_found = false;
  while (!is_found && kept_ < under_way_.size()) {
    if (under_way_[kept_]) under_way_[kept_]->wait();
    is_found = order_[kept_] == range;
    keep(order_[kept_++]);
  }
  TASUKI_CHECK(is_found, "range {} of gradients is not under way", range);
}

Tensor RangeExchange::notices() const {
  return arena_.gradients().slice(arena_.update_count(), arena_.gradients().count());
}

// A step's notices travel with its last pass. Those of other passes say no more than that they are
// not the last, and whether the model of a rank has changed.
Tensor RangeExchange::taken(std::size_t range) {
  Tensor own = notices();
  if (!is_last_pass_) {
    own = Tensor::zeros(own.shape());
    own.data<float>()[ParameterArena::pass_notice] = 1;
  }
  return content_ == Content::no_gradients ? slots_->take_zeros(range, own)
                                           : slots_->take(range, own);
}

void RangeExchange::keep(std::size_t range) {
  const Range own = needed_[static_cast<std::size_t>(communicator_.rank())];
  const Tensor found = slots_->kept(range, own, adds_);
  if (!found) return;
  const float* const notice = found.data<float>();
  model_changed_ = notice[0] != 0;
  const float others = notice[ParameterArena::pass_notice];
  if (!model_changed_ && others != (is_last_pass_ ? 0 : static_cast<float>(communicator_.size())))
    fail(ErrorKind::disagreement,
         "--shard: a step has as many backward passes on all ranks, but this was the last "
         "one on some ranks and not on others");
  if (is_last_pass_) notices().copy_from(found);
}

bool RangeExchange::finish_pass() {
  finish_ranges();
  note_exchange();
  adds_ = true;
  return model_changed_;
}

// ---

// The last exchange also advances those that were started before it.
void RangeExchange::advance() {
  if (slots_ && slots_->has_pass()) {
    slots_->function_ended();
    start_complete_ranges();
  }
  if (kept_ < under_way_.size() && under_way_.back()) under_way_.back()->advance();
}

void RangeExchange::give_up() {
  under_way_.clear();
  completed_.clear();
  kept_ = 0;
  adds_ = false;
  if (slots_) slots_->end_pass();
}

void RangeExchange::finish_ranges() {
  if (slots_) slots_->function_ended();
  std::ranges::fill(incomplete_, 0);
  start_complete_ranges();
  if (slots_ && kept_ < under_way_.size()) wait_for(order_[under_way_.size() - 1]);
  for (const auto& exchange : under_way_)
    if (!slots_) exchange->wait();
  under_way_.clear();
  kept_ = 0;
  if (slots_) slots_->end_pass();
}

void RangeExchange::note_exchange() {
  has_exchanged_ = true;
  // A rank whose model has changed has no gradients to time.
  if (is_agreed_ && !trials_.is_over() && !model_changed_) measure_step();
}

std::optional<GradientExchange::Sums> RangeExchange::finish() {
  if (power_sgd_ && takes_errors_) {
    power_sgd_->exchange(wire_scale_hint());
  } else if (content_ == Content::notices_alone) {
    slots_->end_pass();
    communicator_.allreduce(notices());
  } else if (overlaps()) {
    finish_ranges();
  } else {
    for (const std::size_t range : order_) communicator_.sum_gradients(view_of(range));
  }
  adds_ = false;
  if (content_ != Content::notices_alone) note_exchange();
  return Sums{examples_.global};
}

// All ranks call this in the same steps, because they all take part in each exchange.
void RangeExchange::measure_step() {
  trials_.add(since_first_gradient_.lap());
  if (!trials_.is_over()) return;
  const std::vector<double>& own = trials_.seconds();
  const Tensor slowest = Tensor::from(std::span<const double>(own), {std::ssize(own)});
  communicator_.allreduce(slowest, ReduceOp::max);
  const auto of_all = slowest.span<double>();
  const std::string said = trials_.decide({of_all.begin(), of_all.end()});
  if (communicator_.rank() == 0) log_verbose("{}", said);
}

void RangeExchange::agree_on_order() {
  std::vector<std::size_t> order;
  std::vector<bool> is_listed(ranges().size(), false);
  // As bytes, which stay on the host.
  for (const Bytes& told : allgather_bytes(communicator_, std::as_bytes(std::span(completed_)))) {
    if (!order.empty()) break;
    order.resize(told.size() / sizeof(std::size_t));
    if (!told.empty()) std::memcpy(order.data(), told.data(), told.size());
    for (const std::size_t range : order) is_listed[range] = true;
  }
  for (std::size_t range = 0; range < ranges().size(); ++range)
    if (!is_listed[range]) order.push_back(range);
  order_ = std::move(order);
  is_agreed_ = true;
}

}  // namespace tasuki
