/* See world.h. Owns the queue of what happens next, the fibers' stacks, the memory of a world and the chance in it. */
#include "simulator/world.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define STACK_BYTES  (256u * 1024)
#define REGION_BYTES (UINT64_C(1) << 30)
#define FIBERS_MAX   512
#define CLASSES      48

int64_t now_us;
bool tracing, tracing_all;
char violation[400];
char violation_oracle[32];

struct fiber {
    void *sp;
    char *stack;
    struct proc *proc;
    fiber_fn *fn;
    void *arg, *result;
    uint64_t ticket; /* of its present wait: others' wake-ups are old */
    bool waiting, woken, dead;
    struct fiber *joiner;
    struct fiber_notes notes;
    unsigned number;
};

struct item {
    int64_t when_us;
    uint64_t seq;
    struct fiber *fiber; /* or */
    void (*fn)(void *arg);
    void *arg;
    uint64_t ticket;
};

static struct item *heap;
static size_t heap_n, heap_cap;
static uint64_t seq, steps, chance_state;
static struct fiber *running;
static void *scheduler_sp;
static bool stopping, in_world;
static unsigned fibers_n;
static char *free_stacks[FIBERS_MAX * 8];
static unsigned free_stacks_n;
static struct fiber *all[FIBERS_MAX * 8];

/* ---- chance ---- */

uint64_t rnd(void)
{
    uint64_t z = (chance_state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int64_t rnd_in(int64_t low, int64_t high)
{
    return low >= high ? low : low + (int64_t)(rnd() % (uint64_t)(high - low + 1));
}

bool one_in(unsigned n)
{
    return n && rnd() % n == 0;
}

/* ---- memory ---- */

static char *region, *region_at, *region_top;
struct piece {
    struct piece *next;
};
static struct piece *pieces[CLASSES];

__typeof__(malloc) __real_malloc;
__typeof__(free) __real_free;
__typeof__(realloc) __real_realloc;
__typeof__(calloc) __real_calloc;
__typeof__(malloc) __wrap_malloc;
__typeof__(free) __wrap_free;
__typeof__(realloc) __wrap_realloc;
__typeof__(calloc) __wrap_calloc;

/* Sizes 16, 32, 48, 64, then four steps to each doubling. */
static unsigned class_of(size_t n)
{
    if (n <= 64)
        return n ? (unsigned)((n - 1) / 16) : 0;
    unsigned log = 63u - (unsigned)__builtin_clzll(n - 1);
    return 4 + (log - 6) * 4 + (unsigned)(((n - 1) >> (log - 2)) & 3);
}

static size_t class_size(unsigned c)
{
    if (c < 4)
        return (c + 1) * 16;
    unsigned log = 6 + (c - 4) / 4;
    return ((size_t)1 << log) + (((size_t)((c - 4) % 4) + 1) << (log - 2));
}

static void *world_malloc(size_t n)
{
    unsigned c = class_of(n);
    if (c < CLASSES && pieces[c]) {
        struct piece *p = pieces[c];
        pieces[c] = p->next;
        return p;
    }
    size_t size = c < CLASSES ? class_size(c) : (n + 15) / 16 * 16;
    size_t *head = (size_t *)(void *)region_at;
    region_at += size + 16;
    if (region_at > region + REGION_BYTES)
        broken("a world needs more than %llu bytes", (unsigned long long)REGION_BYTES);
    head[0] = size;
    head[1] = c;
    return head + 2;
}

static bool in_region(const void *p)
{
    return region && (const char *)p >= region && (const char *)p < region + REGION_BYTES;
}

void *__wrap_malloc(size_t n)
{
    return in_world ? world_malloc(n) : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    if (!in_world)
        return __real_calloc(n, size);
    void *p = world_malloc(n * size);
    return memset(p, 0, n * size);
}

void __wrap_free(void *p)
{
    if (!in_region(p)) {
        __real_free(p);
        return;
    }
    size_t c = ((size_t *)p)[-1];
    if (c < CLASSES) {
        struct piece *piece = p;
        piece->next = pieces[c];
        pieces[c] = piece;
    }
}

void *__wrap_realloc(void *p, size_t n)
{
    if (p ? !in_region(p) : !in_world)
        return __real_realloc(p, n);
    size_t had = p ? ((size_t *)p)[-2] : 0;
    if (p && n <= had)
        return p;
    void *bigger = world_malloc(n);
    if (p)
        memcpy(bigger, p, had);
    __wrap_free(p);
    return bigger;
}

void *world_alloc(size_t n)
{
    bool was = in_world;
    in_world = true;
    void *p = __wrap_calloc(1, n ? n : 1);
    in_world = was;
    return p;
}

/* ---- the queue ---- */

static bool before(const struct item *a, const struct item *b)
{
    return a->when_us != b->when_us ? a->when_us < b->when_us : a->seq < b->seq;
}

static void push(struct item item)
{
    if (heap_n == heap_cap) {
        heap_cap = heap_cap ? heap_cap * 2 : 256;
        heap = __real_realloc(heap, heap_cap * sizeof *heap);
    }
    item.seq = ++seq;
    size_t i = heap_n++;
    for (; i && before(&item, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
}

static struct item pop(void)
{
    struct item top = heap[0], last = heap[--heap_n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap_n)
            break;
        if (child + 1 < heap_n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

void at(int64_t when_us, void (*fn)(void *arg), void *arg)
{
    push((struct item){.when_us = when_us > now_us ? when_us : now_us, .fn = fn, .arg = arg});
}

/* ---- fibers ---- */

#if defined(__x86_64__)
void dt_fiber_switch(void **save, void *load);
__asm__(".text\n.globl dt_fiber_switch\n.type dt_fiber_switch,@function\ndt_fiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size dt_fiber_switch,.-dt_fiber_switch\n");
#elif defined(__aarch64__)
void dt_fiber_switch(void **save, void *load);
__asm__(".text\n.globl dt_fiber_switch\n.type dt_fiber_switch,%function\ndt_fiber_switch:\n"
        "  sub sp, sp, #160\n  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n  add sp, sp, #160\n  ret\n"
        ".size dt_fiber_switch,.-dt_fiber_switch\n");
#else
#error "the simulator's fibers know x86-64 and arm64"
#endif

static void to_scheduler(void)
{
    struct fiber *self = running;
    dt_fiber_switch(&self->sp, scheduler_sp);
}

static void fiber_main(void)
{
    struct fiber *self = running;
    self->result = self->fn(self->arg);
    self->dead = true;
    if (self->joiner)
        fiber_wake(self->joiner);
    to_scheduler();
    broken("a fiber that ended went on");
}

static char *take_stack(void)
{
    if (free_stacks_n)
        return free_stacks[--free_stacks_n];
    char *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, 4096, PROT_NONE) != 0)
        broken("no memory for a stack");
    return p;
}

static void prepare(struct fiber *f)
{
    void **top = (void **)(void *)(f->stack + STACK_BYTES - 64);
#if defined(__x86_64__)
    *--top = NULL; /* as if called: the stack is 8 off its alignment */
    *--top = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
#else
    top -= 20;
    memset(top, 0, 160);
    top[11] = (void *)(uintptr_t)fiber_main;
#endif
    f->sp = top;
}

struct fiber *fiber_start(struct proc *proc, fiber_fn *fn, void *arg)
{
    if (fibers_n == sizeof all / sizeof all[0])
        broken("too many fibers");
    struct fiber *f = world_alloc(sizeof *f);
    f->stack = take_stack();
    f->proc = proc;
    f->fn = fn;
    f->arg = arg;
    f->waiting = true;
    f->ticket = 1;
    f->number = fibers_n;
    all[fibers_n++] = f;
    prepare(f);
    push((struct item){.when_us = now_us + (int64_t)(rnd() % 50), .fiber = f, .ticket = f->ticket});
    return f;
}

struct fiber *fiber_self(void)
{
    return running;
}

struct proc *proc_self(void)
{
    return running ? running->proc : NULL;
}
struct fiber_notes *fiber_notes(void)
{
    return &running->notes;
}

bool fiber_block(int64_t until_us)
{
    struct fiber *self = running;
    if (!self)
        broken("something outside of any fiber wants to wait");
    self->ticket++;
    self->waiting = true;
    self->woken = false;
    if (until_us != NEVER)
        push((struct item){.when_us = until_us > now_us ? until_us : now_us, .fiber = self, .ticket = self->ticket});
    to_scheduler();
    return self->woken;
}

void fiber_sleep(int64_t us)
{
    int64_t until = now_us + us;
    fiber_block(until);
}

void fiber_wake(struct fiber *fiber)
{
    if (fiber->dead || !fiber->waiting || fiber->woken)
        return;
    fiber->woken = true;
    push((struct item){.when_us = now_us, .fiber = fiber, .ticket = fiber->ticket});
}

struct proc *proc_new(const char *name, unsigned id)
{
    struct proc *proc = world_alloc(sizeof *proc);
    proc->name = name;
    proc->id = id;
    proc->alive = true;
    return proc;
}

void proc_kill(struct proc *proc)
{
    proc->alive = false;
    for (unsigned i = 0; i < fibers_n; i++)
        if (all[i]->proc == proc)
            all[i]->dead = true;
    if (running && running->proc == proc)
        to_scheduler();
}

/* ---- running ---- */

static void resume(struct item *item)
{
    struct fiber *f = item->fiber;
    if (f->dead || !f->waiting || f->ticket != item->ticket)
        return;
    if (f->proc && f->proc->paused_until_us > now_us) {
        item->when_us = f->proc->paused_until_us;
        push(*item);
        return;
    }
    f->waiting = false;
    running = f;
    in_world = true;
    dt_fiber_switch(&scheduler_sp, f->sp);
    in_world = false;
    running = NULL;
    if (f->dead && f->stack) {
        free_stacks[free_stacks_n++] = f->stack;
        f->stack = NULL;
    }
}

void world_run(int64_t until_us)
{
    stopping = false;
    while (heap_n && !stopping && heap[0].when_us <= until_us) {
        struct item item = pop();
        if (item.when_us > now_us)
            now_us = item.when_us;
        steps++;
        if (item.fiber)
            resume(&item);
        else {
            in_world = true;
            item.fn(item.arg);
            in_world = false;
        }
    }
    if (!stopping && now_us < until_us)
        now_us = until_us;
}

void world_stop(void)
{
    stopping = true;
}

uint64_t world_steps(void)
{
    return steps;
}

void world_begin(uint64_t seed)
{
    if (!region) {
        region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            broken("no memory for a world");
        region_at = region;
    }
    chance_state = seed * UINT64_C(0xD1B54A32D192ED03) + 12345;
    now_us = 100 * SEC;
    seq = steps = 0;
    heap_n = 0;
    violation[0] = violation_oracle[0] = '\0';
}

void world_end(void)
{
    for (unsigned i = 0; i < fibers_n; i++)
        if (all[i]->stack)
            free_stacks[free_stacks_n++] = all[i]->stack;
    fibers_n = 0;
    heap_n = 0;
    (void)region_top;
    size_t used = (size_t)(region_at - region);
    if (used > (64u << 20)) /* a long one: give the pages back */
        madvise(region + (8u << 20), used - (8u << 20), MADV_DONTNEED);
    region_at = region;
    memset(pieces, 0, sizeof pieces);
}

/* ---- what the product asks the system for ---- */

int64_t mysql_now_ms(void)
{
    return EPOCH_MS + now_us / 1000;
}

__typeof__(clock_gettime) __wrap_clock_gettime;
int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    int64_t us = now_us;
    if (id == CLOCK_REALTIME)
        us += EPOCH_MS * 1000 + (running && running->proc ? running->proc->wall_off_ms * 1000 : 0);
    out->tv_sec = us / SEC;
    out->tv_nsec = us % SEC * 1000;
    return 0;
}

/* Lengths that were taken from addresses would make a seed differ from run to run: only their magnitude counts. */
__typeof__(nanosleep) __wrap_nanosleep;
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *)
{
    int64_t us = wanted->tv_sec * SEC + wanted->tv_nsec / 1000;
    fiber_sleep(us / 500 * 500 + rnd_in(0, 499));
    return 0;
}

__typeof__(sched_yield) __wrap_sched_yield;
int __wrap_sched_yield(void)
{
    broken("somebody spins");
}

__typeof__(pthread_create) __wrap_pthread_create;
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *, fiber_fn *fn, void *arg)
{
    *thread = (pthread_t)(uintptr_t)fiber_start(running->proc, fn, arg);
    return 0;
}

__typeof__(pthread_join) __wrap_pthread_join;
int __wrap_pthread_join(pthread_t thread, void **result)
{
    struct fiber *f = (struct fiber *)(uintptr_t)thread;
    while (!f->dead) {
        f->joiner = running;
        fiber_block(NEVER);
    }
    if (result)
        *result = f->result;
    return 0;
}

/* Fibers share one thread of the system, which keeps its name. */
__typeof__(pthread_setname_np) __wrap_pthread_setname_np;
STUB(int, __wrap_pthread_setname_np, (pthread_t thread, const char *name), 0)

/* A mutex that is held while its holder waits for a server keeps others waiting, as it would. */
static bool try_lock(pthread_mutex_t *mutex)
{
    unsigned char *held = (unsigned char *)mutex;
    if (*held)
        return false;
    *held = 1;
    return true;
}

__typeof__(pthread_mutex_init) __wrap_pthread_mutex_init;
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *)
{
    memset(mutex, 0, sizeof *mutex);
    return 0;
}
__typeof__(pthread_mutex_destroy) __wrap_pthread_mutex_destroy;
STUB(int, __wrap_pthread_mutex_destroy, (pthread_mutex_t * mutex), 0)
__typeof__(pthread_mutex_lock) __wrap_pthread_mutex_lock;
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    while (!try_lock(mutex))
        fiber_sleep(100);
    return 0;
}
__typeof__(pthread_mutex_unlock) __wrap_pthread_mutex_unlock;
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    *(unsigned char *)mutex = 0;
    return 0;
}

/* Who waits looks again after a while: a wake-up without a reason is allowed. */
__typeof__(pthread_cond_init) __wrap_pthread_cond_init;
STUB(int, __wrap_pthread_cond_init, (pthread_cond_t * cond, const pthread_condattr_t *attr), 0)
__typeof__(pthread_cond_destroy) __wrap_pthread_cond_destroy;
STUB(int, __wrap_pthread_cond_destroy, (pthread_cond_t * cond), 0)
__typeof__(pthread_cond_broadcast) __wrap_pthread_cond_broadcast;
STUB(int, __wrap_pthread_cond_broadcast, (pthread_cond_t * cond), 0)
__typeof__(pthread_cond_clockwait) __wrap_pthread_cond_clockwait;
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t, const struct timespec *until)
{
    (void)cond;
    const int64_t until_us = until->tv_sec * SEC + until->tv_nsec / 1000;
    if (now_us >= until_us)
        return ETIMEDOUT;
    __wrap_pthread_mutex_unlock(mutex);
    fiber_sleep(until_us - now_us < 5 * MS ? until_us - now_us : 5 * MS);
    __wrap_pthread_mutex_lock(mutex);
    return 0;
}

__typeof__(pthread_cond_wait) __wrap_pthread_cond_wait;
int __wrap_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *mutex)
{
    __wrap_pthread_mutex_unlock(mutex);
    fiber_sleep(5 * MS);
    __wrap_pthread_mutex_lock(mutex);
    return 0;
}

/* ---- telling ---- */

void trace(const char *fmt, ...)
{
    va_list args;
    char line[1200];
    int n = snprintf(line, sizeof line, "%11.3f ", (double)(now_us - 100 * SEC) / 1000);
    if (running && running->proc)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%u/%u ", running->proc->name, running->proc->id,
                      running->number);
    else
        n += snprintf(line + n, sizeof line - (size_t)n, "- ");
    va_start(args, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    va_end(args);
    puts(line);
}

void broken(const char *fmt, ...)
{
    va_list args;
    fflush(stdout);
    fputs("the simulator is broken: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void violated(const char *oracle, const char *fmt, ...)
{
    va_list args;
    if (violation[0])
        return;
    snprintf(violation_oracle, sizeof violation_oracle, "%s", oracle);
    va_start(args, fmt);
    vsnprintf(violation, sizeof violation, fmt, args);
    va_end(args);
    TRACE("VIOLATED %s: %s", oracle, violation);
    world_stop();
}
