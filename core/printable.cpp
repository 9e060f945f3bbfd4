#include "tasuki/core/printable.hpp"

namespace tasuki {

std::string printable(std::string_view text, std::size_t most) {
  constexpr char delete_character = 0x7f;
  std::string result(text.substr(0, most));
  for (char& letter : result)
    if (static_cast<unsigned char>(letter) < ' ' || letter == delete_character) letter = '?';
  return text.size() > most ? result + "..." : result;
}

}  // namespace tasuki
