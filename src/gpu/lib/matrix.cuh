// Matrix units, and copies to shared memory that go on by themselves.
__device__ inline void CopyAsync16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(u32(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
}
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
// All but the last group committed are there.
__device__ inline void WaitForCopiesBefore() {
  asm volatile("cp.async.wait_group 1;" : : : "memory");
}
// d += a b of a warp: 16 x 16 by 16 x 8. Thread 4 g + t has of a rows g and g + 8, columns 2 t,
// 2 t + 1 (then those plus 8), of b the same of its columns, of d rows g and g + 8, columns 2 t, 2 t + 1.
__device__ inline void MultiplyTile(BF16, f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void MultiplyTile(F16, f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
