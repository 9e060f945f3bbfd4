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

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/core/range.hpp"
#include "tasuki/optimizer/arena.hpp"
#include "tasuki/optimizer/exchange_settings.hpp"

namespace tasuki {

class PowerSgd;

// Seconds, of gradients in host memory: while this rank exchanged any, delays of other ranks
// included, and while it did nothing but wait for them. The rest was hidden behind the computation.
struct TransferTimes {
  double transfer = 0, exposed = 0;
};

// Used by the thread that computes. All ranks begin and finish the same steps.
class GradientExchange {
 public:
  // What is behind the gradients of a step.
  struct Examples {
    std::int64_t own = 0;  // this rank's
    // Of all ranks, where they are known: on all ranks or on none.
    std::optional<std::int64_t> global{};
  };
  // The gradients in the arena are sums over all ranks.
  struct Sums {
    std::optional<std::int64_t> examples{};  // Examples::global of their step
  };

  virtual ~GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // --- a step ---
  // Announces a step with so many examples on all ranks, if ranks know the number before it begins.
  // Returns how many examples the sums are over that the update of this step uses.
  virtual std::int64_t expect(std::int64_t examples) { return examples; }
  // Before a forward pass: what waits from the step before may start to travel.
  virtual void prepare() {}
  // Before the last backward pass of a step, or after it; the notices are set. May be collective.
  void begin(const Examples& examples);
  // The same for a rank that only takes part in a step of the others.
  virtual void begin_without_gradients() { begin({}); }
  bool has_begun() const { return has_begun_; }
  // The parameter's gradient of this step is final.
  virtual void ready(Parameter& /*parameter*/) {}
  // Between two functions of a backward pass: does a slice of what is under way.
  virtual void advance() {}
  // Forgets a step that failed, after waiting for what travels of it.
  void give_up();
  // Ends the step. The arena then holds what this rank needs of the sums, of this step or of an
  // earlier one; empty: there are none yet, and its gradients mean nothing. All gradients are
  // written.
  std::optional<Sums> finish();
  // After finish(): how many examples on all ranks the sums are over.
  virtual void set_examples(std::int64_t /*examples*/) {}

  // --- between steps ---
  // Whether the gradients of a step wait or travel until a later one.
  virtual bool is_late() const { return false; }
  // What the next step's work on a GPU depends on besides its batch, for recordings to tell apart.
  // The same on all ranks.
  virtual std::string kind_of_step() const { return ""; }
  // Whether later steps repeat what the last one did, so that one of them can be recorded on a GPU.
  // The same on all ranks.
  virtual bool is_settled() const { return true; }
  // The sums of steps that are finished but have not got any yet. Collective.
  std::optional<Sums> flush();
  // Before the arena gets another exchange. Collective.
  virtual void leave() {}
  // What this rank keeps from one step for the next one; empty: nothing. Writing to it changes it.
  // At first it is zero or random. The first tensor has the errors, the last one (float64) the
  // number of examples of all ranks that the errors are sums over.
  virtual std::vector<Tensor> carried_over() const { return {}; }

  // --- about it ---
  // Never empty: overlapped or whole where the settings leave it open.
  ExchangeMode mode() const { return mode_; }
  // Of the arena: what travels at a time.
  const std::vector<Range>& ranges() const { return ranges_; }
  // "in 3 range(s) after the backward pass"
  virtual std::string describe() const = 0;
  // Null: gradients travel as they are.
  virtual const PowerSgd* power_sgd() const { return nullptr; }
  // Since it was made; nothing on GPUs.
  const TransferTimes& times() const { return times_; }

 protected:
  // `communicator`: the one that is used, which outlives this object.
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
  const Communicator* measured_;  // null: it is not measured
  double seconds_before_ = 0;     // measured_->exchange_seconds() after the last exchange
  bool has_begun_ = false;
  TransferTimes times_;
};

// The exchange that the settings ask for. Arena and communicators outlive it. `second`: another
// communicator of the same ranks, which double buffering makes if there is none; recordings may
// hold its exchanges longer than the object lives. `needed`: GradientView's. Collective if
// gradients are compressed or double-buffered. Settings that exclude each other (conflict_in) are
// the caller's fault.
std::unique_ptr<GradientExchange> create_gradient_exchange(ParameterArena& arena,
                                                           Communicator& communicator,
                                                           std::unique_ptr<Communicator>& second,
                                                           const ExchangeSettings& settings,
                                                           std::span<const Range> needed = {});

}  // namespace tasuki
