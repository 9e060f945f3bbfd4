// ParameterGroup: parameters, chosen by their paths, with settings of their own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.hpp"

namespace tasuki {

// Whether a parameter's path matches a pattern: * stands for any characters except /, ** for any
// characters.
bool matches(std::string_view pattern, std::string_view path);

// Which parameters are frozen: the last pattern that matches a path decides.
class FrozenPaths {
 public:
  void freeze(const std::string& pattern) { add({pattern, true}); }
  void unfreeze(const std::string& pattern) { add({pattern, false}); }
  bool has(std::string_view path) const;
  std::vector<std::string> patterns() const;
  // A line for each pattern, "- a/**" for a frozen one and "+ a/**" for one that is not.
  std::string text() const;
  static FrozenPaths parse(std::string_view text);

 private:
  struct Rule {
    std::string pattern;
    bool is_frozen;
  };
  void add(Rule rule);
  std::vector<Rule> rules_;
};

// If several groups match a parameter, the last group that has a setting decides about it.
struct ParameterGroup {
  std::string pattern;                        // of paths, as matches() takes it
  std::optional<double> rate_factor = {};     // times the learning rate
  std::map<std::string, double> values = {};  // hyper-parameters in place of the optimizer's
  // Replaces the rates of hooks that decay weights (WeightDecay, GradientLARS) and the
  // hyper-parameter UpdateRule::decay_name() (AdamW's weight_decay_rate); 0: no decay. A rate above
  // 0 is a usage error if there is nothing to replace.
  std::optional<double> weight_decay = {};
  // Only parameters with at most one axis: biases, scales of normalisation.
  bool is_1d_only = false;

  bool has(std::string_view path, const Shape& shape) const;
  // The pattern and the settings as text, which ranks compare and snapshots store.
  std::string text() const;
};

}  // namespace tasuki
