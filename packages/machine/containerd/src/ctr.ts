// SPDX-License-Identifier: Apache-2.0
// How is containerd's own tool run? It speaks to one socket and in the namespace of CRI.
import { AppError } from "@patchbay/core";
import type { Clock, ProcessRunner } from "@patchbay/core/ports";
import type { ContainerdLayout } from "./layout.ts";

/** Where CRI keeps everything. Source: containerd, CRI plugin. */
const NAMESPACE = "k8s.io";
const TIMEOUT_MS = 60_000;
/** Of what a program said last, characters. */
const REASON_MAX = 500;

/** Runs `ctr`. */
export interface CtrDeps {
  readonly runner: ProcessRunner;
  readonly layout: Pick<ContainerdLayout, "socket">;
}

/** How to run it. */
export interface CtrOptions {
  /** A minute when absent. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Gets standard output as it comes, which is then not returned. */
  readonly onOutput?: (text: string) => void;
}

/** The last line of what a program said: ctr writes `ctr: ` and the reason. */
export function reasonIn(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  return (lines.at(-1) ?? "it did not say why").replace(/^ctr: /, "").slice(0, REASON_MAX);
}

/**
 * Standard output of `ctr ARGS`.
 * @throws AppError with OS_PROGRAM_MISSING, OS_TIMED_OUT, and CONTAINERD_FAILED with its words
 */
export async function ctr(
  { runner, layout }: CtrDeps,
  args: readonly string[],
  { timeoutMs = TIMEOUT_MS, ...options }: CtrOptions = {},
): Promise<string> {
  const argv = ["ctr", "--address", layout.socket, "--namespace", NAMESPACE, ...args] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs, ...options });
  if (exitCode === 0) return stdout;
  const call = args.slice(0, 2).join(" ");
  throw new AppError("CONTAINERD_FAILED", { call, reason: reasonIn(stderr) });
}

/** Between two tries, milliseconds: a socket has a name for a moment before anybody listens at it. */
const TRY_AGAIN_MS = 50;

/** What is asked, and the time. */
export interface WaitDeps extends CtrDeps {
  readonly clock: Clock;
}

async function askVersion(
  { runner, layout }: CtrDeps,
  leftMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  // It waits for the socket that long by itself.
  const seconds = `${String(Math.ceil(leftMs / 1000))}s`;
  const args = ["--address", layout.socket, "--connect-timeout", seconds, "version"];
  const { exitCode, stderr } = await runner.run({
    argv: ["ctr", ...args],
    timeoutMs: leftMs + TIMEOUT_MS,
    signal,
  });
  return exitCode === 0 ? undefined : reasonIn(stderr);
}

/**
 * Resolves when containerd answers.
 * @throws AppError with CONTAINERD_FAILED when it does not in time
 */
export async function waitUntilServing(
  deps: WaitDeps,
  timeoutMs: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  const { clock } = deps;
  const endMs = clock.monotonicMs() + timeoutMs;
  for (;;) {
    const leftMs = Math.max(1, endMs - clock.monotonicMs());
    const reason = await askVersion(deps, leftMs, signal);
    if (reason === undefined) return;
    if (clock.monotonicMs() >= endMs) {
      throw new AppError("CONTAINERD_FAILED", { call: "start", reason });
    }
    await clock.sleep(TRY_AGAIN_MS, signal);
  }
}
