// Throws from MPI_Isend what no handler of dtrain expects, for a program that is started with LD_PRELOAD: it stands for
// an exception on a thread, or in a destructor, that nobody can catch.

extern "C" int MPI_Isend(const void*, int, void*, int, int, void*, void*) {
  struct Unexpected {};
  throw Unexpected();
}
