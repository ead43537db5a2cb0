// SPDX-License-Identifier: Apache-2.0
// Runs a program inside a network namespace. The namespace is entered by an inherited descriptor, never by a name or a pid.
import { AppError } from "@patchbay/core";
import type { NetnsHandle, ProcessRunner } from "@patchbay/core/ports";

/** One call takes a few milliseconds; removing links waits for the kernel, some 100 ms. */
const TIMEOUT_MS = 10_000;

/** Programs of iproute2 and nftables; the shell only for a constant text. */
type Program = "ip" | "bridge" | "nft" | "sh";

/** One run of a program in a namespace. */
interface Run {
  readonly program: Program;
  readonly args: readonly string[];
  readonly stdin?: string;
}

/**
 * Runs a program in the namespace; resolves with what it printed.
 * @throws AppError with PODNET_FAILED
 */
export async function runIn(
  runner: ProcessRunner,
  netns: NetnsHandle,
  { program, args, stdin = "" }: Run,
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
