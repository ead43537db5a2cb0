// SPDX-License-Identifier: Apache-2.0
import type { CommandResult } from "@patchbay/ports";
import { createFakeClock, createFakeProcessRunner, settle } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { watchLinks } from "./watch-links.ts";

const NETNS = { fd: 8, inode: "42" };
const DAY_MS = 24 * 3600 * 1000;

/** A watch whose monitors end when the test says so. */
function watching(stop = new AbortController()) {
  const clock = createFakeClock();
  let monitor = Promise.withResolvers<Partial<CommandResult>>();
  const setpriv = (): Promise<Partial<CommandResult>> => {
    monitor = Promise.withResolvers();
    return monitor.promise;
  };
  const runner = createFakeProcessRunner({ setpriv }, clock);
  const watch = { stop, clock, commands: runner.commands, changes: 0, end: () => monitor };
  const changed = (): void => {
    watch.changes += 1;
  };
  watchLinks({ runner, clock }, NETNS, { changed, signal: stop.signal });
  return watch;
}

test("each piece of the monitor's output is a change; it runs in the namespace and dies with this process", () => {
  const watch = watching();
  const [command] = watch.commands;
  expect(command).toMatchObject({ inheritFds: [NETNS], signal: watch.stop.signal });
  expect(command?.argv.join(" ")).toMatch(
    /^setpriv --pdeathsig KILL nsenter --net=\/proc\/self\/fd\/3 sh -c setpriv --pdeathsig KILL rtmon /,
  );
  expect(watch.changes).toBe(0);
  command?.onOutput?.("a link");
  command?.onOutput?.("another");
  expect(watch.changes).toBe(2);
});

test("a monitor lives a day at most", () => {
  expect(watching().commands[0]?.timeoutMs).toBe(DAY_MS);
});

test("a monitor that ends, or is killed, is replaced after a second", async () => {
  const { clock, commands, end } = watching();
  end().resolve({ exitCode: 137 });
  await settle();
  await clock.advance(999);
  expect(commands).toHaveLength(1);
  await clock.advance(1);
  expect(commands).toHaveLength(2);
  end().reject(new Error("killed"));
  await settle();
  await clock.advance(1_000);
  expect(commands).toHaveLength(3);
});

test("no monitor is started after the watch has ended", async () => {
  const { stop, clock, commands, end } = watching();
  stop.abort();
  end().reject(new Error("aborted"));
  await settle();
  await clock.advance(DAY_MS);
  expect(commands).toHaveLength(1);
});

test("nothing is started for a watch that has ended before", () => {
  const stop = new AbortController();
  stop.abort();
  expect(watching(stop).commands).toEqual([]);
});
