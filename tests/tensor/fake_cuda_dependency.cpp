extern "C" int dependency_of_fake_cuda_backend() {
  return 1;
}
