// Linked with a program, makes emulated tiles compute its products of bfloat16.
#include "tests/tensor/tile_emulation.hpp"

namespace tasuki::testing {
namespace {

[[gnu::constructor]] void use_emulated_tiles() {
  set_tile_kernels(&tile_emulation);
}

}  // namespace
}  // namespace tasuki::testing
