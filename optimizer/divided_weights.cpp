#include "optimizer/divided_weights.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "communicator/leave.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/polite_wait.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

Range intersection(Range a, Range b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Parts of an array that begins at element `begin` of the arena.
std::vector<Range> parts_in(const std::vector<Range>& slices, Range elements) {
  std::vector<Range> parts;
  parts.reserve(slices.size());
  for (const Range& slice : slices) {
    const Range common = intersection(slice, elements);
    parts.push_back({common.begin - elements.begin, common.end - elements.begin});
  }
  return parts;
}

// The slices of the ranks that share the values with this one.
std::vector<Range> slices_of_sharers(const std::vector<Range>& slices, int rank,
                                     Communicator* sharers) {
  if (sharers == nullptr) return {slices[static_cast<std::size_t>(rank)]};
  const auto own = static_cast<std::int64_t>(rank);
  std::vector<Range> found;
  for (const Tensor& each : sharers->allgather(Tensor::from(std::span(&own, 1), {1})))
    found.push_back(slices[static_cast<std::size_t>(*each.data<std::int64_t>())]);
  std::ranges::sort(found, {}, &Range::begin);
  return found;
}

}  // namespace

DividedWeights::DividedWeights(const ParameterArena& arena, std::vector<Range> slices,
                               std::vector<WeightUnit> units,
                               std::shared_ptr<Communicator> gathering, Communicator* sharers)
    : arena_(&arena),
      slices_(std::move(slices)),
      own_(slices_of_sharers(slices_, gathering->rank(), sharers)),
      units_(std::move(units)),
      gathering_(std::move(gathering)),
      sharers_(sharers),
      rank_(gathering_->rank()),
      orders_{UnitOrder(units_.size()), UnitOrder(units_.size())},
      is_here_(units_.size(), false) {
  const auto& entries = arena.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) entry_of_[entries[i].parameter] = i;
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    for (std::int64_t i = units_[unit].entries.begin; i < units_[unit].entries.end; ++i)
      unit_of_[entries[static_cast<std::size_t>(i)].parameter] = unit;
}

DividedWeights::~DividedWeights() {
  thread_.wait();
}

std::int64_t DividedWeights::expected_elements(const std::vector<Range>& own,
                                               const std::vector<WeightUnit>& units) {
  std::int64_t elements = 0;
  for (const Range& slice : own) elements += slice.size();
  std::vector<std::int64_t> sizes;
  sizes.reserve(units.size());
  for (const WeightUnit& unit : units) sizes.push_back(unit.elements.size());
  std::ranges::sort(sizes, std::greater());
  for (std::size_t i = 0; i < std::min<std::size_t>(2, sizes.size()); ++i) elements += sizes[i];
  return elements;
}

std::int64_t DividedWeights::elements_of_rank() const {
  return expected_elements(own_, units_) / std::ssize(own_);
}

// --- passes ---

void DividedWeights::begin_pass(Pass kind) {
  end_pass();
  if (std::exchange(has_left_units_, false)) release_all();
  settle();
  order_ = &orders_[static_cast<std::size_t>(kind)];
  in_backward_ = false;
  current_.reset();
  place_ = requested_ = 0;
  if (order_->is_known())
    request(*order_, 0);
  else
    *order_ = UnitOrder(units_.size());  // without what a pass has left that failed
}

void DividedWeights::end_pass() {
  if (order_ == nullptr) return;
  UnitOrder& order = *std::exchange(order_, nullptr);
  if (order.is_known())
    for (std::size_t place = requested_; place < order.units().size(); ++place)
      request(order, place);
  else if (current_)
    post([this, &order] {
      agree(std::ssize(units_) * 2);
      order.finish();
    });
  else
    // This rank has read none. It learns which ones others read.
    post([this, &order] { join_others(order); });
  current_.reset();
  release_all();
}

void DividedWeights::release_all() {
  post([this] {
    if (sharers_ != nullptr) arena_->wait_for_sharers();
    // Together, with pages that two units share.
    if (!units_.empty()) release(Range{units_.front().elements.begin, units_.back().elements.end});
    is_here_.assign(units_.size(), false);
  });
}

void DividedWeights::settle() {
  if (posted_.empty()) return;
  const WaitScope waiting(Waiting::allgather);
  const struct Waits {
    explicit Waits(std::atomic<bool>& pass) : pass_waits(pass) { pass_waits = true; }
    ~Waits() { pass_waits = false; }
    std::atomic<bool>& pass_waits;
  } waits(pass_waits_);
  for (std::future<void>& each : std::exchange(posted_, {})) each.get();
}

void DividedWeights::give_up() {
  // All ranks come to what is under way: it was begun one unit ahead of this pass.
  for (std::future<void>& each : std::exchange(posted_, {})) each.wait();
  has_failed_ = false;
  has_left_units_ = true;  // until the next pass: other ranks may still read them
  order_ = nullptr;
  current_.reset();
  leave_after_error(*gathering_);
  if (sharers_ != nullptr) leave_after_error(*sharers_);
  try {
    throw;
  } catch (const OutOfMemory& error) {
    // Ranks that are out of memory at different units cannot look for a smaller batch together.
    if (gathering_->size() > 1) throw Error(error.kind(), error.what(), error.scope());
  } catch (...) {
  }
}

// --- values ---

void DividedWeights::provide(Parameter& parameter) {
  if (UnreadValues::any()) return;
  if (arena_ == nullptr)
    fail(ErrorKind::usage,
         "--shard weights: the optimizer that had the values of {} divided among nodes is gone",
         parameter.name());
  const auto found = unit_of_.find(&parameter);
  TASUKI_CHECK(found != unit_of_.end(), "parameter {} is not the optimizer's", parameter.name());
  const std::size_t unit = found->second;
  if (order_ == nullptr)
    fail(ErrorKind::usage,
         "--shard weights: {} was read outside of a pass of its optimizer or of an evaluator that "
         "takes its model from the trainer; its values are divided among nodes "
         "(Parameter::read_value gathers them, on all ranks)",
         entry_of(parameter).path);
  if (has(parameter)) return;
  if (order_->is_known())
    follow(unit, parameter);
  else
    learn(unit);
}

bool DividedWeights::has(const Parameter& parameter) const {
  if (UnreadValues::any()) return true;
  const auto found = unit_of_.find(&parameter);
  if (found == unit_of_.end() || order_ == nullptr) return false;
  const std::size_t unit = found->second;
  if (!current_ || !order_->stays(unit)) return current_ == unit;
  const std::optional<std::size_t> first = order_->find(unit, 0);
  return is_here_[unit] && first && *first <= place_;
}

Tensor DividedWeights::read(const Parameter& parameter) {
  check_no_pass(parameter, "read");
  settle();
  const ParameterArena::Entry& entry = entry_of(parameter);
  const Tensor values = Tensor::empty({entry.count});
  const Part own = own_part(parameter);
  if (own.values) values.slice(own.begin, own.begin + own.values.count()).copy_from(own.values);
  gathering_->share_parts(values, parts_in(slices_, {entry.offset, entry.offset + entry.count}));
  return values.reshape(parameter.shape());
}

void DividedWeights::write(Parameter& parameter, const Tensor& values) {
  check_no_pass(parameter, "set");
  settle();
  TASUKI_CHECK(values.shape() == parameter.shape(), "values of {} for parameter {} of {}",
               values.shape().text(), parameter.name(), parameter.shape_text());
  const Part own = own_part(parameter);
  if (!own.values) return;
  own.values.copy_from(values.to(Device::cpu())
                           .plain()
                           .reshape({values.count()})
                           .slice(own.begin, own.begin + own.values.count()));
}

ValueMemory::Part DividedWeights::own_part(const Parameter& parameter) const {
  const ParameterArena::Entry& entry = entry_of(parameter);
  const Range own = intersection(slices_[static_cast<std::size_t>(rank_)],
                                 {entry.offset, entry.offset + entry.count});
  if (own.size() == 0) return {};
  return {own.begin - entry.offset, arena_->shared_values().slice(own.begin, own.end)};
}

void DividedWeights::close() {
  thread_.wait();
  posted_.clear();
  order_ = nullptr;
  arena_ = nullptr;
  gathering_.reset();
}

void DividedWeights::check_no_pass(const Parameter& parameter, const char* use) const {
  if (order_ != nullptr || arena_ == nullptr)
    fail(ErrorKind::usage, "--shard weights: all values of {} are to be {} {}", parameter.name(),
         use, arena_ == nullptr ? "after their optimizer is gone" : "within a pass");
}

const ParameterArena::Entry& DividedWeights::entry_of(const Parameter& parameter) const {
  TASUKI_CHECK(arena_ != nullptr, "parameter {} of an optimizer that is gone", parameter.name());
  const auto found = entry_of_.find(&parameter);
  TASUKI_CHECK(found != entry_of_.end(), "parameter {} is not the optimizer's", parameter.name());
  return arena_->entries()[found->second];
}

// --- orders ---

void DividedWeights::learn(std::size_t unit) {
  const std::size_t before = current_.value_or(unit);
  order_->add(unit, in_backward_);
  const bool is_here = is_here_[unit];
  const std::vector<std::size_t> released = take_released(*order_, unit, before);
  is_here_[unit] = true;
  post([this, unit, is_here, released,
        code = static_cast<std::int64_t>(2 * unit + (in_backward_ ? 1 : 0))] {
    agree(code);
    if (is_here)
      release(released);
    else
      gather(unit, released);
  });
  settle();
  place_ = order_->units().size();
  current_ = unit;
}

// What learn() does on the ranks that have examples. In the thread.
void DividedWeights::join_others(UnitOrder& order) {
  std::optional<std::size_t> last;
  while (const std::optional<std::int64_t> code = agree(std::nullopt)) {
    const auto unit = static_cast<std::size_t>(*code / 2);
    if (unit == units_.size()) return order.finish();
    order.add(unit, *code % 2 == 1);
    const bool is_here = is_here_[unit];
    const std::vector<std::size_t> released = take_released(order, unit, last.value_or(unit));
    is_here_[unit] = true;
    if (is_here)
      release(released);
    else
      gather(unit, released);
    last = unit;
  }
}

void DividedWeights::follow(std::size_t unit, const Parameter& parameter) {
  const std::optional<std::size_t> next = order_->find(unit, current_ ? place_ + 1 : 0);
  if (!next)
    fail(ErrorKind::usage,
         "--shard weights: {} is used in another order than in the first pass, where the ranks "
         "have agreed on it; use layers in the same order in each pass, or make one unit of those "
         "whose order changes (--shard-unit)",
         entry_of(parameter).path);
  for (std::size_t place = current_ ? place_ + 1 : 0; place <= *next; ++place) {
    request(*order_, place);
    place_ = place;
    current_ = order_->units()[place];
  }
  settle();
  request(*order_, place_ + 1);
}

// Gathers the unit at a place of the order, after those at all places before it. The unit at the
// place before it stays.
void DividedWeights::request(const UnitOrder& order, std::size_t place) {
  const std::vector<std::size_t>& units = order.units();
  if (place < requested_ || place >= units.size()) return;
  requested_ = place + 1;
  const std::size_t unit = units[place];
  if (is_here_[unit]) return;
  const std::vector<std::size_t> released =
      take_released(order, unit, place > 0 ? units[place - 1] : unit);
  is_here_[unit] = true;
  post([this, unit, released] { gather(unit, released); });
}

std::vector<std::size_t> DividedWeights::take_released(const UnitOrder& order, std::size_t first,
                                                       std::size_t second) {
  std::vector<std::size_t> released;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!is_here_[unit] || unit == first || unit == second || order.stays(unit)) continue;
    released.push_back(unit);
    is_here_[unit] = false;
  }
  return released;
}

// --- the thread ---

void DividedWeights::post(std::function<void()> work) {
  posted_.push_back(thread_.start([this, work = std::move(work)] {
    if (has_failed_) throw Error(ErrorKind::internal, "gathering weights before this has failed");
    try {
      work();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
  }));
}

void DividedWeights::gather(std::size_t unit, const std::vector<std::size_t>& released) {
  const WaitsWithoutSleep while_pass_waits(pass_waits_);
  // The ranks of a node have come to this unit, so none reads those that go.
  if (sharers_ != nullptr) arena_->wait_for_sharers();
  release(released);
  const Range elements = units_[unit].elements;
  gathering_->share_parts(arena_->shared_values().slice(elements.begin, elements.end),
                          parts_in(slices_, elements), sharers_ != nullptr);
  if (sharers_ != nullptr) arena_->wait_for_sharers();
  if (!arena_->rounded()) return;
  if (sharers_ == nullptr) return arena_->round_values(elements);
  const Range part = part_of(elements.size(), sharers_->size(), sharers_->rank());
  arena_->round_values({elements.begin + part.begin, elements.begin + part.end});
  arena_->wait_for_sharers();
}

void DividedWeights::release(const std::vector<std::size_t>& units) {
  for (const std::size_t unit : units) release(units_[unit].elements);
}

void DividedWeights::release(Range elements) {
  if (sharers_ != nullptr && sharers_->rank() != 0) return;
  std::int64_t begin = elements.begin;
  for (const Range& slice : own_) {
    const Range kept = intersection(slice, elements);
    if (kept.size() == 0) continue;
    arena_->give_back({begin, kept.begin});
    begin = kept.end;
  }
  arena_->give_back({begin, elements.end});
}

// All ranks that have examples pass the same code, others none; nothing if no rank has any.
std::optional<std::int64_t> DividedWeights::agree(std::optional<std::int64_t> code) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
  const std::array<std::int64_t, 2> own = {code.value_or(none), code ? -*code : none};
  const Tensor both = Tensor::from(std::span<const std::int64_t>(own), {2});
  gathering_->allreduce(both, ReduceOp::max);
  const std::int64_t most = both.data<std::int64_t>()[0], least = -both.data<std::int64_t>()[1];
  if (most == none) return std::nullopt;
  const auto text = [&](std::int64_t each) {
    const auto unit = static_cast<std::size_t>(each / 2);
    return unit < units_.size() ? fmt::format("weights of \"{}\"", units_[unit].name)
                                : std::string("none further");
  };
  if (most != least)
    fail_everywhere(ErrorKind::disagreement,
                    "--shard weights: one rank reads {} while another reads {}; all ranks must use "
                    "layers in the same order",
                    text(least), text(most));
  return most;
}

}  // namespace tasuki
