/* Opens libinner.so, which only this library's RUNPATH leads to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void *caller_open(int flags) {
    return dlopen("libinner.so", flags);
}

void *caller_symbol(void *handle, const char *name) {
    return dlsym(handle, name);
}
