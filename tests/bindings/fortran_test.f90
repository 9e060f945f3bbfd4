! What tasuki.f90 adds to tasuki.h: axes, kinds, sections of arrays, stat and errmsg. Ends with an
! error at the first check that fails.
program fortran_test
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use mpi
  use tasuki
  implicit none

  type(tasuki_model) :: model, empty
  integer, parameter :: examples = 6
  real(real32) :: x(3, examples), t(2, examples), y(2, examples), wide(5, 2 * examples), one(2, 1)
  real(real64) :: x64(3, examples), t64(2, examples), y64(2, examples), loss, before, value
  real(real32) :: images(28, 28, 1, 2), scores(10, 2)
  integer(int32) :: labels(2)
  character(300) :: message, file
  integer(int64) :: long_labels(2)
  integer :: rank, ranks, code, i, ierror

  message = 'none'
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call get_command_argument(1, file)
  ! An error without `stat` ends the program.
  if (file == 'stop') call model%create(MPI_COMM_WORLD, 'mlp', 'mean_squared_error', 'sgd')
  call check(len(tasuki_version()) >= 5, 'the version')

  do i = 1, examples
    x(:, i) = [real(i, real32), 1.0_real32 / (i + rank), real(mod(3 * i, 5), real32)] / 5
    t(:, i) = [x(1, i) - x(2, i), x(3, i) / 2]
  end do
  x64 = x
  t64 = t

  call model%create(MPI_COMM_WORLD, 'mlp 3-16-2 tanh', 'mean_squared_error', 'adam alpha=0.01  ')
  call model%evaluate(x, t, before)
  do i = 1, 30
    call model%train_step(x, t)
    call model%train_step(x64, t64, loss)
  end do
  call model%get('steps', value)
  call check(nint(value) == 60, 'the number of steps')
  call check(loss < before / 5, 'that the loss falls')

  ! Kinds, and sections that are not contiguous.
  call model%predict(x, y)
  call model%predict(x64, y64)
  call check(all(real(y64, real32) == y), 'equal results in both kinds')
  wide = -1
  wide(2:4, 1::2) = x
  y = 0
  call model%predict(wide(2:4, 1::2), y)
  call check(all(real(y64, real32) == y), 'a section as the input')
  call model%predict(x, wide(4:5, 2::2))
  call check(all(wide(4:5, 2::2) == y), 'a section as the result')
  call check(all(wide(2:4, 1::2) == x) .and. all(wide(1, :) == -1), 'that the rest is as it was')
  do i = 1, examples
    call model%predict(x(:, i:i), one)
    call check(all(abs(one(:, 1) - y(:, i)) < 1e-5), 'one example')
  end do
  call model%predict(x(:, 1:0), y(:, 1:0))
  call model%train_step(x(:, 1:merge(0, examples, rank > 0)), t(:, 1:merge(0, examples, rank > 0)))

  ! Errors.
  call model%predict(x, y(:, 2:), stat=code, errmsg=message)
  call check(code == tasuki_usage, 'the code of an error')
  call check(index(message, 'room for 6 examples, as x has, found 5') > 0, 'its message')
  call model%predict(x, t, code)
  call check(code == tasuki_ok, 'the code without an error')
  call model%predict(x, y(1:1, :), stat=code, errmsg=message)
  call check(index(message, 'an array of 2x6 for the result, found 1x6') > 0, 'shapes as written')
  call model%predict(wide(:, 1:6), y, stat=code, errmsg=message)
  call check(index(message, 'x: expected 3x6 for this network (6 examples), found 5x6') > 0, &
             'the shape of x')
  call model%create(MPI_COMM_WORLD, 'mlp 3-2', 'mean_squared_error', 'sgd', code, message)
  call check(code == tasuki_usage .and. index(message, 'destroy it first') > 0, 'a second creation')
  value = 7
  call model%get('speed', value, code)
  call check(code == tasuki_usage .and. value == 7, 'that an error leaves the value')
  call model%evaluate(wide(:, 1:6), t, value, code)
  call check(code == tasuki_usage .and. value == 7, 'that an error leaves the loss')
  call empty%train_step(x, t, stat=code, errmsg=message)
  call check(code == tasuki_usage .and. index(message, 'model') > 0, 'a model that was not created')
  call model%resume(trim(file) // '.missing', code)
  call check(code == tasuki_missing, 'a missing file')

  ! Files.
  call model%set('alpha', 0.02_real64)
  call model%checkpoint(file)
  call model%train_step(x, t)
  call model%predict(x, y)
  call model%resume(file)
  call model%get('alpha', value)
  call check(value == 0.02_real64, 'the rate of a checkpoint')
  call model%train_step(x, t)
  call model%predict(x, t)
  call check(all(t == y), 'the same bits after a resume')
  call model%save(trim(file) // '.safetensors')
  call model%load(trim(file) // '.safetensors')
  call model%predict(x, t)
  call check(all(t == y), 'the same weights')
  call model%destroy()
  call model%destroy()

  ! Images and labels.
  images = 0.5
  labels = [3, -1]
  call model%create(MPI_COMM_WORLD, 'lenet classes=10 image=1x28x28', 'softmax_cross_entropy', &
                    'momentum_sgd')
  call model%train_step(images, labels, loss)
  call model%predict(images, scores)
  call check(all(scores(:, 1) == scores(:, 2)), 'scores of equal images')
  call model%evaluate(images, labels, value)
  call check(value < loss, 'that the loss of labels falls')
  long_labels = labels
  call model%evaluate(images, long_labels, loss)
  call check(loss == value, 'labels of 64 bits')
  call model%destroy()

  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(a)', 'all checks hold'
  call MPI_Finalize(ierror)

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    write (error_unit, '(a, i0, 4a)') 'rank ', rank, ': ', what, ' is wrong; the last error: ', &
        trim(message)
    error stop 1
  end subroutine

end program
