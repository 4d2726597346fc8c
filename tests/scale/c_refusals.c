/* What attune/mpi.h refuses. Where one rank's arguments are at fault, all ranks say so, and the context goes on. */
#include "c_ranks.h"

#include <dlfcn.h>

static const attune_variant* shard;
static attune_mpi_context* world;

/* Something is at fault on the last rank alone. */
static int at_fault(void) { return rank + 1 == ranks; }

static void options_of_contexts(void) {
    attune_mpi_context* made = (attune_mpi_context*)&made;
    attune_mpi_options how;
    memset(&how, 0, sizeof how);
    REFUSED(attune_mpi_make_context(MPI_COMM_WORLD, &how, at_fault() ? NULL : &made), "a place for the context, got");
    CHECK(at_fault() || made == NULL);
    how.size = at_fault() ? sizeof how - 1 : 0;
    REFUSED(attune_mpi_make_context(MPI_COMM_WORLD, &how, &made), "try size = sizeof(attune_mpi_options)");
    how.size = sizeof how, how.reserved[7] = at_fault();
    REFUSED(attune_mpi_make_context(MPI_COMM_WORLD, &how, &made), "0 in reserved of attune_mpi_options, got 1");
    how.reserved[7] = 0, how.timeout = at_fault() ? -0.5 : 0;
    REFUSED(attune_mpi_make_context(MPI_COMM_WORLD, &how, &made), "got -0.5 and 0; try INFINITY");
    how.timeout = 0, how.grace = at_fault() ? -0.5 : 0;
    REFUSED(attune_mpi_make_context(MPI_COMM_WORLD, &how, &made), "got 0 and -0.5; try INFINITY");
    REFUSED(attune_mpi_make_context(MPI_COMM_NULL, NULL, &made), "got MPI_COMM_NULL");
    CHECK(made == NULL);
}

/* Returns where a refused plan would be: null. */
static attune_status plan(const attune_mpi_planning* what, const attune_argument* arguments, size_t count,
                          const attune_options* how) {
    attune_mpi_layout* layout = (attune_mpi_layout*)&layout;
    const attune_status status = attune_mpi_plan(world, what, arguments, count, how, &layout);
    CHECK((status == ATTUNE_OK) == (layout != NULL));
    attune_mpi_free_layout(layout);
    return status;
}

static void plans(const attune_variant* of_another_copy) {
    static const int32_t of_another_version[16] = {ATTUNE_C_VERSION + 1};
    const attune_variant* spoilt = shard;
    attune_mpi_layout* layout = NULL;
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_argument argument = document_argument();
    double weight = 1;
    REFUSED(attune_mpi_plan(NULL, &what, &argument, 1, NULL, &layout), "expected a context, got null");
    REFUSED(attune_mpi_plan(world, &what, &argument, 1, NULL, at_fault() ? NULL : &layout), "a place for the layout");
    REFUSED(plan(at_fault() ? NULL : &what, &argument, 1, NULL), "what a plan is for, got null");
    what.size = at_fault() ? 16 : 0;
    REFUSED(plan(&what, &argument, 1, NULL), "got 16; try size = sizeof(attune_mpi_planning)");
    what.size = sizeof what, what.reserved[5] = 5 * at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "0 in reserved of attune_mpi_planning, got 5");
    what.reserved[5] = 0, what.variants = at_fault() ? NULL : &shard;
    REFUSED(plan(&what, &argument, 1, NULL), "variants to plan for, got null");
    what.variants = &shard, what.variant_count = !at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "variants to plan for, got 0");
    what.variant_count = 1, what.variants = &spoilt, spoilt = at_fault() ? NULL : shard;
    REFUSED(plan(&what, &argument, 1, NULL), "expected a variant, got null; try <variant>_variant()");
    spoilt = at_fault() ? (const attune_variant*)(const void*)of_another_version : shard;
    REFUSED(plan(&what, &argument, 1, NULL), "a variant of this version of attune/c.h, got one of another");
    if (of_another_copy) {
        spoilt = at_fault() ? of_another_copy : shard;
        REFUSED(plan(&what, &argument, 1, NULL), "got those of a shared library, which has its own; try the static");
    }
    what.variants = &shard, what.layout = at_fault() ? 9 : 0;
    REFUSED(plan(&what, &argument, 1, NULL), "a layout from 0 to 8, got 9");
    what.layout = -at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "a layout from 0 to 8, got -1");
    what.layout = 0, what.element = 99 * at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "an element type of q, k and v, from 1 to 11, got 99");
    what.element = 0, what.position_count = (size_t)at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "1 positions, got null");
    what.position_count = 0, what.heads = at_fault() ? 3 : heads;
    REFUSED(plan(&what, &argument, 1, NULL), "heads that share key heads evenly");
    what.heads = heads, what.head_parts = -at_fault();
    REFUSED(plan(&what, &argument, 1, NULL), "ranks that share heads, or 0, got -1");
    what.head_parts = 0, what.tokens = -1;
    REFUSED(plan(&what, &argument, 1, NULL), "tokens of all ranks together, at most 2147483647, got -1");
    what.tokens = tokens, what.weights = &weight, weight = at_fault() ? -1 : 1;
    REFUSED(plan(&what, &argument, 1, NULL), "finite weights of at least 0");
    what.weights = NULL, what.bytes = at_fault() ? -1 : 0;
    REFUSED(plan(&what, &argument, 1, NULL), "finite rates of at least 0");
    if (ranks == 1) return;
    what.bytes = 0, what.key_heads = at_fault() ? 4 : 2;
    REFUSED(plan(&what, &argument, 1, NULL), "expected one batches, heads, key heads and tokens on all ranks, got");
}

static void arguments_of_plans(void) {
    static const int64_t shape[] = {tokens}, two[] = {tokens, 1};
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_options how;
    attune_argument list[2];
    memset(&how, 0, sizeof how);
    list[0] = list[1] = document_argument();
    REFUSED(plan(&what, NULL, 0, NULL), "document in the plan, because it decides what is visible, got none");
    REFUSED(plan(&what, at_fault() ? NULL : list, 1, NULL), "1 arguments, got null");
    REFUSED(plan(&what, list, at_fault() ? 2 : 1, NULL), "document once, got it twice");
    list[1].name = at_fault() ? NULL : "document";
    REFUSED(plan(&what, list + 1, 1, NULL), "a name for every argument");
    list[1].name = at_fault() ? "documents" : "document";
    REFUSED(plan(&what, list + 1, 1, NULL), "inputs of the variants that are planned, got documents");
    list[1].name = at_fault() ? "key_positions" : "document";
    REFUSED(plan(&what, list + 1, 1, NULL), "inputs of the variants that are planned, got key_positions");
    list[1] = at_fault() ? attune_integer_argument("document", 3) : list[0];
    REFUSED(plan(&what, list + 1, 1, NULL), "a tensor for document, got a number");
    list[1] = list[0], list[1].reserved = at_fault();
    REFUSED(plan(&what, list + 1, 1, NULL), "0 in reserved of the argument document");
    list[1] = list[0], list[1].tensor.data = at_fault() ? NULL : document;
    REFUSED(plan(&what, list + 1, 1, NULL), "a pointer to the elements of document");
    list[1] = list[0], list[1].tensor.element = at_fault() ? ATTUNE_F32 : ATTUNE_I32;
    REFUSED(plan(&what, list + 1, 1, NULL), "i32 elements in document");
    list[1] = list[0], list[1].tensor.memory = at_fault() ? ATTUNE_CUDA : ATTUNE_HOST;
    REFUSED(plan(&what, list + 1, 1, NULL), "document in host memory");
    list[1].tensor = attune_dense(document, ATTUNE_I32, at_fault() ? 2 : 1, at_fault() ? two : shape);
    REFUSED(plan(&what, list + 1, 1, NULL), "document with 1 axis");
    how.size = sizeof how, how.reserved[0] = at_fault();
    REFUSED(plan(&what, list, 1, &how), "0 in reserved of attune_options");
    CHECK(plan(&what, list, 1, NULL) == ATTUNE_OK); /* the context goes on */
}

static attune_status with(const prefill* mine, int which, attune_argument spoilt) {
    attune_argument list[8];
    memcpy(list, mine->list, sizeof list);
    if (at_fault()) list[which] = spoilt;
    return attune_mpi_run(world, mine->layout, shard, list, 8, NULL, NULL);
}

static void arguments_of_calls(const prefill* mine) {
    static const int64_t negative[] = {1, heads, -1, depth};
    attune_argument spoilt = mine->list[0];
    spoilt.name = "key_positions";
    REFUSED(with(mine, 0, spoilt), "got key_positions; try a name that the formula declares; positions and earlier");
    spoilt.name = "lse_before";
    REFUSED(with(mine, 0, spoilt), "expected one of q, k, bias, document, lengths, v, out, lse, top of sharded::doc");
    spoilt.name = "lengths";
    REFUSED(with(mine, 0, spoilt), "lengths with 1 axis");
    spoilt.name = "k";
    REFUSED(with(mine, 0, spoilt), "k once, got it twice");
    REFUSED(with(mine, 0, mine->list[5]), "out once, got it twice");
    REFUSED(with(mine, 0, attune_real_argument("q", 1)), "a tensor for q, got a number");
    REFUSED(with(mine, 7, attune_real_argument("top", 1)), "a tensor for the output top");
    spoilt = mine->list[0], spoilt.tensor.data = NULL;
    REFUSED(with(mine, 0, spoilt), "a pointer to the elements of q");
    spoilt = mine->list[5], spoilt.tensor.shape = negative;
    REFUSED(with(mine, 5, spoilt), "an extent from 0 to 2147483647 along query of out, got -1");
    spoilt = mine->list[5], spoilt.tensor.read_only = 1;
    REFUSED(with(mine, 5, spoilt), "a tensor that may be written for out");
    spoilt = mine->list[4], spoilt.tensor.data = NULL;
    REFUSED(with(mine, 4, spoilt), "a pointer to the elements of document");
    spoilt = mine->list[1], spoilt.tensor.memory = ATTUNE_OPENCL;
    REFUSED(with(mine, 1, spoilt), "k in host memory");
    spoilt = mine->list[1], spoilt.tensor.element = 0;
    REFUSED(with(mine, 1, spoilt), "an element type of k, from 1 to 11, got 0");
    REFUSED(attune_mpi_run(world, mine->layout, shard, at_fault() ? mine->list + 1 : mine->list, at_fault() ? 7 : 8,
                           NULL, NULL),
            "the input q of sharded::documents_shard, got none");
    REFUSED(attune_mpi_run(world, mine->layout, shard, mine->list, at_fault() ? 7 : 8, NULL, NULL),
            "a tensor for the output top of sharded::documents_shard, got none");
    REFUSED(attune_mpi_run(world, mine->layout, shard, at_fault() ? NULL : mine->list, 8, NULL, NULL),
            "8 arguments, got null");
}

/* A communicator whose ranks are numbered backwards has plans of its own. */
static void another_context(const prefill* mine) {
    attune_mpi_context *backwards = NULL, *forwards = world;
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    CHECK(attune_mpi_make_context(reversed, NULL, &backwards) == ATTUNE_OK);
    MPI_Comm_free(&reversed);
    world = backwards;
    if (ranks > 1)
        REFUSED(attune_mpi_run(backwards, mine->layout, shard, mine->list, 8, NULL, NULL),
                "try the plan that was made in this context");
    world = forwards;
    attune_mpi_free_context(backwards);
}

static void calls_by(const prefill* mine, const attune_variant* of_another_copy) {
    const attune_variant* const other = sharded_sigmoid_shard_variant();
    attune_mpi_call* call = (attune_mpi_call*)&call;
    attune_options how;
    memset(&how, 0, sizeof how);
    how.size = sizeof how, how.reserved[1] = at_fault();
    REFUSED(attune_mpi_run(NULL, mine->layout, shard, mine->list, 8, NULL, NULL), "expected a context, got null");
    REFUSED(attune_mpi_run(world, at_fault() ? NULL : mine->layout, shard, mine->list, 8, NULL, NULL),
            "expected a layout, got null; try attune_mpi_plan");
    REFUSED(attune_mpi_run(world, mine->layout, NULL, mine->list, 8, NULL, NULL), "expected a variant, got null");
    if (ranks > 1)
        REFUSED(attune_mpi_run(world, mine->layout, at_fault() ? NULL : shard, mine->list, 8, NULL, NULL),
                "expected one call on all ranks, got run of ");
    if (of_another_copy)
        REFUSED(attune_mpi_run(world, mine->layout, of_another_copy, mine->list, 8, NULL, NULL), "of a shared library");
    REFUSED(attune_mpi_run(world, mine->layout, other, mine->list, 3, NULL, NULL),
            "for which the layout was planned, got another variant");
    REFUSED(attune_mpi_run(world, mine->layout, shard, mine->list, 8, &how, NULL), "0 in reserved of attune_options");
    how.reserved[1] = 0, how.target = at_fault() ? "vax" : NULL;
    REFUSED(attune_mpi_run(world, mine->layout, shard, mine->list, 8, &how, NULL), "vax");
    how.target = NULL, how.deterministic = 1;
    REFUSED(attune_mpi_run(world, mine->layout, shard, mine->list, 8, &how, NULL), "made with options::deterministic");
    REFUSED(attune_mpi_prepare(world, mine->layout, shard, mine->list, 8, NULL, at_fault() ? NULL : &call),
            "a place for the call, got null; try the address of an attune_mpi_call*");
    CHECK(at_fault() || call == NULL);
    REFUSED(attune_mpi_prepare(world, mine->layout, shard, mine->list, at_fault() ? 6 : 8, NULL, &call),
            "a tensor for the output lse");
    CHECK(call == NULL);
    REFUSED(attune_mpi_run_prepared(NULL, NULL), "expected a call, got null; try attune_mpi_prepare");
}

static void of_layouts(attune_mpi_layout* layout) {
    const int32_t* positions = NULL;
    size_t count = 0;
    REFUSED(attune_mpi_positions(NULL, &positions, &count), "expected a layout, got null");
    REFUSED(attune_mpi_positions(layout, NULL, &count), "places for the positions and their number");
    REFUSED(attune_mpi_positions(layout, &positions, NULL), "places for the positions and their number");
    REFUSED(attune_mpi_explain(NULL, NULL, 0, NULL), "expected a layout, got null");
    attune_mpi_free_context(NULL), attune_mpi_free_layout(NULL), attune_mpi_free_call(NULL);
}

void refusals(const char* shared_library) {
    typedef const attune_variant* (*variant_function)(void);
    attune_argument argument = document_argument();
    attune_mpi_planning what;
    attune_mpi_layout* layout = NULL;
    variant_function find = NULL;
    const attune_variant* theirs = NULL;
    prefill mine;
    shard = sharded_documents_shard_variant();
    what = planning_of_prefill(&shard);
    if (shared_library) {
        void* const library = dlopen(shared_library, RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        if (library) *(void**)&find = dlsym(library, "attune_common_causal_attention_variant");
        CHECK(find != NULL);
        if (find) theirs = find();
    }
    options_of_contexts();
    CHECK(attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) == ATTUNE_OK);
    plans(theirs);
    arguments_of_plans();
    CHECK(attune_mpi_plan(world, &what, &argument, 1, NULL, &layout) == ATTUNE_OK);
    make_prefill(&mine, layout, 0.01);
    calls_by(&mine, theirs);
    arguments_of_calls(&mine);
    another_context(&mine);
    of_layouts(layout);
    CHECK(is_untouched(&mine));
    CHECK(attune_mpi_run(world, layout, shard, mine.list, 8, NULL, NULL) == ATTUNE_OK); /* the context goes on */
    CHECK(error_of_prefill(&mine, 0.01) < 2e-5);
    free_prefill(&mine);
    attune_mpi_free_context(world);
}

/* A call that fails where the ranks no longer agree first; its context says so from then on, and others go on. */
void failures(void) {
    static const char* const failed = "a context in which every call succeeded, got one in which a call failed (";
    attune_argument argument = document_argument();
    attune_mpi_planning what;
    attune_mpi_layout* layout = NULL;
    attune_mpi_call *call = NULL, *another = (attune_mpi_call*)&another;
    prefill mine;
    shard = sharded_documents_shard_variant();
    what = planning_of_prefill(&shard);
    CHECK(attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) == ATTUNE_OK);
    CHECK(attune_mpi_plan(world, &what, &argument, 1, NULL, &layout) == ATTUNE_OK);
    make_prefill(&mine, layout, 0.01);
    CHECK(attune_mpi_prepare(world, layout, shard, mine.list, 8, NULL, &call) == ATTUNE_OK);
    MPI_Barrier(MPI_COMM_WORLD); /* a rank that is still preparing would hear of the failure there */
    document[tokens - 1] += 1;   /* on all ranks, so that none has done its part before it hears */
    FAILED(attune_mpi_run_prepared(call, NULL), "document as planned, because it decides who needs which keys");
    document[tokens - 1] -= 1;
    FAILED(attune_mpi_run_prepared(call, NULL), failed);
    FAILED(attune_mpi_run(world, layout, shard, mine.list, 8, NULL, NULL), failed);
    FAILED(attune_mpi_run(world, layout, NULL, mine.list, 8, NULL, NULL), failed);
    FAILED(attune_mpi_prepare(world, layout, shard, mine.list, 8, NULL, &another), failed);
    CHECK(another == NULL);
    FAILED(plan(&what, &argument, 1, NULL), failed);
    attune_mpi_free_call(call);
    attune_mpi_free_context(world);
    CHECK(attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) == ATTUNE_OK);
    CHECK(attune_mpi_run(world, layout, shard, mine.list, 8, NULL, NULL) == ATTUNE_OK);
    CHECK(error_of_prefill(&mine, 0.01) < 2e-5);
    free_prefill(&mine);
    attune_mpi_free_context(world);
}
