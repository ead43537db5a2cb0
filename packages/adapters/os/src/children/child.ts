// SPDX-License-Identifier: Apache-2.0
// How is a long-lived child of ours started, without the parent's privileges?
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { AppError } from "@patchbay/core/errors";
import type {
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  TakenDescriptor,
} from "@patchbay/core/ports";
import { sealDescriptors } from "../processes/descriptors.ts";
import { JsonChannel } from "./json-channel.ts";
import { osNative } from "../native.ts";

/** How much of a child's standard error is kept for its error, characters. */
const STDERR_MAX = 2000;

/** From sources the child runs sources too. */
const isSource = import.meta.url.endsWith(".ts");
const ENTRY = fileURLToPath(
  isSource
    ? new URL("./child-entry.ts", import.meta.url)
    : new URL("./child-entry.js", import.meta.url),
);

/**
 * Starts children with this program's own Node.js, in a session of their own. A child ends when its parent does.
 * @param entry - absolute path of what a child runs first, and which loads its program: from sources, or as it is built
 */
export function createChildStarter(entry = ENTRY): ChildStarter {
  return { start: (program) => start(program, entry) };
}

async function start(program: ChildProgram, entry: string): Promise<ChildProcessHandle> {
  sealDescriptors();
  const [ours, theirs] = osNative().socketPair();
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, argumentsFor(program, entry), {
      env: program.env,
      cwd: "/",
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "pipe", theirs],
    });
  } catch (error) {
    closeSync(ours);
    throw failed(program, { reason: String(error) });
  } finally {
    closeSync(theirs);
  }
  const handle = new Child(child, ours);
  await handle.ready(program);
  return handle;
}

function argumentsFor(program: ChildProgram, entry: string): string[] {
  const { identity } = program;
  return [
    // Without it a thread of Node.js blocks all signals and could not drop its privileges.
    "--disable-sigusr1",
    ...(isSource ? ["--conditions=@patchbay/source"] : []),
    entry,
    program.module,
    identity === undefined ? "" : `${String(identity.uid)}:${String(identity.gid)}`,
  ];
}

function failed(program: ChildProgram, details: { reason: string }): AppError {
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
    // The fourth descriptor was asked for as a pipe: it is a socket in both directions.
    const stream = child.stdio[3] as Socket;
    this.#channel = new JsonChannel(stream, descriptorEnd);
    child.stderr?.on("data", (data: Buffer) => {
      this.#stderr = (this.#stderr + data.toString("utf8")).slice(-STDERR_MAX);
    });
    stream.on("close", () => {
      this.kill(); // A child that cannot be talked to is of no use.
    });
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    child.once("error", (error) => {
      resolve(error.message);
    });
    child.once("close", (code, signal) => {
      resolve(`${code === null ? String(signal) : `exit code ${String(code)}`}${this.#tail()}`);
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

  takeDescriptor(token: number): TakenDescriptor {
    return this.#channel.takeDescriptor(token);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Resolves when the child has said that it is ready, which is its first message. */
  async ready(program: ChildProgram): Promise<void> {
    const { promise: first, resolve } = Promise.withResolvers<"ready">();
    this.#channel.onMessage(() => {
      // At once: what the child says next may have come with the same read, and is not for us.
      this.#channel.pause();
      resolve("ready");
    });
    const { promise: late, resolve: expire } = Promise.withResolvers<"late">();
    const timer = setTimeout(() => {
      expire("late");
    }, program.readyTimeoutMs);
    const outcome = await Promise.race([first, late, this.ended]);
    clearTimeout(timer);
    if (outcome === "ready") return;
    this.kill();
    const reason = await this.ended;
    if (outcome !== "late") throw failed(program, { reason });
    const { module, readyTimeoutMs } = program;
    throw new AppError("OS_TIMED_OUT", { program: module, timeoutMs: readyTimeoutMs });
  }

  #tail(): string {
    const text = this.#stderr.trim();
    return text === "" ? "" : `: ${text}`;
  }
}
