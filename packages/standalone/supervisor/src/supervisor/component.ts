// SPDX-License-Identifier: Apache-2.0
// Supervises a process: starts it or adopts a running one, restarts it when it exits, and stops it.
import { parseFields, readText, readNumber, readFields } from "../data-dir/json.ts";
import { join } from "node:path";
import { AppError, isEqual, messageOf, type Clock, type Logger } from "@patchbay/base";
import {
  isRunning,
  signalProcess,
  startDetached,
  waitForLine,
  waitForProcessEnd,
  type ProcessName,
} from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import type { Paths } from "../data-dir/paths.ts";
import { checkHealth, waitUntilHung } from "./liveness.ts";

/** Fields of a log line that contain the reason, in order of preference. containerd uses `error` and `msg`. */
const REASON_FIELDS = ["reason", "error", "message", "msg"] as const;

/** Returns the reason in a log's last line. Returns the whole line if it is not JSON, or an empty string if it has no reason. */
export function parseLogReason(log: string | undefined): string {
  const lastLine = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  const fields = parseFields(lastLine);
  if (fields === undefined) return lastLine;
  return REASON_FIELDS.map((name) => readText(fields, name)).find((text) => text !== "") ?? "";
}

const READY_TIMEOUT_MS = 60_000;
const BACKOFF_FIRST_MS = 200;
const BACKOFF_MAX_MS = 10_000;
/** If a process has run at least this long, its restart delay is reset. */
const BACKOFF_RESET_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface ComponentProgram {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly niceness?: number;
  readonly beforeStart?: () => Promise<void>;
  /** Resolves when the component is ready. By default, the output line `ready` reports readiness. */
  readonly untilReady?: (signal: AbortSignal) => Promise<void>;
  /** Socket that serves `/healthz`; unset for no health checks. A component that does not respond is killed. */
  readonly healthSocket?: string;
}

/** Dependencies of a component. `bootId` identifies the current boot; process records of other boots are invalid. */
export interface ComponentDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
  /** Build of the programs. A running component of another build is restarted instead of adopted. */
  readonly build?: string;
}

interface RunningProcess extends ProcessName {
  /** Resolves with the reason when the process has ended. */
  readonly ended: Promise<string>;
  readonly startMs: number;
}

export class Component {
  readonly name: string;
  readonly #program: ComponentProgram;
  readonly #deps: ComponentDeps;
  readonly #stopController = new AbortController();
  #running: RunningProcess | undefined;
  #isAdopted = false;
  #supervision: Promise<void> = Promise.resolve();
  #onRestart: () => void = () => undefined;

  constructor(program: ComponentProgram, deps: ComponentDeps) {
    this.name = program.name;
    this.#program = program;
    this.#deps = deps;
  }

  get isAdopted(): boolean {
    return this.#isAdopted;
  }

  /** Adopts the running process or starts one. @throws AppError with RUNTIME_START_FAILED */
  async start(): Promise<void> {
    const adopted = await this.#adopt();
    this.#isAdopted = adopted !== undefined;
    const running = adopted ?? (await this.#spawn());
    this.#running = running;
    await this.#waitUntilReady(running);
    this.#watch(running);
    this.#supervision = this.#superviseLoop(running);
  }

  /** Stops the supervision and the process. Idempotent. */
  async stop(): Promise<void> {
    this.#stopController.abort(new Error("the component is being stopped"));
    await this.#supervision;
    const running = this.#running ?? (await this.#adopt());
    if (running !== undefined) await this.#endProcess(running);
    await this.#deps.files.remove(this.#stateFilePath());
  }

  /** Returns the start time in milliseconds since 1970; undefined if the process does not run. */
  async startedAtMs(): Promise<number | undefined> {
    if (this.#running === undefined) return undefined;
    return readNumber(await readFields(this.#deps.files, this.#stateFilePath()), "startedAtMs");
  }

  /** Restarts the process, if it runs, and waits until it is ready. Rejects after {@link READY_TIMEOUT_MS}. */
  async restart(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    const { signal } = this.#stopController;
    const restarted = new Promise<void>((resolve) => {
      this.#onRestart = resolve;
      signal.addEventListener("abort", this.#onRestart, { once: true });
    });
    await this.#endProcess(running);
    await restarted;
    await this.#waitForReadiness(AbortSignal.any([signal, AbortSignal.timeout(READY_TIMEOUT_MS)]));
  }

  async #endProcess(running: RunningProcess): Promise<void> {
    const processEnd = running.ended;
    await signalProcess(running, "SIGTERM");
    const deadline = new AbortController();
    const result = await Promise.race([
      processEnd.then(() => "ended"),
      this.#deps.clock.sleep(STOP_TIMEOUT_MS, deadline.signal).then(
        () => "late",
        () => "ended",
      ),
    ]);
    deadline.abort(new Error("ended"));
    if (result === "late") {
      this.#deps.log.warn("component did not stop and is killed", this.#buildLogFields(running));
      await signalProcess(running, "SIGKILL");
      await processEnd;
    }
  }

  #buildLogFields({ pid }: ProcessName): Record<string, unknown> {
    return { object: this.name, pid };
  }

  #stateFilePath(): string {
    return join(this.#deps.paths.run, `${this.name}.json`);
  }

  #outFilePath(): string {
    return join(this.#deps.paths.run, `${this.name}.out`);
  }

  #logFilePath(): string {
    return join(this.#deps.paths.logs, `${this.name}.log`);
  }

  /**
   * Returns the process that an earlier supervisor started, if it runs. If the process has other arguments or is of another build, stops it
   * and returns undefined.
   */
  async #adopt(): Promise<RunningProcess | undefined> {
    const { files, bootId, log, clock, build = "" } = this.#deps;
    const fields = await readFields(files, this.#stateFilePath());
    const processName = {
      pid: readNumber(fields, "pid") ?? 0,
      startTime: readText(fields, "startTime"),
    };
    if (readText(fields, "bootId") !== bootId || !(await isRunning(processName))) return undefined;
    const ended = waitForProcessEnd(processName.pid, processName.startTime).then(() => "ended");
    const running = { ...processName, ended, startMs: clock.monotonicMs() };
    if (isEqual(fields?.["argv"], this.#program.argv) && readText(fields, "build") === build) {
      log.info("component adopted", this.#buildLogFields(running));
      return running;
    }
    log.info(
      "component has other arguments or another build and is restarted",
      this.#buildLogFields(running),
    );
    await signalProcess(processName, "SIGTERM");
    await Promise.race([ended, this.#killLater(processName)]);
    return undefined;
  }

  async #killLater(processName: ProcessName): Promise<void> {
    await this.#deps.clock
      .sleep(STOP_TIMEOUT_MS, this.#stopController.signal)
      .catch(() => undefined);
    await signalProcess(processName, "SIGKILL");
  }

  async #spawn(): Promise<RunningProcess> {
    const { files, clock, log, bootId, build } = this.#deps;
    const { argv, niceness } = this.#program;
    await this.#program.beforeStart?.();
    if (this.#program.healthSocket !== undefined) await files.remove(this.#program.healthSocket);
    const started = await startDetached({
      argv,
      niceness,
      env: { PATH },
      outFile: this.#outFilePath(),
      logFile: this.#logFilePath(),
    });
    const { pid, startTime, ended } = started;
    const state = { pid, startTime, bootId, build, argv, startedAtMs: clock.now() };
    await files.writeAtomic(this.#stateFilePath(), `${JSON.stringify(state)}\n`);
    log.info("component started", this.#buildLogFields(started));
    return { pid, startTime, ended, startMs: clock.monotonicMs() };
  }

  async #waitUntilReady(running: RunningProcess): Promise<void> {
    const stop = new AbortController();
    const deadline = AbortSignal.timeout(READY_TIMEOUT_MS);
    try {
      const result = await Promise.race([
        this.#waitForReadiness(AbortSignal.any([stop.signal, deadline])).then(
          () => undefined,
          messageOf,
        ),
        running.ended,
      ]);
      if (result === undefined) return;
      const logReason = parseLogReason(await this.#deps.files.readText(this.#logFilePath()));
      const reason = logReason === "" ? result : `${result}: ${logReason}`;
      throw new AppError("RUNTIME_START_FAILED", { component: this.name, reason });
    } finally {
      stop.abort(new Error("ready or ended"));
    }
  }

  async #waitForReadiness(signal: AbortSignal): Promise<void> {
    const { untilReady } = this.#program;
    if (untilReady !== undefined) await untilReady(signal);
    else await waitForLine(this.#outFilePath(), "ready", signal);
  }

  async #killWhenHung(running: RunningProcess): Promise<void> {
    const { healthSocket } = this.#program;
    if (healthSocket === undefined) return;
    const { clock, log } = this.#deps;
    const processEnd = new AbortController();
    void running.ended.then(() => {
      processEnd.abort(new Error("ended"));
    });
    const signal = AbortSignal.any([this.#stopController.signal, processEnd.signal]);
    await waitUntilHung({
      clock,
      signal,
      check: (checkSignal) => checkHealth(healthSocket, checkSignal),
    });
    log.warn("component does not respond and is killed", this.#buildLogFields(running));
    await signalProcess(running, "SIGKILL");
  }

  #watch(running: RunningProcess): void {
    this.#killWhenHung(running).catch(() => undefined); // A rejection means only that the process has ended or is being stopped.
  }

  async #superviseLoop(initialProcess: RunningProcess): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stopController;
    const stopped = new Promise<undefined>((resolve) => {
      signal.addEventListener(
        "abort",
        () => {
          resolve(undefined);
        },
        { once: true },
      );
    });
    let running: RunningProcess | undefined = initialProcess;
    let pauseMs = BACKOFF_FIRST_MS;
    while (!signal.aborted) {
      const reason: string | undefined = await Promise.race([
        running?.ended ?? "no start",
        stopped,
      ]);
      if (reason === undefined) return;
      const runTimeMs = running === undefined ? 0 : clock.monotonicMs() - running.startMs;
      if (runTimeMs >= BACKOFF_RESET_MS) pauseMs = BACKOFF_FIRST_MS;
      log.warn("component ended and is restarted", {
        object: this.name,
        reason,
        waitMs: pauseMs,
      });
      this.#running = undefined;
      await clock.sleep(pauseMs, signal).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, BACKOFF_MAX_MS);
      running = await this.#startAgain();
      this.#running = running;
      if (running !== undefined) {
        this.#watch(running);
        this.#onRestart();
      }
    }
  }

  async #startAgain(): Promise<RunningProcess | undefined> {
    if (this.#stopController.signal.aborted) return undefined;
    try {
      return await this.#spawn();
    } catch (error) {
      this.#deps.log.error("component cannot be started", { object: this.name, err: error });
      return undefined;
    }
  }
}
