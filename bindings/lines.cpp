#include "bindings/lines.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/text_parts.hpp"
#include "models/catalog.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/sequential.hpp"
#include "optimizer/hook.hpp"

namespace tasuki::bindings {
namespace {

struct NameAndValue {
  std::string name, value;
};

// A word "name=value"; `place`: what the line is.
NameAndValue name_and_value(const std::string& word, std::string_view place) {
  const std::size_t at = word.find('=');
  if (at == std::string::npos || at == 0)
    fail(ErrorKind::usage, "{}: expected name=value, found {}", place, quoted_input(word));
  return {word.substr(0, at), word.substr(at + 1)};
}

// At least `least` integers from 1 to `most`, with `separator` between them.
std::vector<std::int64_t> sizes_in(const std::string& text, char separator, std::size_t least,
                                   std::int64_t most, std::string_view place) {
  const std::vector<std::string> parts = text_parts(text, separator);
  if (parts.size() < least)
    fail(ErrorKind::usage, "{}: expected at least {} sizes with {} between them, found {}", place,
         least, separator, quoted_input(text));
  std::vector<std::int64_t> sizes;
  for (const std::string& part : parts) {
    const auto size = number_in<std::int64_t>(part);
    if (!size || *size < 1 || *size > most)
      fail(ErrorKind::usage, "{}: expected a size from 1 to {}, found {}", place, most,
           quoted_input(part));
    sizes.push_back(*size);
  }
  return sizes;
}

// Products of them, and of as many bytes, can be counted.
constexpr std::int64_t most_units = 100'000'000, most_pixels = 65536;

Sequential::Link function_named(const std::string& name) {
  namespace F = functions;
  using Named = std::pair<const char*, Sequential::Link>;
  const std::vector<Named> known = {{"relu", F::relu},
                                    {"tanh", F::tanh},
                                    {"sigmoid", F::sigmoid},
                                    {"gelu", [](const Variable& x) { return F::gelu(x); }},
                                    {"silu", F::silu},
                                    {"elu", [](const Variable& x) { return F::elu(x); }},
                                    {"softplus", [](const Variable& x) { return F::softplus(x); }}};
  for (const auto& [known_name, function] : known)
    if (name == known_name) return function;
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const auto& [known_name, function] : known) names.emplace_back(known_name);
  fail(ErrorKind::usage, "network: there is no function {} for an mlp; there are {}",
       quoted_input(name), join(names, ", "));
}

// Layers l1, l2, ... with a function between them.
Network mlp_of(const std::vector<std::string>& words) {
  if (words.size() < 2 || words.size() > 3)
    fail(ErrorKind::usage,
         "network: expected \"mlp\", sizes and a function, such as \"mlp 3-64-64-1 tanh\", found "
         "{} words",
         words.size());
  const std::vector<std::int64_t> sizes = sizes_in(words[1], '-', 2, most_units, "network: mlp");
  const Sequential::Link between = function_named(words.size() > 2 ? words[2] : "relu");
  auto network = std::make_unique<Sequential>();
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) network->append(between);
    network->append("l" + std::to_string(i), std::make_unique<Linear>(sizes[i - 1], sizes[i]));
  }
  return {std::move(network), {sizes.front()}};
}

Network catalogued(const std::vector<std::string>& words) {
  ModelTask task;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto [name, value] = name_and_value(words[i], "network");
    if (name == "classes") {
      task.classes = sizes_in(value, 'x', 1, most_units, "network: classes")[0];
    } else if (name == "image") {
      const auto sizes = sizes_in(value, 'x', 3, most_pixels, "network: image");
      if (sizes.size() != 3)
        fail(ErrorKind::usage, "network: expected image=CHANNELSxHEIGHTxWIDTH, found {}",
             quoted_input(words[i]));
      task.image = Shape{sizes[0], sizes[1], sizes[2]};
    } else {
      fail(ErrorKind::usage, "network: expected classes=N and image=CxHxW, found {}",
           quoted_input(words[i]));
    }
  }
  return {create_model(words[0], task), task.image};
}

// `expected` describes the numbers from `least` to `most`.
template <class Number>
Number setting_in(const NameAndValue& given, const char* expected, Number least,
                  Number most = std::numeric_limits<Number>::max()) {
  std::string text = given.value;
  if constexpr (std::is_floating_point_v<Number>)
    std::ranges::replace_if(
        text, [](char c) { return c == 'd' || c == 'D'; }, 'e');  // Fortran's
  const auto number = number_in<Number>(text);
  if (!number || !(*number >= least && *number <= most))
    fail(ErrorKind::usage, "settings: {}: expected {}, found {}", given.name, expected,
         quoted_input(given.value));
  return *number;
}

void set_hyperparameter(Optimizer& optimizer, const NameAndValue& given) {
  const std::vector<std::string> known = optimizer.hyperparameters();
  if (std::ranges::find(known, given.name) == known.end())
    fail(ErrorKind::usage,
         "settings: {} has no setting {}; it has {}; and there are weight_decay, clip, seed, "
         "threads, communicator, device",
         optimizer.rule().name(), quoted_input(given.name), join(known, ", "));
  optimizer.set(given.name,
                setting_in(given, "a number such as 1e-3", std::numeric_limits<double>::lowest()));
}

}  // namespace

Network network_of(std::string_view line) {
  const std::vector<std::string> words = text_words(line);
  if (words.empty())
    fail(ErrorKind::usage,
         "network: expected a line such as \"mlp 3-64-64-1 tanh\", found an empty one");
  return words[0] == "mlp" ? mlp_of(words) : catalogued(words);
}

Settings settings_of(std::string_view line) {
  const std::vector<std::string> words = text_words(line);
  if (words.empty())
    fail(ErrorKind::usage, "settings: expected an optimizer first ({}), found an empty line",
         join(optimizer_names(), ", "));
  Settings settings;
  settings.optimizer = create_optimizer(words[0]);
  Optimizer& optimizer = *settings.optimizer;
  constexpr int most_threads = 4096;
  constexpr double above_0 = std::numeric_limits<double>::min();
  std::optional<double> decay, norm;
  std::set<std::string> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const NameAndValue given = name_and_value(words[i], "settings");
    if (!seen.insert(given.name).second)
      fail(ErrorKind::usage, "settings: {} is given twice", quoted_input(given.name));
    if (given.name == "seed") {
      settings.seed = setting_in<std::uint64_t>(given, "a whole number from 0", 0);
    } else if (given.name == "threads") {
      settings.threads = setting_in(given, "a whole number from 1 to 4096", 1, most_threads);
    } else if (given.name == "communicator") {
      settings.communicator = given.value;
    } else if (given.name == "device") {
      if (given.value != "cpu" && given.value != "gpu")
        fail(ErrorKind::usage, "settings: device: expected cpu or gpu, found {}",
             quoted_input(given.value));
      settings.on_gpu = given.value == "gpu";
    } else if (given.name == "clip") {
      norm = setting_in(given, "a number above 0", above_0);
    } else if (given.name == "weight_decay") {
      decay = setting_in(given, "a number from 0", 0.0);
    } else {
      set_hyperparameter(optimizer, given);
    }
  }
  // As --clip-norm and --weight-decay do.
  if (norm) optimizer.add_hook(gradient_clipping(*norm));
  const std::string own_decay = optimizer.rule().decay_name();
  if (decay && !own_decay.empty())
    optimizer.set(own_decay, *decay);
  else if (decay)
    optimizer.add_hook(weight_decay(*decay));
  return settings;
}

}  // namespace tasuki::bindings
