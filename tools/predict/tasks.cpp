#include "tools/predict/tasks.hpp"
#include "program/flags/flag_groups.hpp"

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "program/flags/option_value.hpp"

namespace tasuki::predict {

Tasks create_tasks() {
  Tasks tasks;
  tasks.push_back(create_classification());
  tasks.push_back(create_generation());
  tasks.push_back(create_translation());
  tasks.push_back(create_text());
  return tasks;
}

std::vector<std::string> networks_of(const Tasks& tasks) {
  std::vector<std::string> names;
  for (const auto& task : tasks)
    for (std::string& name : task->networks()) names.push_back(std::move(name));
  return names;
}

void add_model_flags(program::Options& options, PredictionSettings& settings, const Tasks& tasks) {
  options
      .add("model,m", settings.model, "PATH",
           "a checkpoint, a snapshot, a model file (.npz, also from Chainer's save_npz, or "
           ".safetensors), or a run's output folder (its newest intact state); as the first "
           "argument it needs no flag")
      .in_short("checkpoint, snapshot, model file or run folder");
  program::Option arch;
  arch.value_name = "NAME";
  arch.help = fmt::format("the network: {}; `auto`: the training program's",
                          join(networks_of(tasks), ", "));
  std::vector<std::string> choices = networks_of(tasks);
  choices.insert(choices.begin(), "auto");
  arch.choices = choices;
  arch.set = [&settings, choices](const std::string& text) {
    const std::string found = program::parse_choice(text, choices);
    settings.arch = found == "auto" ? std::nullopt : std::optional(found);
  };
  arch.get = [&settings] { return settings.arch.value_or("auto"); };
  options.add("arch", arch);
}

void add_network_flags(program::Options& options, PredictionSettings& settings,
                       const Tasks& tasks) {
  options.group("Network, where about.json does not describe it", program::OnScreen::no);
  options
      .add("model-map", settings.model_map, "auto", "NAME",
           "names of the arrays in a model file: tasuki, torchvision, gpt2, or a file of patterns "
           "(docs/weights.md); auto: the one of the three that fits best")
      .words_or_file(program::name_map_words());
  for (const auto& task : tasks) task->add_network_flags(options);
}

std::pair<Task*, std::string> choose_task(const Tasks& tasks, const PredictionSettings& settings,
                                          const TrainedModel& trained) {
  for (const auto& task : tasks) {
    const std::vector<std::string> known = task->networks();
    const auto network = settings.arch ? settings.arch : task->network_of(trained.run);
    if (network && std::ranges::find(known, *network) != known.end()) return {task.get(), *network};
  }
  const std::string& program = trained.run.program;
  fail_everywhere(ErrorKind::usage, "{}: {}; give --arch ({})", trained.file.string(),
                  program.empty()
                      ? "no about.json beside it says which network it is"
                      : fmt::format("it is not known which is the network of {}", program),
                  join(networks_of(tasks), ", "));
}

void use_model_word(const std::vector<std::string>& words, const program::Options& options,
                    PredictionSettings& settings) {
  if (words.empty()) return;
  if (options.is_given("model"))
    fail_everywhere(ErrorKind::usage, "--model and {}: give the model once", words[0]);
  settings.model = words[0];
}

}  // namespace tasuki::predict
