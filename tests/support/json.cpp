#include "json.hpp"

#include <fstream>

namespace tasuki::testing {

nlohmann::json json_from(const std::string& text) {
  return nlohmann::json::parse(text);
}

nlohmann::json json_in(const std::filesystem::path& file) {
  return nlohmann::json::parse(std::ifstream(file));
}

nlohmann::json log_in(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? json_in(file) : nlohmann::json::array();
}

}  // namespace tasuki::testing

void nlohmann::PrintTo(const json& value, std::ostream* stream) {
  *stream << value;
}

void nlohmann::PrintTo(const ordered_json& value, std::ostream* stream) {
  *stream << value;
}
