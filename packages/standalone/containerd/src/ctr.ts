// SPDX-License-Identifier: Apache-2.0
// Runs ctr, containerd's command-line tool, in CRI's namespace of Patchbay's own containerd.
import { AppError, type Clock } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import type { ContainerdLayout } from "./layout.ts";

/** Namespace of CRI in containerd. Source: containerd, CRI plugin. */
const NAMESPACE = "k8s.io";
const TIMEOUT_MS = 60_000;
const REASON_MAX_LENGTH = 500;

export interface CtrDeps {
  readonly runner: ProcessRunner;
  readonly layout: Pick<ContainerdLayout, "socket">;
}

export interface CtrOptions {
  /** Time limit in milliseconds. Defaults to one minute. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Receives standard output in chunks. If set, `ctr` returns an empty string. */
  readonly onOutput?: (text: string) => void;
}

export function parseErrorText(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  return (lines.at(-1) ?? "it reported no reason")
    .replace(/^ctr: /, "")
    .slice(0, REASON_MAX_LENGTH);
}

/** Runs ctr, and returns its standard output. @throws AppError with OS_PROGRAM_MISSING, OS_TIMED_OUT, CONTAINERD_FAILED */
export async function ctr(
  { runner, layout }: CtrDeps,
  args: readonly string[],
  { timeoutMs = TIMEOUT_MS, ...options }: CtrOptions = {},
): Promise<string> {
  const argv = ["ctr", "--address", layout.socket, "--namespace", NAMESPACE, ...args] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs, ...options });
  if (exitCode === 0) return stdout;
  const call = args.slice(0, 2).join(" ");
  throw new AppError("CONTAINERD_FAILED", { call, reason: parseErrorText(stderr) });
}

/** Delay between connection attempts. Attempts can fail because the socket file exists before containerd accepts connections. */
const SERVING_RETRY_INTERVAL_MS = 50;

export interface WaitDeps extends CtrDeps {
  readonly clock: Clock;
}

async function findConnectionProblem(
  { runner, layout }: CtrDeps,
  remainingMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  // ctr waits this number of seconds for the socket.
  const seconds = `${String(Math.ceil(remainingMs / 1000))}s`;
  const args = ["--address", layout.socket, "--connect-timeout", seconds, "version"];
  const { exitCode, stderr } = await runner.run({
    argv: ["ctr", ...args],
    timeoutMs: remainingMs + TIMEOUT_MS,
    signal,
  });
  return exitCode === 0 ? undefined : parseErrorText(stderr);
}

/** Resolves when containerd responds. @throws AppError with CONTAINERD_FAILED after the timeout */
export async function waitUntilServing(
  deps: WaitDeps,
  timeoutMs: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  const { clock } = deps;
  const endMs = clock.monotonicMs() + timeoutMs;
  for (;;) {
    const remainingMs = Math.max(1, endMs - clock.monotonicMs());
    const reason = await findConnectionProblem(deps, remainingMs, signal);
    if (reason === undefined) return;
    if (clock.monotonicMs() >= endMs) {
      throw new AppError("CONTAINERD_FAILED", { call: "start", reason });
    }
    await clock.sleep(SERVING_RETRY_INTERVAL_MS, signal);
  }
}
