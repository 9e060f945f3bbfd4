// JSON in tests, instead of <nlohmann/json.hpp>: what reads it, and what GoogleTest prints it with,
// is compiled once; in each file it would take about as long as the rest of the file.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

namespace tasuki::testing {

// What is no JSON, a missing file included, is an exception.
nlohmann::json json_from(const std::string& text);
nlohmann::json json_in(const std::filesystem::path& file);
// The entries of a log; none if there is no such file.
nlohmann::json log_in(const std::filesystem::path& file);

}  // namespace tasuki::testing

namespace nlohmann {

void PrintTo(const json& value, std::ostream* stream);
void PrintTo(const ordered_json& value, std::ostream* stream);

}  // namespace nlohmann
