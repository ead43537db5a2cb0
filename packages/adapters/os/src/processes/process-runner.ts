// SPDX-License-Identifier: Apache-2.0
// Runs programs with a time limit, and kills the processes that a program leaves behind.
import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { constants } from "node:os";
import { StringDecoder } from "node:string_decoder";
import { AppError, isAppError, messageOf } from "@patchbay/base";
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import { checkedFd, sealDescriptors } from "../descriptors.ts";
import { errnoOf } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { killMarked, scheduleKill, createProcessMark, addProcessMark } from "./process-family.ts";
import { signalGroup, watchProcessEnd } from "./process-identity.ts";

interface ProgramEnd {
  readonly exitCode: number;
  readonly isSignaled: boolean;
  /** Whether processes of the program's group still run after the program has ended. */
  readonly hasLeftovers: boolean;
}

interface Program {
  readonly input?: Socket;
  readonly output: Socket;
  readonly errors: Socket;
  /** Resolves with the PID, which is also the group and session ID. Rejects with the error of exec(2). */
  readonly started: Promise<number>;
  readonly ended: Promise<ProgramEnd>;
}

interface ProgramStart {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Descriptors that the program inherits as 3, 4, and so on. The caller may close the descriptors immediately. */
  readonly fds: readonly number[];
  readonly hasInput: boolean;
  readonly diesWithParent: boolean;
}

const SIGNAL_EXIT_CODE_BASE = 128;

async function waitForEnd(pid: number, pidfd: number): Promise<ProgramEnd> {
  const { ended } = watchProcessEnd(pidfd);
  closeSync(pidfd);
  await ended;
  const { code, signal, hasLeft } = osNative().reapProgram(pid);
  return signal === 0
    ? { exitCode: code, isSignaled: false, hasLeftovers: hasLeft }
    : { exitCode: SIGNAL_EXIT_CODE_BASE + signal, isSignaled: true, hasLeftovers: hasLeft };
}

/** Starts a program in a new session. @throws errors with a `code`, like errors of node:fs */
function startProgram({ argv, env, fds, hasInput, diesWithParent }: ProgramStart): Program {
  sealDescriptors();
  const envPairs = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const program = osNative().startProgram(argv, envPairs, fds, hasInput, diesWithParent);
  const readEnd = (fd: number): Socket => new Socket({ fd, readable: true, writable: false });
  const { input } = program;
  return {
    ...(input >= 0 && { input: new Socket({ fd: input, readable: false, writable: true }) }),
    output: readEnd(program.output),
    errors: readEnd(program.errors),
    started: program.started.then(({ pid }) => pid),
    ended: program.started.then(({ pid, pidfd }) => waitForEnd(pid, pidfd)),
  };
}

class Slots {
  #freeCount: number;
  readonly #waiters: (() => void)[] = [];

  constructor(count: number) {
    this.#freeCount = count;
  }

  async acquire(): Promise<void> {
    if (this.#freeCount > 0) {
      this.#freeCount -= 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#waiters.push(() => {
      resolve(undefined);
    });
    await promise;
  }

  release(): void {
    const startNext = this.#waiters.shift();
    if (startNext === undefined) this.#freeCount += 1;
    else startNext();
  }
}

/** Limits the number of concurrent programs, except long-lived programs whose output is streamed. */
export function limitProcesses(runner: ProcessRunner, count: number): ProcessRunner {
  const slots = new Slots(count);
  const run = async (command: Command): Promise<CommandResult> => {
    if (command.onOutput !== undefined || command.onBytes !== undefined) return runner.run(command);
    await slots.acquire();
    try {
      return await runner.run(command);
    } finally {
      slots.release();
    }
  };
  return { run, killProcessFamily: (family) => runner.killProcessFamily(family) };
}

const KILL_AFTER_MS = 1000;
/** Milliseconds for which output is still read after the program has ended, because other processes may have its pipes open. */
const DRAIN_MS = 1000;
/** Maximum output per stream, in bytes. A program with more output is killed. */
const OUTPUT_MAX_BYTES = 16 * 1024 * 1024;
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Adds the directories of the administrator's programs to PATH. The PATH of cron and of other users lacks them. */
function completePath(path = ""): string {
  if (path === "") return DEFAULT_PATH;
  const directories = path.split(":");
  const missing = ["/usr/sbin", "/sbin"].filter((one) => !directories.includes(one));
  return [...directories, ...missing].join(":");
}

function start(command: Command, mark: string | undefined): Program {
  const { argv, stdin, processFamily, inheritFds = [] } = command;
  const env = command.env ?? { PATH: completePath(process.env["PATH"]) };
  return startProgram({
    argv,
    env: mark === undefined ? env : addProcessMark(env, mark),
    fds: inheritFds.map(checkedFd),
    hasInput: stdin !== undefined,
    diesWithParent: processFamily !== undefined,
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

type OutputStream = "output" | "errors";

class Run {
  readonly #command: Command;
  readonly #mark: string | undefined;
  readonly #program: Program;
  readonly #result = Promise.withResolvers<CommandResult>();
  readonly #output: Record<OutputStream, Buffer[]> = { output: [], errors: [] };
  #killReason: unknown;
  #isKilled = false;
  #isSignaled = false;
  /** Whether, after the program ended, its group still contained processes or another process held its output pipes open. */
  #hasLeftovers = false;
  #isSettled = false;
  #exitCode = 0;
  #pid: number | undefined;
  /** Number of events that must still happen before the run is complete: the program ends, and both output pipes close. */
  #pendingEvents = 3;
  #timers: NodeJS.Timeout[] = [];

  constructor(command: Command) {
    this.#command = command;
    this.#mark =
      command.processFamily === undefined ? undefined : createProcessMark(command.processFamily);
    this.#program = start(command, this.#mark);
    this.#program.started.then(
      (pid) => {
        this.#pid = pid;
        if (this.#isKilled) this.#signal("SIGTERM");
      },
      (error: unknown) => {
        this.#settle(spawnError(error, command.argv[0]));
      },
    );
    this.#program.ended.then(
      (end) => {
        this.#onEnd(end);
      },
      () => undefined,
    );
    this.#collect("output");
    this.#collect("errors");
    this.#program.input?.on("error", () => undefined); // Ignores write errors, because a program may end without reading its input.
    this.#program.input?.end(command.stdin ?? "");
    this.#schedule(command.timeoutMs, () => {
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

  #schedule(ms: number, action: () => void): void {
    this.#timers.push(setTimeout(action, ms));
  }

  #collect(stream: OutputStream): void {
    const { onOutput, onBytes } = this.#command;
    const pipe = this.#program[stream];
    pipe.on("close", () => {
      this.#onClosed();
    });
    pipe.on("error", () => undefined);
    if (stream === "output" && onOutput !== undefined) {
      const decoder = new StringDecoder("utf8");
      pipe.on("data", (chunk: Buffer) => {
        onOutput(decoder.write(chunk));
      });
      return;
    }
    if (stream === "output" && onBytes !== undefined) {
      this.#streamBytes(pipe, onBytes);
      return;
    }
    let bytes = 0;
    pipe.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= OUTPUT_MAX_BYTES) this.#output[stream].push(chunk);
      else this.#kill(this.#outputTooLong(stream));
    });
  }

  #streamBytes(pipe: Socket, onBytes: NonNullable<Command["onBytes"]>): void {
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

  #outputTooLong(stream: OutputStream): AppError {
    return new AppError("OS_PROGRAM_FAILED", {
      program: this.#command.argv[0],
      exitCode: 128 + constants.signals.SIGTERM,
      stderr: `it wrote more than ${String(OUTPUT_MAX_BYTES)} bytes of ${stream}`,
    });
  }

  #kill(reason: unknown): void {
    if (this.#isKilled) return;
    this.#isKilled = true;
    this.#killReason = reason;
    this.#signal("SIGTERM");
    this.#schedule(KILL_AFTER_MS, () => {
      this.#signal("SIGKILL");
    });
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#pid !== undefined) signalGroup(this.#pid, signal);
  }

  #onEnd({ exitCode, isSignaled, hasLeftovers }: ProgramEnd): void {
    this.#exitCode = exitCode;
    this.#isSignaled = isSignaled;
    this.#hasLeftovers = hasLeftovers;
    if (hasLeftovers && (this.#isKilled || this.#mark !== undefined)) this.#signal("SIGKILL");
    this.#schedule(DRAIN_MS, () => {
      // Timers precede I/O: if this process was busy for long, the output that has arrived meanwhile is read first.
      setImmediate(() => {
        this.#hasLeftovers = true;
        this.#settle();
      });
    });
    this.#onClosed();
  }

  #onClosed(): void {
    this.#pendingEvents -= 1;
    if (this.#pendingEvents === 0) this.#settle();
  }

  #settle(error?: AppError): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#command.signal?.removeEventListener("abort", this.#onAbort);
    const { input, output, errors } = this.#program;
    for (const pipe of [input, output, errors]) pipe?.destroy();
    this.#killProcessFamily().then(() => {
      if (error !== undefined) this.#result.reject(error);
      else if (this.#isKilled) this.#result.reject(this.#killReason);
      else this.#result.resolve({ exitCode: this.#exitCode, ...this.#texts() });
    }, this.#result.reject);
  }

  /** Kills processes that the program left behind. Without a sign of such processes, only schedules a scan, which costs less. */
  async #killProcessFamily(): Promise<void> {
    if (this.#mark === undefined || this.#pid === undefined) return;
    if (this.#isKilled || this.#isSignaled || this.#hasLeftovers) await killMarked(this.#mark);
    else scheduleKill(this.#mark);
  }

  #texts(): Pick<CommandResult, "stdout" | "stderr"> {
    const toText = (chunks: readonly Buffer[]): string => Buffer.concat(chunks).toString("utf8");
    return { stdout: toText(this.#output.output), stderr: toText(this.#output.errors) };
  }
}

/** Creates the adapter, which runs programs by absolute path, or by a name in PATH. */
export function createProcessRunner(): ProcessRunner {
  return {
    run: (command) => {
      if (command.signal?.aborted === true) {
        return Promise.reject(command.signal.reason as Error);
      }
      try {
        return new Run(command).result();
      } catch (error) {
        return Promise.reject(spawnError(error, command.argv[0]));
      }
    },
    killProcessFamily: killMarked,
  };
}
