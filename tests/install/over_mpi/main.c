#include <attune/mpi.h>
#include <stdio.h>

int main(void) {
    attune_mpi_context* world = NULL;
    attune_mpi_planning what;
    attune_mpi_layout* layout = NULL;
    int provided = 0;
    memset(&what, 0, sizeof what);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) != ATTUNE_OK ||
        attune_mpi_plan(world, &what, NULL, 0, NULL, &layout) != ATTUNE_REFUSED ||
        !strstr(attune_error_text(), "expected variants to plan for, got null"))
        puts(attune_error_text());
    else
        puts("agreed");
    attune_mpi_free_context(world);
    MPI_Finalize();
    return 0;
}
