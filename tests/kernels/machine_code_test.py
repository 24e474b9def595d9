#!/usr/bin/env python3
"""Every CUDA kernel as machine code against what the head of its file says of it.

    // Budget: gate_kernel: 128 registers, 0 shared bytes, 2 blocks of 256
    // Access: gate_kernel: loads 128; stores 128

Budget, whichever instance of the kernel it is: at most so many registers on sm_90 and bytes of shared memory,
hence so many blocks of so many threads on a multiprocessor of sm_90; no spill and no stack. Other architectures
have as many registers at most, or as many as "; 184 registers elsewhere" says.
Access, on sm_90, per instance: the widths in bits of the loads and stores of global memory. "128" must occur,
"9 x 32" may, at most so often; nothing else. "copies 128" are those to shared memory in the background,
"products" are made by tensor cores, "fences" by last_block. No access may leave it open whether memory is
global or shared (LD, ST, ATOM). A line may name some instances of a kernel by a
pattern, "patch_pixels_kernel<*, 14>"; the longest that matches holds.

    machine_code_test.py [--architectures 80,90] [--nvcc PATH] [--nvdisasm PATH]

Without a compiler (nvcc 13) or a disassembler (scripts/cuda.lock) it ends with 77.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"

# The GPU's limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 9.0.
REGISTERS, THREADS, SHARED, RESERVED, BLOCKS = 65536, 2048, 228 * 1024, 1024, 32

problems: list[str] = []


def complain(text: str) -> None:
    problems.append(text)


def blocks_of(registers: int, shared: int, threads: int) -> int:
    """Blocks that a multiprocessor of sm_90 holds. A warp's registers are given out by 256."""
    of_warp = -(-registers * 32 // 256) * 256
    warps = -(-threads // 32)
    return min(REGISTERS // of_warp // warps, THREADS // threads, SHARED // (shared + RESERVED), BLOCKS)


class Lines:
    """The Budget and Access lines of the kernels' files, by folder and kernel."""

    def __init__(self) -> None:
        self.budgets: dict[str, tuple[int, int, int, int, int]] = {}
        self.accesses: dict[str, dict[str, list[str]]] = {}
        for file in sorted([*KERNELS.glob("*/*.cu"), *KERNELS.glob("*/*.cuh")]):
            for line in file.read_text().splitlines():
                if m := re.fullmatch(r"// Budget: (\w+): (\d+) registers, (\d+) shared bytes, (\d+) blocks? of (\d+)"
                                     r"(?:; (\d+) registers elsewhere)?", line):
                    registers, shared, blocks, threads = map(int, m.groups()[1:5])
                    self.budgets[f"{file.parent.name}/{m[1]}"] = registers, shared, blocks, threads, int(m[6] or registers)
                    if blocks_of(registers, shared, threads) != blocks:
                        complain(f"{line}: these are {blocks_of(registers, shared, threads)} blocks")
                elif m := re.fullmatch(r"// Access: (\w+(?:<.*>)?): (.*)", line):
                    words = dict(part.split(" ", 1) if " " in part else (part, "") for part in m[2].split("; "))
                    self.accesses[f"{file.parent.name}/{m[1]}"] = {k: v.split(", ") for k, v in words.items()}
                elif line.startswith(("// Budget:", "// Access:")):
                    complain(f"{file.relative_to(ROOT)}: {line}: not in the form of this test")

    def access_of(self, kernel: str, instance: str) -> dict[str, list[str]] | None:
        fitting = [p for p in self.accesses if p == kernel or fnmatch.fnmatchcase(instance, p)]
        return self.accesses[max(fitting, key=len)] if fitting else None


def readable(symbols: list[str]) -> dict[str, tuple[str, str]]:
    """Mangled -> ("hydra/gate_kernel", "hydra/gate_kernel<BFloat16, 3>")."""
    said = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    names = {}
    for symbol, text in zip(symbols, said.splitlines(), strict=True):
        text = re.sub(r"\((\w+::)*\w+\)(?=\d)", "", text.removeprefix("void "))  # (cuda::Kind)1
        m = re.match(r"hydrascope::kernels::(\w+)::(?:\w+::)*?(\w+)(<.*?>)?\(", text)
        if m is None:
            complain(f"{text}: no kernel of kernels/")
            continue
        arguments = re.sub(r"\b\w+::", "", m[3] or "")
        names[symbol] = (f"{m[1]}/{m[2]}", f"{m[1]}/{m[2]}{arguments}")
    return names


def compile_file(nvcc: str, file: pathlib.Path, architecture: str, to: pathlib.Path) -> tuple[str, str]:
    """The words of ptxas about it; the machine code goes to `to`."""
    done = subprocess.run(
        [nvcc, "-std=c++20", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", f"-I{ROOT}", f"-arch=sm_{architecture}",
         "-cubin", "-Xptxas", "-v", str(file), "-o", str(to)],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        complain(f"{file.relative_to(ROOT)} for sm_{architecture}: {done.stderr[-2000:]}")
    return done.stderr, architecture


def check_resources(lines: Lines, report: str, architecture: str, seen: dict[str, set[str]]) -> None:
    entries = re.findall(
        r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r".*?Used (\d+) registers(.*?)\n", report, re.S)
    names = readable([entry[0] for entry in entries])
    for symbol, stack, stores, loads, registers, rest in entries:
        if symbol not in names:
            continue
        kernel, instance = names[symbol]
        where = f"{instance} on sm_{architecture}"
        seen[architecture].add(kernel)
        if int(stack) or int(stores) or int(loads):
            complain(f"{where}: {stack} bytes of stack, {stores} and {loads} of spills")
        if kernel not in lines.budgets:
            complain(f"{where}: no budget in its file")
            continue
        on_90, shared_most, _, _, elsewhere = lines.budgets[kernel]
        shared = int(m[1]) if (m := re.search(r"(\d+) bytes smem", rest)) else 0
        if int(registers) > (on_90 if architecture == "90" else elsewhere) or shared > shared_most:
            complain(f"{where}: {registers} registers, {shared} shared bytes, above its budget")


def width_of(instruction: str) -> str:
    for part in instruction.split(".")[1:]:
        if part in ("128", "64"):
            return part
        if part in ("U16", "S16"):
            return "16"
        if part in ("U8", "S8"):
            return "8"
    return "32"


def check_widths(where: str, what: str, allowed: list[str], found: collections.Counter[str]) -> None:
    left = dict(found)
    for item in allowed:
        if m := re.fullmatch(r"(\d+) x (\d+)", item):
            if left.pop(m[2], 0) > int(m[1]):
                complain(f"{where}: {found[m[2]]} {what} of {m[2]} bits, its file allows {m[1]}")
        elif item != "none" and not left.pop(item, 0):
            complain(f"{where}: no {what} of {item} bits, which its file names")
    for width, count in left.items():
        complain(f"{where}: {count} {what} of {width} bits, which its file does not name")


def check_code(lines: Lines, listing: str) -> None:
    code: dict[str, collections.Counter[str]] = {}
    symbol = ""
    for line in listing.splitlines():
        if m := re.search(r"\.section\s+\.text\.([^,]+),", line):
            symbol = m[1].strip('"')
            code[symbol] = collections.Counter()
        elif m := re.search(r"/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", line):
            code[symbol][m[1]] += 1
    names = readable(list(code))
    for symbol, instructions in code.items():
        if symbol not in names:
            continue
        kernel, instance = names[symbol]
        access = lines.access_of(kernel, instance)
        if access is None:
            complain(f"{instance}: no access line in its file")
            continue
        found = {"LDG": collections.Counter(), "STG": collections.Counter(), "LDGSTS": collections.Counter()}
        for instruction, count in instructions.items():
            base = instruction.split(".")[0]
            if base in found:
                found[base][width_of(instruction)] += count
        check_widths(instance, "loads", access.get("loads", ["none"]), found["LDG"])
        check_widths(instance, "stores", access.get("stores", ["none"]), found["STG"])
        check_widths(instance, "copies", access.get("copies", ["none"]), found["LDGSTS"])

        def number(*words: str, of: collections.Counter[str] = instructions) -> int:
            return sum(count for name, count in of.items() if all(word in name.split(".") for word in words))

        if number("LDL") or number("STL"):
            complain(f"{instance}: local memory")
        if number("LD") or number("ST") or number("ATOM"):
            complain(f"{instance}: accesses to memory of either kind")
        if number("LDGSTS") != number("LDGSTS", "BYPASS"):
            complain(f"{instance}: copies that go through L1")
        if bool(number("HMMA")) != ("products" in access):
            complain(f"{instance}: {number('HMMA')} products of tensor cores")
        # Two fences around each counter, either with L1 forgotten; and partial sums never by the read-only path.
        counters = number("ATOMG", "INC", "STRONG", "GPU")
        if bool(counters) != ("fences" in access):
            complain(f"{instance}: {counters} counters of last_block")
        if number("MEMBAR", "SC", "GPU") != 2 * counters or number("CCTL", "IVALL") != 2 * counters:
            complain(f"{instance}: {counters} counters without their fences")
        if counters and number("LDG", "CONSTANT"):
            complain(f"{instance}: reads what others write by the read-only path")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--architectures", default="90")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--nvdisasm", default="")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.nvcc).exists():
        print("skipped: there is no nvcc")
        return 77
    if not arguments.nvdisasm:
        made = subprocess.run([ROOT / "scripts/locked_venv.sh", "cuda"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            print(made.stdout.strip() or made.stderr.strip())
            return 77
        tools = pathlib.Path(made.stdout.strip())
        arguments.nvdisasm = str(next(tools.glob("lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm")))
        os.chmod(arguments.nvdisasm, 0o755)

    lines = Lines()
    architectures = [word.removesuffix("-real") for word in re.split("[,;]", arguments.architectures)]
    seen: dict[str, set[str]] = {each: set() for each in architectures}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {}
        # The longest first.
        for file in sorted(KERNELS.glob("*/*.cu"), key=lambda f: -f.stat().st_size):
            for architecture in architectures:
                to = pathlib.Path(folder) / f"{file.stem}.{architecture}.cubin"
                jobs[pool.submit(compile_file, arguments.nvcc, file, architecture, to)] = to
        for job in concurrent.futures.as_completed(jobs):
            report, architecture = job.result()
            check_resources(lines, report, architecture, seen)
            if architecture == "90" and jobs[job].exists():
                check_code(lines, subprocess.run([arguments.nvdisasm, "-c", jobs[job]], capture_output=True, text=True,
                                                 check=True).stdout)
    for architecture, kernels in seen.items():
        for name in sorted(lines.budgets.keys() - kernels):
            complain(f"{name} has a budget and is not compiled for sm_{architecture}")
    for name in sorted(lines.accesses):
        if name.split("<")[0] not in lines.budgets:
            complain(f"{name} has an access line and no budget")
    for problem in sorted(problems):
        print(problem)
    print(f"{len(lines.budgets)} kernels for sm_{', sm_'.join(architectures)}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
