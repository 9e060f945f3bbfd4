// GradientSlots: memory for the gradients of a few ranges of an arena at a time.
//
// With ParameterArena::keeps_sums_only(), a rank keeps the sums of gradients of its own slice, and
// no memory for others (Rajbhandari et al. 2020, "ZeRO", stage 2). What a backward pass computes
// lies in slots. Range i always has slot i modulo their number, which is as large as the largest of
// its ranges. Gradients get their memory there when the first of the range is written, and lose it
// after they were exchanged. Slots are used again, so that a step needs no fresh pages.
//
// A range that needs a slot while another one is not complete there moves that one out, into memory
// of its own, until it is exchanged: it has weights that are used at several places of the graph,
// or its layers run in another order than they were registered in. (A range whose
// predecessor in the order of exchanges has the same slot waits for it.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/gradient_memory.hpp"
#include "optimizer/arena.hpp"

namespace tasuki {

// Not thread-safe. The arena outlives it.
class GradientSlots final : public GradientMemory {
 public:
  // The number of slots: one range travels while the gradients of another one are computed.
  static constexpr std::size_t slots = 2;
  // The elements that the slots of these ranges have.
  static std::int64_t elements_for(const std::vector<Range>& ranges);

  // `ranges`: of the arena, in its order; each parameter is in one of them. `wait`: called with a
  // range that travels and whose slot is needed; it calls kept() when its sums are there.
  // Collective if the communicator's memory is shared.
  GradientSlots(const ParameterArena& arena, std::vector<Range> ranges, Communicator& communicator,
                std::function<void(std::size_t range)> wait);

  void provide(std::span<Parameter* const> parameters) override;
  // Between two functions of a backward pass: none holds memory that provide() gave it.
  void function_ended() { in_use_.clear(); }

  // Whether take() of the range moves no other one out.
  bool is_in_place(std::size_t range) const { return states_[range].place == Place::slot; }
  // The range's memory, for its exchange, until kept(). All its gradients must be final; those that
  // are missing are zero. The elements behind the arena's gradients are set to `notices`.
  Tensor take(std::size_t range, const Tensor& notices);
  // take() of a range of zeros, for ranks that have no gradients of the arena's parameters, which
  // may be gone.
  Tensor take_zeros(std::size_t range, const Tensor& notices);
  // The range was exchanged: copies the sums that this rank keeps, elements `own` of the arena,
  // into the arena's gradients, or adds them (`adds`). Returns the notices, valid until the slot is
  // used again; undefined if the range has none.
  Tensor kept(std::size_t range, Range own, bool adds);
  // What follows is a pass whose ranges are exchanged, each by take() and kept().
  void begin_pass();
  // Drops what has not been exchanged. In passes without begin_pass(), such as those that measure
  // memory, gradients that need a slot overwrite others.
  void end_pass();
  bool has_pass() const { return has_pass_; }

  // Of the slots and, at most so far, of ranges that were moved out.
  std::size_t bytes() const { return bytes_ + most_outside_; }

 private:
  enum class Place { none, slot, outside, travelling };
  struct State {
    Place place = Place::none;
    Tensor outside{};
    bool has_parameters = false;  // take(), not take_zeros()
  };

  Tensor in_slot(std::size_t range) const;
  Tensor notices_in(std::size_t range) const;
  void make_room(std::size_t slot);
  void settle(std::size_t range);
  void move_out(std::size_t range);
  void hold_outside(std::size_t range, Tensor memory);
  void drop(std::size_t range);
  void point_at(std::size_t range, const Tensor& memory) const;
  void clear_padding(std::size_t range, const Tensor& memory) const;

  const ParameterArena& arena_;
  std::vector<Range> ranges_;
  std::function<void(std::size_t range)> wait_;
  std::vector<Tensor> memory_;  // of each slot
  std::size_t bytes_ = 0, outside_ = 0, most_outside_ = 0;
  std::vector<std::vector<ParameterArena::Entry>> entries_;  // of each range
  std::unordered_map<const Parameter*, std::size_t> range_of_;
  std::vector<State> states_;
  std::vector<std::optional<std::size_t>> holds_ = std::vector<std::optional<std::size_t>>(slots);
  bool has_pass_ = false;         // of begin_pass()
  std::set<std::size_t> in_use_;  // ranges that the function under way writes to
};

}  // namespace tasuki
