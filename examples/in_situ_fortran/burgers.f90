! Burgers' equation, u_t + u u_x = nu u_xx, on a ring that is divided among the ranks: a solver as it
! may have existed before there was a network.
module burgers
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  implicit none
  private
  public :: start, advance, fill_ghosts

  integer, parameter, public :: ghosts = 8  ! cells of each neighbour, enough for so many time steps
  real(real64), parameter :: pi = acos(-1.0_real64)
  real(real64), parameter :: nu = 0.2_real64, dt = 0.25_real64  ! cells are 1 wide

contains

  ! A sum of three waves, which `seed` chooses. u: the cells of this rank with `ghosts` on each side.
  subroutine start(u, first, cells, seed, comm)
    real(real64), intent(out) :: u(:)
    integer, intent(in) :: first, cells, seed, comm  ! the rank's first cell; cells of all ranks
    integer :: i, wave
    u = 0
    do wave = 1, 3
      do i = 1, size(u) - 2 * ghosts
        u(ghosts + i) = u(ghosts + i) + number(3 * seed + wave) / wave * &
            sin(2 * pi * wave * (real(first + i, real64) / cells + number(7 * seed + wave)))
      end do
    end do
    call fill_ghosts(u, comm)
  end subroutine

  ! Makes one time step: second-order differences, Euler's method.
  subroutine advance(u, comm)
    real(real64), intent(inout) :: u(:)
    integer, intent(in) :: comm
    integer :: n
    n = size(u)
    u(2:n-1) = u(2:n-1) + dt * (nu * (u(3:) - 2 * u(2:n-1) + u(:n-2)) - &
                                (u(3:)**2 - u(:n-2)**2) / 4)
    call fill_ghosts(u, comm)
  end subroutine

  subroutine fill_ghosts(u, comm)
    real(real64), intent(inout) :: u(:)
    integer, intent(in) :: comm
    integer :: rank, ranks, left, right, n, ierror
    call MPI_Comm_rank(comm, rank, ierror)
    call MPI_Comm_size(comm, ranks, ierror)
    left = modulo(rank - 1, ranks)
    right = modulo(rank + 1, ranks)
    n = size(u)
    call MPI_Sendrecv(u(ghosts+1), ghosts, MPI_DOUBLE_PRECISION, left, 0, &
                      u(n-ghosts+1), ghosts, MPI_DOUBLE_PRECISION, right, 0, comm, &
                      MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(u(n-2*ghosts+1), ghosts, MPI_DOUBLE_PRECISION, right, 1, &
                      u(1), ghosts, MPI_DOUBLE_PRECISION, left, 1, comm, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! In [0, 1), the same for a seed on all ranks.
  real(real64) function number(seed)
    integer, intent(in) :: seed
    number = modulo(sin(12.9898_real64 * seed) * 43758.5453_real64, 1.0_real64)
  end function

end module
