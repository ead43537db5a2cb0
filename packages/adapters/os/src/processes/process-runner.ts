// SPDX-License-Identifier: Apache-2.0
// How does a program run to its end, within its deadline, with everything that it started?
import type { Socket } from "node:net";
import { constants } from "node:os";
import { StringDecoder } from "node:string_decoder";
import { AppError, isAppError, messageOf } from "@patchbay/core/errors";
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/ports";
import { checkedFd } from "../checked-descriptor.ts";
import { errnoOf } from "../files/file-errors.ts";
import { endMarked, endSoon, newMark, withMark } from "./process-family.ts";
import { signalGroup } from "./signal-group.ts";
import { startProgram, type Program, type ProgramEnd } from "./program.ts";

/** From SIGTERM to SIGKILL, milliseconds. */
const KILL_AFTER_MS = 1000;
/** How long output may still come after the program has ended, when something else holds its pipes; milliseconds. */
const DRAIN_MS = 1000;
/** Most output that is kept of each stream, bytes; a program that writes more is killed. */
const OUTPUT_MAX_BYTES = 16 * 1024 * 1024;
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

function start(command: Command, mark: string | undefined): Program {
  const { argv, stdin, family, inheritFds = [] } = command;
  const env = command.env ?? { PATH: process.env["PATH"] ?? DEFAULT_PATH };
  return startProgram({
    argv,
    env: mark === undefined ? env : withMark(env, mark),
    fds: inheritFds.map(checkedFd),
    hasInput: stdin !== undefined,
    diesWithParent: family !== undefined,
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

/** What a program writes. */
type Stream = "output" | "errors";

/** One running program. */
class Run {
  readonly #command: Command;
  /** What tells its processes from all others. */
  readonly #mark: string | undefined;
  readonly #program: Program;
  readonly #result = Promise.withResolvers<CommandResult>();
  readonly #output: Record<Stream, Buffer[]> = { output: [], errors: [] };
  /** Why it is being killed. */
  #reason: unknown;
  #isKilled = false;
  /** Whether a signal ended it, whoever sent it. */
  #isCut = false;
  /** Whether something of it was seen after its end: in its group, or at its pipes. */
  #hasLeft = false;
  #isSettled = false;
  #exitCode = 0;
  /** Absent until it is started. */
  #pid: number | undefined;
  /** What has not ended yet: the program, and the two pipes that it writes to. */
  #open = 3;
  #timers: NodeJS.Timeout[] = [];

  constructor(command: Command) {
    this.#command = command;
    this.#mark = command.family === undefined ? undefined : newMark(command.family);
    this.#program = start(command, this.#mark);
    this.#program.started.then(
      (pid) => {
        this.#pid = pid;
        if (this.#isKilled) this.#signal("SIGTERM"); // it was to end before it was there
      },
      (error: unknown) => {
        this.#settle(spawnError(error, command.argv[0]));
      },
    );
    this.#program.ended.then(
      (end) => {
        this.#onEnd(end);
      },
      () => undefined, // as above
    );
    this.#collect("output");
    this.#collect("errors");
    this.#program.input?.on("error", () => undefined); // a program need not read its input
    this.#program.input?.end(command.stdin ?? "");
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

  #collect(stream: Stream): void {
    const { onOutput, onBytes } = this.#command;
    const pipe = this.#program[stream];
    pipe.on("close", () => {
      this.#onClosed();
    });
    pipe.on("error", () => undefined); // then it is closed
    if (stream === "output" && onOutput !== undefined) {
      const decoder = new StringDecoder("utf8");
      pipe.on("data", (chunk: Buffer) => {
        onOutput(decoder.write(chunk));
      });
      return;
    }
    if (stream === "output" && onBytes !== undefined) {
      this.#handOn(pipe, onBytes);
      return;
    }
    let bytes = 0;
    pipe.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= OUTPUT_MAX_BYTES) this.#output[stream].push(chunk);
      else this.#kill(this.#tooMuch(stream));
    });
  }

  #handOn(pipe: Socket, onBytes: NonNullable<Command["onBytes"]>): void {
    pipe.on("data", (chunk: Buffer) => {
      pipe.pause();
      Promise.resolve(onBytes(chunk)).then(
        () => pipe.resume(),
        (error: unknown) => {
          this.#kill(error);
        },
      );
    });
  }

  #tooMuch(stream: Stream): AppError {
    return new AppError("OS_PROGRAM_FAILED", {
      program: this.#command.argv[0],
      exitCode: 128 + constants.signals.SIGTERM,
      stderr: `it wrote more than ${String(OUTPUT_MAX_BYTES)} bytes of ${stream}`,
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
    if (this.#pid !== undefined) signalGroup(this.#pid, signal);
  }

  #onEnd({ exitCode, isCut, hasLeft }: ProgramEnd): void {
    this.#exitCode = exitCode;
    this.#isCut = isCut;
    this.#hasLeft = hasLeft;
    // What is left of the group had its chance to end with its leader.
    if (hasLeft && (this.#isKilled || this.#mark !== undefined)) this.#signal("SIGKILL");
    this.#after(DRAIN_MS, () => {
      this.#hasLeft = true;
      this.#settle();
    });
    this.#onClosed();
  }

  #onClosed(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#settle();
  }

  #settle(error?: AppError): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#command.signal?.removeEventListener("abort", this.#onAbort);
    const { input, output, errors } = this.#program;
    for (const pipe of [input, output, errors]) pipe?.destroy();
    this.#endFamily().then(() => {
      if (error !== undefined) this.#result.reject(error);
      else if (this.#isKilled) this.#result.reject(this.#reason); // an AppError, or what the caller aborted with
      else this.#result.resolve({ exitCode: this.#exitCode, ...this.#texts() });
    }, this.#result.reject);
  }

  /** What a program has started would go on behind its back. */
  async #endFamily(): Promise<void> {
    if (this.#mark === undefined || this.#pid === undefined) return;
    if (this.#isKilled || this.#isCut || this.#hasLeft) await endMarked(this.#mark);
    else endSoon(this.#mark);
  }

  #texts(): Pick<CommandResult, "stdout" | "stderr"> {
    const textOf = (chunks: readonly Buffer[]): string => Buffer.concat(chunks).toString("utf8");
    return { stdout: textOf(this.#output.output), stderr: textOf(this.#output.errors) };
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
