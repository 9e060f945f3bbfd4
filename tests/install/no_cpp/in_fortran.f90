program in_fortran
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use tasuki
  implicit none
  type(tasuki_model) :: model
  real(real64) :: parameters
  integer :: ierror
  call MPI_Init(ierror)
  call model%create(MPI_COMM_WORLD, 'mlp 3-4-1', 'mean_squared_error', 'sgd')
  call model%get('parameters', parameters)
  call model%destroy()
  call MPI_Finalize(ierror)
  print '(i0, a)', nint(parameters), ' parameters'
end program
