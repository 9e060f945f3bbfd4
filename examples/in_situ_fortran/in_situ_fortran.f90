! A simulation in Fortran that learns a surrogate of itself while it runs:
!   mpirun -np 4 in_situ_fortran
!
! Each rank simulates its part of a ring, and trains with what it sees there. The surrogate makes
! eight time steps at once: it predicts the change of a cell from the cell and eight neighbours on
! each side. At the end it is compared with the solver. What it has learned is in surrogate.npz: the
! program goes on from there when it is started again.
program in_situ_fortran
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use burgers
  use tasuki
  implicit none

  integer, parameter :: cells = 192, window = 2 * ghosts + 1
  integer, parameter :: runs = 300, strides_per_run = 12
  character(*), parameter :: file = 'surrogate.npz'
  type(tasuki_model) :: model
  real(real64), allocatable :: u(:), x(:, :), t(:, :)
  real(real64) :: loss, steps
  integer :: rank, ranks, own, run, stride, code, ierror
  character(200) :: message

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  own = cells / ranks
  if (own * ranks /= cells .or. own < ghosts) then
    if (rank == 0) print '(a, i0, a)', 'expected a number of ranks that divides ', cells, &
        ' into parts of at least 8'
    call MPI_Finalize(ierror)
    stop 1
  end if
  allocate (u(own + 2 * ghosts), x(window, own), t(1, own))

  call model%create(MPI_COMM_WORLD, 'mlp 17-48-48-1 silu', 'mean_squared_error', 'adam')
  call model%resume(file, stat=code, errmsg=message)
  if (code /= tasuki_ok .and. code /= tasuki_missing) then
    if (rank == 0) print '(a)', trim(message)
    error stop 1
  end if
  call model%get('steps', steps)
  if (rank == 0 .and. code == tasuki_ok) print '(a, i0)', 'going on after step ', nint(steps)

  do run = 1, runs
    call model%set('alpha', 0.01_real64 / (1 + steps / 200))
    call start(u, rank * own, cells, run, MPI_COMM_WORLD)
    do stride = 1, strides_per_run
      call see(u, x)
      t(1, :) = u(ghosts+1:ghosts+own)
      call advance_by_solver(u)
      t(1, :) = u(ghosts+1:ghosts+own) - t(1, :)
      call model%train_step(x, t)
    end do
    steps = steps + strides_per_run
  end do

  ! From a start that is not one of the training's.
  call start(u, rank * own, cells, 0, MPI_COMM_WORLD)
  call see(u, x)
  t(1, :) = -u(ghosts+1:ghosts+own)
  call advance_by_solver(u)
  t(1, :) = t(1, :) + u(ghosts+1:ghosts+own)
  call model%evaluate(x, t, loss)
  if (rank == 0) print '(a, i0, a, es8.1)', 'after ', nint(steps), &
      ' steps, the mean squared error of a cell is ', loss

  call compare()
  call model%checkpoint(file)
  call model%destroy()
  call MPI_Finalize(ierror)

contains

  ! The neighbourhoods of this rank's cells.
  subroutine see(u, x)
    real(real64), intent(in) :: u(:)
    real(real64), intent(out) :: x(:, :)
    integer :: i
    do i = 1, own
      x(:, i) = u(i:i+window-1)
    end do
  end subroutine

  subroutine advance_by_solver(u)
    real(real64), intent(inout) :: u(:)
    integer :: step
    do step = 1, ghosts
      call advance(u, MPI_COMM_WORLD)
    end do
  end subroutine

  subroutine advance_by_surrogate(u)
    real(real64), intent(inout) :: u(:)
    real(real64) :: change(1, own)
    call see(u, x)
    call model%predict(x, change)
    u(ghosts+1:ghosts+own) = u(ghosts+1:ghosts+own) + change(1, :)
    call fill_ghosts(u, MPI_COMM_WORLD)
  end subroutine

  ! Runs both for as long as a run of the training.
  subroutine compare()
    real(real64) :: solved(size(u)), predicted(size(u)), squares(2)
    integer :: stride
    call start(solved, rank * own, cells, 0, MPI_COMM_WORLD)
    predicted = solved
    do stride = 1, strides_per_run
      call advance_by_solver(solved)
      call advance_by_surrogate(predicted)
    end do
    squares = [sum((solved(ghosts+1:ghosts+own) - predicted(ghosts+1:ghosts+own))**2), &
               sum(solved(ghosts+1:ghosts+own)**2)]
    call MPI_Allreduce(MPI_IN_PLACE, squares, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, &
                       ierror)
    if (rank == 0) print '(a, i0, a, f6.4, a)', 'after ', strides_per_run * ghosts, &
        ' time steps, the surrogate differs from the solver by ', &
        sqrt(squares(1) / squares(2)), ' (relative)'
  end subroutine

end program
