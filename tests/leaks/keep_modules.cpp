// Linked into sanitizer builds. Open MPI unloads its components when it ends; what they lost would
// then be reported with places in unknown modules, which no suppression can name.
extern "C" int dlclose(void* /*module*/) {
  return 0;
}
