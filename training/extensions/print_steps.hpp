// PrintSteps: loss and speed every few iterations, one line each, from rank 0.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "training/extension.hpp"
#include "training/observation.hpp"

namespace tasuki {

//   step 10, loss = 4.60 (768.2 examples/sec; 0.167 sec/batch)
// Mean loss over the examples of all ranks, and speed of all ranks together, both since the
// previous line; the time includes other work, such as an evaluation.
class PrintSteps : public Extension {
 public:
  explicit PrintSteps(std::int64_t interval, std::string key = "main/loss",
                      std::FILE* out = stdout);

  std::string default_name() const override { return "PrintSteps"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;

  // The line, without its end.
  static std::string text(std::int64_t step, double loss, std::int64_t examples,
                          std::int64_t batches, double seconds);

 private:
  std::int64_t interval_;
  std::string key_;
  std::FILE* out_;
  bool moves_cursor_;
  Observation pending_;       // since the last line
  std::int64_t batches_ = 0;  // since then
  double last_line_at_ = 0;   // elapsed seconds
};

}  // namespace tasuki
