#include "paths.hpp"

#include <filesystem>

std::string tasuki::testing::from_build(const std::string& relative) {
  return (std::filesystem::path(BUILD_FOLDER) / relative).lexically_normal();
}
