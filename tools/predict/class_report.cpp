#include "tools/predict/class_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/terminal.hpp"
#include "models/googlenet_bn.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/text_table.hpp"

namespace tasuki::predict {
namespace {

using nlohmann::ordered_json;

struct Guess {
  std::int32_t label;
  double probability;
};

Guess guess(const Predictions& predictions, std::int64_t example, std::int64_t place) {
  const auto at = static_cast<std::size_t>(example * predictions.top + place);
  return {predictions.classes[at], predictions.probabilities[at]};
}

std::string table_rows(const Predictions& predictions, const Names& names) {
  std::vector<std::string> header = {names.examples.empty() ? "example" : "file"};
  if (predictions.has_labels()) header.emplace_back("label");
  header.insert(header.end(), {"prediction", "probability"});
  if (predictions.top > 1) header.emplace_back("next");
  TextTable table(header);
  for (std::int64_t i = 0; i < predictions.examples(); ++i) {
    std::vector<std::string> cells = {names.example(i)};
    if (predictions.has_labels())
      cells.push_back(names.of_class(predictions.labels[static_cast<std::size_t>(i)]));
    const Guess first = guess(predictions, i, 0);
    cells.push_back(names.of_class(first.label));
    cells.push_back(fmt::format("{:.4f}", first.probability));
    std::string next;
    for (std::int64_t k = 1; k < predictions.top; ++k) {
      const Guess other = guess(predictions, i, k);
      next += fmt::format("{}{} {:.4f}", k == 1 ? "" : ", ", names.of_class(other.label),
                          other.probability);
    }
    if (predictions.top > 1) cells.push_back(std::move(next));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string json_rows(const Predictions& predictions, const Names& names) {
  std::string text;
  for (std::int64_t i = 0; i < predictions.examples(); ++i) {
    ordered_json row = {{"example", i}};
    if (!names.examples.empty()) row["file"] = names.example(i);
    if (predictions.has_labels()) {
      const std::int32_t label = predictions.labels[static_cast<std::size_t>(i)];
      row["label"] = label;
      if (!names.classes.empty()) row["label_name"] = names.of_class(label);
      row["loss"] = predictions.losses[static_cast<std::size_t>(i)];
    }
    row["predictions"] = ordered_json::array();
    for (std::int64_t k = 0; k < predictions.top; ++k) {
      const Guess found = guess(predictions, i, k);
      ordered_json entry = {{"class", found.label}};
      if (!names.classes.empty()) entry["name"] = names.of_class(found.label);
      entry["probability"] = found.probability;
      row["predictions"].push_back(std::move(entry));
    }
    text += json_line(row);
  }
  return text;
}

std::string csv_rows(const Predictions& predictions, const Names& names) {
  std::string text = names.examples.empty() ? "example" : "file";
  if (predictions.has_labels()) text += ",label";
  for (std::int64_t k = 1; k <= predictions.top; ++k)
    text += k == 1 ? ",prediction,probability" : fmt::format(",prediction_{0},probability_{0}", k);
  text += '\n';
  for (std::int64_t i = 0; i < predictions.examples(); ++i) {
    text += csv_cell(names.example(i));
    if (predictions.has_labels())
      text += ',' + csv_cell(names.of_class(predictions.labels[static_cast<std::size_t>(i)]));
    for (std::int64_t k = 0; k < predictions.top; ++k) {
      const Guess found = guess(predictions, i, k);
      text += fmt::format(",{},{}", csv_cell(names.of_class(found.label)), found.probability);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string Names::example(std::int64_t i) const {
  return examples.empty() ? std::to_string(i) : examples[static_cast<std::size_t>(i)];
}

std::string Names::of_class(std::int32_t i) const {
  return classes.empty() ? std::to_string(i) : classes[static_cast<std::size_t>(i)];
}

std::string rows_text(const Predictions& predictions, const Names& names, Format format) {
  switch (format) {
    case Format::json:
      return json_rows(predictions, names);
    case Format::csv:
      return csv_rows(predictions, names);
    case Format::table:
      break;
  }
  return table_rows(predictions, names) + '\n';
}

namespace {

// A matrix of more classes would be unreadable.
constexpr std::int64_t most_classes_of_matrix = 20;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// As training programs report it: with the losses of auxiliary classifiers.
double loss_of_run(const Predictions& predictions) {
  const double main = mean(predictions.losses);
  if (predictions.first_losses.empty()) return main;
  return main + GoogLeNetBn::auxiliary_weight *
                    (mean(predictions.first_losses) + mean(predictions.second_losses));
}

std::int64_t correct_in_top(const Predictions& predictions) {
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < predictions.examples(); ++i) {
    const auto begin = predictions.classes.begin() + i * predictions.top;
    const std::int32_t label = predictions.labels[static_cast<std::size_t>(i)];
    if (std::find(begin, begin + predictions.top, label) != begin + predictions.top) ++correct;
  }
  return correct;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100 * ratio(part, whole));
}

// The wrong class most often predicted for examples of `label`.
std::string worst_confusion(const Confusion& confusion, std::int64_t label, const Names& names) {
  std::int64_t worst = -1, most = 0;
  for (std::int64_t other = 0; other < confusion.classes(); ++other)
    if (other != label && confusion.count(label, other) > most) {
      worst = other;
      most = confusion.count(label, other);
    }
  return worst < 0 ? "-" : fmt::format("{} ({})", names.of_class(static_cast<int>(worst)), most);
}

std::string class_table(const Confusion& confusion, const Names& names) {
  TextTable table(
      {"class", "examples", "recall", "predicted", "precision", "most often taken for"});
  for (std::int64_t i = 0; i < confusion.classes(); ++i) {
    const std::int64_t examples = confusion.examples(i), predicted = confusion.predicted(i);
    if (examples == 0 && predicted == 0) continue;
    table.add({names.of_class(static_cast<int>(i)), std::to_string(examples),
               percent(confusion.count(i, i), examples), std::to_string(predicted),
               percent(confusion.count(i, i), predicted), worst_confusion(confusion, i, names)});
  }
  return table.text();
}

// With class names above the columns or, where these are too long, with the numbers that precede
// the names in the rows.
std::string matrix(const Confusion& confusion, const Names& names, bool has_numbers) {
  const auto name = [&](std::int64_t i) { return names.of_class(static_cast<int>(i)); };
  std::vector<std::string> header = {"label"};
  for (std::int64_t i = 0; i < confusion.classes(); ++i)
    header.push_back(has_numbers ? std::to_string(i) : name(i));
  TextTable table(header);
  for (std::int64_t label = 0; label < confusion.classes(); ++label) {
    std::vector<std::string> cells = {has_numbers ? fmt::format("{} {}", label, name(label))
                                                  : name(label)};
    for (std::int64_t i = 0; i < confusion.classes(); ++i)
      cells.push_back(std::to_string(confusion.count(label, i)));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string labelled_summary(const Predictions& predictions, const Names& names,
                             std::int64_t classes) {
  const Confusion confusion(predictions, classes);
  const std::int64_t n = predictions.examples();
  std::string text =
      fmt::format("Examples: {}\nAccuracy: {:.4f}", n, ratio(confusion.correct(), n));
  if (predictions.top > 1)
    text += fmt::format(" ({:.4f} among the first {})", ratio(correct_in_top(predictions), n),
                        predictions.top);
  text += fmt::format("\nMean loss: {:.4f}", loss_of_run(predictions));
  if (!predictions.first_losses.empty())
    text +=
        fmt::format(" (classifiers: {:.4f}, {:.4f}, main {:.4f})", mean(predictions.first_losses),
                    mean(predictions.second_losses), mean(predictions.losses));
  text += "\n\n" + class_table(confusion, names);
  if (classes <= most_classes_of_matrix) {
    std::string counts = matrix(confusion, names, /*has_numbers=*/false);
    if (counts.find('\n') > line_width(stdout)) counts = matrix(confusion, names, true);
    text += "\nPredictions (columns) for each label (rows):\n" + counts;
  }
  return text;
}

std::vector<std::int64_t> predicted_counts(const Predictions& predictions, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::int64_t i = 0; i < predictions.examples(); ++i)
    ++counts[static_cast<std::size_t>(predictions.first(i))];
  return counts;
}

std::string plain_summary(const Predictions& predictions, const Names& names,
                          std::int64_t classes) {
  TextTable table({"class", "predicted"});
  const auto counts = predicted_counts(predictions, classes);
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) table.add({names.of_class(static_cast<int>(i)), std::to_string(counts[i])});
  return fmt::format("Examples: {}\n\n{}", predictions.examples(), table.text());
}

std::string text_of_unreadable(std::span<const ImageProblem> unreadable) {
  constexpr std::size_t most_shown = 20;
  if (unreadable.empty()) return "";
  return fmt::format("\nLeft out: {} image file{} that cannot be read: {}\n", unreadable.size(),
                     unreadable.size() == 1 ? "" : "s", text_of(unreadable, most_shown));
}

std::string json_summary(const Predictions& predictions, const Names& names,
                         std::span<const ImageProblem> unreadable, std::int64_t classes) {
  ordered_json summary = {{"examples", predictions.examples()}};
  if (!names.classes.empty()) summary["class_names"] = names.classes;
  summary["predicted"] = predicted_counts(predictions, classes);
  if (predictions.has_labels()) {
    const Confusion confusion(predictions, classes);
    summary["correct"] = confusion.correct();
    summary["accuracy"] = ratio(confusion.correct(), predictions.examples());
    summary["top"] = predictions.top;
    summary["top_accuracy"] = ratio(correct_in_top(predictions), predictions.examples());
    summary["loss"] = loss_of_run(predictions);
    if (!predictions.first_losses.empty()) {
      summary["loss1"] = mean(predictions.first_losses);
      summary["loss2"] = mean(predictions.second_losses);
      summary["loss3"] = mean(predictions.losses);
    }
    for (std::int64_t label = 0; label < classes; ++label) {
      std::vector<std::int64_t> row;
      for (std::int64_t i = 0; i < classes; ++i) row.push_back(confusion.count(label, i));
      summary["confusion"].push_back(row);
    }
  }
  for (const ImageProblem& each : unreadable)
    summary["unreadable"].push_back({{"file", each.name}, {"problem", each.what}});
  return json_line({{"summary", summary}});
}

}  // namespace

Confusion::Confusion(const Predictions& predictions, std::int64_t classes)
    : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {
  for (std::int64_t i = 0; i < predictions.examples(); ++i)
    ++counts_[static_cast<std::size_t>(predictions.labels[static_cast<std::size_t>(i)] * classes +
                                       predictions.first(i))];
}

std::int64_t Confusion::examples(std::int64_t label) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < classes_; ++i) sum += count(label, i);
  return sum;
}

std::int64_t Confusion::predicted(std::int64_t as) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < classes_; ++i) sum += count(i, as);
  return sum;
}

std::int64_t Confusion::correct() const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < classes_; ++i) sum += count(i, i);
  return sum;
}

std::string summary_text(const Predictions& predictions, const Names& names,
                         std::span<const ImageProblem> unreadable, std::int64_t classes,
                         Format format) {
  if (format == Format::json) return json_summary(predictions, names, unreadable, classes);
  return (predictions.has_labels() ? labelled_summary(predictions, names, classes)
                                   : plain_summary(predictions, names, classes)) +
         text_of_unreadable(unreadable);
}

}  // namespace tasuki::predict
