// SPDX-License-Identifier: Apache-2.0
import type { Clock, Command, CommandResult, ProcessRunner } from "@patchbay/ports";
import { expect, test } from "vitest";
import { watchLinks } from "./watch-links.ts";

const NETNS = { fd: 8, inode: "42" };

/** Monitors that end when the test says so, and pauses between them that end at once. */
class Monitors implements ProcessRunner, Clock {
  readonly commands: Command[] = [];
  readonly pausesMs: number[] = [];
  #end: PromiseWithResolvers<CommandResult> = Promise.withResolvers();
  #started: PromiseWithResolvers<void> = Promise.withResolvers();

  run(command: Command): Promise<CommandResult> {
    this.commands.push(command);
    this.#end = Promise.withResolvers();
    this.#started.resolve();
    return this.#end.promise;
  }

  endFamily(): Promise<void> {
    return Promise.resolve();
  }

  now(): number {
    return 0;
  }

  monotonicMs(): number {
    return 0;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    this.pausesMs.push(ms);
    return signal.aborted ? Promise.reject(new Error("aborted")) : Promise.resolve();
  }

  /** Ends the monitor, and waits for the next. */
  async replace(error?: Error): Promise<void> {
    this.#started = Promise.withResolvers();
    this.end(error);
    await this.#started.promise;
  }

  end(error?: Error): void {
    if (error === undefined) this.#end.resolve({ exitCode: 137, stdout: "", stderr: "" });
    else this.#end.reject(error);
  }
}

function watching(): { monitors: Monitors; stop: AbortController; changes: () => number } {
  const monitors = new Monitors();
  const stop = new AbortController();
  let changes = 0;
  const changed = (): void => {
    changes += 1;
  };
  watchLinks({ runner: monitors, clock: monitors }, NETNS, { changed, signal: stop.signal });
  return { monitors, stop, changes: () => changes };
}

test("each piece of the monitor's output is a change; it runs in the namespace and dies with this process", () => {
  const { monitors, stop, changes } = watching();
  const [command] = monitors.commands;
  expect(command).toMatchObject({ inheritFds: [NETNS], signal: stop.signal });
  expect(command?.argv.join(" ")).toMatch(
    /^setpriv --pdeathsig KILL nsenter --net=\/proc\/self\/fd\/3 sh -c setpriv --pdeathsig KILL rtmon /,
  );
  expect(changes()).toBe(0);
  command?.onOutput?.("a link");
  command?.onOutput?.("another");
  expect(changes()).toBe(2);
});

test("a monitor lives a day at most", () => {
  expect(watching().monitors.commands[0]?.timeoutMs).toBe(24 * 3600 * 1000);
});

test("a monitor that ends, or is killed, is replaced after a second", async () => {
  const { monitors, changes } = watching();
  await monitors.replace();
  await monitors.replace(new Error("killed"));
  expect(monitors.commands).toHaveLength(3);
  expect(monitors.pausesMs).toEqual([1000, 1000]);
  monitors.commands[2]?.onOutput?.("a link");
  expect(changes()).toBe(1);
});

test("no monitor is started after the watch has ended", async () => {
  const { monitors, stop } = watching();
  stop.abort();
  monitors.end(new Error("aborted"));
  await Promise.resolve();
  await new Promise(setImmediate);
  expect(monitors.commands).toHaveLength(1);
});

test("nothing is started for a watch that has ended before", () => {
  const monitors = new Monitors();
  const watch = { changed: (): void => undefined, signal: AbortSignal.abort() };
  watchLinks({ runner: monitors, clock: monitors }, NETNS, watch);
  expect(monitors.commands).toEqual([]);
});
