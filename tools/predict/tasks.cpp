#include "tools/predict/task.hpp"

namespace tasuki::predict {

std::vector<std::unique_ptr<Task>> create_tasks() {
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.push_back(create_classification());
  tasks.push_back(create_generation());
  tasks.push_back(create_translation());
  tasks.push_back(create_text());
  return tasks;
}

}  // namespace tasuki::predict
