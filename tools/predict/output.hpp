// Writes results: rows of examples, then a summary.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/predict/settings.hpp"

namespace tasuki::predict {

// A line of JSON; texts may be any bytes (core/json.hpp).
std::string json_line(const nlohmann::ordered_json& value);
// A cell of CSV (RFC 4180): quoted if it has to be.
std::string csv_cell(const std::string& text);

// Checks before any work that --out can be written; to be called on one rank.
void check_output(const PredictionSettings& settings);

// Writes the rows to --out or standard output (with --quiet nowhere), then the summary to standard
// output; to standard error if the rows on standard output are CSV, which has no place for it. To
// be called on one rank.
void deliver(const PredictionSettings& settings, const std::string& rows,
             const std::string& summary);

// A result in all formats.
struct Report {
  std::string table, csv, json;       // rows
  std::string summary, json_summary;  // text; a line of JSON
};
// Writes the result in the format of the settings.
void deliver(const PredictionSettings& settings, const Report& report);

}  // namespace tasuki::predict
