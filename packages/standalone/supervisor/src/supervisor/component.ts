// SPDX-License-Identifier: Apache-2.0
// One supervised process: started or adopted, restarted when it ends, and stopped on request.
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

/** In order of preference: of our logs, then of containerd's. */
const MEMBERS = ["reason", "error", "message", "msg"] as const;

/** A line that is not JSON is the reason itself. */
export function reasonInLog(log: string | undefined): string {
  const last = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  const fields = parseFields(last);
  if (fields === undefined) return last;
  return MEMBERS.map((name) => readText(fields, name)).find((text) => text !== "") ?? "";
}

const READY_TIMEOUT_MS = 60_000;
const BACKOFF_FIRST_MS = 200;
const BACKOFF_MAX_MS = 10_000;
/** The pause is then reset. */
const RECOVERED_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface ComponentProgram {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  /** Called before each start. */
  readonly beforeStart?: () => Promise<void>;
  /** By default the component prints the line `ready`. */
  readonly untilReady?: (signal: AbortSignal) => Promise<void>;
  /** A component that stops answering `/healthz` is killed. Unset for no checks. */
  readonly healthSocket?: string;
}

/** Records are valid only for the boot in `bootId`. */
export interface ComponentDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

interface Running extends ProcessName {
  /** Resolves with the reason. */
  readonly ended: Promise<string>;
  readonly sinceMs: number;
}

export class Component {
  readonly name: string;
  readonly #program: ComponentProgram;
  readonly #deps: ComponentDeps;
  readonly #stopping = new AbortController();
  #running: Running | undefined;
  #isAdopted = false;
  #supervision: Promise<void> = Promise.resolve();
  #onRestarted: () => void = () => undefined;

  constructor(program: ComponentProgram, deps: ComponentDeps) {
    this.name = program.name;
    this.#program = program;
    this.#deps = deps;
  }

  get isAdopted(): boolean {
    return this.#isAdopted;
  }

  /**
   * Adopts a running process.
   * @throws AppError with RUNTIME_START_FAILED
   */
  async start(): Promise<void> {
    const adopted = await this.#adopt();
    this.#isAdopted = adopted !== undefined;
    const running = adopted ?? (await this.#spawn());
    this.#running = running;
    await this.#waitUntilReady(running);
    this.#watch(running);
    this.#supervision = this.#superviseLoop(running);
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the component is being stopped"));
    await this.#supervision;
    const running = this.#running ?? (await this.#adopt());
    if (running !== undefined) await this.#end(running);
    await this.#deps.files.remove(this.#stateFile());
  }

  /** Milliseconds since 1970. */
  async startedAtMs(): Promise<number | undefined> {
    if (this.#running === undefined) return undefined;
    return readNumber(await readFields(this.#deps.files, this.#stateFile()), "startedAtMs");
  }

  /** Resolves when the new process is ready, or after {@link READY_TIMEOUT_MS}. */
  async restart(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    const { signal } = this.#stopping;
    const next = new Promise<void>((resolve) => {
      this.#onRestarted = resolve;
      signal.addEventListener("abort", this.#onRestarted, { once: true });
    });
    await this.#end(running);
    await next;
    await this.#untilReady(AbortSignal.any([signal, AbortSignal.timeout(READY_TIMEOUT_MS)]));
  }

  async #end(running: Running): Promise<void> {
    const stopped = running.ended;
    await signalProcess(running, "SIGTERM");
    const deadline = new AbortController();
    const result = await Promise.race([
      stopped.then(() => "ended"),
      this.#deps.clock.sleep(STOP_TIMEOUT_MS, deadline.signal).then(
        () => "late",
        () => "ended",
      ),
    ]);
    deadline.abort(new Error("ended"));
    if (result === "late") {
      this.#deps.log.warn("component did not stop and is killed", this.#fields(running));
      await signalProcess(running, "SIGKILL");
      await stopped;
    }
  }

  #fields({ pid }: ProcessName): Record<string, unknown> {
    return { object: this.name, pid };
  }

  #stateFile(): string {
    return join(this.#deps.paths.run, `${this.name}.json`);
  }

  #outFile(): string {
    return join(this.#deps.paths.run, `${this.name}.out`);
  }

  #logFile(): string {
    return join(this.#deps.paths.logs, `${this.name}.log`);
  }

  /** A process with other arguments is stopped instead. */
  async #adopt(): Promise<Running | undefined> {
    const { files, bootId, log, clock } = this.#deps;
    const fields = await readFields(files, this.#stateFile());
    const name = { pid: readNumber(fields, "pid") ?? 0, startTime: readText(fields, "startTime") };
    if (readText(fields, "bootId") !== bootId || !(await isRunning(name))) return undefined;
    const ended = waitForProcessEnd(name.pid, name.startTime).then(() => "ended");
    const running = { ...name, ended, sinceMs: clock.monotonicMs() };
    if (isEqual(fields?.["argv"], this.#program.argv)) {
      log.info("component adopted", this.#fields(running));
      return running;
    }
    log.info("component has other arguments and is restarted", this.#fields(running));
    await signalProcess(name, "SIGTERM");
    await Promise.race([ended, this.#killLater(name)]);
    return undefined;
  }

  async #killLater(name: ProcessName): Promise<void> {
    await this.#deps.clock.sleep(STOP_TIMEOUT_MS, this.#stopping.signal).catch(() => undefined);
    await signalProcess(name, "SIGKILL");
  }

  async #spawn(): Promise<Running> {
    const { files, clock, log, bootId } = this.#deps;
    const { argv } = this.#program;
    await this.#program.beforeStart?.();
    if (this.#program.healthSocket !== undefined) await files.remove(this.#program.healthSocket);
    const started = await startDetached({
      argv,
      env: { PATH },
      outFile: this.#outFile(),
      logFile: this.#logFile(),
    });
    const { pid, startTime, ended } = started;
    const state = { pid, startTime, bootId, argv, startedAtMs: clock.now() };
    await files.writeAtomic(this.#stateFile(), `${JSON.stringify(state)}\n`);
    log.info("component started", this.#fields(started));
    return { pid, startTime, ended, sinceMs: clock.monotonicMs() };
  }

  async #waitUntilReady(running: Running): Promise<void> {
    const stop = new AbortController();
    const deadline = AbortSignal.timeout(READY_TIMEOUT_MS);
    try {
      const result = await Promise.race([
        this.#untilReady(AbortSignal.any([stop.signal, deadline])).then(() => undefined, messageOf),
        running.ended,
      ]);
      if (result === undefined) return;
      const logReason = reasonInLog(await this.#deps.files.readText(this.#logFile()));
      const reason = logReason === "" ? result : `${result}: ${logReason}`;
      throw new AppError("RUNTIME_START_FAILED", { component: this.name, reason });
    } finally {
      stop.abort(new Error("ready or ended"));
    }
  }

  async #untilReady(signal: AbortSignal): Promise<void> {
    const { untilReady } = this.#program;
    if (untilReady !== undefined) await untilReady(signal);
    else await waitForLine(this.#outFile(), "ready", signal);
  }

  async #killWhenHung(running: Running): Promise<void> {
    const { healthSocket } = this.#program;
    if (healthSocket === undefined) return;
    const { clock, log } = this.#deps;
    const over = new AbortController();
    void running.ended.then(() => {
      over.abort(new Error("ended"));
    });
    const signal = AbortSignal.any([this.#stopping.signal, over.signal]);
    await waitUntilHung({ clock, signal, check: (until) => checkHealth(healthSocket, until) });
    log.warn("component does not respond and is killed", this.#fields(running));
    await signalProcess(running, "SIGKILL");
  }

  #watch(running: Running): void {
    this.#killWhenHung(running).catch(() => undefined); // the process ended, or supervision stops
  }

  async #superviseLoop(first: Running): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stopping;
    const stopped = new Promise<undefined>((resolve) => {
      signal.addEventListener(
        "abort",
        () => {
          resolve(undefined);
        },
        { once: true },
      );
    });
    let running: Running | undefined = first;
    let pauseMs = BACKOFF_FIRST_MS;
    while (!signal.aborted) {
      const reason: string | undefined = await Promise.race([
        running?.ended ?? "no start",
        stopped,
      ]);
      if (reason === undefined) return;
      const lived = running === undefined ? 0 : clock.monotonicMs() - running.sinceMs;
      if (lived >= RECOVERED_MS) pauseMs = BACKOFF_FIRST_MS;
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
        this.#onRestarted();
      }
    }
  }

  async #startAgain(): Promise<Running | undefined> {
    if (this.#stopping.signal.aborted) return undefined;
    try {
      return await this.#spawn();
    } catch (error) {
      this.#deps.log.error("component cannot be started", { object: this.name, err: error });
      return undefined;
    }
  }
}
