// The program that was there before: a solver for heat that spreads and feeds itself,
//   du/dt = conductivity * laplacian(u) + growth * u * (1 - u),
// on a square that is periodic in both directions, with its rows divided over the ranks. It knows
// nothing of Tasuki.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

class Heat {
 public:
  // Cells on each side of this rank's own that it has copies of.
  static constexpr int ghosts = 4;

  // `size` cells in each direction, a multiple of the number of ranks. Collective over `comm`.
  Heat(MPI_Comm comm, int size);

  // Hot spots; the same for equal seeds, on any number of ranks.
  void start(std::uint64_t seed);
  void step();

  // This rank's rows, and the ghost cells around them.
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  int row_length() const { return columns_ + 2 * ghosts; }
  const float* with_ghosts() const { return u_.data(); }
  const float* inside() const { return u_.data() + ghosts * row_length() + ghosts; }
  // For whoever computes the inside in another way. Afterwards call fill_ghosts().
  float* inside() { return u_.data() + ghosts * row_length() + ghosts; }
  void fill_ghosts();

 private:
  MPI_Comm comm_;
  int first_row_, rows_, columns_, above_, below_;
  std::vector<float> u_, next_;
};
