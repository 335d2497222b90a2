//! Threads of this library's own. Not the standard library's: a thread that begins takes a lock of that library, and in a child of `fork`
//! the one that held it may be gone.

use std::ffi::c_void;
use std::ptr;

type Main = Box<dyn FnOnce() + Send>;

unsafe extern "C" {
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        main: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> i32;
    fn pthread_detach(thread: usize) -> i32;
}

extern "C" fn run(main: *mut c_void) -> *mut c_void {
    // SAFETY: given away by `start`, to this thread.
    let main = unsafe { Box::from_raw(main.cast::<Main>()) };
    main();
    ptr::null_mut()
}

/// Has a thread run `main`, which does not unwind. `false`: there is none to be had.
pub(crate) fn start(main: impl FnOnce() + Send + 'static) -> bool {
    let main: Box<Main> = Box::new(Box::new(main));
    let main = Box::into_raw(main);
    let mut thread = 0;
    // SAFETY: a place for its name, no attributes, and a function that takes what it is given.
    if unsafe { pthread_create(&raw mut thread, ptr::null(), run, main.cast()) } != 0 {
        // SAFETY: made above, and given to nobody.
        drop(unsafe { Box::from_raw(main) });
        return false;
    }
    // SAFETY: made above, and nobody joins it.
    unsafe { pthread_detach(thread) };
    true
}
