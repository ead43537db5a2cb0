// SPDX-License-Identifier: Apache-2.0
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import { beforeEach, expect, test } from "vitest";
import { limitProcesses } from "./process-runner.ts";

const RESULT: CommandResult = { exitCode: 0, stdout: "", stderr: "" };

let running: { readonly name: string; readonly end: (error?: Error) => void }[] = [];

const runner: ProcessRunner = {
  run: ({ argv }) => {
    const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
    const end = (error?: Error): void => {
      if (error === undefined) resolve(RESULT);
      else reject(error);
    };
    running.push({ name: argv[0], end });
    return promise;
  },
  killProcessFamily: () => Promise.resolve(),
};

function command(name: string, options: Partial<Command> = {}): Command {
  return { argv: [name], timeoutMs: 1000, ...options };
}

async function settle(): Promise<void> {
  await new Promise(setImmediate);
}

function names(): readonly string[] {
  return running.map(({ name }) => name);
}

beforeEach(() => {
  running = [];
});

test("programs beyond the limit wait for a slot, in order, also after a failed program", async () => {
  const limited = limitProcesses(runner, 2);
  const ends = ["a", "b", "c", "d"].map((name) => limited.run(command(name)));
  const failed = ends[0]?.catch((error: unknown) => String(error));
  await settle();
  expect(names()).toEqual(["a", "b"]);
  running[0]?.end(new Error("no such program"));
  expect(await failed).toBe("Error: no such program");
  await settle();
  expect(names()).toEqual(["a", "b", "c"]);
  running[1]?.end();
  await settle();
  expect(names()).toEqual(["a", "b", "c", "d"]);
});

test("a program whose output is streamed takes no slot", async () => {
  const limited = limitProcesses(runner, 1);
  const ignore = (): void => undefined;
  void limited.run(command("monitor", { onOutput: ignore }));
  void limited.run(command("a"));
  await settle();
  expect(names()).toEqual(["monitor", "a"]);
});
