#ifdef COMPONENT_runtime
#include <attune/runtime/threads.hpp>

int main() { return attune::threads() > 0 ? 0 : 1; }
#else
#include <attune/mpi.hpp>
#include <cstdio>

int main() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    {
        attune::mpi::context world(MPI_COMM_WORLD);
        world.agree("nothing", [](attune::mpi::statement& s) { s.add("answer", "42", "one answer"); });
        std::puts("agreed");
    }
    MPI_Finalize();
}
#endif
