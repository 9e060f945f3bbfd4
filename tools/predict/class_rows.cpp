#include "tools/predict/class_rows.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

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

}  // namespace tasuki::predict
