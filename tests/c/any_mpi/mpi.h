#pragma once
/* For what attune/mpi.h looks like to a program: MPIs differ in what a communicator is. */
typedef struct any_communicator* MPI_Comm;
