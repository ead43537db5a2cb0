// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, PersistentVolume, PersistentVolumeClaim } from "@patchbay/api";
import { expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { volumeProblem } from "./claim-place.ts";

const node = (name: string): KubeNode => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, labels: { host: name } },
});

function volume(nodeAffinity?: object): PersistentVolume {
  const spec = nodeAffinity === undefined ? {} : { nodeAffinity };
  return { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "v" }, spec };
}

function claim(volumeName?: string): PersistentVolumeClaim {
  const spec = volumeName === undefined ? {} : { volumeName };
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data" }, spec };
}

const onB = {
  required: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: "host", operator: "In", values: ["b"] }] }],
  },
};
const volumes = [{ name: "d", persistentVolumeClaim: { claimName: "data" } }];

test.each([
  { name: "no claim", spec: {}, want: ["a", "b"] },
  { name: "a volume of one node", claim: claim("v"), volume: volume(onB), want: ["b"] },
  { name: "a volume of all nodes", claim: claim("v"), volume: volume(), want: ["a", "b"] },
  { name: "a claim that gets its volume yet", claim: claim(), want: ["a"] },
  { name: "a claim that is not there", want: ["a"] },
])("$name: the pod can be on $want", ({ spec = { volumes }, want, ...there }) => {
  const lookup = {
    findClaim: () => there.claim,
    findClass: () => undefined,
    findVolume: (name: string) => (name === "v" ? there.volume : undefined),
  };
  const at = { home: "a", lookup };
  const usable = ["a", "b"].filter(
    (name) => volumeProblem(aPod(spec), node(name), at) === undefined,
  );
  expect(usable).toEqual(want);
});
