// GradientExchange: replaces the gradients in an arena by their sums over all ranks, step by step.
// Its kinds differ in when gradients travel: RangeExchange sends them within their step,
// DoubleBuffer and, on GPUs, GpuDoubleBuffer during the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
  double exposed = 0;   // while this rank did nothing but wait for one
};

// Only the thread that computes uses it. All ranks begin and finish the same steps.
class GradientExchange {
 public:
  // How many examples the gradients of a step are sums over.
  struct Examples {
    std::int64_t own = 0;  // on this rank
    // On all ranks. Either all ranks know this number, or none does.
    std::optional<std::int64_t> global{};
  };
  // Says that the gradients in the arena are sums over all ranks.
  struct Sums {
    std::optional<std::int64_t> examples{};  // Examples::global of their step
  };

  virtual ~GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // --- a step ---
  // Announces a step of so many examples on all ranks, where ranks know the number in advance.
  // Returns how many examples the sums have that the update of this step will use.
  virtual std::int64_t expect(std::int64_t examples) { return examples; }
  // Called before a forward pass: gradients that wait since the step before may start to travel.
  virtual void prepare() {}
  // Begins the exchange of a step, before its last backward pass or after it. The notices must be
  // written. May be collective.
  void begin(const Examples& examples);
  // The same on a rank that has no gradients of this step and only gives the others its notices.
  virtual void begin_without_gradients() { begin({}); }
  bool has_begun() const { return has_begun_; }
  // Called when this step's gradient of the parameter is final.
  virtual void ready(Parameter& /*parameter*/) {}
  // Called between two functions of a backward pass: does a slice of the work under way.
  virtual void advance() {}
  // Forgets a step that failed, after waiting for its exchanges that have started.
  void give_up();
  // Ends the step, in which all gradients must be written. The arena then holds those sums that
  // this rank needs, of this step or of an earlier one. Empty: there are no sums yet, and the
  // arena's gradients must not be used.
  std::optional<Sums> finish();
  // Called after finish() with the number of examples on all ranks that the sums are over.
  virtual void set_examples(std::int64_t /*examples*/) {}

  // --- between steps ---
  // Whether the sums of a step are used in a later one.
  virtual bool is_late() const { return false; }
  // What the next step's work on a GPU depends on besides its batch, for recordings to tell apart.
  // The same on all ranks.
  virtual std::string kind_of_step() const { return ""; }
  // Whether later steps repeat what the last one did, so that one of them can be recorded on a GPU.
  // The same on all ranks.
  virtual bool is_settled() const { return true; }
  // Puts the sums of the last step into the arena if no step has used them yet. Collective.
  std::optional<Sums> flush();
  // Called before the arena gets another exchange. Collective.
  virtual void leave() {}
  // What this rank keeps from one step for the next one, zero or random at first; empty: nothing.
  // The first tensor has the errors, the last one (float64) the number of examples of all ranks
  // that the errors are sums over. Writing to a tensor changes what is kept.
  virtual std::vector<Tensor> carried_over() const { return {}; }

  // --- about it ---
  // The mode in use. It differs from the settings where these are empty or cannot be followed: on
  // GPUs `slices` and `thread` are `overlapped`, or all are `whole`.
  ExchangeMode mode() const { return mode_; }
  // The parts of the arena that travel at a time.
  const std::vector<Range>& ranges() const { return ranges_; }
  // "in 3 range(s) after the backward pass"
  virtual std::string describe() const = 0;
  // Null: gradients are not compressed.
  virtual const PowerSgd* power_sgd() const { return nullptr; }
  // Since this object was made; always 0 on GPUs.
  const TransferTimes& times() const { return times_; }

 protected:
  // `communicator` is the one through which gradients travel; it outlives this object.
  GradientExchange(ExchangeMode mode, std::vector<Range> ranges, const ParameterArena& arena,
                   const Communicator& communicator);

  virtual void begin_step(const Examples& examples) = 0;
  virtual void give_up_step() {}
  virtual std::optional<Sums> finish_step() = 0;
  virtual std::optional<Sums> flush_steps() { return std::nullopt; }

 private:
  template <class Work>
  std::optional<Sums> timed(const Work& work);

  ExchangeMode mode_;
  std::vector<Range> ranges_;
  const Communicator* measured_;  // null: times are not measured
  double seconds_before_ = 0;     // measured_->exchange_seconds() after the last exchange
  bool has_begun_ = false;
  TransferTimes times_;
};

// Creates the exchange that the settings ask for; the caller has checked them (conflict_in). Arena,
// communicators and the ranges `needed` (GradientView::needed) outlive it. `second`: another
// communicator of the same ranks; double buffering makes it if there is none. Keep it longer than
// recordings on a GPU, which may hold its exchanges. Collective if gradients are compressed or
// double-buffered.
std::unique_ptr<GradientExchange> create_gradient_exchange(ParameterArena& arena,
                                                           Communicator& communicator,
                                                           std::unique_ptr<Communicator>& second,
                                                           const ExchangeSettings& settings,
                                                           std::span<const Range> needed = {});

}  // namespace tasuki
