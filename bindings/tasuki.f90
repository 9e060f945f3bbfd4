! Tasuki for programs in Fortran: trains and uses a network inside a program that has an MPI of its
! own. Compile this file with the program, and link libtasuki.so.
!
!   type(tasuki_model) :: model
!   call model%create(MPI_COMM_WORLD%mpi_val, 'mlp 3-64-64-1 tanh', 'mean_squared_error', &
!                     'adam alpha=0.003')
!   do ...
!     call model%train_step(x, t, loss)      ! x(3, examples), t(1, examples)
!   end do
!   call model%predict(x, y)                 ! y(1, examples)
!   call model%destroy()
!
! tasuki.h says what each procedure does, and what the lines of text may be. Here:
!
! - Arrays are real32 or real64 (x and t of a call alike), of 1 to 6 axes, and the last axis numbers
!   the examples: images are (width, height, channels, examples), x(3, 1) is one example of three
!   numbers, and x(3) is three examples of one. Parts of arrays, such as u(2:n-1, :), are copied if
!   they are not contiguous.
! - Arrays are in the host's memory. Of an assumed-size x(*) pass a section, x(:, 1:n).
! - Labels of classes are integers from 0, not from 1; -1 does not count.
! - `comm` is a handle of `use mpi`, or the mpi_val of one of `use mpi_f08`.
! - Errors follow allocate: with `stat`, a procedure returns tasuki_ok or another code, and `errmsg`
!   becomes the line to print; without it, each rank that has the error prints it and ends
!   (error stop), with the code as its exit code. `loss` and `value` stay as they are after an error.
! - Collective are create, train_step, evaluate, save, load, checkpoint and resume.
! - A copy of a tasuki_model is the same model; destroy it once, before MPI_Finalize.
module tasuki
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_f_pointer, c_int, c_int64_t, c_loc, &
      c_null_char, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  implicit none
  private

  ! The values of `stat` (enum tasuki_code).
  integer, parameter, public :: tasuki_ok = 0, tasuki_usage = 64, tasuki_data = 65, &
      tasuki_missing = 66, tasuki_unavailable = 69, tasuki_internal = 70, tasuki_no_memory = 71, &
      tasuki_cannot_write = 73, tasuki_io = 74, tasuki_hang = 75, tasuki_disagreement = 76, &
      tasuki_config = 78

  public :: tasuki_version

  type, public :: tasuki_model
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create, destroy
    ! (x, t, loss, stat, errmsg): `loss` is real64, and may be left out in train_step.
    generic :: train_step => step_real32, step_real64, step_labels_real32, step_labels_real64, &
        step_labels64_real32, step_labels64_real64
    generic :: evaluate => evaluate_real32, evaluate_real64, evaluate_labels_real32, &
        evaluate_labels_real64, evaluate_labels64_real32, evaluate_labels64_real64
    ! (x, y, stat, errmsg)
    generic :: predict => predict_real32, predict_real64
    ! (name, value, stat, errmsg): `value` is real64.
    procedure :: set, get
    ! (path, stat, errmsg)
    procedure :: save => save_weights, load => load_weights, checkpoint, resume
    procedure, private :: step_real32, step_real64, step_labels_real32, step_labels_real64, &
        step_labels64_real32, step_labels64_real64
    procedure, private :: evaluate_real32, evaluate_real64, evaluate_labels_real32, &
        evaluate_labels_real64, evaluate_labels64_real32, evaluate_labels64_real64
    procedure, private :: predict_real32, predict_real64
  end type

  integer, parameter :: max_axes = 6
  integer(c_int), parameter :: type_float32 = 0, type_float64 = 1, type_int32 = 2, &
      type_int64 = 3, fortran_order = 1

  type, bind(c) :: tasuki_array
    type(c_ptr) :: data
    integer(c_int) :: type, order, axes
    integer(c_int64_t) :: shape(max_axes), strides(max_axes)
  end type

  interface
    integer(c_int) function c_create(comm, network, loss, settings, model) &
        bind(c, name='tasuki_create_f')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: comm
      character(kind=c_char), intent(in) :: network(*), loss(*), settings(*)
      type(c_ptr), intent(out) :: model
    end function

    integer(c_int) function c_destroy(model) bind(c, name='tasuki_destroy')
      import :: c_int, c_ptr
      type(c_ptr), value :: model
    end function

    ! `loss`: the address of a double, or null.
    integer(c_int) function c_train_step(model, x, t, loss) bind(c, name='tasuki_train_step')
      import :: c_int, c_ptr, tasuki_array
      type(c_ptr), value :: model, loss
      type(tasuki_array), intent(in) :: x, t
    end function

    integer(c_int) function c_evaluate(model, x, t, loss) bind(c, name='tasuki_evaluate')
      import :: c_int, c_ptr, tasuki_array
      type(c_ptr), value :: model, loss
      type(tasuki_array), intent(in) :: x, t
    end function

    integer(c_int) function c_predict(model, x, y) bind(c, name='tasuki_predict')
      import :: c_int, c_ptr, tasuki_array
      type(c_ptr), value :: model
      type(tasuki_array), intent(in) :: x, y
    end function

    integer(c_int) function c_set(model, name, value) bind(c, name='tasuki_set')
      import :: c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end function

    integer(c_int) function c_get(model, name, value) bind(c, name='tasuki_get')
      import :: c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), intent(inout) :: value
    end function

    integer(c_int) function c_save(model, path) bind(c, name='tasuki_save')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
    end function

    integer(c_int) function c_load(model, path) bind(c, name='tasuki_load')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
    end function

    integer(c_int) function c_checkpoint(model, path) bind(c, name='tasuki_checkpoint')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
    end function

    integer(c_int) function c_resume(model, path) bind(c, name='tasuki_resume')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
    end function

    type(c_ptr) function c_error() bind(c, name='tasuki_error')
      import :: c_ptr
    end function

    type(c_ptr) function c_version() bind(c, name='tasuki_version')
      import :: c_ptr
    end function

    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! Of the library: '0.1.0'.
  function tasuki_version() result(text)
    character(:), allocatable :: text
    text = text_at(c_version())
  end function

  subroutine create(self, comm, network, loss, settings, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    integer, intent(in) :: comm
    character(*), intent(in) :: network, loss, settings
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (c_associated(self%handle)) then
      call finish(tasuki_usage, stat, errmsg, 'create: this model was created before; destroy it first')
      return
    end if
    call finish(c_create(int(comm, c_int), trim(network) // c_null_char, trim(loss) // c_null_char, &
                         trim(settings) // c_null_char, self%handle), stat, errmsg)
  end subroutine

  subroutine destroy(self, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: handle
    handle = self%handle
    self%handle = c_null_ptr
    call finish(c_destroy(handle), stat, errmsg)
  end subroutine

  subroutine step_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..), t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real32(x), of_real32(t), loss, stat, errmsg)
  end subroutine

  subroutine step_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..), t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real64(x), of_real64(t), loss, stat, errmsg)
  end subroutine

  subroutine step_labels_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..)
    integer(int32), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real32(x), of_int32(t), loss, stat, errmsg)
  end subroutine

  subroutine step_labels64_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..)
    integer(int64), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real32(x), of_int64(t), loss, stat, errmsg)
  end subroutine

  subroutine step_labels_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..)
    integer(int32), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real64(x), of_int32(t), loss, stat, errmsg)
  end subroutine

  subroutine step_labels64_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..)
    integer(int64), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call step(self, of_real64(x), of_int64(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..), t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real32(x), of_real32(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..), t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real64(x), of_real64(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_labels_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..)
    integer(int32), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real32(x), of_int32(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_labels64_real32(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real32), intent(in), contiguous, target :: x(..)
    integer(int64), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real32(x), of_int64(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_labels_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..)
    integer(int32), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real64(x), of_int32(t), loss, stat, errmsg)
  end subroutine

  subroutine evaluate_labels64_real64(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    real(real64), intent(in), contiguous, target :: x(..)
    integer(int64), intent(in), contiguous, target :: t(..)
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call mean_loss(self, of_real64(x), of_int64(t), loss, stat, errmsg)
  end subroutine

  subroutine predict_real32(self, x, y, stat, errmsg)
    class(tasuki_model), intent(in) :: self
    real(real32), intent(in), contiguous, target :: x(..)
    real(real32), intent(inout), contiguous, target :: y(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_predict(self%handle, of_real32(x), of_real32(y)), stat, errmsg)
  end subroutine

  subroutine predict_real64(self, x, y, stat, errmsg)
    class(tasuki_model), intent(in) :: self
    real(real64), intent(in), contiguous, target :: x(..)
    real(real64), intent(inout), contiguous, target :: y(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_predict(self%handle, of_real64(x), of_real64(y)), stat, errmsg)
  end subroutine

  subroutine set(self, name, value, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    character(*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_set(self%handle, trim(name) // c_null_char, value), stat, errmsg)
  end subroutine

  subroutine get(self, name, value, stat, errmsg)
    class(tasuki_model), intent(in) :: self
    character(*), intent(in) :: name
    real(real64), intent(inout) :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_get(self%handle, trim(name) // c_null_char, value), stat, errmsg)
  end subroutine

  subroutine save_weights(self, path, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_save(self%handle, trim(path) // c_null_char), stat, errmsg)
  end subroutine

  subroutine load_weights(self, path, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_load(self%handle, trim(path) // c_null_char), stat, errmsg)
  end subroutine

  subroutine checkpoint(self, path, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_checkpoint(self%handle, trim(path) // c_null_char), stat, errmsg)
  end subroutine

  subroutine resume(self, path, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_resume(self%handle, trim(path) // c_null_char), stat, errmsg)
  end subroutine

  ! --- what they share ---

  subroutine step(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    type(tasuki_array), intent(in) :: x, t
    real(real64), intent(inout), optional :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), target :: mean
    integer(c_int) :: code
    if (present(loss)) then
      code = c_train_step(self%handle, x, t, c_loc(mean))
      if (code == tasuki_ok) loss = mean
    else
      code = c_train_step(self%handle, x, t, c_null_ptr)
    end if
    call finish(code, stat, errmsg)
  end subroutine

  subroutine mean_loss(self, x, t, loss, stat, errmsg)
    class(tasuki_model), intent(inout) :: self
    type(tasuki_array), intent(in) :: x, t
    real(real64), intent(inout) :: loss
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), target :: mean
    integer(c_int) :: code
    code = c_evaluate(self%handle, x, t, c_loc(mean))
    if (code == tasuki_ok) loss = mean
    call finish(code, stat, errmsg)
  end subroutine

  function of_real32(values) result(made)
    real(real32), intent(in), contiguous, target :: values(..)
    type(tasuki_array) :: made
    made = described(shape(values, c_int64_t), type_float32)
    if (size(values) > 0) made%data = c_loc(values)
  end function

  function of_real64(values) result(made)
    real(real64), intent(in), contiguous, target :: values(..)
    type(tasuki_array) :: made
    made = described(shape(values, c_int64_t), type_float64)
    if (size(values) > 0) made%data = c_loc(values)
  end function

  function of_int32(values) result(made)
    integer(int32), intent(in), contiguous, target :: values(..)
    type(tasuki_array) :: made
    made = described(shape(values, c_int64_t), type_int32)
    if (size(values) > 0) made%data = c_loc(values)
  end function

  function of_int64(values) result(made)
    integer(int64), intent(in), contiguous, target :: values(..)
    type(tasuki_array) :: made
    made = described(shape(values, c_int64_t), type_int64)
    if (size(values) > 0) made%data = c_loc(values)
  end function

  function described(sizes, type) result(made)
    integer(c_int64_t), intent(in) :: sizes(:)
    integer(c_int), intent(in) :: type
    type(tasuki_array) :: made
    integer :: known
    known = min(size(sizes), max_axes)
    made%data = c_null_ptr
    made%type = type
    made%order = fortran_order
    made%axes = size(sizes)
    made%shape = 1
    made%shape(:known) = sizes(:known)
    made%strides = 0
  end function

  ! `message`: of an error that this module has found.
  subroutine finish(code, stat, errmsg, message)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(*), intent(in), optional :: message
    character(:), allocatable :: line
    if (present(stat)) stat = code
    if (code == tasuki_ok) return
    if (present(message)) then
      line = message
    else
      line = text_at(c_error())
    end if
    if (present(errmsg)) errmsg = line
    if (present(stat)) return
    write (error_unit, '(2a)') 'tasuki: ', line
    error stop code
  end subroutine

  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module
