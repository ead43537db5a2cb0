// SPDX-License-Identifier: Apache-2.0
import { DAEMON_SETS, type KubeObject } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFiles } from "@patchbay/os";
import { expect, test } from "vitest";
import { parseManifests, readManifests } from "../read.ts";
import { install, type ObjectResult } from "./install.ts";
import { mergeArguments } from "./kept-arguments.ts";
import { withSettings } from "./settings.ts";

test.each<{
  name: string;
  found: readonly string[];
  wanted: readonly string[];
  want: readonly string[];
}>([
  { name: "nothing changed", found: ["--a=1"], wanted: ["--a=1"], want: ["--a=1"] },
  {
    name: "a flag that only the cluster has",
    found: ["--a=1", "--tenant-bridges=br1"],
    wanted: ["--a=1"],
    want: ["--a=1", "--tenant-bridges=br1"],
  },
  {
    name: "a value that the operator changed",
    found: ["--host-process=7"],
    wanted: ["--host-process=1"],
    want: ["--host-process=7"],
  },
  {
    name: "a flag that repeats",
    found: ["--cni-bin-dir=/x", "--cni-bin-dir=/y", "--cni-bin-dir=/z"],
    wanted: ["--cni-bin-dir=/opt/cni/bin", "--b", "--cni-bin-dir=/usr/lib/cni"],
    want: ["--cni-bin-dir=/x", "--cni-bin-dir=/y", "--cni-bin-dir=/z", "--b"],
  },
  {
    name: "a value in an argument of its own",
    found: ["--default-network", "default/x"],
    wanted: ["--b"],
    want: ["--default-network", "default/x", "--b"],
  },
  { name: "a flag that is new", found: ["--a"], wanted: ["--a", "--b"], want: ["--a", "--b"] },
  {
    name: "a flag that an option of install decides",
    found: ["--mode=alone"],
    wanted: ["--mode=multus"],
    want: ["--mode=multus"],
  },
  {
    name: "a flag of the creation of pods, which fits ports and mounts",
    found: ["--cni-socket=/s", "--health-port=8481"],
    wanted: ["--health-port=8081"],
    want: ["--health-port=8081"],
  },
])("$name", ({ found, wanted, want }) => {
  expect(mergeArguments(found, wanted)).toEqual(want);
});

test("a second install keeps the operator's arguments and reports what it changes", async () => {
  const read = parseManifests(await readManifests(createFiles(), "net-agent-only"));
  const agents = read.filter(({ kind }) => kind === "DaemonSet");
  const store = createFakeStore();
  const [agent] = agents;
  if (agent === undefined) throw new Error("there is no net-agent");
  const text = JSON.stringify(agent).replace(
    '"--host-process=1"',
    '"--host-process=7","--tenant-bridges=br1"',
  );
  // The same object, with other texts.
  store.put(DAEMON_SETS, JSON.parse(text) as KubeObject);
  const results: ObjectResult[] = [];
  const run = (objects: readonly KubeObject[]): Promise<void> =>
    install(store, { objects, dryRun: false, tell: (result) => results.push(result) });
  await run(agents);
  await run(withSettings(agents, { mode: "alone" }));
  expect(results.map(({ change, differences }) => ({ change, differences }))).toEqual([
    { change: "unchanged", differences: undefined },
    { change: "changed", differences: ["- net-agent: --mode=multus", "+ net-agent: --mode=alone"] },
  ]);
  const stored = JSON.stringify(await store.find(DAEMON_SETS, agent.metadata));
  for (const kept of ["--host-process=7", "--tenant-bridges=br1"]) expect(stored).toContain(kept);
});
