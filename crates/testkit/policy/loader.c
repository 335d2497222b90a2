/* Loads, uses and unloads its arguments, one after another: the same library under several names. */
#include "policy.h"

#include <dlfcn.h>

int main(int count, char **names) {
    void *last = NULL;
    for (int i = 1; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW);
        must(library != NULL);
        void (*make)(pthread_mutex_t *) = (void (*)(pthread_mutex_t *))dlsym(library, "part_make");
        must(make != NULL);
        if (make == (void (*)(pthread_mutex_t *))last)
            puts("at the place of the last one");
        last = (void *)make;
        pthread_mutex_t mutex;
        make(&mutex);
        use(&mutex);
        must(dlclose(library) == 0);
    }
    puts("done");
}
