// The flags of a training about its communication and devices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/flags/options.hpp"
#include "program/training_settings.hpp"

namespace tasuki::program {

void add_device_flags(Options& options, TrainingSettings& settings);

// A flag that takes one of `names`; for the value `help`, `listing` is printed.
Option name_flag(std::string& name, const std::vector<std::string>& names, std::string help,
                 std::function<std::string()> listing);

}  // namespace tasuki::program
