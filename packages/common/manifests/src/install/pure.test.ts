// SPDX-License-Identifier: Apache-2.0
// What of the manifests differs from cluster to cluster, and what stays of what is there?
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFiles } from "@patchbay/os";
import { describe, expect, test } from "vitest";
import { parseManifests, readManifests } from "../manifests.ts";
import { buildReplacement, withoutVolatileMetadata } from "./merge-objects.ts";
import { chooseImage, parseSettings } from "./preserved-settings.ts";
import { isEstablished } from "./kubevirt-object.ts";
import { isPodCreation } from "./pod-creation.ts";
import { isWorkload, withSettings, type InstallSettings } from "./settings.ts";

const objects = parseManifests(await readManifests(createFiles(), "base"));

/** Lines of the objects as text that differ. */
function changes(settings: InstallSettings): readonly string[] {
  const lines = (all: readonly KubeObject[]): readonly string[] =>
    JSON.stringify(all, undefined, 1).split("\n");
  const before = lines(objects);
  const changed = lines(withSettings(objects, settings)).filter((line, at) => line !== before[at]);
  return [...new Set(changed.map((line) => line.trim().replace(/,$/, "")))];
}

describe("settings", () => {
  test.each<{ name: string; settings: InstallSettings; want: readonly string[] }>([
    { name: "none", settings: {}, want: [] },
    { name: "the image", settings: { image: "r/p:1" }, want: ['"image": "r/p:1"'] },
    {
      name: "the launcher's image",
      settings: { launcherImage: "r/l:1" },
      want: ['"--launcher-image=r/l:1"'],
    },
    {
      name: "the hook sidecars' image",
      settings: { sidecarShimImage: "r/s:1" },
      want: ['"--sidecar-shim-image=r/s:1"'],
    },
    {
      name: "the kubelet's root directory",
      settings: { kubeletRootDir: "/data/kubelet/" },
      want: ['"path": "/data/kubelet/pod-resources"', '"path": "/data/kubelet/pods"'],
    },
    {
      name: "the group of rootless dataplanes",
      settings: { dataplaneGroup: 1801 },
      want: ['"--dataplane-group=1801"'],
    },
    {
      name: "another component that attaches networks",
      settings: { mode: "multus-dynamic" },
      want: ['"--mode=multus-dynamic"'],
    },
  ])("change nothing else: $name", ({ settings, want }) => {
    expect(changes(settings)).toEqual(want);
  });

  test("let net-agent attach pod networks if requested, from the host's network", () => {
    const findAgent = (all: readonly KubeObject[]): KubeObject | undefined =>
      all.find(({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "net-agent");
    const agent = findAgent(withSettings(objects, { podCreation: true, mode: "alone" }));
    expect(agent).toMatchObject({ spec: { template: { spec: { hostNetwork: true } } } });
    const text = JSON.stringify(agent);
    for (const part of [
      "--mode=alone",
      "--cni-socket=/run/net-agent/cni.sock",
      "--own-pod=patchbay/$(K8S_POD_NAME)",
      '"mountPath":"/run/net-agent"',
      '"path":"/opt/cni/bin"',
      '"containerPort":8481',
    ]) {
      expect(text).toContain(part);
    }
    expect(text.match(/--health-port/g)).toHaveLength(1);
    expect(text).not.toContain("8081");
    const listOtherObjects = (all: readonly KubeObject[]): readonly KubeObject[] =>
      all.filter((object) => object !== findAgent(all));
    expect(listOtherObjects(withSettings(objects, { podCreation: true }))).toEqual(
      listOtherObjects(objects),
    );
    expect(
      [agent, findAgent(objects)].map((one) => one !== undefined && isPodCreation(one)),
    ).toEqual([true, false]);
  });

  test("apply to all four services", () => {
    const images = JSON.stringify(withSettings(objects, { image: "r/p:1" })).match(/r\/p:1/g);
    expect(images).toHaveLength(4);
  });
});

describe("settings of an installed cluster", () => {
  const all: InstallSettings = {
    image: "r:5000/p@sha256:00",
    launcherImage: "r/l:1",
    sidecarShimImage: "r/s:1",
    kubeletRootDir: "/data/kubelet",
    mode: "alone",
    dataplaneGroup: 1801,
    podCreation: true,
  };

  test("are read from each of its workloads", () => {
    const workloads = withSettings(objects, all).filter(isWorkload);
    expect(parseSettings(workloads)).toEqual(all);
    expect(withSettings(objects, parseSettings(workloads)).filter(isWorkload)).toEqual(workloads);
  });

  test("are empty for an unchanged installation", () => {
    const workloads = objects.filter(isWorkload);
    expect(withSettings(objects, parseSettings(workloads))).toEqual(objects);
  });

  const RELEASED = "registry.example/patchbay/patchbay:0.3.0@sha256:03";
  test.each([
    {
      name: "of an earlier release in another registry",
      given: ["r:5000/p/patchbay:0.2.0@sha256:02", RELEASED],
      want: "r:5000/p/patchbay:0.3.0@sha256:03",
    },
    {
      name: "by digest alone",
      given: ["r:5000/other@sha256:02", RELEASED],
      want: "r:5000/other:0.3.0@sha256:03",
    },
    { name: "by tag", given: ["r:5000/p:own", RELEASED], want: "r:5000/p:own" },
    {
      name: "by digest, with a build that has none",
      given: ["r/p@sha256:02", "localhost/p:dev"],
      want: "r/p@sha256:02",
    },
  ])("an image $name becomes $want", ({ given: [existing = "", released = ""], want }) => {
    expect(chooseImage(existing, released)).toBe(want);
  });

  test("are empty without an installation", () => {
    expect(parseSettings([])).toEqual({});
  });
});

test.each([
  { conditions: [{ type: "Established", status: "True" }], want: true },
  { conditions: [{ type: "Established", status: "False" }], want: false },
  { conditions: [{ type: "NamesAccepted", status: "True" }], want: false },
  { conditions: undefined, want: false },
])("a kind is served once its definition reports it: $conditions", ({ conditions, want }) => {
  const metadata = { name: "a" };
  const definition = { apiVersion: "x/v1", kind: "y", metadata, status: { conditions } };
  expect(isEstablished(definition)).toBe(want);
  expect(isEstablished(undefined)).toBe(false);
});

describe("an existing object", () => {
  const metadata = { name: "a", labels: { mine: "1" }, resourceVersion: "7", uid: "u" };

  test("retains foreign labels and annotations, and fields that the manifest does not set", () => {
    const found = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { ...metadata, annotations: { a: "1" } },
      data: { "tls.key": "eA==" },
    };
    const expected = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "a", labels: { b: "2" } },
    };
    expect(buildReplacement(found, expected)).toEqual({
      ...found,
      metadata: { ...metadata, labels: { mine: "1", b: "2" }, annotations: { a: "1" } },
    });
  });

  test("retains the CA in an APIService and in webhooks, by name", () => {
    const service = { apiVersion: "x/v1", kind: "APIService", metadata };
    const old = { ...service, spec: { caBundle: "c", group: "old" } };
    const next = { ...service, spec: { group: "new" } };
    expect(buildReplacement(old, next)).toMatchObject({ spec: { caBundle: "c", group: "new" } });
    const webhooks = { apiVersion: "x/v1", kind: "MutatingWebhookConfiguration", metadata };
    const found = { webhooks: [{ name: "b", clientConfig: { url: "u", caBundle: "c" } }] };
    const expected = {
      webhooks: [
        { name: "a", clientConfig: { service: {} } },
        { name: "b", clientConfig: { service: {} } },
      ],
    };
    expect(buildReplacement({ ...webhooks, ...found }, { ...webhooks, ...expected })).toMatchObject(
      {
        webhooks: [
          { name: "a", clientConfig: { service: {} } },
          { name: "b", clientConfig: { service: {}, caBundle: "c" } },
        ],
      },
    );
  });

  test("is unchanged if only its bookkeeping differs", () => {
    const object = { apiVersion: "v1", kind: "Secret", metadata };
    const later = { ...object, metadata: { ...metadata, resourceVersion: "8", managedFields: [] } };
    expect(withoutVolatileMetadata(later)).toEqual(withoutVolatileMetadata(object));
    const labelled = { ...object, metadata: { ...metadata, labels: {} } };
    expect(withoutVolatileMetadata(labelled)).not.toEqual(withoutVolatileMetadata(object));
  });
});
