// ParameterArena: all parameters of a model in one contiguous array and their gradients in another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "nn/module.hpp"
#include "optimizer/arena_slices.hpp"
#include "optimizer/parameter_group.hpp"

namespace tasuki {

class NodeArray;

// Offsets are the same in both arrays and in all optimizer states. Parameters are in reverse order
// of registration, so that gradients that the backward pass finishes one after another are
// neighbours. Each starts at a multiple of 64 bytes (16 floats); padding is always zero. A
// parameter that a model holds twice (tied weights) has one place, under its first path. Parameters
// without a shape have no place yet. Frozen parameters lie after all others, in the array of values
// only.
class ParameterArena {
 public:
  struct Entry {
    std::string path;
    Parameter* parameter;
    std::int64_t offset, count;  // elements
  };

  // Values that ranks divide among them (DividedWeights): only what is written takes memory.
  struct DividedValues {
    Range own_slice;            // that this rank keeps and updates
    std::int64_t expected = 0;  // elements that this process will have in memory
    // Called for each parameter, in the same order on all ranks, before it moves to `place`. Writes
    // there what this rank keeps of its values; of frozen ones that is all.
    std::function<void(const Entry& entry, const Tensor& place, bool is_frozen)> take;
  };

  // Moves the parameters of `model` into memory from `allocator` (collective), or into plain memory
  // of their device without one; values are kept. `sharers`: ranks of one node that share one copy
  // of the values (collective among them; allocate_once()); null: this rank has its own. If there
  // are several, call begin_update() and end_update() before a rank reads what another one has
  // written.
  // `shards`: the number of shards of all ranks whose gradients are added in the order of a tree
  // (shards()); 0: none. `keeps_sums_only`: of the array of gradients, only what is written takes
  // memory: sums over all ranks, a part of it on each rank. On CPUs, without shards. `divided`: of
  // the values, too; null: each rank, or node, has all of them.
  ParameterArena(const Module& model, Communicator* allocator, const FrozenPaths& frozen = {},
                 Communicator* sharers = nullptr, std::int64_t shards = 0,
                 bool keeps_sums_only = false, const DividedValues* divided = nullptr);
  ~ParameterArena();

  // The values that the model reads. If ranks share them, a rank's changes here are visible to
  // itself alone until the next begin_update(), which publishes what each sharer has changed in its
  // own_slice().
  const Tensor& values() const { return values_; }
  // The memory that updates write: values(), or the memory that all sharers see.
  const Tensor& shared_values() const { return shared_values_; }
  bool is_shared() const { return node_values_ != nullptr; }
  // If so, values() has values in own_slice(), of frozen parameters, and where DividedWeights has
  // gathered them, and is shared_values().
  bool is_divided() const { return is_divided_; }
  // Returns pages of values() and rounded() in these elements to the system, for all sharers; they
  // are zero when they are used again. With is_divided().
  void give_back(Range elements) const;
  // The part of values() that this rank publishes and rounds, and that it usually updates.
  Range own_slice() const { return own_slice_; }
  // Called before and after shared values are written; they do nothing without sharers. No sharer
  // returns from begin_update() before all sharers have called it and their changes are in
  // shared_values(). None returns from end_update() before all have called it; values() then show
  // what was written.
  void begin_update() const;
  void end_update() const;
  void wait_for_sharers() const;
  const Tensor& gradients() const { return gradients_; }
  // If so, gradients of a backward pass lie elsewhere until they are exchanged (GradientSlots).
  bool keeps_sums_only() const { return keeps_sums_only_; }
  // Replaces the array of gradients by another one of make_gradients(), with that one's values.
  // Returns the former array.
  Tensor swap_gradients(const Tensor& other);
  // A zeroed array for gradients in memory of `allocator`, or in plain memory. With shards(), the
  // further arrays that their sums need lie behind it.
  Tensor make_gradients(Communicator* allocator) const;
  // Makes the parameters' gradients parts of this array, of gradients().shape(), without copying
  // values: of gradients() at first, and otherwise for a while during a step.
  void point_gradients_at(const Tensor& array) const;

  // What each rank brings to a sum of shards; null: gradients are not divided into shards.
  const ShardSources* shards() const { return shards_ ? &*shards_ : nullptr; }
  // With shards(): the nodes that this rank brings.
  const std::vector<Range>& own_roots() const { return shards_->of_group[own_rank_]; }
  // A usage error on all ranks if so many shards cannot be divided among them.
  static void check_shards(std::int64_t shards, std::int64_t ranks);
  // The rank's array number `i` for sums of shards; 0: gradients().
  Tensor shard_array(std::size_t i) const;
  // How many arrays of gradients this rank has; without shards 1.
  std::size_t gradient_arrays() const { return arrays_; }

  // The parameters of `model` that would be trained, and their places.
  static std::vector<Entry> trained_entries(const Module& model, const FrozenPaths& frozen);
  // The elements up to the end of the last one, padding included.
  static std::int64_t end_of(const std::vector<Entry>& entries);
  // The parameters that are trained, and those that are frozen.
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Entry>& frozen() const { return frozen_; }
  // Parameters that had no shape when the arena was made.
  const std::vector<Module::NamedParameter>& unshaped() const { return unshaped_; }
  // The number of elements that an update works on, padding included: a multiple of 16.
  std::int64_t update_count() const { return gradients_.count() - padding; }
  // Keeps a second array with the values rounded to `type` (float16 or bfloat16), for operations on
  // activations of that type. Backend::update writes it (UpdatePass::rounded); other code calls
  // round_values() after it has changed shared_values() in own_slice(), or in `elements`. With
  // is_divided(), values are rounded when they are gathered, and round_values() does nothing.
  void keep_rounded(DType type);
  void round_values() const;
  void round_values(Range elements) const;
  void forget_rounded();
  // Undefined until keep_rounded().
  const Tensor& rounded() const { return rounded_; }
  const Tensor& shared_rounded() const { return shared_rounded_; }  // as shared_values()
  // The gradients as they are exchanged: a segment for each entry and one for the notices.
  GradientView gradient_view() const {
    return {
        .arena = gradients_, .segments = segments_, .exact_at_end = padding, .shards = shards()};
  }
  // An entry's part of an array with this arena's offsets, such as a state.
  static Tensor part(const Tensor& array, const Entry& entry) {
    return array.slice(entry.offset, entry.offset + entry.count);
  }
  // Whether `model` still has exactly these parameters, in these places, and these without a shape.
  bool matches(const Module& model) const;
  // Whether exactly the parameters in `frozen` are frozen here.
  bool freezes(const FrozenPaths& frozen) const;

  // Notices: elements after the gradients that are summed with them, so that ranks exchange a few
  // numbers without a separate message. Zero when an update runs.
  static constexpr std::int64_t notices = 6;
  Tensor notice() const { return of_notices(0, 1); }       // 1: the model changed
  Tensor stop_notice() const { return of_notices(1, 1); }  // 1: this rank was asked to stop
  // The number of examples that this rank's gradients are sums over, as n % 4096 and n / 4096, so
  // that sums of floats stay exact.
  Tensor examples_notice() const { return of_notices(2, 2); }
  Tensor loss_notice() const { return of_notices(4, 1); }  // FiniteGuard::note_loss
  // Where passes are exchanged one by one, 1 if this one is not the step's last. Otherwise 0.
  static constexpr std::int64_t pass_notice = 5;

 private:
  Tensor of_notices(std::int64_t i, std::int64_t n) const {
    const std::int64_t first = update_count() + i;
    return gradients_.slice(first, first + n);
  }

  static std::vector<Entry> placed(const Module& model, const FrozenPaths& frozen, bool is_frozen,
                                   std::int64_t begin);
  void place_divided(const DividedValues& divided);
  void divide_into(std::int64_t shards, std::int64_t count, const Communicator* ranks);
  Tensor new_gradients(std::int64_t count, Device device, Communicator* allocator) const;

  static constexpr std::int64_t padding = 16;  // elements; parts start at multiples of it

  Communicator* sharers_;
  bool keeps_sums_only_;
  bool is_divided_ = false;
  std::int64_t expected_ = 0;                              // DividedValues::expected
  std::unique_ptr<NodeArray> node_values_, node_rounded_;  // where values are shared
  Range own_slice_;
  Tensor values_, shared_values_, gradients_, rounded_, shared_rounded_;
  // The ranges that this rank had written before begin_update(), for end_update().
  mutable std::vector<Range> written_, written_rounded_;
  std::vector<std::shared_ptr<const RoundedValue>> rounded_parts_;  // as parameters know them
  std::vector<Entry> entries_, frozen_;
  std::vector<Module::NamedParameter> unshaped_;
  std::vector<GradientView::Segment> segments_;
  std::optional<ShardSources> shards_;
  std::size_t own_rank_ = 0;
  std::size_t arrays_ = 1;     // of gradients
  mutable Tensor pointed_at_;  // where the parameters' gradients are
};

}  // namespace tasuki
