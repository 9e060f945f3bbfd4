#include "optimizer/arena.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "communicator/node/node_array.hpp"
#include "tensor/host_memory.hpp"
#include "tensor/storage.hpp"

namespace tasuki {
namespace {

// Each parameter once, in order of registration.
std::vector<Module::NamedParameter> distinct(std::vector<Module::NamedParameter> parameters) {
  std::unordered_set<const Parameter*> met;
  std::erase_if(parameters, [&](const Module::NamedParameter& named) {
    return !met.insert(named.parameter).second;
  });
  return parameters;
}

Tensor zeros(std::int64_t count, Device device, Communicator* allocator) {
  if (!allocator) return Tensor::zeros({count}, DType::float32, device);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  return {allocator->allocate(bytes, device), 0, {count}, DType::float32};
}

// Makes an array that exists once for all sharers; `own` and `shared` are its two addresses.
std::unique_ptr<NodeArray> share(std::int64_t count, DType type, Communicator& sharers, Tensor& own,
                                 Tensor& shared) {
  auto array = allocate_once(sharers, static_cast<std::size_t>(count) * size_of(type));
  TASUKI_CHECK(array != nullptr, "communicator {} has no memory for weights that ranks share",
               sharers.name());
  own = Tensor(array->own(), 0, {count}, type);
  shared = Tensor(array->shared(), 0, {count}, type);
  return array;
}

// An array of which only what is written takes memory, `expected` elements in this process; of one
// rank, or of all sharers.
Tensor sparse(std::int64_t count, std::int64_t expected, DType type, Communicator* sharers,
              std::unique_ptr<NodeArray>& array) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
  const std::size_t written = static_cast<std::size_t>(expected) * size_of(type);
  if (sharers == nullptr) {
    Tensor made(allocate_sparse_host(bytes, written), 0, {count}, type);
    // In small arrays, parts of pages that stay would be as large as what goes.
    constexpr std::size_t large = std::size_t{64} << 20;
    if (bytes >= large) prefer_large_pages(static_cast<std::byte*>(made.raw()), bytes);
    return made;
  }
  array = allocate_once(*sharers, bytes, written);
  TASUKI_CHECK(array != nullptr, "communicator {} has no memory for weights that ranks share",
               sharers->name());
  return {array->shared(), 0, {count}, type};
}

}  // namespace

// The parameters of a model that are frozen, or those that are not, one after the other from
// `begin` on.
std::vector<ParameterArena::Entry> ParameterArena::placed(const Module& model,
                                                          const FrozenPaths& frozen, bool is_frozen,
                                                          std::int64_t begin) {
  std::vector<Module::NamedParameter> parameters = distinct(model.parameters());
  std::reverse(parameters.begin(), parameters.end());
  const Device device = model.device();
  std::vector<Entry> entries;
  for (const auto& [path, parameter] : parameters) {
    if (frozen.has(path) != is_frozen) continue;
    TASUKI_CHECK(parameter->value_storage().device() == device,
                 "parameter {} is on {}, others are on {}; a model lives on one device", path,
                 parameter->value_storage().device().text(), device.text());
    entries.push_back({path, parameter, begin, parameter->shape().count()});
    begin = end_of(entries);
  }
  return entries;
}

std::int64_t ParameterArena::end_of(const std::vector<Entry>& entries) {
  if (entries.empty()) return 0;
  const Entry& last = entries.back();
  return last.offset + (last.count + padding - 1) / padding * padding;
}

std::vector<ParameterArena::Entry> ParameterArena::trained_entries(const Module& model,
                                                                   const FrozenPaths& frozen) {
  return placed(model, frozen, false, 0);
}

ParameterArena::ParameterArena(const Module& model, Communicator* allocator,
                               const FrozenPaths& frozen, Communicator* sharers,
                               std::int64_t shards, bool keeps_sums_only,
                               const DividedValues* divided)
    : sharers_(sharers && sharers->size() > 1 ? sharers : nullptr),
      keeps_sums_only_(keeps_sums_only),
      unshaped_(distinct(model.unshaped_parameters())) {
  const Device device = model.device();
  entries_ = trained_entries(model, frozen);
  for (const Entry& entry : entries_) segments_.push_back({entry.offset, entry.count});
  std::int64_t end = end_of(entries_);
  segments_.push_back({end, notices});
  end += padding;
  if (shards > 0) divide_into(shards, end, allocator);
  if (keeps_sums_only_) {
    TASUKI_CHECK(device.is_cpu() && shards == 0, "sums only, but {} shards on {}", shards,
                 device.text());
    const std::size_t bytes = static_cast<std::size_t>(end) * sizeof(float);
    const int ranks = allocator ? allocator->size() : 1;
    gradients_ = Tensor(allocate_sparse_host(bytes, bytes / static_cast<std::size_t>(ranks)), 0,
                        {end}, DType::float32);
    for (const Entry& entry : entries_) entry.parameter->clear_grad();
  } else {
    gradients_ = new_gradients(end, device, allocator);
  }
  pointed_at_ = gradients_;
  frozen_ = placed(model, frozen, true, end);
  end = std::max(end, end_of(frozen_));
  if (divided != nullptr) {
    is_divided_ = true;
    own_slice_ = divided->own_slice;
    expected_ = divided->expected;
    shared_values_ = values_ = sparse(end, expected_, DType::float32, sharers_, node_values_);
    place_divided(*divided);
    return;
  }
  own_slice_ = {0, end};
  if (sharers_ != nullptr) {
    own_slice_ =
        arena_slices(update_count(), sharers_->size())[static_cast<std::size_t>(sharers_->rank())];
    if (sharers_->rank() + 1 == sharers_->size()) own_slice_.end = end;
    node_values_ = share(end, DType::float32, *sharers_, values_, shared_values_);
  } else {
    // `allocator` works with all ranks, of which some may share.
    shared_values_ = values_ = zeros(end, device, sharers != nullptr ? sharers : allocator);
  }
  for (const Entry& entry : entries_) {
    const Shape& shape = entry.parameter->shape();
    entry.parameter->move_to(part(values_, entry).reshape(shape),
                             part(gradients_, entry).reshape(shape));
    entry.parameter->set_has_optimizer();
  }
  for (const Entry& entry : frozen_) {
    entry.parameter->freeze_at(part(values_, entry).reshape(entry.parameter->shape()));
    entry.parameter->set_has_optimizer();
  }
}

void ParameterArena::place_divided(const DividedValues& divided) {
  for (const Entry& entry : entries_) {
    const Shape& shape = entry.parameter->shape();
    const Tensor place = part(values_, entry).reshape(shape);
    divided.take(entry, place, false);
    entry.parameter->place_at(place, part(gradients_, entry).reshape(shape));
    entry.parameter->set_has_optimizer();
  }
  for (const Entry& entry : frozen_) {
    const Tensor place = part(values_, entry).reshape(entry.parameter->shape());
    divided.take(entry, place, true);
    entry.parameter->place_at(place, {});
    entry.parameter->set_has_optimizer();
  }
}

void ParameterArena::give_back(Range elements) const {
  const auto give = [&](const Tensor& array, const NodeArray* of_node) {
    if (!array) return;
    const auto size = static_cast<std::int64_t>(size_of(array.dtype()));
    const Range bytes{elements.begin * size, elements.end * size};
    if (of_node != nullptr)
      of_node->give_back(bytes);
    else
      give_back_pages(static_cast<std::byte*>(array.raw()), bytes);
  };
  give(values_, node_values_.get());
  give(rounded_, node_rounded_.get());
}

void ParameterArena::check_shards(std::int64_t shards, std::int64_t ranks) {
  if (shards < 0 || shards % ranks != 0)
    fail_everywhere(ErrorKind::usage,
                    "--shards {} and {} ranks: expected a multiple of the number of ranks", shards,
                    ranks);
}

void ParameterArena::divide_into(std::int64_t shards, std::int64_t count,
                                 const Communicator* ranks) {
  shards_ = ShardSources{ShardTree(shards), {}, count};
  const std::int64_t size = ranks ? ranks->size() : 1;
  check_shards(shards, size);
  own_rank_ = static_cast<std::size_t>(ranks ? ranks->rank() : 0);
  for (std::int64_t rank = 0; rank < size; ++rank)
    shards_->of_group.push_back(shards_->tree.roots_of(part_of(shards, size, rank)));
  arrays_ = ranks ? ranks->arrays_for(*shards_) : shards_->most();
}

Tensor ParameterArena::new_gradients(std::int64_t count, Device device,
                                     Communicator* allocator) const {
  return zeros(count * static_cast<std::int64_t>(arrays_), device, allocator).slice(0, count);
}

Tensor ParameterArena::make_gradients(Communicator* allocator) const {
  return new_gradients(gradients_.count(), gradients_.device(), allocator);
}

Tensor ParameterArena::swap_gradients(const Tensor& other) {
  point_gradients_at(other);
  return std::exchange(gradients_, other);
}

void ParameterArena::point_gradients_at(const Tensor& array) const {
  TASUKI_CHECK(array.shape() == gradients_.shape(), "an array of shape {} for gradients of {}",
               array.shape().text(), gradients_.shape().text());
  for (const Entry& entry : entries_)
    entry.parameter->move_grad(part(array, entry).reshape(entry.parameter->shape()));
  pointed_at_ = array;
}

Tensor ParameterArena::shard_array(std::size_t i) const {
  TASUKI_CHECK(i < arrays_, "array {} of {} for gradients", i, arrays_);
  return {gradients_.storage(), gradients_.offset() + i * gradients_.bytes(), gradients_.shape(),
          DType::float32};
}

ParameterArena::~ParameterArena() = default;

void ParameterArena::begin_update() const {
  if (!is_shared()) return;
  barrier(*sharers_, *node_values_);
  if (is_divided_) return;
  const auto bytes_of = [this](const Tensor& array) {
    const auto size = static_cast<std::int64_t>(size_of(array.dtype()));
    return Range{own_slice_.begin * size, own_slice_.end * size};
  };
  written_ = node_values_->written();
  node_values_->publish(written_, bytes_of(values_));
  if (!rounded_) return;
  written_rounded_ = node_rounded_->written();
  node_rounded_->publish(written_rounded_, bytes_of(rounded_));
}

void ParameterArena::end_update() const {
  if (!is_shared()) return;
  barrier(*sharers_, *node_values_);
  if (is_divided_) return;
  node_values_->forget(written_);
  if (rounded_) node_rounded_->forget(written_rounded_);
}

void ParameterArena::wait_for_sharers() const {
  if (is_shared()) barrier(*sharers_, *node_values_);
}

void ParameterArena::keep_rounded(DType type) {
  if (is_divided_)
    shared_rounded_ = rounded_ = sparse(values_.count(), expected_, type, sharers_, node_rounded_);
  else if (sharers_ != nullptr)
    node_rounded_ = share(values_.count(), type, *sharers_, rounded_, shared_rounded_);
  else
    shared_rounded_ = rounded_ = Tensor::empty(values_.shape(), type, values_.device());
  rounded_parts_.clear();
  if (is_divided_)
    round_values(
        {end_of(entries_), values_.count()});  // frozen ones; others when they are gathered
  else
    rounded_.copy_from(values_);
  for (const std::vector<Entry>* entries : {&entries_, &frozen_})
    for (const Entry& entry : *entries) {
      rounded_parts_.push_back(std::make_shared<const RoundedValue>(
          part(rounded_, entry).reshape(entry.parameter->shape())));
      entry.parameter->keep_rounded(rounded_parts_.back());
    }
}

void ParameterArena::round_values() const {
  if (!is_divided_) round_values(own_slice_);
}

void ParameterArena::round_values(Range elements) const {
  if (rounded_ && elements.size() > 0)
    shared_rounded_.slice(elements.begin, elements.end)
        .copy_from(shared_values_.slice(elements.begin, elements.end));
}

void ParameterArena::forget_rounded() {
  rounded_parts_.clear();
  rounded_ = shared_rounded_ = {};
  node_rounded_.reset();
}

bool ParameterArena::matches(const Module& model) const {
  const auto same = [](const Module::NamedParameter& a, const Module::NamedParameter& b) {
    return a.parameter == b.parameter && a.path == b.path;
  };
  if (!std::ranges::equal(distinct(model.unshaped_parameters()), unshaped_, same)) return false;
  std::vector<Module::NamedParameter> now = distinct(model.parameters());
  std::reverse(now.begin(), now.end());
  const auto first_frozen = std::stable_partition(
      now.begin(), now.end(), [](const auto& named) { return !named.parameter->is_frozen(); });
  const auto is_in_place = [&](const Module::NamedParameter& named, const Entry& entry) {
    return named.parameter == entry.parameter && named.path == entry.path &&
           named.parameter->value_storage().raw() == part(values_, entry).raw();
  };
  return std::equal(now.begin(), first_frozen, entries_.begin(), entries_.end(),
                    [&](const Module::NamedParameter& named, const Entry& entry) {
                      return is_in_place(named, entry) &&
                             (keeps_sums_only_ || named.parameter->grad_storage().raw() ==
                                                      part(pointed_at_, entry).raw());
                    }) &&
         std::equal(first_frozen, now.end(), frozen_.begin(), frozen_.end(), is_in_place);
}

bool ParameterArena::freezes(const FrozenPaths& frozen) const {
  const auto is_frozen = [&](const Entry& entry) { return frozen.has(entry.path); };
  return std::ranges::none_of(entries_, is_frozen) && std::ranges::all_of(frozen_, is_frozen);
}

}  // namespace tasuki
