#include <tasuki/tasuki.hpp>

#include "core/error.hpp"

int main() {
  const ErrorOfThisProject own{};
  static_cast<void>(own);
  return tasuki::version()[0] == '\0';
}
