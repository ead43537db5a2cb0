// SPDX-License-Identifier: Apache-2.0
// The files of a recorded version by path: texts, or values that become YAML.
import { printCrd } from "./crd-record.ts";
import { readCurrentCrds } from "./crds.ts";
import { recordDisk } from "./disk.ts";
import { recordMessages } from "./messages.ts";
import { MOMENTS, reach, readState } from "./states.ts";

import { recordTraffic, type Request } from "./traffic.ts";
import { begin, nicsBecome, ONE, TWO } from "../faults/stories.ts";
import { Cluster } from "../faults/memory/cluster.ts";
import { createBetween, NodeInMemory } from "../faults/memory/node-in-memory.ts";

/** The requests of a VM's life: start, plug, unplug and migration. */
export async function recordLife(): Promise<readonly Request[]> {
  const requests: Request[] = [];
  const between = createBetween();
  const nodes = ["node1", "node2"].map((name) => new NodeInMemory(name, between));
  const record = recordTraffic(requests);
  const cluster = new Cluster(nodes, undefined, record);
  try {
    await begin({ before: [ONE] }, cluster);
    await nicsBecome([ONE, TWO])(cluster);
    await cluster.settle();
    await nicsBecome([ONE, { ...TWO, state: "absent" }])(cluster);
    await cluster.settle();
    await cluster.askForMove("to-node2-1");
    await cluster.settle();
  } finally {
    await cluster.close();
  }
  return requests;
}

export async function recordVersion(): Promise<ReadonlyMap<string, unknown>> {
  const files = new Map<string, unknown>();
  for (const crd of readCurrentCrds()) files.set(`crds/${crd.name}.txt`, printCrd(crd));
  for (const moment of MOMENTS) {
    const world = await reach(moment);
    files.set(`states/${moment.name}.yaml`, await readState(world));
    await world.cluster.close();
  }
  const requests = await recordLife();
  files.set("requests.jsonl", requests.map((each) => `${JSON.stringify(each)}\n`).join(""));
  files.set("messages.yaml", await recordMessages());
  for (const [path, content] of await recordDisk()) files.set(path, content);
  return files;
}
