// SPDX-License-Identifier: Apache-2.0
// A server and kubectl as its client, in its own directory.
import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { type Harness, startHarness } from "../harness.ts";

/** Kills a hung command; on a busy machine a command took over 20 s. */
const TIMEOUT_MS = 120_000;

export interface CommandResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface KubectlSession {
  readonly api: Harness;
  readonly directory: string;
  /** The directory of the kubeconfig. */
  readonly env: NodeJS.ProcessEnv;
  /** Runs kubectl; `line` is split into arguments, `more` follow unchanged. */
  kubectl(line: string, ...more: readonly string[]): Promise<CommandResult>;
  follow(line: string, ...more: readonly string[]): ChildProcessByStdio<null, Readable, null>;
  /** Writes a file below the directory; returns its path. */
  write(name: string, content: unknown): Promise<string>;
  close(): Promise<void>;
}

function wordsOf(line: string): string[] {
  return line.split(" ").filter((word) => word !== "");
}

function run(
  args: readonly string[],
  options: { readonly env: NodeJS.ProcessEnv; readonly cwd: string },
): Promise<CommandResult> {
  const { promise, resolve } = Promise.withResolvers<CommandResult>();
  execFile("kubectl", args, { ...options, timeout: TIMEOUT_MS }, (error, out, err) => {
    const end = error?.killed === true ? `ended after ${String(TIMEOUT_MS)} ms\n` : "";
    resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err: err + end });
  });
  return promise;
}

/** Starts a server; `env`: more variables for kubectl. */
export async function startKubectlSession(
  env: Readonly<Record<string, string>> = {},
  change: Parameters<typeof startHarness>[0] = {},
): Promise<KubectlSession> {
  const api = await startHarness(change);
  const directory = await mkdtemp(join(tmpdir(), "apiserver-kubectl-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  const options = {
    cwd: directory,
    env: { PATH: process.env["PATH"], HOME: directory, KUBECONFIG: kubeconfig, ...env },
  };
  return {
    api,
    directory,
    env: options.env,
    kubectl: (line, ...more) => run([...wordsOf(line), ...more], options),
    follow: (line, ...more) =>
      spawn("kubectl", [...wordsOf(line), ...more], {
        ...options,
        stdio: ["ignore", "pipe", "inherit"],
        timeout: TIMEOUT_MS,
      }),
    write: async (name, content) => {
      const path = join(directory, name);
      await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
      return path;
    },
    close: async () => {
      await api.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
