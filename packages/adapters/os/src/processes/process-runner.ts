// SPDX-License-Identifier: Apache-2.0
// How does a program run to its end, within its deadline, with everything that it started?
import { spawn, type ChildProcess } from "node:child_process";
import { accessSync, constants as fsConstants } from "node:fs";
import { constants } from "node:os";
import { isAbsolute } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { AppError, isAppError, messageOf } from "@patchbay/core/errors";
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/ports";
import { checkedFd } from "../checked-descriptor.ts";
import { sealDescriptors } from "./descriptors.ts";
import { errnoOf } from "../files/file-errors.ts";
import { endMarked, newMark, withMark } from "./process-family.ts";

/** From SIGTERM to SIGKILL, milliseconds. */
const KILL_AFTER_MS = 1000;
/** How long output may still come after the program has ended, when something else holds its pipes; milliseconds. */
const DRAIN_MS = 1000;
/** Most output that is kept of each stream, bytes; a program that writes more is killed. */
const OUTPUT_MAX_BYTES = 16 * 1024 * 1024;
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Sends a signal to a whole process group; a group that is gone is success. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-groupId, signal);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}

/** The kernel's parent-death signal, set by a program that then becomes the one that is asked for. */
const DIES_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"] as const;

function argvOf({ argv, family }: Command): readonly [string, ...string[]] {
  if (family === undefined) return argv;
  if (isAbsolute(argv[0])) accessSync(argv[0], fsConstants.X_OK); // else setpriv would be the one that fails
  return [...DIES_WITH_PARENT, ...argv];
}

function start(command: Command, mark: string | undefined): ChildProcess {
  const [program, ...args] = argvOf(command);
  const env = command.env ?? { PATH: process.env["PATH"] ?? DEFAULT_PATH };
  sealDescriptors();
  return spawn(program, args, {
    detached: true, // a process group of its own, so that all of it can be killed
    env: mark === undefined ? env : withMark(env, mark),
    stdio: [
      command.stdin === undefined ? "ignore" : "pipe",
      "pipe",
      "pipe",
      ...(command.inheritFds ?? []).map(checkedFd),
    ],
  });
}

function spawnError(error: unknown, program: string): AppError {
  if (isAppError(error)) return error;
  const errno = errnoOf(error);
  if (errno === "ENOENT") return new AppError("OS_PROGRAM_MISSING", { program }, { cause: error });
  return new AppError(
    "OS_FILE_FAILED",
    { call: "exec", path: program, reason: messageOf(error), errno },
    { cause: error },
  );
}

function exitCodeOf(code: number | null, signal: NodeJS.Signals | null): number {
  if (code !== null) return code;
  return 128 + (signal === null ? 0 : constants.signals[signal]);
}

/** One running program. */
class Run {
  readonly #command: Command;
  /** What tells its processes from all others. */
  readonly #mark: string | undefined;
  readonly #child: ChildProcess;
  readonly #result = Promise.withResolvers<CommandResult>();
  readonly #output: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  /** Why it is being killed. */
  #reason: unknown;
  #isKilled = false;
  /** Whether a signal ended it, whoever sent it. */
  #isCut = false;
  #isSettled = false;
  #exitCode = 0;
  #timers: NodeJS.Timeout[] = [];

  constructor(command: Command) {
    this.#command = command;
    this.#mark = command.family === undefined ? undefined : newMark(command.family);
    this.#child = start(command, this.#mark);
    this.#child.once("error", (error) => {
      this.#settle(spawnError(error, command.argv[0]));
    });
    this.#child.once("exit", (code, signal) => {
      this.#isCut = signal !== null;
      this.#onExit(exitCodeOf(code, signal));
    });
    this.#child.once("close", () => {
      this.#settle();
    });
    this.#collect("stdout");
    this.#collect("stderr");
    this.#child.stdin?.on("error", () => undefined); // a program need not read its input
    this.#child.stdin?.end(command.stdin);
    this.#after(command.timeoutMs, () => {
      const { argv, timeoutMs } = command;
      this.#kill(new AppError("OS_TIMED_OUT", { program: argv[0], timeoutMs }));
    });
    command.signal?.addEventListener("abort", this.#onAbort);
    if (command.signal?.aborted === true) this.#onAbort();
  }

  result(): Promise<CommandResult> {
    return this.#result.promise;
  }

  readonly #onAbort = (): void => {
    this.#kill(this.#command.signal?.reason);
  };

  #after(ms: number, action: () => void): void {
    this.#timers.push(setTimeout(action, ms));
  }

  #collect(stream: "stdout" | "stderr"): void {
    const { onOutput } = this.#command;
    if (stream === "stdout" && onOutput !== undefined) {
      const decoder = new StringDecoder("utf8");
      this.#child.stdout?.on("data", (chunk: Buffer) => {
        onOutput(decoder.write(chunk));
      });
      return;
    }
    let bytes = 0;
    this.#child[stream]?.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= OUTPUT_MAX_BYTES) this.#output[stream].push(chunk);
      else this.#kill(this.#tooMuch(stream));
    });
  }

  #tooMuch(stream: string): AppError {
    return new AppError("OS_PROGRAM_FAILED", {
      program: this.#command.argv[0],
      exitCode: 128 + constants.signals.SIGTERM,
      stderr: `it wrote more than ${String(OUTPUT_MAX_BYTES)} bytes to ${stream}`,
    });
  }

  #kill(reason: unknown): void {
    if (this.#isKilled) return;
    this.#isKilled = true;
    this.#reason = reason;
    this.#signal("SIGTERM");
    this.#after(KILL_AFTER_MS, () => {
      this.#signal("SIGKILL");
    });
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child.pid !== undefined) signalGroup(this.#child.pid, signal);
  }

  #onExit(exitCode: number): void {
    this.#exitCode = exitCode;
    // What is left of the group had its chance to end with its leader.
    if (this.#isKilled) this.#signal("SIGKILL");
    this.#after(DRAIN_MS, () => {
      this.#settle();
    });
  }

  #settle(error?: AppError): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#command.signal?.removeEventListener("abort", this.#onAbort);
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
    this.#endFamily().then(() => {
      if (error !== undefined) this.#result.reject(error);
      else if (this.#isKilled)
        this.#result.reject(this.#reason); // an AppError, or what the caller aborted with
      else this.#result.resolve({ exitCode: this.#exitCode, ...this.#texts() });
    }, this.#result.reject);
  }

  /** What a program that was cut short has started would go on behind its back. */
  async #endFamily(): Promise<void> {
    if (this.#mark !== undefined && (this.#isKilled || this.#isCut)) await endMarked(this.#mark);
  }

  #texts(): Pick<CommandResult, "stdout" | "stderr"> {
    const textOf = (chunks: readonly Buffer[]): string => Buffer.concat(chunks).toString("utf8");
    return { stdout: textOf(this.#output.stdout), stderr: textOf(this.#output.stderr) };
  }
}

/** Programs of this machine, by name from PATH or by absolute path; the port says what becomes of them. */
export function createProcessRunner(): ProcessRunner {
  return {
    run: (command) => {
      if (command.signal?.aborted === true) {
        return Promise.reject(command.signal.reason as Error); // what the caller aborted with
      }
      try {
        return new Run(command).result();
      } catch (error) {
        return Promise.reject(spawnError(error, command.argv[0]));
      }
    },
    endFamily: endMarked,
  };
}
