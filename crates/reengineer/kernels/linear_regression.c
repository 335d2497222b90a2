/* The line through points, by map and reduce: short tasks, so that threads meet at the queues. */
#include "map_reduce.h"

enum { SUM_X, SUM_Y, SUM_XX, SUM_YY, SUM_XY };

static void map(const struct map_task *task)
{
    long sums[5] = { 0 };
    for (long number = task->first; number < task->first + task->count; number++) {
        long x = (long)(mixed((unsigned long)number) & 1023), y = 3 * x + (long)(mixed((unsigned long)~number) & 63);
        sums[SUM_X] += x;
        sums[SUM_Y] += y;
        sums[SUM_XX] += x * x;
        sums[SUM_YY] += y * y;
        sums[SUM_XY] += x * y;
    }
    for (int key = SUM_X; key <= SUM_XY; key++)
        emit(key, sums[key]);
}

int main(int count, char **arguments)
{
    struct options options = options_of(count, arguments, 200000);
    struct map_reduce job = { map, options.size, 64, options.threads };
    map_reduce(&job);
    long n = options.size, xx = n * reduced(SUM_XX) - reduced(SUM_X) * reduced(SUM_X);
    long xy = n * reduced(SUM_XY) - reduced(SUM_X) * reduced(SUM_Y);
    printf("linear regression: slope %.6f, sum of squares %ld, %ld tasks\n", xx ? (double)xy / (double)xx : 0.0,
        reduced(SUM_YY), tasks_run());
    print_time(&options, tasks_run());
    return 0;
}
