// DividedWeights: weights of which each node keeps a slice, and gathers units while passes use them
// (Rajbhandari et al. 2020, "ZeRO", stage 3; Zhao et al. 2023, "PyTorch FSDP").
//
// The weights of all ranks' slices (arena_slices.hpp) are together one model. The ranks of a node
// that share memory keep their slices in one array. A pass finds its weights unit by unit
// (weight_units.hpp): when it first reads one, the ranks give each other their parts of the unit;
// the next unit is gathered by a thread meanwhile, and the last one's memory goes back to the
// system. So a node has its slice, two units, and those that stay for the whole pass
// (unit_order.hpp). Frozen parameters are whole on each node.
//
// Addresses do not change: the array is as long as the model, and pages are there only while they
// have values.
//
// In the first pass of a kind, ranks agree on each unit before it is gathered, and write their
// order down. Later passes follow it without further messages: units that a pass leaves out are
// gathered on the way to the next one, and at the end of the pass. A rank without examples gathers
// all of them, for the others.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/background_thread.hpp"
#include "nn/value_memory.hpp"
#include "optimizer/arena.hpp"
#include "optimizer/unit_order.hpp"
#include "optimizer/weight_units.hpp"

namespace tasuki {

// Passes run in one thread, which makes all calls. If anything throws between begin_pass() and
// settle(), the caller calls give_up() in the handler before it goes on.
class DividedWeights final : public ValueMemory {
 public:
  enum class Pass : std::uint8_t { training, evaluation };

  // `arena`: with ParameterArena::is_divided(); outlives this object, or close() is called.
  // `slices`: of each rank. `gathering`: all ranks, for this object alone. `sharers`: the ranks
  // that share the arena's values; null: this one alone. Needs ExchangesUnderWay::can_use_thread().
  DividedWeights(const ParameterArena& arena, std::vector<Range> slices,
                 std::vector<WeightUnit> units, std::shared_ptr<Communicator> gathering,
                 Communicator* sharers);
  ~DividedWeights() override;
  DividedWeights(const DividedWeights&) = delete;
  DividedWeights& operator=(const DividedWeights&) = delete;

  // --- passes; collective ---
  // A forward pass follows, and for Pass::training a backward pass. Ends a pass under way.
  void begin_pass(Pass kind);
  void begin_backward() { in_backward_ = true; }
  // This rank reads no further weights: gathers what others may still read, without waiting.
  void end_pass();
  // Returns when what end_pass() started is done. Afterwards slices may be changed.
  void settle();
  // In the handler of an exception in a pass: ends what is under way and tells the other ranks
  // (leave_after_error). Throws OutOfMemory on as another Error.
  void give_up();
  bool has_pass() const { return order_ != nullptr; }

  // --- values; outside of passes ---
  void provide(Parameter& parameter) override;
  bool has(const Parameter& parameter) const override;
  Tensor read(const Parameter& parameter) override;
  void write(Parameter& parameter, const Tensor& values) override;
  Part own_part(const Parameter& parameter) const override;
  bool is_divided() const override { return true; }
  // The arena is about to be destroyed: reading values becomes an error.
  void close();

  const std::vector<WeightUnit>& units() const { return units_; }
  // The most elements of trained parameters in memory during a pass in which none stay, for each
  // rank that shares them.
  std::int64_t elements_of_rank() const;
  // Of the slices of this rank's node and of the two largest units, with rounded copies of these.
  static std::int64_t expected_elements(const std::vector<Range>& own,
                                        const std::vector<WeightUnit>& units);

 private:
  const ParameterArena::Entry& entry_of(const Parameter& parameter) const;
  void check_no_pass(const Parameter& parameter, const char* use) const;
  void learn(std::size_t unit);
  void follow(std::size_t unit, const Parameter& parameter);
  void request(const UnitOrder& order, std::size_t place);
  // Marks units that are here, except these two and those that stay, as gone, and returns them.
  std::vector<std::size_t> take_released(const UnitOrder& order, std::size_t first,
                                         std::size_t second);
  void post(std::function<void()> work);
  void release_all();

  // In the thread.
  void join_others(UnitOrder& order);
  void gather(std::size_t unit, const std::vector<std::size_t>& released);
  void release(const std::vector<std::size_t>& units);
  void release(Range elements);
  std::optional<std::int64_t> agree(std::optional<std::int64_t> code);

  const ParameterArena* arena_;  // null: closed
  std::vector<Range> slices_, own_;
  std::vector<WeightUnit> units_;
  std::shared_ptr<Communicator> gathering_;
  Communicator* sharers_;
  int rank_;
  std::unordered_map<const Parameter*, std::size_t> entry_of_, unit_of_;

  std::array<UnitOrder, 2> orders_;  // of each kind of pass
  UnitOrder* order_ = nullptr;       // of the pass under way
  bool in_backward_ = false;
  std::vector<bool> is_here_;           // of units: gathered, or under way
  std::optional<std::size_t> current_;  // the unit that the pass uses
  std::size_t place_ = 0;               // current_'s in the order, and how many were requested
  std::size_t requested_ = 0;
  // Units may be there that no pass has gathered for itself: after give_up() and, of memory that
  // ranks share, after passes that measure memory (UnreadValues).
  bool has_left_units_ = true;
  std::vector<std::future<void>> posted_;
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> pass_waits_ = false;  // for the thread
  BackgroundThread thread_;
};

}  // namespace tasuki
