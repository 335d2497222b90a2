/* Uses the library `part`, which it is linked with. */
#include "policy.h"

void part_make(pthread_mutex_t *mutex);
void part_use(void);

int main(void) {
    pthread_mutex_t made[2];
    part_make(&made[0]);
    part_make(&made[1]);
    use(&made[0]);
    part_use();
    puts("done");
}
