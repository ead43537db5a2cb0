// SPDX-License-Identifier: Apache-2.0
import { DAEMON_SETS, names } from "@patchbay/api";
import type { JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFiles } from "@patchbay/os";
import { describe, expect, test } from "vitest";
import { parseManifests, readManifests } from "../manifests.ts";
import { install, type ObjectResult } from "./install.ts";
import { findSettings } from "./preserved-settings.ts";
import { lastInstalled, mergeSpec } from "./merge-objects.ts";
import { withSettings } from "./settings.ts";

const NOTE = names.LAST_INSTALLED_ANNOTATION;
const KUBECTL = "kubectl.kubernetes.io/last-applied-configuration";

/** A workload's specification with one container. */
function aSpec(container: JsonObject, pod: JsonObject = {}, rest: JsonObject = {}): JsonObject {
  const containers = [{ name: "a", ...container }];
  return { ...rest, template: { spec: { containers, ...pod } } };
}

/** Arguments of the only container. */
const args = (...list: readonly string[]): JsonObject => aSpec({ args: list });
const env = (...list: readonly JsonObject[]): JsonObject => aSpec({ env: list });
const podIp = (fieldRef: JsonObject): JsonObject => ({ name: "IP", valueFrom: { fieldRef } });
const hostPath = (name: string, path: string): JsonObject => ({ name, hostPath: { path } });

interface Row {
  readonly name: string;
  /** Unset without a note of the last install. */
  readonly base?: JsonObject;
  readonly found: JsonObject;
  readonly wanted: JsonObject;
  readonly want: JsonObject;
}

describe("arguments", () => {
  test.each<Row>([
    { name: "nothing changed", found: args("--a=1"), wanted: args("--a=1"), want: args("--a=1") },
    {
      name: "a flag that only the cluster has is retained",
      found: args("--a=1", "--tenant-bridges=br1"),
      wanted: args("--a=1"),
      want: args("--a=1", "--tenant-bridges=br1"),
    },
    {
      name: "a value that the operator changed is retained",
      found: args("--host-process=7"),
      wanted: args("--host-process=1"),
      want: args("--host-process=7"),
    },
    {
      name: "a repeated flag is retained",
      found: args("--cni-bin-dir=/x", "--cni-bin-dir=/y", "--cni-bin-dir=/z"),
      wanted: args("--cni-bin-dir=/opt/cni/bin", "--b", "--cni-bin-dir=/usr/lib/cni"),
      want: args("--cni-bin-dir=/x", "--cni-bin-dir=/y", "--cni-bin-dir=/z", "--b"),
    },
    {
      name: "a value in a separate argument is retained",
      found: args("--default-network", "default/x"),
      wanted: args("--b"),
      want: args("--default-network", "default/x", "--b"),
    },
    {
      name: "a new flag is added",
      found: args("--a"),
      wanted: args("--a", "--b"),
      want: args("--a", "--b"),
    },
    {
      name: "a flag set by an install option follows the manifest",
      found: args("--mode=alone"),
      wanted: args("--mode=multus"),
      want: args("--mode=multus"),
    },
    {
      name: "a flag of pod creation matches ports and mounts",
      found: args("--cni-socket=/s", "--health-port=8481"),
      wanted: args("--health-port=8081"),
      want: args("--health-port=8081"),
    },
    {
      name: "a flag that a new version drops is removed",
      base: args("--old=1", "--b"),
      found: args("--old=1", "--b", "--mine"),
      wanted: args("--b"),
      want: args("--b", "--mine"),
    },
    {
      name: "a default that a new version changes is applied, unless the operator changed the flag",
      base: args("--a=1", "--b=1"),
      found: args("--a=1", "--b=7"),
      wanted: args("--a=2", "--b=2"),
      want: args("--a=2", "--b=7"),
    },
    {
      name: "a flag that the operator removed stays removed",
      base: args("--a", "--b"),
      found: args("--a"),
      wanted: args("--a", "--b", "--c"),
      want: args("--a", "--c"),
    },
  ])("$name", ({ base, found, wanted, want }) => {
    expect(mergeSpec(base, found, wanted)).toEqual(want);
  });
});

describe.each([{ note: "with a note" }, { note: "without a note" }])("settings $note", (form) => {
  test.each<Omit<Row, "base">>([
    {
      name: "resources",
      found: aSpec({ resources: { requests: { cpu: "20m" }, limits: { memory: "4Gi" } } }),
      wanted: aSpec({ resources: { requests: { cpu: "20m" }, limits: { memory: "1Gi" } } }),
      want: aSpec({ resources: { requests: { cpu: "20m" }, limits: { memory: "4Gi" } } }),
    },
    {
      name: "environment variables, one added and one changed",
      found: env({ name: "B", value: "2" }, { name: "HTTPS_PROXY", value: "http://p" }),
      wanted: env({ name: "B", value: "1" }),
      want: env({ name: "B", value: "2" }, { name: "HTTPS_PROXY", value: "http://p" }),
    },
    {
      name: "tolerations, node selector, affinity, priority and image pull secrets",
      found: aSpec(
        {},
        {
          tolerations: [{ key: "gpu", operator: "Exists" }],
          nodeSelector: { "kubernetes.io/os": "linux", zone: "a" },
          affinity: { nodeAffinity: {} },
          priorityClassName: "mine",
          imagePullSecrets: [{ name: "registry" }],
        },
      ),
      wanted: aSpec(
        {},
        {
          tolerations: [{ operator: "Exists" }],
          nodeSelector: { "kubernetes.io/os": "linux" },
          priorityClassName: "patchbay-critical",
        },
      ),
      want: aSpec(
        {},
        {
          tolerations: [{ key: "gpu", operator: "Exists" }],
          nodeSelector: { "kubernetes.io/os": "linux", zone: "a" },
          affinity: { nodeAffinity: {} },
          priorityClassName: "mine",
          imagePullSecrets: [{ name: "registry" }],
        },
      ),
    },
    {
      name: "replicas and the whole update strategy",
      found: aSpec({}, {}, { replicas: 3, strategy: { type: "Recreate" } }),
      wanted: aSpec({}, {}, { replicas: 2, strategy: { rollingUpdate: { maxSurge: 1 } } }),
      want: aSpec({}, {}, { replicas: 3, strategy: { type: "Recreate" } }),
    },
  ])("of the operator are preserved: $name", ({ found, wanted, want }) => {
    const base = form.note === "with a note" ? wanted : undefined;
    expect(mergeSpec(base, found, wanted)).toEqual(want);
  });

  test.each<Omit<Row, "base">>([
    {
      name: "the image and ports",
      found: aSpec({ image: "r/p:1", ports: [{ containerPort: 8481 }] }),
      wanted: aSpec({ image: "r/p:2", ports: [{ containerPort: 8081 }] }),
      want: aSpec({ image: "r/p:2", ports: [{ containerPort: 8081 }] }),
    },
    {
      name: "the manifest's own volumes and mounts",
      found: aSpec(
        { volumeMounts: [{ name: "pods", mountPath: "/pods" }] },
        { volumes: [hostPath("pods", "/var/lib/kubelet/pods")] },
      ),
      wanted: aSpec(
        { volumeMounts: [{ name: "pods", mountPath: "/pods", readOnly: true }] },
        { volumes: [hostPath("pods", "/data/kubelet/pods")] },
      ),
      want: aSpec(
        { volumeMounts: [{ name: "pods", mountPath: "/pods", readOnly: true }] },
        { volumes: [hostPath("pods", "/data/kubelet/pods")] },
      ),
    },
    {
      name: "the host network",
      found: aSpec({}, { hostNetwork: true }),
      wanted: aSpec({}),
      want: aSpec({}),
    },
  ])("of the manifest follow the manifest: $name", ({ found, wanted, want }) => {
    const base = form.note === "with a note" ? wanted : undefined;
    expect(mergeSpec(base, found, wanted)).toEqual(want);
  });
});

describe("with the note of the last install", () => {
  test.each<Row>([
    {
      name: "volumes, mounts and containers that the operator added are retained",
      base: aSpec({}),
      found: aSpec(
        { volumeMounts: [{ name: "ca", mountPath: "/ca" }] },
        {
          containers: [
            { name: "sidecar", image: "x" },
            { name: "a", volumeMounts: [{ name: "ca", mountPath: "/ca" }] },
          ],
          volumes: [hostPath("ca", "/ca")],
        },
      ),
      wanted: aSpec({ image: "r/p:2" }),
      want: aSpec(
        {},
        {
          containers: [
            { name: "sidecar", image: "x" },
            { name: "a", image: "r/p:2", volumeMounts: [{ name: "ca", mountPath: "/ca" }] },
          ],
          volumes: [hostPath("ca", "/ca")],
        },
      ),
    },
    {
      name: "the time of `kubectl rollout restart` is retained, so that no pod restarts again",
      base: { template: { metadata: { labels: { a: "1" } } } },
      found: { template: { metadata: { labels: { a: "1" }, annotations: { restartedAt: "t" } } } },
      wanted: { template: { metadata: { labels: { a: "1" } } } },
      want: { template: { metadata: { labels: { a: "1" }, annotations: { restartedAt: "t" } } } },
    },
    {
      name: "a probe that a new version changes is applied over defaults of the API server",
      base: aSpec({ probe: { httpGet: { port: 1 } } }),
      found: aSpec({ probe: { httpGet: { port: 1, scheme: "HTTP" }, timeoutSeconds: 1 } }),
      wanted: aSpec({ probe: { exec: { command: ["x"] }, timeoutSeconds: 5 } }),
      want: aSpec({ probe: { exec: { command: ["x"] }, timeoutSeconds: 5 } }),
    },
    {
      name: "a probe that a new version drops is removed with its defaults",
      base: aSpec({ probe: { httpGet: { port: 1 } } }),
      found: aSpec({ probe: { httpGet: { port: 1 }, timeoutSeconds: 1 } }),
      wanted: aSpec({}),
      want: aSpec({}),
    },
    {
      name: "a member that the operator added to the strategy is retained",
      base: { updateStrategy: { type: "RollingUpdate" } },
      found: { updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 9 } } },
      wanted: { updateStrategy: { type: "RollingUpdate" } },
      want: { updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 9 } } },
    },
    {
      name: "a strategy that a new version changes is applied without the old strategy's defaults",
      base: { strategy: { type: "RollingUpdate" } },
      found: { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%" } } },
      wanted: { strategy: { type: "Recreate" } },
      want: { strategy: { type: "Recreate" } },
    },
    {
      name: "a limit that the operator removed stays removed",
      base: aSpec({ resources: { limits: { cpu: "1", memory: "1Gi" } } }),
      found: aSpec({ resources: { limits: { cpu: "1" } } }),
      wanted: aSpec({ resources: { limits: { cpu: "2", memory: "2Gi" } } }),
      want: aSpec({ resources: { limits: { cpu: "2" } } }),
    },
    {
      name: "a variable that a new version drops is removed despite defaults",
      base: env(podIp({ fieldPath: "status.podIP" })),
      found: env(podIp({ fieldPath: "status.podIP", apiVersion: "v1" })),
      wanted: aSpec({}),
      want: aSpec({}),
    },
    {
      name: "a node selector that a new version drops is removed, and the operator's is retained",
      base: aSpec({}, { nodeSelector: { os: "linux" } }),
      found: aSpec({}, { nodeSelector: { os: "linux", zone: "a" } }),
      wanted: aSpec({}),
      want: aSpec({}, { nodeSelector: { zone: "a" } }),
    },
  ])("$name", ({ base, found, wanted, want }) => {
    expect(mergeSpec(base, found, wanted)).toEqual(want);
  });
});

test.each<{ name: string; annotations: Readonly<Record<string, string>>; want: unknown }>([
  { name: "none", annotations: {}, want: undefined },
  { name: "ours", annotations: { [NOTE]: '{"a":1}', [KUBECTL]: '{"spec":{}}' }, want: { a: 1 } },
  { name: "kubectl's", annotations: { [KUBECTL]: '{"spec":{"b":1}}' }, want: { b: 1 } },
  { name: "invalid JSON", annotations: { [NOTE]: "{", [KUBECTL]: "[]" }, want: undefined },
])("reads the note of the last install: $name", ({ annotations, want }) => {
  const metadata = { name: "a", annotations };
  expect(lastInstalled({ apiVersion: "apps/v1", kind: "DaemonSet", metadata })).toEqual(want);
});

describe("a second install", () => {
  /** Changes net-agent as an operator with `kubectl edit` would. */
  async function edit(store: ReturnType<typeof createFakeStore>): Promise<void> {
    const found = await store.find(DAEMON_SETS, { namespace: "patchbay", name: "net-agent" });
    const text = JSON.stringify(found)
      .replace('"--host-process=1"', '"--host-process=7","--tenant-bridges=br1"')
      .replace('"tolerations":[{', '"tolerations":[{"key":"gpu"},{')
      .replace('"limits":{"memory":"1Gi"}', '"limits":{"memory":"2Gi"}')
      .replace('"containers":[', '"containers":[{"name":"proxy","image":"r/proxy:1"},');
    // The same object with other texts. The note is JSON in a string, so its quotes are escaped and do not match.
    store.put(DAEMON_SETS, JSON.parse(text) as KubeObject);
  }

  test("preserves the operator's changes and reports its own", async () => {
    const read = parseManifests(await readManifests(createFiles(), "net-agent-only"));
    const manifests = read.filter(({ kind }) => kind === "DaemonSet");
    const store = createFakeStore();
    const results: ObjectResult[] = [];
    const run = async (options = {}): Promise<void> => {
      const settings = await findSettings(store, manifests);
      const objects = withSettings(manifests, { ...settings, ...options });
      await install(store, { objects, dryRun: false, report: (result) => results.push(result) });
    };
    await run({ image: "r/p:1" });
    await edit(store);
    await run();
    await run({ mode: "alone" });
    expect(results.map(({ change, differences }) => ({ change, differences }))).toEqual([
      { change: "created", differences: undefined },
      { change: "unchanged", differences: undefined },
      {
        change: "changed",
        differences: ["- net-agent: --mode=multus", "+ net-agent: --mode=alone"],
      },
    ]);
    const stored = await store.find(DAEMON_SETS, { namespace: "patchbay", name: "net-agent" });
    const text = JSON.stringify(stored);
    for (const settings of [
      '"--host-process=7"',
      '"--tenant-bridges=br1"',
      '"tolerations":[{"key":"gpu"},{',
      '"limits":{"memory":"2Gi"}',
      '{"name":"proxy","image":"r/proxy:1"}',
      '"image":"r/p:1"',
    ]) {
      expect(text).toContain(settings);
    }
  });
});
