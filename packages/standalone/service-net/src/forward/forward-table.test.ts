// SPDX-License-Identifier: Apache-2.0
import type { KubeObject, Service } from "@patchbay/api/kubernetes";
import type { Command } from "@patchbay/core/interfaces";
import type { Note } from "@patchbay/kube";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeClock, createFakeProcessRunner } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { aService } from "../testing/objects.ts";
import type { Forward } from "./forwards.ts";
import { ForwardTable, REFUSAL_RETRY_MS, reportUnforwarded } from "./forward-table.ts";
import { listEntries, printChanges, printTable } from "./ruleset.ts";

const SETTINGS = {
  table: "t",
  serviceNetwork: "10.96.0.0/16",
  dns: "10.96.0.10",
  podNetwork: "10.88.0.0/24",
  bridge: "br0",
};
const PROBE = "add chain ip t services\n";
/** Endpoint that the fake nft refuses. */
const BAD = "10.88.0.66 . 80";
const REASON = "Error: Could not process rule";

function aForward(name: string, port = 80, endpoints = ["10.88.0.5 . 8080"]): Forward {
  return {
    name: `blue/${name}:${String(port)}/tcp`,
    protocol: "tcp",
    address: `10.96.1.${String(name.charCodeAt(0))}`,
    port,
    endpoints,
    isSticky: false,
  };
}

const WEB = aForward("web");
const OTHER = aForward("other");
const BAD_WEB = { ...WEB, endpoints: [BAD] };
const LEFT_OUT = [{ service: "blue/web", reason: REASON }];

/** nft that refuses scripts with `bad`, and changes of a missing table. */
class FakeNft {
  readonly clock = createFakeClock();
  readonly counts: string[] = [];
  bad = BAD;
  hasTable = false;
  readonly runner = createFakeProcessRunner({ nft: (command) => this.#run(command) });
  readonly table = new ForwardTable({
    runner: this.runner,
    clock: this.clock,
    log: createSilentLogger(),
    settings: SETTINGS,
    countWrite: (result) => {
      this.counts.push(result);
    },
  });

  get scripts(): readonly string[] {
    return this.runner.commands
      .filter(({ argv }) => !argv.includes("-c"))
      .map(({ stdin = "" }) => stdin);
  }

  #run({ argv, stdin = "" }: Command) {
    const isNew = stdin.startsWith("table ip t\ndelete table ip t\n");
    if (!this.hasTable && !isNew) return { exitCode: 1, stderr: " no such table\n" };
    if (stdin.includes(this.bad)) return { exitCode: 1, stderr: `${REASON}\n${"x".repeat(9000)}` };
    if (!argv.includes("-c")) this.hasTable = true;
    return {};
  }
}

function aChange(service: string, before: readonly Forward[], after: readonly Forward[]) {
  return { service, before: before.flatMap(listEntries), after: after.flatMap(listEntries) };
}

function whole(...forwards: readonly Forward[]): string {
  const changes = forwards.map((forward) =>
    aChange(forward.name.split(":")[0] ?? "", [], [forward]),
  );
  return printTable(SETTINGS, changes);
}

function change(before: readonly Forward[], after: readonly Forward[]): string {
  return printChanges(SETTINGS, [aChange("blue/web", before, after)]);
}

const TWO = aForward("web", 81);

test.each([
  { name: "the whole table first", given: [[WEB]], want: [whole(WEB)], counts: ["whole"] },
  {
    name: "nothing for unchanged Services",
    given: [[WEB], [WEB]],
    want: [whole(WEB)],
    counts: ["whole"],
  },
  {
    name: "only the changes after that",
    given: [[WEB], [WEB, TWO], [WEB]],
    want: [whole(WEB), change([WEB], [WEB, TWO]), change([WEB, TWO], [WEB])],
    counts: ["whole", "changed", "changed"],
  },
])("nft receives $name", async ({ given, want, counts }) => {
  const nft = new FakeNft();
  expect(nft.table.count).toBe(0);
  for (const forwards of given) {
    expect(await nft.table.write(forwards)).toEqual([]);
    expect(nft.table.count).toBe(forwards.length);
  }
  expect(nft.scripts).toEqual(want);
  expect(nft.counts).toEqual(counts);
});

test("deletes an address before another Service claims it", async () => {
  const nft = new FakeNft();
  await nft.table.write([WEB]);
  const heir = { ...OTHER, address: WEB.address };
  await nft.table.write([heir]);
  expect(nft.scripts.slice(1)).toEqual([
    change([WEB], []),
    printChanges(SETTINGS, [aChange("blue/other", [], [heir])]),
  ]);
});

test("divides many elements into portions, and writes small Services first", async () => {
  const nft = new FakeNft();
  const endpoints = Array.from({ length: 250 }, (_none, index) => `10.88.1.${String(index)} . 1`);
  const large = Array.from({ length: 45 }, (_none, index) => aForward("a", index + 1, endpoints));
  const medium = large.map((forward) => ({
    ...forward,
    name: `red/b:${String(forward.port)}/tcp`,
  }));
  expect(await nft.table.write([...large, ...medium, WEB])).toEqual([]);
  const names = nft.scripts.map((text) => [
    ...new Set([...text.matchAll(/comment "(.*?):/g)].map(([, name]) => name)),
  ]);
  expect(names).toEqual([["blue/web"], ["blue/a"], ["red/b"]]);
  expect(nft.table.count).toBe(91);
});

test("leaves out and reports Services beyond a limit", async () => {
  const nft = new FakeNft();
  const endpoints = Array.from({ length: 250 }, (_none, index) => `10.88.1.${String(index)} . 1`);
  const large = Array.from({ length: 80 }, (_none, index) => aForward("a", index + 1, endpoints));
  expect(await nft.table.write([...large, WEB])).toEqual([
    { service: "blue/a", reason: expect.stringContaining("20080 map elements") as unknown },
  ]);
  expect(nft.scripts).toEqual([whole(WEB)]);
});

test("leaves a Service that nft refuses out of a new table", async () => {
  const nft = new FakeNft();
  expect(await nft.table.write([OTHER, BAD_WEB])).toEqual(LEFT_OUT);
  expect(nft.scripts.at(-1)).toBe(whole(OTHER));
  expect(nft.table.count).toBe(1);
  expect(nft.counts).toEqual(["failed", "whole"]);
});

test("removes a Service whose change nft refuses, and changes the others", async () => {
  const nft = new FakeNft();
  await nft.table.write([WEB, OTHER]);
  const later = { ...OTHER, endpoints: ["10.88.0.9 . 80"] };
  expect(await nft.table.write([BAD_WEB, later])).toEqual(LEFT_OUT);
  expect(nft.table.count).toBe(1);
  const applied = nft.scripts.filter((text) => !text.includes(BAD) && text !== PROBE);
  expect(applied.slice(1)).toEqual([
    expect.stringContaining("delete element ip t addresses") as unknown,
    printChanges(SETTINGS, [aChange("blue/other", [OTHER], [later])]),
  ]);
  const seen = nft.scripts.length;
  expect(await nft.table.write([BAD_WEB, later])).toEqual(LEFT_OUT);
  expect(nft.scripts).toHaveLength(seen);
});

test.each([
  { name: "it changes", waitMs: 0, forward: WEB },
  { name: "some minutes have passed", waitMs: REFUSAL_RETRY_MS, forward: BAD_WEB },
])("tries a refused Service again when $name", async ({ waitMs, forward }) => {
  const nft = new FakeNft();
  await nft.table.write([OTHER, BAD_WEB]);
  nft.bad = "nothing";
  await nft.clock.advance(REFUSAL_RETRY_MS - 1);
  expect(await nft.table.write([OTHER, BAD_WEB])).toEqual(LEFT_OUT);
  await nft.clock.advance(waitMs);
  expect(await nft.table.write([OTHER, forward])).toEqual([]);
  expect(nft.table.count).toBe(2);
});

test("forgets a refused Service that was deleted", async () => {
  const nft = new FakeNft();
  await nft.table.write([OTHER, BAD_WEB]);
  expect(await nft.table.write([OTHER])).toEqual([]);
});

test("writes the whole table again if another program deleted it", async () => {
  const nft = new FakeNft();
  await nft.table.write([WEB]);
  nft.hasTable = false;
  expect(await nft.table.write([WEB, TWO])).toEqual([]);
  const all = printTable(SETTINGS, [aChange("blue/web", [], [WEB, TWO])]);
  expect(nft.scripts).toEqual([whole(WEB), change([WEB], [WEB, TWO]), PROBE, all]);
  expect(nft.counts).toEqual(["whole", "failed", "whole"]);
});

test("fails if nft refuses a table without Services, and writes the whole table the next time", async () => {
  const nft = new FakeNft();
  await nft.table.write([WEB]);
  nft.bad = "ip t";
  await expect(nft.table.write([WEB, TWO])).rejects.toMatchObject({
    code: "SERVICE_RULES_REFUSED",
    details: { reason: REASON },
  });
  expect(nft.table.count).toBe(0);
  nft.bad = BAD;
  expect(await nft.table.write([WEB])).toEqual([]);
  expect(nft.scripts.at(-1)).toBe(whole(WEB));
});

test("reports Services that are left out on their objects", () => {
  const services = createFakeCache<Service>();
  services.put(aService());
  const events: string[] = [];
  const recorder = {
    record: ({ kind, metadata }: KubeObject, { type, reason, message }: Note): void => {
      events.push(`${kind} ${metadata.name}: ${type} ${reason} ${message}`);
    },
  };
  reportUnforwarded(recorder, services, [{ service: "blue/gone", reason: "x" }, ...LEFT_OUT]);
  expect(events).toEqual([
    `Service web: Warning ServiceNotForwarded connections to this Service are not forwarded: ${REASON}`,
  ]);
});
