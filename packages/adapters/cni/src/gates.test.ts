// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Gates } from "./gates.ts";

interface Work {
  readonly done: Promise<void>;
  end(): Promise<void>;
}

let log: string[] = [];

function begin(
  { gates, gate = "blue" }: { readonly gates: Gates; readonly gate?: string },
  how: "together" | "alone",
  name: string,
): Work {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const done = gates[how](gate, async () => {
    log.push(`${name} begins`);
    await promise;
    log.push(`${name} ends`);
  });
  return {
    done,
    end: async () => {
      resolve(undefined);
      await done;
    },
  };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

test("one that is to be alone waits for those inside, and holds up those that come", async () => {
  log = [];
  const gates = new Gates();
  const first = begin({ gates }, "together", "first");
  const second = begin({ gates }, "together", "second");
  const alone = begin({ gates }, "alone", "alone");
  const late = begin({ gates }, "together", "late");
  const other = begin({ gates, gate: "green" }, "together", "other");
  await settled();
  expect(log).toEqual(["first begins", "second begins", "other begins"]);
  await first.end();
  await second.end();
  await settled();
  expect(log.at(-1)).toBe("alone begins");
  await alone.end();
  await late.end();
  await other.end();
  expect(log.slice(5)).toEqual([
    "alone begins",
    "alone ends",
    "late begins",
    "late ends",
    "other ends",
  ]);
});

test("two that are to be alone follow one another", async () => {
  log = [];
  const gates = new Gates();
  const works = ["a", "b"].map((name) => begin({ gates }, "alone", name));
  for (const work of works) await work.end();
  expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
});

test("what fails opens the gate again", async () => {
  log = [];
  const gates = new Gates();
  for (const how of ["alone", "together"] as const) {
    const failing = gates[how]("blue", () => Promise.reject(new Error("no")));
    await expect(failing).rejects.toThrow("no");
  }
  await begin({ gates }, "alone", "next").end();
  expect(log).toEqual(["next begins", "next ends"]);
});
