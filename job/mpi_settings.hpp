// Settings of Open MPI that suit training.
#pragma once

namespace tasuki {

// Sets the environment variables of those settings that the user has not set. Must be called before
// MPI_Init; other MPIs ignore them.
void configure_mpi();

// For MPI_Init in a process without mpirun, which sends no messages: Open MPI 5 would leave their
// memory in /dev/shm. Programs that this process starts later do not inherit the setting.
class OneProcessScope {
 public:
  explicit OneProcessScope(bool is_alone);
  ~OneProcessScope();
  OneProcessScope(const OneProcessScope&) = delete;
  OneProcessScope& operator=(const OneProcessScope&) = delete;

 private:
  bool is_set_;
};

}  // namespace tasuki
