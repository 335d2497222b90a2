/* Which words of a list are one of four keys, by map and reduce: words are encrypted and compared. */
#include "map_reduce.h"

#define LENGTH 8

static const unsigned long keys[4] = { 17, 4242, 99991, 31337 };
static unsigned char encrypted[4][LENGTH];

static void word_of(unsigned long number, unsigned char word[LENGTH])
{
    unsigned long random = mixed(number);
    for (int at = 0; at < LENGTH; at++)
        word[at] = (unsigned char)('a' + (random >> (8 * at) & 255) % 26);
}

static void encrypt(const unsigned char word[LENGTH], unsigned char to[LENGTH])
{
    unsigned char last = 5;
    for (int at = 0; at < LENGTH; at++)
        to[at] = last = (unsigned char)((word[at] ^ last) + 5);
}

static void map(const struct map_task *task)
{
    unsigned char word[LENGTH], coded[LENGTH];
    for (long number = task->first; number < task->first + task->count; number++) {
        word_of((unsigned long)number % 100003, word);
        encrypt(word, coded);
        for (int key = 0; key < 4; key++)
            if (memcmp(coded, encrypted[key], LENGTH) == 0)
                emit(key, number);
        if ((number & 15) == 0)
            emit(4 + (number >> 4 & 3), coded[0]);
    }
}

int main(int count, char **arguments)
{
    struct options options = options_of(count, arguments, 200000);
    unsigned char word[LENGTH];
    for (int key = 0; key < 4; key++) {
        word_of(keys[key], word);
        encrypt(word, encrypted[key]);
    }
    struct map_reduce job = { map, options.size, 32, options.threads };
    map_reduce(&job);
    printf("string match: %ld %ld %ld %ld, %ld, %ld tasks\n", reduced(0), reduced(1), reduced(2), reduced(3),
        reduced(4) + reduced(5) + reduced(6) + reduced(7), tasks_run());
    print_time(&options, tasks_run());
    return 0;
}
