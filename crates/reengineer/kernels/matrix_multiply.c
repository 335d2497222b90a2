/* Rows of a product of matrices, by map and reduce: a task is a part of a row. */
#include "map_reduce.h"

#define SIDE 48

static long left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];

static void map(const struct map_task *task)
{
    long trace = 0;
    for (long number = task->first; number < task->first + task->count; number++) {
        long row = number % (SIDE * SIDE) / SIDE, column = number % SIDE, sum = 0;
        for (long inner = 0; inner < SIDE; inner++)
            sum += left[row][inner] * right[inner][column];
        if (number < SIDE * SIDE)
            product[row][column] = sum;
        trace += sum % 1009;
    }
    emit(0, trace);
}

int main(int count, char **arguments)
{
    struct options options = options_of(count, arguments, 8);
    for (int row = 0; row < SIDE; row++) {
        for (int column = 0; column < SIDE; column++) {
            left[row][column] = (long)(mixed((unsigned long)(row * SIDE + column)) & 255);
            right[row][column] = (long)(mixed((unsigned long)(column * SIDE + row) + 7) & 255);
        }
    }
    struct map_reduce job = { map, options.size * SIDE * SIDE, 4, options.threads };
    map_reduce(&job);
    unsigned long sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum = sum * 31 + (unsigned long)product[row][column];
    printf("matrix multiply: %lu, %ld, %ld tasks\n", sum, reduced(0), tasks_run());
    print_time(&options, tasks_run());
    return 0;
}
