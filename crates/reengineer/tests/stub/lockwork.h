/* A delegate that runs each section at once, and checks that it is neither held twice nor released unheld. */
#pragma once
#include <stdlib.h>
#include <stdio.h>

typedef struct { int held; } lockwork_delegate_t;
#define LOCKWORK_DELEGATE_INITIALIZER { 0 }

static inline void lockwork_check(int holds)
{
    if (!holds) {
        fputs("the lock is not as it should be\n", stderr);
        abort();
    }
}

static inline int lockwork_delegate_init(lockwork_delegate_t *delegate, const void *spec)
{
    (void)spec;
    delegate->held = 0;
    return 0;
}

static inline int lockwork_delegate_destroy(lockwork_delegate_t *delegate)
{
    lockwork_check(!delegate->held);
    return 0;
}

static inline int lockwork_delegate_acquire(lockwork_delegate_t *delegate)
{
    lockwork_check(!delegate->held);
    delegate->held = 1;
    return 0;
}

static inline int lockwork_delegate_release(lockwork_delegate_t *delegate)
{
    lockwork_check(delegate->held);
    delegate->held = 0;
    return 0;
}

static inline void *lockwork_delegate_run(lockwork_delegate_t *delegate, void *(*section)(void *), void *argument)
{
    lockwork_delegate_acquire(delegate);
    void *result = section(argument);
    lockwork_delegate_release(delegate);
    return result;
}
