// SPDX-License-Identifier: Apache-2.0
// Starts long-lived child processes, which can drop the privileges that they inherit.
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { AppError } from "@patchbay/base";
import type {
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  ClaimedDescriptor,
} from "@patchbay/core/interfaces";
import { sealDescriptors } from "../descriptors.ts";
import { prioritizeSession } from "../processes/start-process.ts";
import { JsonChannel } from "./json-channel.ts";
import { osNative } from "../native.ts";

const STDERR_CHARACTERS_MAX = 2000;

const isSource = import.meta.url.endsWith(".ts");
const ENTRY_POINT = fileURLToPath(
  isSource
    ? new URL("./child-entry.ts", import.meta.url)
    : new URL("./child-entry.js", import.meta.url),
);

/** Creates a starter of child processes. The children end when this process ends. `entry` is the absolute path of child-entry. */
export function createChildStarter(entry = ENTRY_POINT): ChildStarter {
  return { start: (program) => start(program, entry) };
}

async function start(program: ChildProgram, entry: string): Promise<ChildProcessHandle> {
  sealDescriptors();
  const [parentEnd, childEnd] = osNative().socketPair();
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, buildArguments(program, entry), {
      env: program.env,
      cwd: "/",
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "pipe", childEnd],
    });
  } catch (error) {
    closeSync(parentEnd);
    throw startFailure(program, { reason: String(error) });
  } finally {
    closeSync(childEnd);
  }
  prioritizeSession(child.pid ?? 0);
  const handle = new Child(child, parentEnd);
  await handle.ready(program);
  return handle;
}

function buildArguments(program: ChildProgram, entry: string): string[] {
  const { identity } = program;
  return [
    // Without this option, Node.js starts a thread that blocks all signals. This thread could not drop its privileges, because each
    // thread drops them in a signal handler.
    "--disable-sigusr1",
    ...(isSource ? ["--conditions=@patchbay/source"] : []),
    entry,
    program.module,
    identity === undefined ? "" : `${String(identity.uid)}:${String(identity.gid)}`,
  ];
}

function startFailure(program: ChildProgram, details: { reason: string }): AppError {
  return new AppError("OS_PROGRAM_FAILED", {
    program: program.module,
    exitCode: "no start",
    stderr: details.reason,
  });
}

class Child implements ChildProcessHandle {
  readonly pid: number;
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #channel: JsonChannel;
  #stderr = "";

  constructor(child: ChildProcess, descriptorEnd: number) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    // The declared type is a stream, but for a pipe, spawn creates a socket.
    const stream = child.stdio[3] as Socket;
    this.#channel = new JsonChannel(stream, descriptorEnd);
    child.stderr?.on("data", (data: Buffer) => {
      this.#stderr = (this.#stderr + data.toString("utf8")).slice(-STDERR_CHARACTERS_MAX);
    });
    stream.on("close", () => {
      this.kill(); // The child is useless without its channel.
    });
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    child.once("error", (error) => {
      resolve(error.message);
    });
    child.once("close", (code, signal) => {
      resolve(
        `${code === null ? String(signal) : `exit code ${String(code)}`}${this.#stderrSuffix()}`,
      );
    });
    void promise.then(() => {
      this.#channel.closeDescriptors();
    });
  }

  send(message: unknown): void {
    this.#channel.send(message);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#channel.onMessage(listener);
  }

  sendDescriptor(fd: number, token: number): void {
    this.#channel.sendDescriptor(fd, token);
  }

  claimDescriptor(token: number): ClaimedDescriptor {
    return this.#channel.claimDescriptor(token);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async ready(program: ChildProgram): Promise<void> {
    const { promise: firstMessage, resolve } = Promise.withResolvers<"ready">();
    this.#channel.onMessage(() => {
      // Pauses the channel at once: if the next message has already been received, it must wait until the caller adds a listener.
      this.#channel.pause();
      resolve("ready");
    });
    const { promise: timedOut, resolve: onTimeout } = Promise.withResolvers<"late">();
    const timer = setTimeout(() => {
      onTimeout("late");
    }, program.readyTimeoutMs);
    const outcome = await Promise.race([firstMessage, timedOut, this.ended]);
    clearTimeout(timer);
    if (outcome === "ready") return;
    this.kill();
    const reason = await this.ended;
    if (outcome !== "late") throw startFailure(program, { reason });
    const { module, readyTimeoutMs } = program;
    throw new AppError("OS_TIMED_OUT", { program: module, timeoutMs: readyTimeoutMs });
  }

  #stderrSuffix(): string {
    const text = this.#stderr.trim();
    return text === "" ? "" : `: ${text}`;
  }
}
