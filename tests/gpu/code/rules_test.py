#!/usr/bin/env python3
"""The rules find what wrong_kernels.cu has wrong, and nothing in the kernels that have it right.

  rules_test.py OBJECT   (that nvcc has made of it)
"""
import sys
import unittest

from code_rules import check_calls, check_packs, check_reuse, check_shared_stores, check_stacks
from machine_code import kernels

SOURCE = "wrong_kernels.cu"
REMAINDER = "__cuda_sm20_rem_s64"


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = list(kernels(cls.object))

    def expect(self, lines, *expected):
        """Each line begins with the source and one of these, in this order."""
        lines = list(lines)
        self.assertEqual(len(lines), len(expected), lines)
        for line, beginning in zip(lines, expected):
            self.assertTrue(line.startswith(f"{SOURCE}: {beginning}"), line)

    def test_reads_all_kernels(self):
        self.assertEqual(len(self.kernels), 12)
        self.assertEqual({each.source for each in self.kernels}, {SOURCE})

    def test_finds_local_memory(self):
        size = {each.name: each.stack for each in self.kernels if each.stack > 0}
        self.assertEqual(set(size), {"spilling_kernel", "indexed_kernel"})
        self.assertEqual(size["indexed_kernel"], 64)
        wrong = sorted(check_stacks(self.kernels, []))
        self.expect(wrong, "indexed_kernel: 64 bytes", f"spilling_kernel: {size['spilling_kernel']} bytes")

    def test_allows_local_memory_of_the_list(self):
        size = {each.name: each.stack for each in self.kernels}
        def found(spilled, *more):
            return check_stacks(self.kernels, [(SOURCE, "indexed_kernel", 64, "test"),
                                               (SOURCE, "spill.*", spilled, "test"), *more])

        self.expect(found(size["spilling_kernel"]))
        self.expect(found(size["spilling_kernel"] - 8), "spilling_kernel: ")
        self.expect(found(size["spilling_kernel"] + 8), "spill.*: less than")
        self.expect(found(size["spilling_kernel"], (SOURCE, "twice.*", 8, "test")),
                    "twice.*: no local memory any more; remove")

    def test_finds_narrow_loads_and_stores(self):
        def found(pattern, loads, stores):
            return check_packs(self.kernels, [(SOURCE, pattern, loads, stores)])

        self.expect(found("twice_kernel<Four>", 1, 1))
        self.expect(found("twice_kernel<.*>", 1, 1),
                    "twice_kernel<Loose>: 0 LDG of 128 bits in loops, at least 1 expected; others: [32]",
                    "twice_kernel<Loose>: 0 STG")
        self.expect(found("twice_kernel<Four>", 2, 1), "twice_kernel<Four>: 1 LDG")
        self.expect(found("pack_before_loop_kernel", 1, 0), "pack_before_loop_kernel: 0 LDG")
        self.expect(found("thrice_kernel", 1, 1), "thrice_kernel: no such kernel")

    def test_finds_calls_in_loops(self):
        self.expect(check_calls(self.kernels, set(), {}), f"columns_kernel<long>: a loop calls {REMAINDER}")
        self.expect(check_calls(self.kernels, {REMAINDER}, {}))

        def found(pattern, routine):
            return check_calls(self.kernels, set(), {"test": {SOURCE: {pattern: [routine]}}})

        self.expect(found("columns_kernel<long>", REMAINDER))
        self.expect(found("columns_kernel<unsigned int>", REMAINDER),
                    "columns_kernel<unsigned int>: no loop calls", "columns_kernel<long>: ")
        self.expect(found("columns_kernel<long>", "__cuda_sm20_div_s64"),
                    "columns_kernel<long>: no loop calls", "columns_kernel<long>: ")

    def test_finds_values_of_shared_memory_that_are_used_once(self):
        def found(pattern, least):
            return check_reuse(self.kernels, [(SOURCE, pattern, least)])

        self.expect(found(".*_products_kernel", 3),
                    "single_products_kernel: 1 multiplications for 1 loads from shared memory")
        self.expect(found("fourfold_products_kernel", 5), "fourfold_products_kernel: 4 multiplications for 1 loads")
        self.expect(found("columns_kernel<unsigned int>", 1),
                    "columns_kernel<unsigned int>: 0 multiplications for 0 loads from shared memory")
        self.expect(found("other_kernel", 1), "other_kernel: no such kernel")

    def test_finds_sums_in_shared_memory(self):
        def found(pattern):
            return check_shared_stores(self.kernels, [(SOURCE, pattern)])

        self.expect(found("sums_in_.*_kernel"), "sums_in_memory_kernel: 1 stores to shared memory")
        self.expect(found("division_before_loop_kernel"), "division_before_loop_kernel: no loop loads")
        self.expect(found("sums"), "sums: no such kernel")


if __name__ == "__main__":
    Rules.object = sys.argv.pop()
    unittest.main()
