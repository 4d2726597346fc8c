/* What the parts of c_ranks share: one rank of a job in C99. */
#include <attune/mpi.h>
#include <sharded_kernels.h>
#include <sharded_kernels_decode.h>

enum { heads = 4, key_heads = 2, depth = 32 };

extern int rank, ranks;

#define CHECK(truth) check((truth) != 0, #truth, __FILE__, __LINE__)
void check(int truth, const char* text, const char* file, int line);

/* Whether all ranks were refused with this in their sentence, which is the same on all of them. */
#define REFUSED(call, words) check_said((call), ATTUNE_REFUSED, (words), #call, __FILE__, __LINE__)
#define FAILED(call, words) check_said((call), ATTUNE_FAILED, (words), #call, __FILE__, __LINE__)
void check_said(attune_status got, attune_status expected, const char* words, const char* text, const char* file,
                int line);

/* A rank's part of a call of sharded::documents_shard over one sequence. */
enum { tokens = 150 };
typedef struct prefill {
    attune_mpi_layout* layout;
    const int32_t* positions;
    int64_t rows;
    int64_t q_shape[4], k_shape[4], bias_shape[2], row_shape[3];
    float *q, *k, *v, *bias, *out, *lse, *top;
    attune_argument list[8];
} prefill;
extern int32_t document[tokens];
attune_argument document_argument(void);
attune_mpi_planning planning_of_prefill(const attune_variant* const* variant);
/* Arguments for a layout, which it keeps; `step` tells values apart. */
void make_prefill(prefill* made, attune_mpi_layout* layout, double step);
void fill_prefill(prefill* made, double step);
void poison_prefill(prefill* made);
int is_untouched(const prefill* made);
double error_of_prefill(const prefill* made, double step);
void free_prefill(prefill* made);

void calls(void);
void refusals(const char* shared_library);
void failures(void);
