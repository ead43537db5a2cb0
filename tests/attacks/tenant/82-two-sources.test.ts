// SPDX-License-Identifier: Apache-2.0
// Ambiguous objects that two components could read differently.
import type { Pod } from "@patchbay/api/kubernetes";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findPodProblems } from "../../../packages/standalone/node-runtime/src/policy/pod-policy.ts";
import { type Harness, startHarness } from "../../contract/apiserver/harness.ts";

const PODS = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const claim = { persistentVolumeClaim: { claimName: "c" } };
const image = { image: { reference: "i:1" } };
const fieldRef = { fieldPath: "metadata.name" };
const key = { name: "n", key: "k" };

let api: Harness;
beforeAll(async () => {
  api = await startHarness();
});
afterAll(() => api.close());

function podOf(container: object, volume: object): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "default" },
    spec: {
      securityContext: { runAsUser: 1000, runAsGroup: 1000 },
      containers: [{ name: "c", image: "i:1", ...container }],
      volumes: [{ name: "v", ...volume }],
    },
  };
}

/** Fields for which the API server rejects the object. */
async function refusedFields(path: string, body: object): Promise<readonly string[]> {
  const answer = await api.ask("POST", path, { body });
  return answer.code === 422 ? answer.body.details.causes.map(({ field }) => field) : [];
}

describe.each([
  {
    what: "a volume that is a claim and an image, as a device",
    container: { volumeDevices: [{ name: "v", devicePath: "/dev/v" }] },
    volume: { ...claim, ...image },
    at: "volumes[0].image",
  },
  {
    what: "a projected source of two kinds",
    volume: { projected: { sources: [{ secret: { name: "s" }, configMap: { name: "c" } }] } },
    at: "volumes[0].projected.sources[0]",
  },
  {
    what: "a variable of two sources",
    container: { env: [{ name: "E", valueFrom: { secretKeyRef: key, fieldRef } }] },
    at: "containers[0].env[0].valueFrom",
  },
  {
    what: "an envFrom entry with two sources",
    container: { envFrom: [{ configMapRef: { name: "c" }, secretRef: { name: "s" } }] },
    at: "containers[0].envFrom",
  },
  {
    what: "a probe with two handlers",
    container: { livenessProbe: { exec: { command: ["true"] }, tcpSocket: { port: 1 } } },
    at: "containers[0].livenessProbe.tcpSocket",
  },
])("$what", ({ container = {}, volume = { emptyDir: {} }, at }) => {
  const pod = podOf(container, volume);

  test("attack 82: the API server rejects it in a pod and in a template", async () => {
    expect(await refusedFields(PODS, pod)).toContain(`spec.${at}`);
    const labels = { app: "a" };
    const spec = {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: pod.spec },
    };
    const deployment = { metadata: { name: "d" }, spec };
    expect(await refusedFields(DEPLOYMENTS, deployment)).toContain(`spec.template.spec.${at}`);
  });

  test("attack 82: the node rejects it even if the API server accepted it", () => {
    expect(findPodProblems(pod).map(({ message }) => message)).toEqual([
      expect.stringMatching(/^must be one of \w+, \w+$/),
    ]);
  });
});
