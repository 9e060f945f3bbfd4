// GradientExchange: the interface of classes that replace the gradients in an arena by their sums
// over all ranks. RangeExchange sends them within their step; DoubleBuffer and, on GPUs,
// GpuDoubleBuffer send them during the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "optimizer/arena.hpp"
#include "optimizer/exchange_settings.hpp"

namespace tasuki {

class PowerSgd;

// How long exchanges of gradients in host memory took on this rank, in seconds. The part of
// `transfer` that was not exposed was hidden behind the computation.
struct TransferTimes {
  double transfer = 0;  // while an exchange was under way, delays of other ranks included
  double exposed = 0;   // while this rank only waited for one
};

// Not thread-safe: only the thread that computes calls it. All ranks begin and finish the same
// steps.
class GradientExchange {
 public:
  // How many examples the gradients of a step are sums over.
  struct Examples {
    std::int64_t own = 0;  // on this rank
    // On all ranks. Either all ranks know this number, or none does.
    std::optional<std::int64_t> global{};
  };
  // Sums over all ranks are in the arena.
  struct Sums {
    std::optional<std::int64_t> examples{};  // Examples::global of their step
  };

  virtual ~GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // --- a step ---
  // Announces the number of examples on all ranks, if ranks know it before the step. Returns the
  // number of examples of the sums that the update of this step will use.
  virtual std::int64_t expect(std::int64_t examples) { return examples; }
  // Called before a forward pass: gradients that have waited since the step before may start to
  // travel.
  virtual void prepare() {}
  // Begins the exchange of a step, before its last backward pass or after it. The notices must be
  // written. May be collective.
  virtual void begin(const Examples& examples) = 0;
  // begin() on a rank that has no gradients in this step and takes part with its notices alone.
  virtual void begin_without_gradients() { begin({}); }
  // Called during a backward pass after begin(): this step's gradient of the parameter is final.
  virtual void ready(Parameter& /*parameter*/) {}
  // Called between two functions of a backward pass: does a slice of the work under way.
  virtual void advance() {}
  // Waits for exchanges that a failed step has started, and drops the step.
  virtual void give_up() {}
  // Ends the step, in which all gradients must be written. The arena then holds the sums that this
  // rank needs, of this step or of an earlier one. Empty: there are no sums yet, and the arena's
  // gradients must not be used.
  virtual std::optional<Sums> finish() = 0;
  // Whether the gradients of each backward pass of a step are exchanged by themselves, because
  // ranks keep sums only. A pass that is not followed by finish() then has begin_pass() and
  // finish_pass() in the places of begin() and finish(), on all ranks, also those without
  // gradients. The sums of a step's passes are added up.
  virtual bool exchanges_each_pass() const { return false; }
  // Called before the first pass of a step: the sums of a step that was left are dropped.
  virtual void begin_step() {}
  virtual void begin_pass() {}
  // Returns whether the model of another rank has changed.
  virtual bool finish_pass() { return false; }
  // begin() of a step all of whose passes were finished by finish_pass(): finish() then exchanges
  // the notices.
  virtual void begin_after_passes(const Examples& /*examples*/) {}
  // Called after finish() with the number of examples of the sums, on all ranks together.
  virtual void set_examples(std::int64_t /*examples*/) {}

  // --- between steps ---
  // Whether the sums of a step are used in a later one.
  virtual bool is_late() const { return false; }
  // What the next step's work on a GPU depends on besides its batch: recordings are kept apart by
  // it. The same on all ranks.
  virtual std::string kind_of_step() const { return ""; }
  // Whether later steps repeat what the last one did, so that one of them can be recorded on a GPU.
  // The same on all ranks.
  virtual bool is_settled() const { return true; }
  // Puts the sums of the last step into the arena if no step has used them yet. Collective.
  virtual std::optional<Sums> flush() { return std::nullopt; }
  // Called before the arena gets another exchange. Collective.
  virtual void leave() {}
  // State that this rank carries over to the next step, initially zero or random; empty: none. The
  // first tensor has the errors, the last one (float64) the number of examples on all ranks that
  // the errors are sums over. Writing to a tensor changes the state.
  virtual std::vector<Tensor> carried_over() const { return {}; }

  // --- about it ---
  // The mode in use. It differs from the settings if they leave it open or cannot be followed: on
  // GPUs `slices` and `thread` become `overlapped` or `whole`.
  ExchangeMode mode() const { return mode_; }
  // The parts of the arena that travel one at a time.
  const std::vector<Range>& ranges() const { return ranges_; }
  // "in 3 range(s) after the backward pass"
  virtual std::string describe() const = 0;
  // The memory for gradients beside the arena's.
  virtual std::size_t bytes() const { return 0; }
  // Null: gradients are not compressed.
  virtual const PowerSgd* power_sgd() const { return nullptr; }
  // Communicator::exchange_seconds() of the communicator through which gradients travel.
  double transfer_seconds() const { return communicator_.exchange_seconds(); }

 protected:
  // `communicator`: the one through which gradients travel; it must outlive this object.
  GradientExchange(ExchangeMode mode, std::vector<Range> ranges, const Communicator& communicator)
      : mode_(mode), ranges_(std::move(ranges)), communicator_(communicator) {}

 private:
  ExchangeMode mode_;
  std::vector<Range> ranges_;
  const Communicator& communicator_;
};

}  // namespace tasuki
