#include "heat.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace {

constexpr float conductivity = 0.2F, growth = 0.1F;  // of a time step

}  // namespace

Heat::Heat(MPI_Comm comm, int size) : comm_(comm), columns_(size) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  rows_ = size / ranks;
  first_row_ = rank * rows_;
  above_ = (rank + ranks - 1) % ranks;
  below_ = (rank + 1) % ranks;
  u_.resize(static_cast<std::size_t>((rows_ + 2 * ghosts) * row_length()));
  next_ = u_;
}

void Heat::start(std::uint64_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::fill(u_.begin(), u_.end(), 0.0F);
  constexpr int spots = 6;
  for (int spot = 0; spot < spots; ++spot) {
    const auto draw = [&](unsigned below) { return static_cast<int>(random() % below); };
    const int x = draw(static_cast<unsigned>(columns_)), y = draw(static_cast<unsigned>(columns_));
    const int radius = 3 + draw(5);
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < columns_; ++j) {
        // The shortest way around the square.
        const auto apart = [this](int a, int b) {
          const int d = std::abs(a - b);
          return std::min(d, columns_ - d);
        };
        if (std::hypot(apart(first_row_ + i, y), apart(j, x)) <= radius)
          inside()[i * row_length() + j] = 1;
      }
  }
  fill_ghosts();
}

void Heat::fill_ghosts() {
  for (int i = 0; i < rows_; ++i) {
    float* const row = inside() + i * row_length();
    std::copy_n(row, ghosts, row + columns_);
    std::copy_n(row + columns_ - ghosts, ghosts, row - ghosts);
  }
  const int count = ghosts * row_length();
  float* const first = u_.data() + count;
  float* const last = u_.data() + rows_ * row_length();
  MPI_Sendrecv(first, count, MPI_FLOAT, above_, 0, last + count, count, MPI_FLOAT, below_, 0, comm_,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, count, MPI_FLOAT, below_, 1, u_.data(), count, MPI_FLOAT, above_, 1, comm_,
               MPI_STATUS_IGNORE);
}

void Heat::step() {
  const int length = row_length(), offset = ghosts * length + ghosts;
  for (int i = 0; i < rows_; ++i)
    for (int j = 0; j < columns_; ++j) {
      const float* const u = u_.data() + offset + i * length + j;
      next_[static_cast<std::size_t>(offset + i * length + j)] =
          *u + conductivity * (u[-1] + u[1] + u[-length] + u[length] - 4 * *u) +
          growth * *u * (1 - *u);
    }
  u_.swap(next_);
  fill_ghosts();
}
