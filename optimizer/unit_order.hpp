// UnitOrder: the order in which passes use units of weights (weight_units.hpp). The first pass of a
// kind writes it down, later ones follow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tasuki {

// A forward pass may use a unit once, and a backward pass twice, because it recomputes a block
// before it computes the block's gradients. What is used again after other units, such as tied
// weights, or a decoder's layers, which are called for each word, stays from its first use to the
// end of the pass (stays()).
class UnitOrder {
 public:
  explicit UnitOrder(std::size_t units) : uses_(units) {}

  // --- the first pass ---
  // Another unit than the last one is used.
  void add(std::size_t unit, bool in_backward);
  // The pass has ended.
  void finish();

  bool is_known() const { return is_known_; }
  bool stays(std::size_t unit) const { return uses_[unit].stays; }
  // In the order of use; after finish(), units that stay are there once.
  const std::vector<std::size_t>& units() const { return units_; }
  // The first place from `from` on at which the unit is used.
  std::optional<std::size_t> find(std::size_t unit, std::size_t from) const;

 private:
  struct Uses {
    int forward = 0, backward = 0;
    bool stays = false;
  };
  std::vector<Uses> uses_;
  std::vector<std::size_t> units_;
  bool is_known_ = false;
};

}  // namespace tasuki
