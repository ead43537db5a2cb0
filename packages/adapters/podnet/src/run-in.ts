// SPDX-License-Identifier: Apache-2.0
// Runs programs in a network namespace, which nsenter enters by an inherited file descriptor instead of a path or PID.
import { AppError } from "@patchbay/base";
import type { NetnsHandle, ProcessRunner } from "@patchbay/core/interfaces";

/** Time limit of a program, in milliseconds. Programs usually take a few milliseconds; those that delete links take about 100 ms. */
const TIMEOUT_MS = 10_000;

/** Programs of iproute2 and nftables, and `sh` for constant scripts. */
type Program = "ip" | "bridge" | "nft" | "sh";

interface ProgramCall {
  readonly program: Program;
  readonly args: readonly string[];
  readonly stdin?: string;
}

/** Runs a program and returns its standard output. @throws AppError with PODNET_FAILED */
export async function runInNamespace(
  runner: ProcessRunner,
  netns: NetnsHandle,
  { program, args, stdin = "" }: ProgramCall,
): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["nsenter", "--net=/proc/self/fd/3", program, ...args],
    stdin,
    inheritFds: [netns],
    timeoutMs: TIMEOUT_MS,
  });
  if (exitCode === 0) return stdout;
  throw new AppError("PODNET_FAILED", {
    message: `${program} exited with ${String(exitCode)}: ${stderr.trim()}`,
  });
}
