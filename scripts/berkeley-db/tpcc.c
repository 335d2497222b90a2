/* Transactions in the manner of TPC-C's Stock Level and Order Status on Berkeley DB: threads that read orders, their lines and the
 * stock, each in a transaction, of one warehouse whose database fits into memory.
 *
 *   tpcc DIRECTORY stock-level|order-status CLIENTS SECONDS
 *
 * Prints transactions a second, and a sum that must be the same whatever the locks: what one client finds in its first hundred. */
#include <db.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DISTRICTS 10
#define ORDERS 100
#define LINES 10
#define ITEMS 5000
#define CUSTOMERS 50

enum { DISTRICT, ORDER, LINE, STOCK, CUSTOMER, TABLES };
static const char *const names[TABLES] = { "district", "order", "line", "stock", "customer" };

struct record {
    unsigned value, other;
    char rest[56];
};

static DB_ENV *env;
static DB *tables[TABLES];
static atomic_int stops;

static void check(int outcome, const char *what)
{
    if (outcome != 0) {
        fprintf(stderr, "%s: %s\n", what, db_strerror(outcome));
        exit(1);
    }
}

static unsigned mixed(unsigned number)
{
    number = (number ^ number >> 16) * 0x7feb352dU;
    number = (number ^ number >> 15) * 0x846ca68bU;
    return number ^ number >> 16;
}

/* Keys sort as numbers do. */
static unsigned key_of(unsigned district, unsigned order, unsigned line)
{
    return __builtin_bswap32(district << 24 | order << 8 | line);
}

static void put(int table, DB_TXN *transaction, unsigned number, unsigned value, unsigned other)
{
    struct record record = { value, other, "" };
    DBT key, data;
    memset(&key, 0, sizeof key);
    memset(&data, 0, sizeof data);
    key.data = &number;
    key.size = sizeof number;
    data.data = &record;
    data.size = sizeof record;
    check(tables[table]->put(tables[table], transaction, &key, &data, 0), names[table]);
}

/* 0, or why the transaction must begin again. */
static int get(int table, DB_TXN *transaction, unsigned number, struct record *record)
{
    DBT key, data;
    memset(&key, 0, sizeof key);
    memset(&data, 0, sizeof data);
    key.data = &number;
    key.size = sizeof number;
    data.data = record;
    data.ulen = sizeof *record;
    data.flags = DB_DBT_USERMEM;
    int outcome = tables[table]->get(tables[table], transaction, &key, &data, 0);
    if (outcome != DB_LOCK_DEADLOCK && outcome != DB_LOCK_NOTGRANTED)
        check(outcome, names[table]);
    return outcome;
}

static void load(void)
{
    DB_TXN *transaction;
    check(env->txn_begin(env, NULL, &transaction, 0), "txn_begin");
    for (unsigned item = 0; item < ITEMS; item++)
        put(STOCK, transaction, key_of(0, item, 0), mixed(item) % 100, 0);
    for (unsigned district = 0; district < DISTRICTS; district++) {
        put(DISTRICT, transaction, key_of(district, 0, 0), ORDERS, 0);
        for (unsigned customer = 0; customer < CUSTOMERS; customer++)
            put(CUSTOMER, transaction, key_of(district, customer, 0), mixed(district * 64 + customer) % ORDERS, 7);
        for (unsigned order = 0; order < ORDERS; order++) {
            put(ORDER, transaction, key_of(district, order, 0), order % CUSTOMERS, LINES);
            for (unsigned line = 0; line < LINES; line++)
                put(LINE, transaction, key_of(district, order, line), mixed(order * 331 + line * 7 + district) % ITEMS, line);
        }
    }
    check(transaction->commit(transaction, DB_TXN_NOSYNC), "commit");
}

/* How many items of the last 20 orders of a district are short. */
static int stock_level(DB_TXN *transaction, unsigned random, unsigned *sum)
{
    struct record district, line, stock;
    unsigned number = random % DISTRICTS, least = 10 + random / 16 % 11, count = 0;
    int outcome = get(DISTRICT, transaction, key_of(number, 0, 0), &district);
    for (unsigned order = district.value - 20; outcome == 0 && order < district.value; order++) {
        for (unsigned at = 0; outcome == 0 && at < LINES; at++) {
            outcome = get(LINE, transaction, key_of(number, order, at), &line);
            if (outcome == 0)
                outcome = get(STOCK, transaction, key_of(0, line.value, 0), &stock);
            count += outcome == 0 && stock.value < least;
        }
    }
    *sum += count;
    return outcome;
}

/* A customer's last order, and its lines. */
static int order_status(DB_TXN *transaction, unsigned random, unsigned *sum)
{
    struct record customer, order, line;
    unsigned number = random % DISTRICTS;
    int outcome = get(CUSTOMER, transaction, key_of(number, random / 16 % CUSTOMERS, 0), &customer);
    if (outcome == 0)
        outcome = get(ORDER, transaction, key_of(number, customer.value, 0), &order);
    for (unsigned at = 0; outcome == 0 && at < order.other; at++) {
        outcome = get(LINE, transaction, key_of(number, customer.value, at), &line);
        *sum += line.value;
    }
    return outcome;
}

static int (*kind)(DB_TXN *, unsigned, unsigned *);

struct client {
    pthread_t thread;
    unsigned number, sum_of_first;
    atomic_long done;
    long again;
};

static void *work(void *argument)
{
    struct client *client = argument;
    for (unsigned round = 0; !atomic_load_explicit(&stops, memory_order_relaxed); round++) {
        DB_TXN *transaction;
        unsigned sum = 0;
        check(env->txn_begin(env, NULL, &transaction, 0), "txn_begin");
        int outcome = kind(transaction, mixed(client->number * 65537 + round), &sum);
        if (outcome == 0) {
            check(transaction->commit(transaction, DB_TXN_NOSYNC), "commit");
            client->done++;
        } else {
            check(transaction->abort(transaction), "abort");
            client->again++;
            round--;
            continue;
        }
        if (round < 100)
            client->sum_of_first += sum;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 5 || atoi(arguments[3]) < 1 || atoi(arguments[3]) > 256 || atof(arguments[4]) <= 0) {
        fprintf(stderr, "%s DIRECTORY stock-level|order-status CLIENTS SECONDS\n", arguments[0]);
        return 2;
    }
    int clients = atoi(arguments[3]);
    kind = strcmp(arguments[2], "stock-level") == 0 ? stock_level : order_status;
    check(db_env_create(&env, 0), "db_env_create");
    check(env->set_cachesize(env, 0, 64 << 20, 1), "set_cachesize");
    check(env->set_lk_max_locks(env, 200000), "set_lk_max_locks");
    check(env->set_lk_max_objects(env, 200000), "set_lk_max_objects");
    check(env->set_lk_max_lockers(env, 20000), "set_lk_max_lockers");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "set_lk_detect");
    check(env->log_set_config(env, DB_LOG_IN_MEMORY, 1), "log_set_config");
    check(env->set_lg_bsize(env, 64 << 20), "set_lg_bsize");
    check(env->open(env, arguments[1], DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_MPOOL | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN, 0),
        "open");
    for (int table = 0; table < TABLES; table++) {
        check(db_create(&tables[table], env, 0), "db_create");
        check(tables[table]->open(tables[table], NULL, NULL, names[table], DB_BTREE, DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0),
            names[table]);
    }
    load();
    struct client *all = calloc((size_t)clients, sizeof *all);
    if (all == NULL)
        return 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int number = 0; number < clients; number++) {
        all[number].number = (unsigned)number;
        if (pthread_create(&all[number].thread, NULL, work, &all[number]) != 0)
            return 1;
    }
    usleep((useconds_t)(atof(arguments[4]) * 1e6));
    // What is compared has been read in any case, also where a machine is busy.
    for (int waited = 0; atomic_load(&all[0].done) < 100 && waited < 600; waited++)
        usleep(100000);
    atomic_store(&stops, 1);
    long done = 0, again = 0;
    for (int number = 0; number < clients; number++) {
        pthread_join(all[number].thread, NULL);
        done += all[number].done;
        again += all[number].again;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("transactions/sec: %.1f\n", (double)done / seconds);
    printf("first: %u, %ld again\n", all[0].sum_of_first, again);
    for (int table = TABLES; table-- > 0;)
        check(tables[table]->close(tables[table], 0), names[table]);
    check(env->close(env, 0), "close");
    free(all);
    return 0;
}
