/* Names and their addresses: one lookup a name, bounded threads, and an end that waits for nobody. */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/http/host_names.h"
#include "support/wait.h"

#define NOW INT64_C(1000000000)

/* ---- the C library's part: answers when the gate is open ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int failure; /* of all names; 0: they are found */
    unsigned began, inside, most;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_gate(bool open)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = open;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void wait_for_lookups(unsigned n)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.began < n)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

__typeof__(getaddrinfo) __wrap_getaddrinfo;
__typeof__(freeaddrinfo) __wrap_freeaddrinfo;

struct found {
    struct addrinfo info;
    struct sockaddr_in6 address;
};

static struct addrinfo *make(const char *text, struct addrinfo *next)
{
    struct found *f = calloc(1, sizeof(*f));
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)(void *)&f->address;
    bool ipv6 = strchr(text, ':');
    f->info = (struct addrinfo){
        .ai_family = ipv6 ? AF_INET6 : AF_INET, .ai_addr = (struct sockaddr *)(void *)&f->address, .ai_next = next};
    assert_int_equal(
        ipv6 ? inet_pton(AF_INET6, text, &f->address.sin6_addr) : inet_pton(AF_INET, text, &ipv4->sin_addr), 1);
    return &f->info;
}

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    assert_null(service);
    assert_int_equal(hints->ai_family, AF_UNSPEC);
    pthread_mutex_lock(&gate.lock);
    gate.began++;
    gate.inside++;
    gate.most = gate.inside > gate.most ? gate.inside : gate.most;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.open)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.inside--;
    pthread_mutex_unlock(&gate.lock);
    if (gate.failure)
        return gate.failure;
    if (strcmp(name, "none") == 0)
        return EAI_NONAME;
    *out = make("192.0.2.1", NULL);
    if (strcmp(name, "two") == 0)
        *out = make("2001:db8::1", *out);
    for (unsigned i = 0; strcmp(name, "many") == 0 && i < 40; i++)
        *out = make("192.0.2.1", *out);
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    while (found) {
        struct addrinfo *next = found->ai_next;
        free(found);
        found = next;
    }
}

/* ---- the table ---- */

static dt_host_names *names;
static int wake_fd;

static void setup(void)
{
    gate.began = gate.inside = gate.most = 0;
    gate.failure = 0;
    set_gate(true);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(dt_host_names_new(wake_fd, &names), DT_OK);
}

static void teardown(void)
{
    set_gate(true);
    dt_host_names_free(names);
    close(wake_fd);
}

#define FRESH_TEST(name) TEST_WITH(name, setup, teardown)

static struct dt_host_name *find_for(int64_t owner, const char *host, int64_t now_us)
{
    struct dt_host_name *name = NULL;
    assert_int_equal(dt_host_names_find(names, host, owner, now_us, &name), DT_OK);
    return name;
}

static struct dt_host_name *find(const char *host, int64_t now_us)
{
    return find_for(1, host, now_us);
}

/* The next name of which the lookup has ended. */
static struct dt_host_name *wait_for_end(int64_t now_us)
{
    uint64_t count;
    struct dt_host_name *name = dt_host_names_ended(names, now_us);
    while (!name) {
        struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
        assert_int_equal(poll(&wake, 1, WAIT_MS), 1);
        assert_int_equal(read(wake_fd, &count, sizeof(count)), sizeof(count));
        name = dt_host_names_ended(names, now_us);
    }
    return name;
}

static void assert_addresses(const char *host, const char *addresses)
{
    struct dt_host_name *name = find(host, NOW);
    assert_int_equal(name->state, DT_HOST_NAME_ASKED);
    assert_ptr_equal(wait_for_end(NOW), name);
    assert_int_equal(name->state, DT_HOST_NAME_KNOWN);
    assert_string_equal(name->addresses, addresses);
}

FRESH_TEST(addresses_are_returned_in_their_order)
{
    assert_addresses("one", "192.0.2.1");
    assert_addresses("two", "[2001:db8::1],192.0.2.1");
}

FRESH_TEST(only_some_of_very_many_addresses_are_kept)
{
    (void)find("many", NOW);
    assert_int_equal(strlen(wait_for_end(NOW)->addresses),
                     DT_HOST_ADDRESSES * strlen("192.0.2.1") + DT_HOST_ADDRESSES - 1);
}

FRESH_TEST(a_requested_name_is_looked_up_once)
{
    set_gate(false);
    struct dt_host_name *name = find("one", NOW);
    for (unsigned i = 0; i < 100; i++)
        assert_ptr_equal(find("one", NOW + i), name);
    wait_for_lookups(1);
    set_gate(true);
    assert_ptr_equal(wait_for_end(NOW), name);
    assert_null(dt_host_names_ended(names, NOW));
    assert_int_equal(gate.began, 1);
}

FRESH_TEST(a_name_is_looked_up_again_after_a_minute_and_used_meanwhile)
{
    (void)find("one", NOW);
    (void)wait_for_end(NOW);
    assert_int_equal(find("one", NOW + DT_HOST_NAME_KEPT_US - 1)->state, DT_HOST_NAME_KNOWN);
    assert_int_equal(gate.began, 1);
    set_gate(false); /* a name server that is silent */
    struct dt_host_name *name = find("one", NOW + DT_HOST_NAME_KEPT_US);
    wait_for_lookups(2);
    assert_int_equal(name->state, DT_HOST_NAME_KNOWN);
    assert_string_equal(name->addresses, "192.0.2.1");
    assert_int_equal(find("one", NOW + DT_HOST_NAME_USED_US - 1)->state, DT_HOST_NAME_KNOWN);
    assert_int_equal(find("one", NOW + DT_HOST_NAME_USED_US)->state, DT_HOST_NAME_ASKED);
    set_gate(true);
    assert_int_equal(wait_for_end(NOW + DT_HOST_NAME_USED_US)->state, DT_HOST_NAME_KNOWN);
    assert_int_equal(gate.began, 2);
}

FRESH_TEST(addresses_are_kept_if_name_servers_fail_and_not_if_the_name_is_gone)
{
    (void)find("one", NOW);
    (void)wait_for_end(NOW);
    gate.failure = EAI_AGAIN;
    (void)find("one", NOW + DT_HOST_NAME_KEPT_US);
    assert_int_equal(wait_for_end(NOW + DT_HOST_NAME_KEPT_US)->state, DT_HOST_NAME_KNOWN);
    assert_int_equal(find("one", NOW + DT_HOST_NAME_KEPT_US)->state, DT_HOST_NAME_KNOWN);
    const int64_t again = NOW + DT_HOST_NAME_KEPT_US + DT_HOST_NAME_AGAIN_US;
    assert_int_equal(gate.began, 2); /* not at once again */
    gate.failure = EAI_NONAME;
    (void)find("one", again);
    assert_int_equal(wait_for_end(again)->state, DT_HOST_NAME_FAILED);
    assert_int_equal(find("one", again)->state, DT_HOST_NAME_ASKED);
    (void)wait_for_end(again);
}

FRESH_TEST(a_doubted_name_is_looked_up_at_once_and_used_meanwhile)
{
    (void)find("one", NOW);
    (void)wait_for_end(NOW);
    dt_host_names_doubt(names, "one", 1, NOW);
    dt_host_names_doubt(names, "another", 1, NOW);
    wait_for_lookups(2);
    assert_int_equal(find("one", NOW)->state, DT_HOST_NAME_KNOWN);
    (void)wait_for_end(NOW);
    assert_int_equal(gate.began, 2);
}

FRESH_TEST(a_failed_lookup_is_reported_and_not_cached)
{
    (void)find("none", NOW);
    struct dt_host_name *name = wait_for_end(NOW);
    assert_int_equal(name->state, DT_HOST_NAME_FAILED);
    assert_true(name->reason[0]);
    assert_int_equal(find("none", NOW)->state, DT_HOST_NAME_ASKED);
    (void)wait_for_end(NOW);
}

FRESH_TEST(unused_names_are_forgotten)
{
    struct dt_host_name *held = find("one", NOW);
    held->waiting = 1;
    (void)wait_for_end(NOW);
    (void)find("two", NOW);
    (void)wait_for_end(NOW);
    for (int i = 0; i < 3; i++) {
        (void)find(i == 0 ? "three" : i == 1 ? "four" : "five", NOW + DT_HOST_NAME_USED_US);
        (void)wait_for_end(NOW + DT_HOST_NAME_USED_US);
    }
    assert_string_equal(held->host, "one"); /* a sanitizer tells if it is gone */
    held->waiting = 0;
    assert_int_equal(find("two", NOW)->state, DT_HOST_NAME_ASKED);
    (void)wait_for_end(NOW);
}

FRESH_TEST(a_bounded_number_of_names_is_remembered)
{
    char host[32];
    for (unsigned i = 0; i < 2 * (DT_HOST_NAMES_MAX + 100); i++) {
        snprintf(host, sizeof(host), "name%u", i % (DT_HOST_NAMES_MAX + 100));
        if (find(host, NOW)->state == DT_HOST_NAME_ASKED)
            (void)wait_for_end(NOW);
    }
    assert_true(gate.began >= DT_HOST_NAMES_MAX + 200); /* a hundred at least were forgotten */
}

/* Asks for names of an owner until one has no turn; returns the number of lookups. */
static unsigned ask_for_all(int64_t owner, int64_t now_us)
{
    char host[32];
    for (unsigned n = 0;; n++) {
        snprintf(host, sizeof(host), "owner%d-name%u", (int)owner, n);
        if (find_for(owner, host, now_us)->state == DT_HOST_NAME_NO_TURN)
            return n;
    }
}

FRESH_TEST(an_owner_leaves_lookups_to_others_while_name_servers_are_silent)
{
    set_gate(false);
    const unsigned alone = ask_for_all(1, NOW);
    assert_int_equal(alone, DT_LOOKUPS_MAX - DT_LOOKUPS_MAX / 8);
    assert_int_equal(find_for(2, "one", NOW)->state, DT_HOST_NAME_ASKED);
    assert_int_equal(find_for(3, "two", NOW)->state, DT_HOST_NAME_ASKED);
    wait_for_lookups(alone + 2);
    set_gate(true);
    for (unsigned i = 0; i < alone + 2; i++)
        assert_int_equal(wait_for_end(NOW)->state, DT_HOST_NAME_KNOWN);
    assert_true(gate.most <= DT_LOOKUPS_MAX);
    set_gate(false);
    assert_int_equal(find_for(2, "three", NOW + 1)->state, DT_HOST_NAME_ASKED);
    unsigned beside = 0;
    for (char host[32]; beside <= DT_LOOKUPS_MAX; beside++) {
        snprintf(host, sizeof(host), "beside%u", beside);
        if (find_for(1, host, NOW + 1)->state == DT_HOST_NAME_NO_TURN)
            break;
    }
    assert_int_equal(beside, (DT_LOOKUPS_MAX - 1) / DT_LOOKUPS_PART);
    set_gate(true);
    for (unsigned i = 0; i < beside + 1; i++)
        (void)wait_for_end(NOW);
}

FRESH_TEST(a_name_that_waits_for_its_lookup_is_looked_up_for_another_owner_and_known_to_both)
{
    set_gate(false);
    unsigned running = ask_for_all(1, NOW);
    assert_int_equal(find_for(1, "one", NOW)->state, DT_HOST_NAME_NO_TURN);
    assert_int_equal(find_for(2, "one", NOW)->state, DT_HOST_NAME_ASKED);
    assert_int_equal(find_for(1, "one", NOW)->state, DT_HOST_NAME_ASKED);
    set_gate(true);
    for (running++; running > 0; running--)
        (void)wait_for_end(NOW);
    assert_int_equal(find_for(1, "one", NOW)->state, DT_HOST_NAME_KNOWN);
}

static bool nobody_is_inside(void)
{
    pthread_mutex_lock(&gate.lock);
    bool nobody = gate.inside == 0;
    pthread_mutex_unlock(&gate.lock);
    return nobody;
}

FRESH_TEST(freeing_the_names_waits_for_no_lookup)
{
    set_gate(false);
    (void)find("one", NOW);
    wait_for_lookups(1);
    dt_host_names_free(names);
    names = NULL;
    set_gate(true);
    AWAIT(nobody_is_inside());
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* for the sanitizer: the lookup goes its last steps */
}

SUITE(NULL, NULL)
