// What an allreduce does, number by number: mpirun -np 4 allreduce [COMMUNICATOR]
#include <iostream>
#include <vector>

#include <tasuki/tasuki.hpp>

using namespace tasuki;

namespace {

// Rank 0 prints the values of all ranks.
void print(Communicator& communicator, const char* when, const Tensor& mine) {
  const std::vector<Tensor> all = communicator.gather(mine);  // empty on the other ranks
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::cout << when << ", rank " << rank << ":";
    for (const float value : all[rank].span<float>()) std::cout << ' ' << value;
    std::cout << std::endl;
  }
}

int show(int argc, char** argv) {
  const auto communicator = create_communicator(argc > 1 ? argv[1] : "auto");
  const auto n = static_cast<float>(communicator->rank() + 1);
  const Tensor mine = Tensor::from<float>(std::vector<float>{n, 10 * n, 100 * n}, {3});
  if (communicator->rank() == 0) std::cout << communicator->describe() << std::endl;
  print(*communicator, "before", mine);
  communicator->allreduce(mine);  // the sum over all ranks, on all ranks
  print(*communicator, "after", mine);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, show);
}
