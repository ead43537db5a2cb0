// SPDX-License-Identifier: Apache-2.0
// Many pods of several namespaces that request two networks each at once.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Sandbox } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const LARGE = { namespace: "large", count: 20 };
const SMALL = { namespace: "small", count: 5 };
/** Source: createCni, PLUGINS_MAX. */
const PLUGINS_MAX = 8;
const TIMEOUT = { withinMs: 50_000 };

let machine: AgentMachine;
const sandboxes: Sandbox[] = [];

/** A plugin that counts its concurrent runs and then calls the real one. */
function countingBridge(directory: string): string {
  return [
    `[ "$CNI_COMMAND" = VERSION ] && exec /usr/lib/cni/bridge`,
    `mkdir -p ${directory}/running/$$`,
    `ls ${directory}/running | wc -l >>${directory}/counts`,
    // Long enough for concurrent calls.
    `sleep 0.3; /usr/lib/cni/bridge; code=$?`,
    `rmdir ${directory}/running/$$`,
    `exit $code`,
  ].join("\n");
}

function linesOf(name: string): readonly string[] {
  return readFileSync(join(machine.node.directory, name), "utf8").trim().split("\n");
}

function podsOf({
  namespace,
  count,
}: typeof LARGE): readonly { namespace: string; name: string }[] {
  return Array.from({ length: count }, (_, index) => ({ namespace, name: `p${String(index)}` }));
}

const ALL = [...podsOf(LARGE), ...podsOf(SMALL)];

beforeAll(async () => {
  machine = await AgentMachine.start();
  machine.node.addPlugin("counted", countingBridge(machine.node.directory));
  for (const { namespace } of [LARGE, SMALL]) await machine.addNamespace(namespace);
  const { ipam, ...bridge } = machine.node.bridgePlugin();
  for (const name of ["one", "two"]) {
    await machine.putNad("default", name, [{ ...bridge, ipam, type: "counted" }]);
  }
  await Promise.all(
    ALL.map(async (key) => {
      sandboxes.push(
        await machine.runPod({ ...key, networks: "default/one@net1,default/two@net2" }),
      );
    }),
  );
});

afterAll(() => machine.close());

test("attaches both with at most eight plugins at a time, and detaches both", async () => {
  for (const { namespace, name } of ALL) {
    await eventually(
      async () => (await machine.networkStatus(namespace, name)).length === 2,
      TIMEOUT,
    );
  }
  expect(sandboxes.map((sandbox) => machine.node.nics(sandbox))).toEqual(
    sandboxes.map(() => ["net1", "net2"]),
  );
  const counts = linesOf("counts").map(Number);
  expect(counts).toHaveLength(2 * ALL.length);
  expect(Math.max(...counts)).toBeLessThanOrEqual(PLUGINS_MAX);
  await Promise.all(ALL.map(({ namespace, name }) => machine.ask(namespace, name, "")));
  for (const { namespace, name } of ALL) {
    await eventually(
      async () => (await machine.networkStatus(namespace, name)).length === 0,
      TIMEOUT,
    );
  }
  expect(machine.node.leases("one")).toEqual([]);
  expect(machine.node.bridgePorts()).toEqual([]);
});
