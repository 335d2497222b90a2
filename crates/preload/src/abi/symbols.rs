//! The one list of the symbols that this library exports.
//!
//! Each is defined where its operation is served; a name that is listed here and defined nowhere does not link. From the
//! list come the aliases that glibc exports too, and the names for which `dlvsym` gives our function.

use crate::abi::entry::alias;
use crate::serve::{mutex, rwlock};

macro_rules! symbols {
    (aliases { $($alias:ident = $target:path;)* } own { $($name:ident)* }) => {
        alias! { $($alias = $target;)* }

        unsafe extern "C" {
            $(
                #[allow(non_snake_case, reason = "named after the functions")]
                fn $name();
            )*
        }

        /// Our function of this name, if there is one.
        pub(crate) fn ours(name: &[u8]) -> Option<usize> {
            $(if name == stringify!($alias).as_bytes() {
                return Some($alias as *const () as usize);
            })*
            $(if name == stringify!($name).as_bytes() {
                return Some($name as *const () as usize);
            })*
            None
        }
    };
}

symbols! {
    aliases {
        __pthread_mutex_init = mutex::pthread_mutex_init;
        __pthread_mutex_destroy = mutex::pthread_mutex_destroy;
        __pthread_mutex_lock = mutex::pthread_mutex_lock;
        __pthread_mutex_trylock = mutex::pthread_mutex_trylock;
        __pthread_mutex_unlock = mutex::pthread_mutex_unlock;
        __pthread_rwlock_init = rwlock::pthread_rwlock_init;
        __pthread_rwlock_destroy = rwlock::pthread_rwlock_destroy;
        __pthread_rwlock_rdlock = rwlock::pthread_rwlock_rdlock;
        __pthread_rwlock_tryrdlock = rwlock::pthread_rwlock_tryrdlock;
        __pthread_rwlock_wrlock = rwlock::pthread_rwlock_wrlock;
        __pthread_rwlock_trywrlock = rwlock::pthread_rwlock_trywrlock;
        __pthread_rwlock_unlock = rwlock::pthread_rwlock_unlock;
    }
    own {
        pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock
        pthread_mutex_clocklock pthread_mutex_unlock pthread_mutex_consistent pthread_mutex_getprioceiling
        pthread_mutex_setprioceiling
        pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
        pthread_cond_signal pthread_cond_broadcast
        pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock
        pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock
        pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock pthread_rwlock_unlock
        pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock
        mtx_init mtx_destroy mtx_lock mtx_trylock mtx_timedlock mtx_unlock
        cnd_init cnd_destroy cnd_wait cnd_timedwait cnd_signal cnd_broadcast
        pthread_cancel prctl syscall dlopen dlvsym _Fork
        lockwork_name __itt_sync_create __itt_sync_rename
    }
}
